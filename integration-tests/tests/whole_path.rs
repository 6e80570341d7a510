//! App → relay → upstream → capture → log → replica, undisturbed.

use spillway_integration_tests::load::{self, Plan};
use spillway_integration_tests::servers::Server;
use spillway_integration_tests::spillway::Spillway;
use spillway_integration_tests::stack::{Stack, assert_log_equal};

use crate::setting;

#[test]
fn a_mixed_load_through_the_relay_is_the_same_in_the_log_and_on_the_replica() {
    let stack = Stack::start_with(|s| s.with("[binlog]", "max_binlog_size", "\"32MiB\""));
    let plan = Plan::everything(1, 3, setting("SPILLWAY_LOAD_STEPS", 80));
    let port = stack.spillway.relay_port();
    load::prepare(port, &plan);
    let done = load::run(port, &plan);
    assert_eq!(done.steps + done.conflicts, plan.workers * plan.steps);

    let compared = stack.assert_equal();
    assert!(compared.transactions > done.steps, "{compared:?} for {done:?}");
    let files = stack.spillway.binlog_files();
    assert!(files.len() > 2, "the log did not rotate: {files:?}");
}

#[test]
fn what_the_upstream_had_before_is_recorded_from_its_first_file() {
    let plan = Plan { big_rows: false, ..Plan::everything(2, 2, 40) };
    let upstream = Server::upstream();
    load::prepare(upstream.port(), &plan);
    load::run(upstream.port(), &plan);
    upstream.run("FLUSH BINARY LOGS");
    let plan = Plan { seed: 3, ..plan };
    load::prepare(upstream.port(), &plan);
    load::run(upstream.port(), &plan);

    let spillway = Spillway::started(&upstream);
    let compared = assert_log_equal(&upstream, &spillway);
    assert!(compared.transactions > 80, "{compared:?}");
}

/// Compressed events, no checksums, optional metadata, no annotations, another domain: each is recorded as it is.
#[test]
fn an_upstream_with_other_binlog_settings_is_recorded_exactly() {
    let settings: [&[&str]; 3] = [
        &["--log-bin-compress=1", "--log-bin-compress-min-len=10", "--gtid-domain-id=7"],
        &["--binlog-checksum=NONE", "--binlog-row-event-max-size=256"],
        &["--binlog-row-metadata=FULL", "--binlog-annotate-row-events=0"],
    ];
    for (seed, options) in (20..).zip(settings) {
        let upstream = Server::upstream_with(options);
        let spillway = Spillway::started(&upstream);
        let plan = Plan { big_rows: false, ..Plan::everything(seed, 2, 25) };
        load::prepare(upstream.port(), &plan);
        load::run(upstream.port(), &plan);
        let compared = assert_log_equal(&upstream, &spillway);
        assert!(compared.transactions > 50, "{options:?}: {compared:?}");
    }
}

#[test]
fn capture_logs_in_with_ed25519_where_the_server_has_it() {
    let Some(upstream) = Server::upstream_with_ed25519() else { return };
    upstream.run(
        "ALTER USER spillway@'%' IDENTIFIED VIA ed25519 USING PASSWORD('ed-secret');
         CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY); INSERT INTO d.t VALUES (1)",
    );
    let mut spillway =
        Spillway::prepared(&upstream).with("[[source]]", "password", "\"ed-secret\"");
    spillway.start();
    assert_log_equal(&upstream, &spillway);
}
