//! The replica port: replicas, CDC tools, `mysqlbinlog` and administrators connect here and are served from Spillway's own log.
//!
//! ```text
//!  listener ── a task a connection ── guard ── opensrv-mysql ── shim ── session, sql
//!                                       └ COM_BINLOG_DUMP ── dump: cursor → filter → frames → socket
//! ```
//! Invariants: nothing here shares a thread with the relay; nothing here writes to the log; `sql` and the dump's filter know no
//! sockets; a client that stops reading costs one batch of memory.

mod account;
mod dump;
mod guard;
mod listener;
mod registry;
mod service;
mod session;
mod shim;
mod sql;
#[cfg(test)]
mod testing;

pub use account::{Account, AuthenticationStringError, Privilege, Secret};
pub use listener::{ReplicaStatus, ServeHandle, start};
pub use service::ServeOptions;
