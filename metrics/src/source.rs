//! Metrics of capture, one label set a source.
