//! The same exactness when parts stop, start and die under load.

use std::thread::sleep;
use std::time::Duration;

use spillway_integration_tests::load::{self, Plan, Running};
use spillway_integration_tests::proxy::{Direction, Proxy};
use spillway_integration_tests::servers::Server;
use spillway_integration_tests::spillway::Spillway;
use spillway_integration_tests::stack::{Stack, assert_log_equal, roll_back_prepared};
use spillway_integration_tests::{replica, wait};

use crate::setting;

/// Lets the load make some progress: the upstream's binlog grows by this many transactions.
fn let_pass(upstream: &Server, transactions: u64) {
    let sequence = || -> u64 {
        let position = upstream.gtid_binlog_pos();
        position.rsplit('-').next().unwrap_or_default().parse().unwrap_or(0)
    };
    let wanted = sequence() + transactions;
    wait::until("the load makes progress", || (sequence() >= wanted).then_some(()));
}

#[test]
fn a_replica_that_is_stopped_and_restarted_catches_up() {
    let mut stack = Stack::start();
    let plan = Plan { disturbed: false, ..Plan::disturbed(11, 2) };
    load::prepare(stack.spillway.relay_port(), &plan);
    let load = Running::start(&[stack.spillway.relay_port()], &plan);
    for _ in 0..3 {
        let_pass(&stack.upstream, 40);
        replica::stop(&stack.replica);
        let_pass(&stack.upstream, 40);
        replica::start(&stack.replica);
    }
    stack.replica.stop();
    let_pass(&stack.upstream, 40);
    stack.replica.start();
    load.assert_running();
    load.finish();
    stack.assert_equal();
}

#[test]
fn spillway_stopped_and_started_under_load_loses_and_repeats_nothing() {
    let mut stack = Stack::start();
    let plan = Plan::disturbed(12, 3);
    let ports = [stack.spillway.relay_port(), stack.upstream.port()];
    load::prepare(ports[0], &plan);
    let load = Running::start(&ports, &plan);
    for _ in 0..3 {
        let_pass(&stack.upstream, 30);
        let status = stack.spillway.stop();
        assert_eq!(status.code(), Some(0), "SIGTERM: {status}");
        let_pass(&stack.upstream, 10);
        stack.spillway.start();
    }
    load.assert_running();
    load.finish();
    roll_back_prepared(&stack.upstream);
    stack.assert_equal();
}

#[test]
fn spillway_killed_again_and_again_loses_and_repeats_nothing() {
    let stack = Stack::start_with(|s| s.with("[binlog]", "max_binlog_size", "\"1MiB\""));
    assert_survives_kills(stack, 13, |_, _| {});
}

/// Spillway is killed as often as told under load, `before` is run before each; nothing is lost, nothing is there twice.
pub(crate) fn assert_survives_kills(mut stack: Stack, seed: u64, before: impl Fn(&Server, u64)) {
    let plan = Plan::disturbed(seed, 3);
    let ports = [stack.spillway.relay_port(), stack.upstream.port()];
    load::prepare(ports[0], &plan);
    let load = Running::start(&ports, &plan);
    for round in 0..setting("SPILLWAY_KILLS", 5) {
        before(&stack.upstream, round);
        // Not a wait for something: the moment of the kill is to differ from round to round.
        sleep(Duration::from_millis(50 + round * 137 % 700));
        stack.spillway.kill();
        stack.spillway.start();
        load.assert_running();
    }
    load.finish();
    roll_back_prepared(&stack.upstream);
    stack.assert_equal();
}

#[test]
fn an_upstream_that_restarts_is_attached_to_again() {
    let mut stack = Stack::start();
    let plan = Plan::disturbed(14, 3);
    let port = stack.spillway.relay_port();
    load::prepare(port, &plan);
    let load = Running::start(&[port], &plan);
    for _ in 0..2 {
        let_pass(&stack.upstream, 40);
        stack.upstream.stop();
        stack.upstream.start();
    }
    let_pass(&stack.upstream, 40);
    load.assert_running();
    load.finish();
    roll_back_prepared(&stack.upstream);
    stack.assert_equal();
}

#[test]
fn an_upstream_that_is_killed_is_attached_to_again() {
    let mut stack = Stack::start();
    let plan = Plan { crash_unsafe: false, ..Plan::disturbed(15, 3) };
    let port = stack.spillway.relay_port();
    load::prepare(port, &plan);
    let load = Running::start(&[port], &plan);
    for _ in 0..3 {
        let_pass(&stack.upstream, 40);
        stack.upstream.kill();
        stack.upstream.start();
    }
    let_pass(&stack.upstream, 40);
    load.assert_running();
    load.finish();
    stack.assert_equal_after_kill();
}

#[test]
fn a_connection_cut_inside_a_transaction_leaves_no_trace() {
    let upstream = Server::upstream();
    let proxy = Proxy::start(upstream.port());
    let spillway = {
        let mut prepared = Spillway::prepared_for_port(proxy.port());
        prepared.start();
        prepared
    };
    upstream.run("CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY, t LONGTEXT)");
    for (round, bytes) in [30, 300, 4_000, 100_000, 1_500_000, 3_100_000].into_iter().enumerate() {
        spillway.wait_recorded(&upstream.gtid_binlog_pos());
        let before = proxy.accepted();
        proxy.cut_after(Direction::Down, bytes);
        upstream.run(&format!(
            "USE d; INSERT INTO t SELECT {} + seq, REPEAT('c', 40000) FROM seq_1_to_80",
            round * 1000
        ));
        wait::until("spillway connects again", || (proxy.accepted() > before).then_some(()));
    }
    assert_log_equal(&upstream, &spillway);
}
