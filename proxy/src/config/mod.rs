//! The configuration file: one struct a section, each key with meaning, unit, default and bounds.
