//! Upstreams that change under Spillway: checksums, files, starts; and upstreams that are no plain primary.

use spillway_integration_tests::dump::{ARTIFICIAL, Dump, FORMAT_DESCRIPTION, Request};
use spillway_integration_tests::replica::{self, REPLICA_USER};
use spillway_integration_tests::servers::{CAPTURE_USER, Server};
use spillway_integration_tests::spillway::Spillway;
use spillway_integration_tests::stack::{Stack, assert_log_equal};
use spillway_integration_tests::{checksum, wait};

const TABLE: &str = "CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY, t TEXT)";

fn insert(id: usize) -> String {
    format!("INSERT INTO d.t VALUES ({id}, REPEAT('text ', {id}))")
}

/// All events in the log's files have a checksum, or none has.
fn assert_checksums(spillway: &Spillway, wanted: bool) {
    let request = Request::everything();
    let dump = Dump::start(spillway.replica_port(), REPLICA_USER, &request).unwrap();
    for event in dump.map(|event| event.unwrap()) {
        let own = event.flags & ARTIFICIAL == 0 && event.kind != FORMAT_DESCRIPTION;
        assert!(!own || event.checksummed == wanted, "{event:?}");
    }
}

#[test]
fn a_checksum_switched_on_the_upstream_does_not_change_what_is_written() {
    for (written, has) in [("CRC32", true), ("NONE", false)] {
        let value = format!("\"{written}\"");
        let mut stack = Stack::start_with(|s| s.with("[binlog]", "binlog_checksum", &value));
        stack.upstream.run(TABLE);
        for (number, checksum) in ["NONE", "CRC32", "NONE", "CRC32"].into_iter().enumerate() {
            stack.upstream.run(&insert(10 * number));
            stack.upstream.run(&format!("SET GLOBAL binlog_checksum = {checksum}"));
            stack.upstream.run(&insert(10 * number + 1));
            if number >= 2 {
                stack.spillway.kill();
                stack.spillway.start();
                stack.upstream.run(&insert(10 * number + 2));
            }
            stack.assert_equal();
        }
        assert_checksums(&stack.spillway, has);
    }
}

/// `created` in the format descriptions of the log's files: nonzero tells replicas to drop temporary tables.
fn created(spillway: &Spillway) -> Vec<bool> {
    let of = |path: &std::path::PathBuf| {
        let bytes = std::fs::read(path).unwrap();
        bytes[4 + 19 + 52..][..4] != [0; 4]
    };
    spillway.binlog_files().iter().map(of).collect()
}

#[test]
fn only_a_start_of_the_upstream_is_told_as_one() {
    let mut stack = Stack::start();
    stack.upstream.run(TABLE);
    let starts = |stack: &Stack| {
        stack.spillway.wait_recorded(&stack.upstream.gtid_binlog_pos());
        created(&stack.spillway).into_iter().filter(|created| *created).count()
    };
    stack.upstream.run(&insert(0));
    let begun = starts(&stack);
    for round in 0..4 {
        match round % 2 {
            0 => stack.spillway.stop().code().map_or((), |code| assert_eq!(code, 0)),
            _ => stack.spillway.kill(),
        }
        if round >= 2 {
            stack.upstream.run("FLUSH BINARY LOGS");
        }
        stack.spillway.start();
        stack.upstream.run(&format!("FLUSH BINARY LOGS; {}", insert(10 + round)));
        assert_eq!(starts(&stack), begun, "round {round}");
    }
    stack.upstream.stop();
    stack.upstream.start();
    stack.upstream.run(&insert(20));
    assert_eq!(starts(&stack), begun + 1);
    stack.spillway.kill();
    stack.spillway.start();
    stack.upstream.run(&insert(21));
    assert_eq!(starts(&stack), begun + 1);
    // Also of a start that Spillway was not there for. It is told by its second.
    let second = || stack.upstream.query("SELECT UNIX_TIMESTAMP()").scalar();
    let now = second();
    wait::until("another second begins", || (second() != now).then_some(()));
    stack.spillway.stop();
    stack.upstream.stop();
    stack.upstream.start();
    stack.upstream.run(&insert(22));
    stack.spillway.start();
    assert_eq!(starts(&stack), begun + 2);
    stack.assert_equal();
}

#[test]
fn files_that_the_upstream_began_while_spillway_was_away_are_fetched() {
    let mut stack = Stack::start();
    stack.upstream.run(TABLE);
    stack.spillway.stop();
    for id in 0..6 {
        stack.upstream.run(&format!("FLUSH BINARY LOGS; {}", insert(id)));
    }
    stack.upstream.stop();
    stack.upstream.start();
    stack.upstream.run(&insert(7));
    stack.spillway.start();
    stack.assert_equal();
}

/// The upstream purges all but its newest file and forgets domain 5.
fn forget_domain(upstream: &Server) {
    upstream.run("FLUSH BINARY LOGS; FLUSH BINARY LOGS");
    wait::until("the upstream has forgotten the domain", || {
        let last = upstream.binlog_files().pop().unwrap();
        upstream.run(&format!("PURGE BINARY LOGS TO '{last}'"));
        upstream.root().query("FLUSH BINARY LOGS DELETE_DOMAIN_ID = (5)").ok()
    });
}

#[test]
fn a_domain_that_the_upstream_deleted_stays_in_the_log_and_recording_goes_on() {
    let mut stack = Stack::start();
    stack.upstream.run(TABLE);
    let in_domain = |stack: &Stack, number: usize| {
        let next = format!("SET gtid_domain_id = 5; SET gtid_seq_no = {number}");
        stack.upstream.run(&format!("{next}; {}", insert(10 + number)));
    };
    for (round, restarts) in [false, true].into_iter().enumerate() {
        in_domain(&stack, round + 1);
        stack.upstream.run(&insert(20 + round));
        let position = stack.upstream.gtid_binlog_pos();
        stack.spillway.wait_recorded(&position);
        replica::wait_applied(&stack.replica, &position);
        if restarts {
            stack.spillway.stop();
        }
        forget_domain(&stack.upstream);
        if restarts {
            stack.spillway.start();
        }
        stack.upstream.run(&insert(30 + round));
        let position = format!("{},5-1-{}", stack.upstream.gtid_binlog_pos(), round + 1);
        stack.spillway.wait_recorded(&position);
        replica::wait_applied(&stack.replica, &position);
    }
    checksum::assert_equal(&stack.upstream, &stack.replica);

    // Of the domain of the log's last transaction it looks like an upstream that has lost its tail, and that it may be.
    in_domain(&stack, 3);
    stack.spillway.wait_recorded(&stack.upstream.gtid_binlog_pos());
    stack.spillway.stop();
    forget_domain(&stack.upstream);
    stack.upstream.run(&insert(40));
    stack.spillway.launch();
    stack.spillway.wait_says("the log's last transaction is 5-1-3");
}

#[test]
fn a_read_only_replica_is_recorded_as_an_upstream() {
    let primary = Server::upstream();
    let mut upstream = Server::replica_with(&["--read-only=1", "--binlog-format=ROW"]);
    replica::attach(&upstream, primary.port(), CAPTURE_USER);
    primary.run(TABLE);
    primary.run(&insert(1));
    replica::wait_applied(&upstream, &primary.gtid_binlog_pos());
    let mut spillway = Spillway::started(&upstream);
    let server = Server::replica_with(&["--server-id=102"]);
    replica::attach(&server, spillway.replica_port(), REPLICA_USER);
    for round in 0..4 {
        primary.run(&format!(
            "{}; XA START 'x'; {}; XA END 'x'; XA PREPARE 'x'; XA COMMIT 'x'; ALTER TABLE d.t COMMENT 'round {round}'",
            insert(10 + 2 * round),
            insert(11 + 2 * round),
        ));
        replica::wait_applied(&upstream, &primary.gtid_binlog_pos());
        match round {
            0 => {
                spillway.kill();
                spillway.start();
            }
            1 => {
                upstream.stop();
                upstream.start();
            }
            2 => upstream.run("STOP SLAVE; START SLAVE"),
            _ => {}
        }
    }
    assert_log_equal(&upstream, &spillway);
    replica::wait_applied(&server, &primary.gtid_binlog_pos());
    checksum::assert_equal(&primary, &server);
}

/// What managed services set, and what they do not grant: no SUPER, no access to the `mysql` schema, MIXED format, files that are
/// purged soon.
#[test]
fn an_upstream_with_a_managed_services_settings_is_recorded() {
    let upstream = Server::upstream_with(&[
        "--binlog-format=MIXED",
        "--log-bin-trust-function-creators=0",
        "--local-infile=0",
        "--max-allowed-packet=64M",
        "--expire-logs-days=1",
        "--performance-schema=1",
        "--gtid-strict-mode=0",
        "--binlog-row-image=FULL",
        "--sync-binlog=1",
    ]);
    upstream.run(
        "SET sql_log_bin = 0; REVOKE ALL PRIVILEGES, GRANT OPTION FROM app@'%';
         GRANT SELECT, INSERT, UPDATE, DELETE, CREATE, DROP, ALTER, INDEX ON d.* TO app@'%'",
    );
    let mut spillway = Spillway::prepared(&upstream);
    let said = spillway.check().expect_code(0).stdout;
    assert!(!said.contains("GRANT "), "{said}");
    spillway.start();
    let mut app = spillway.app().unwrap();
    app.query_all(&format!("{TABLE}; {}; UPDATE d.t SET t = NOW(); {}", insert(1), insert(2)))
        .unwrap();
    upstream.run("GRANT REPLICATION SLAVE ON *.* TO app@'%'");
    assert_log_equal(&upstream, &spillway);
    let server = Server::replica();
    replica::attach(&server, spillway.replica_port(), REPLICA_USER);
    replica::wait_applied(&server, &upstream.gtid_binlog_pos());
    assert_eq!(server.query("SELECT COUNT(*) FROM d.t").scalar(), "2");
}
