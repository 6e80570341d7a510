//! What a running Spillway says about itself: the status document, the page, readiness.

pub mod command;
mod document;
mod page;
mod state;

pub use document::{
    Binlog, Capture, Document, LogState, Relay, Replica, ReplicaPort, Source, attention,
};
pub use state::{Opened, SourceState, State};
