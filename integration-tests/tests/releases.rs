//! Upstreams and replicas of a newer MariaDB, and an upstream that becomes one.

use std::path::PathBuf;

use spillway_integration_tests::checksum;
use spillway_integration_tests::load::{self, Plan};
use spillway_integration_tests::release::Release;
use spillway_integration_tests::replica::{self, REPLICA_USER};
use spillway_integration_tests::servers::Server;
use spillway_integration_tests::spillway::Spillway;
use spillway_integration_tests::stack::{Stack, assert_log_equal};

/// `upstream` and a replica of it behind Spillway.
fn stack(upstream: Server, replica: Server) -> Stack {
    let spillway = Spillway::started(&upstream);
    replica::attach(&replica, spillway.replica_port(), REPLICA_USER);
    Stack { upstream, spillway, replica }
}

#[test]
fn a_newer_upstream_and_a_newer_replica_are_equal_through_spillway() {
    let Some(newer) = Release::newer() else { return };
    let stack = stack(Server::upstream_of(&newer, &[]), Server::replica_of(&newer, &[]));
    let plan = Plan { big_rows: false, ..Plan::everything(31, 2, 40) };
    load::prepare(stack.spillway.relay_port(), &plan);
    load::run(stack.spillway.relay_port(), &plan);
    let compared = stack.assert_equal();
    assert!(compared.transactions > 80, "{compared:?}");
}

/// A newer server commits a large transaction as Spillway does, by a rename, and pads its Gtid event up to the next page.
#[test]
fn a_large_transaction_that_a_newer_server_renamed_is_recorded_over_kills() {
    let Some(newer) = Release::newer() else { return };
    let threshold = "--binlog-large-commit-threshold=10M";
    let mut stack = stack(Server::upstream_of(&newer, &[threshold]), Server::replica());
    stack.upstream.run("CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY, t TEXT)");
    for round in 0..3 {
        let first = 1000 * round + 1;
        stack.upstream.run(&format!(
            "USE d; INSERT INTO t SELECT seq, REPEAT('x', 40000) FROM seq_{first}_to_{}",
            first + 400
        ));
        stack.spillway.wait_recorded(&stack.upstream.gtid_binlog_pos());
        stack.spillway.kill();
        stack.spillway.start();
        stack.upstream.run(&format!("INSERT INTO d.t VALUES ({}, 'small')", first + 500));
        assert_log_equal(&stack.upstream, &stack.spillway);
        replica::wait_applied(&stack.replica, &stack.upstream.gtid_binlog_pos());
        checksum::assert_rows_equal(&stack.upstream, &stack.replica);
    }
    let log = stack.upstream.log();
    assert!(log.contains("Renamed binlog cache to binlog"), "none was renamed: {log}");
}

/// The servers named in the format descriptions of the log's files.
fn versions(spillway: &Spillway) -> Vec<String> {
    let of = |path: &PathBuf| {
        let bytes = std::fs::read(path).unwrap();
        let version = &bytes[4 + 19 + 2..][..50];
        String::from_utf8_lossy(version).trim_end_matches('\0').to_owned()
    };
    spillway.binlog_files().iter().map(of).collect()
}

#[test]
fn an_upstream_upgraded_in_place_is_gone_on_with_under_its_new_format_description() {
    let Some(newer) = Release::newer() else { return };
    let mut stack = stack(Server::upstream(), Server::replica());
    let newer_replica = Server::replica_of(&newer, &["--server-id=102"]);
    replica::attach(&newer_replica, stack.spillway.replica_port(), REPLICA_USER);
    let plan = Plan { big_rows: false, ..Plan::everything(32, 2, 20) };
    load::prepare(stack.upstream.port(), &plan);
    load::run(stack.upstream.port(), &plan);
    stack.assert_equal();
    stack.upstream.stop();
    stack.upstream.upgrade(&newer);
    let plan = Plan { seed: 33, ..plan };
    load::prepare(stack.upstream.port(), &plan);
    load::run(stack.upstream.port(), &plan);
    let versions = versions(&stack.spillway);
    assert!(versions.first().unwrap().starts_with("10.11."), "{versions:?}");
    assert!(versions.last().unwrap().starts_with("11.8."), "{versions:?}");
    let position = stack.upstream.gtid_binlog_pos();
    let compared = assert_log_equal(&stack.upstream, &stack.spillway);
    assert!(compared.transactions > 80, "{compared:?}");
    for replica in [&stack.replica, &newer_replica] {
        replica::wait_applied(replica, &position);
        checksum::assert_rows_equal(&stack.upstream, replica);
    }
}
