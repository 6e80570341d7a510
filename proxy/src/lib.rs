//! Spillway: a replication proxy for MySQL and MariaDB.
//!
//! The binary is a thin shell around this library: `cli` parses, `config` reads the file, `run` builds the parts and drains
//! them. See ARCHITECTURE.md for how the parts fit.

pub mod capture;
pub mod config;
pub mod relay;
pub mod serve;
pub mod source;
pub mod status;
pub mod wire;
