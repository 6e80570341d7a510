//! Spillway: a replication proxy for MySQL and MariaDB.
//!
//! The binary is a thin shell around this library: `cli` parses, `config` reads the file, `run` builds the parts and drains
//! them. See ARCHITECTURE.md for how the parts fit.

pub mod binlog;
mod build;
pub mod capture;
pub mod check;
pub mod cli;
pub mod config;
pub mod demo;
pub mod exit;
mod logging;
pub mod relay;
mod reload;
pub mod run;
pub mod serve;
mod signals;
pub mod source;
pub mod status;
pub mod tls;
pub mod wire;
