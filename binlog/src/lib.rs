//! The binlog of Spillway: records whole transactions from any number of sources, makes each visible atomically, and gives
//! readers a cursor. Its files are real binlog files: stock tools read them.
//!
//! Invariants: `event/` and `gtid/` never do I/O; nothing here knows sockets or an async runtime; every parser of bytes
//! returns an error on bad bytes and never allocates from an unchecked length.

pub mod alignment;
pub mod event;
pub mod fs;
pub mod gtid;
pub mod gtid_index;
mod log;
pub mod reader;
mod recovery;
pub mod rows;
pub mod transaction;

pub use log::{
    Changed, CommitLevel, CommitObserver, Expelled, FileInfo, Health, Held, Log, LogEnd,
    LogOptions, NoObserver, Purge, PurgeError, PurgeReason, PurgeRefusal, Retention, SubmitError,
    Submitter, Ticket, file_name, file_number, index_path,
};
pub use recovery::OpenError;

// The samples are shared with tests that see the crate from outside.
#[cfg(test)]
extern crate self as spillway_binlog;
#[cfg(test)]
mod testing;
