//! Upstreams and replicas of a newer MariaDB, and an upstream that becomes one.

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
    let position = stack.upstream.gtid_binlog_pos();
    let compared = assert_log_equal(&stack.upstream, &stack.spillway);
    assert!(compared.transactions > 80, "{compared:?}");
    for replica in [&stack.replica, &newer_replica] {
        replica::wait_applied(replica, &position);
        checksum::assert_rows_equal(&stack.upstream, replica);
    }
}
