//! Harness for tests against real servers: private MariaDB and MySQL servers, the `spillway` binary, replicas, and the oracles that
//! compare them.
//!
//! Everything started here listens on 127.0.0.1, lives below one directory of the run and dies with the test process, even
//! when that is killed (see [`process`]).

// A harness reports by panicking: the test that called it has failed, and the panic says why.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::missing_panics_doc)]

pub mod certificates;
pub mod checksum;
pub mod client;
pub mod dump;
pub mod fake_upstream;
pub mod files;
pub mod load;
pub mod logical;
pub mod mysql;
pub mod net;
pub mod process;
pub mod proxy;
pub mod release;
pub mod replica;
pub mod rng;
pub mod run_dir;
mod scramble;
pub mod servers;
pub mod spillway;
pub mod stack;
pub mod tool;
pub mod wait;
