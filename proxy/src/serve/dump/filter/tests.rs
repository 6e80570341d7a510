//! Filter.
