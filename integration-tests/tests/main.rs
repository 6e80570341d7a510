//! All tests on real servers, one module a topic, in one binary: servers and their templates are shared by the run.

// These are tests: a failed expectation is what a panic is for.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod changes;
mod cli;
mod encryption;
mod failover;
mod groups;
mod gtid_lists;
mod histories;
mod hostile;
mod interruptions;
mod large;
mod log_files;
mod many_sources;
mod mysql;
mod mysql_relay;
mod oracles;
mod packets;
mod packing;
mod power_cut;
mod purging;
mod refusals;
mod relay;
mod releases;
mod replica_port;
mod semi_sync;
mod source_status;
mod start_positions;
mod tools;
mod whole_path;

/// A count from the environment, for soak runs.
fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().map_or(default, |text| text.parse().expect(name))
}
