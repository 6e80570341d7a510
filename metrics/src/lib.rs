//! Metric families of Spillway as typed handles, and the HTTP endpoint that shows them.
//!
//! One file a family group. A handle is made once from a [`Registry`], then passed in; nothing here is global.

pub mod binlog;
mod docs;
mod families;
pub mod http;
pub mod process;
mod registry;
pub mod relay;
pub mod serve;
pub mod source;

pub use docs::render as render_docs;
pub use families::Families;
pub use registry::Registry;
