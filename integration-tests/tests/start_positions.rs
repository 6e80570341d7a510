//! Where recording begins, on real servers, and what replicas are told that stand before it.

use spillway_integration_tests::dump::{Dump, GTID_LIST, Request};
use spillway_integration_tests::load::{self, Plan, Running};
use spillway_integration_tests::logical;
use spillway_integration_tests::replica::{self, REPLICA_USER};
use spillway_integration_tests::servers::{APP_USER, Server};
use spillway_integration_tests::spillway::Spillway;
use spillway_integration_tests::stack::{assert_files_valid, roll_back_prepared, wait_idle};
use spillway_integration_tests::{checksum, wait};

/// The Gtid_list of the first file a port has, as text.
pub(crate) fn first_list(port: u16, login: (&str, &str)) -> String {
    let request = Request { gtid: None, ..Request::everything() };
    let mut events = Dump::start(port, login, &request).unwrap().map(|event| event.unwrap());
    let body = events.find(|event| event.kind == GTID_LIST).expect("a Gtid_list").body;
    let gtids = body[4..].chunks_exact(16).map(|gtid| {
        let u32_at = |at: usize| u32::from_le_bytes(gtid[at..at + 4].try_into().unwrap());
        let sequence = u64::from_le_bytes(gtid[8..].try_into().unwrap());
        format!("{}-{}-{sequence}", u32_at(0), u32_at(4))
    });
    gtids.collect::<Vec<_>>().join(",")
}

/// The log goes on from `from` exactly as the upstream does.
fn assert_same_from(upstream: &Server, spillway: &Spillway, from: &str) -> u64 {
    spillway.wait_recorded(&upstream.gtid_binlog_pos());
    let (source, log) = ((upstream.port(), APP_USER), (spillway.replica_port(), REPLICA_USER));
    let compared = logical::assert_same_stream(source, log, from);
    assert_files_valid(spillway);
    compared.transactions
}

/// Whoever has nothing is refused in the server's words.
fn assert_purged(spillway: &Spillway) {
    let mut dump =
        Dump::start(spillway.replica_port(), REPLICA_USER, &Request::everything()).unwrap();
    let error = dump.find_map(Result::err).expect("an error").to_string();
    assert!(error.contains("1236") && error.contains("have been purged"), "{error}");
}

/// Fills several files, and removes the first ones.
fn purged_upstream() -> Server {
    let upstream = Server::upstream();
    upstream.run("CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY, t TEXT)");
    upstream.run("SET server_id = 7; INSERT INTO d.t VALUES (1, 'by another server')");
    upstream.run("SET gtid_domain_id = 4; INSERT INTO d.t VALUES (2, 'in another domain')");
    for id in [10, 20, 30] {
        upstream
            .run(&format!("FLUSH BINARY LOGS; INSERT INTO d.t VALUES ({id}, REPEAT('x', 9000))"));
    }
    let kept = upstream.binlog_files()[2].clone();
    wait::until("the upstream has purged its first files", || {
        upstream.run(&format!("PURGE BINARY LOGS TO '{kept}'"));
        (upstream.binlog_files()[0] == kept).then_some(())
    });
    upstream
}

#[test]
fn oldest_on_an_upstream_that_purged_its_beginning_begins_with_the_true_state() {
    let upstream = purged_upstream();
    let mut spillway = Spillway::prepared(&upstream);
    let sizes = upstream.query("SHOW BINARY LOGS").rows;
    let bytes: u64 = sizes.iter().map(|row| row[1].as_ref().unwrap().parse::<u64>().unwrap()).sum();
    let said = spillway.check().expect_code(0).stdout;
    let kib = format!("{:.1} KiB in all", bytes as f64 / 1024.0);
    let files = format!("{} files from {}", sizes.len(), sizes[0][0].as_ref().unwrap());
    assert!(said.contains(&kib) && said.contains(&files), "{kib}, {files}: {said}");
    spillway.start();

    let state = first_list(upstream.port(), APP_USER);
    assert_eq!(state, "0-7-3,0-1-4,4-1-1", "the upstream purged another part");
    spillway.wait_recorded(&upstream.gtid_binlog_pos());
    assert_eq!(first_list(spillway.replica_port(), REPLICA_USER), state);
    assert_eq!(assert_same_from(&upstream, &spillway, "0-1-4,4-1-1"), 2);
    // Whoever stands before it is refused, as by the upstream.
    let old = Server::replica();
    replica::attach(&old, spillway.replica_port(), REPLICA_USER);
    let error = replica::wait_io_error(&old, "1236");
    assert!(error.contains("have been purged"), "{error}");
    // One that was restored at that state goes on.
    old.run(
        "SET sql_log_bin = 0; CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY, t TEXT);
         INSERT INTO d.t VALUES (1, 'by another server'), (2, 'in another domain'), (10, REPEAT('x', 9000))",
    );
    replica::attach_at(&old, spillway.replica_port(), REPLICA_USER, "0-1-4,4-1-1");
    upstream.run("INSERT INTO d.t VALUES (40, 'new')");
    replica::wait_applied(&old, &upstream.gtid_binlog_pos());
    checksum::assert_equal(&upstream, &old);
}

#[test]
fn current_under_load_leaves_no_gap() {
    let upstream = Server::upstream();
    let plan = Plan { big_rows: false, ..Plan::disturbed(41, 3) };
    load::prepare(upstream.port(), &plan);
    let load = Running::start(&[upstream.port()], &plan);
    let sequence = || -> u64 {
        let position = upstream.gtid_binlog_pos();
        position.rsplit('-').next().unwrap_or_default().parse().unwrap_or(0)
    };
    let passes = |count: u64| {
        let wanted = sequence() + count;
        wait::until("the load makes progress", || (sequence() >= wanted).then_some(()));
    };
    passes(30);
    let mut spillway = Spillway::prepared(&upstream).with("[[source]]", "start", "\"current\"");
    spillway.start();
    passes(30);
    spillway.kill();
    passes(10);
    spillway.start();
    passes(30);
    load.assert_running();
    load.finish();
    roll_back_prepared(&upstream);
    wait_idle(&upstream);
    let begun = first_list(spillway.replica_port(), REPLICA_USER);
    assert!(begun.starts_with("0-1-"), "{begun}");
    assert!(assert_same_from(&upstream, &spillway, &begun) > 60);
    assert_purged(&spillway);
}

#[test]
fn a_given_position_is_begun_behind() {
    let upstream = purged_upstream();
    let at = |start: &str| Spillway::prepared(&upstream).with("[[source]]", "start", start);
    let mut spillway = at("\"0-1-5,4-1-1\"");
    spillway.start();
    assert_eq!(assert_same_from(&upstream, &spillway, "0-1-5,4-1-1"), 1);
    assert_eq!(first_list(spillway.replica_port(), REPLICA_USER), "0-1-5,4-1-1");
    assert_purged(&spillway);
    upstream.run("INSERT INTO d.t VALUES (50, 'new')");
    assert_eq!(assert_same_from(&upstream, &spillway, "0-1-5,4-1-1"), 2);

    let mut purged = at("\"0-1-1,4-1-1\"");
    purged.launch();
    purged.wait_says("purged");
    let mut ahead = at("\"0-1-99,4-1-1\"");
    ahead.launch();
    ahead.wait_says("0-1-99");
}
