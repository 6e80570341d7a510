//! Metric families of Spillway as typed handles, and the HTTP endpoint that shows them.
//!
//! One file a family group. A handle is made once from a [`Registry`], then passed in; nothing here is global.

pub mod binlog;
pub mod relay;
pub mod serve;
pub mod source;

pub use prometheus::Registry;
