//! The oracles and the load themselves, on servers alone: what they call equal is equal, and they can say no.

use spillway_integration_tests::checksum;
use spillway_integration_tests::load::{self, Plan, SCHEMA};
use spillway_integration_tests::logical::compare_sources;
use spillway_integration_tests::replica;
use spillway_integration_tests::servers::{APP_USER, CAPTURE_USER, Server};

#[test]
fn a_mixed_load_replicates_between_two_real_servers() {
    let upstream = Server::upstream();
    let plan = Plan::everything(7, 3, 60);
    load::prepare(upstream.port(), &plan);
    let done = load::run(upstream.port(), &plan);
    assert_eq!(done.steps + done.conflicts, 180);

    let server = Server::replica();
    replica::attach(&server, upstream.port(), CAPTURE_USER);
    replica::wait_applied(&server, &upstream.gtid_binlog_pos());
    checksum::assert_equal(&upstream, &server);
}

#[test]
fn the_checksum_oracle_sees_one_changed_row() {
    let (left, right) = (Server::upstream(), Server::upstream());
    for server in [&left, &right] {
        server.run("CREATE DATABASE d; CREATE TABLE d.t (a INT); INSERT INTO d.t VALUES (1), (2)");
    }
    let contents = |server: &Server| checksum::contents(&mut server.root());
    assert_eq!(checksum::first_difference(&contents(&left), &contents(&right)), None);
    right.run("UPDATE d.t SET a = 3 WHERE a = 2");
    let difference = checksum::first_difference(&contents(&left), &contents(&right)).unwrap();
    assert!(difference.contains("`d`.`t`"), "{difference}");
}

#[test]
fn the_dump_oracle_calls_a_stream_equal_to_itself_and_sees_a_change() {
    let upstream = Server::upstream();
    let plan = Plan { big_rows: false, ..Plan::everything(8, 2, 30) };
    load::prepare(upstream.port(), &plan);
    load::run(upstream.port(), &plan);
    let source = (upstream.port(), APP_USER);
    let compared = compare_sources(source, source, "").unwrap();
    assert!(compared.transactions > 60, "{compared:?}");

    let edited = Server::upstream();
    for server in [&upstream, &edited] {
        server.run("SET timestamp = 1000000000; RESET MASTER; CREATE OR REPLACE DATABASE e");
        server.run("SET timestamp = 1000000000; CREATE TABLE e.t (a INT)");
    }
    let other = (edited.port(), APP_USER);
    upstream.run(&format!("DROP DATABASE {SCHEMA}"));
    let difference = compare_sources(source, other, "").unwrap_err();
    assert!(difference.contains("0-1-"), "{difference}");
}
