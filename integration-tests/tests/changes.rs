//! Upstreams that change under Spillway: checksums, files, somebody else with its server id; and upstreams that are no plain primary.

use std::time::Duration;

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

#[test]
fn another_replica_with_our_server_id_is_named_and_recording_goes_on_when_it_is_gone() {
    let stack = Stack::start();
    stack.upstream.run(TABLE);
    stack.spillway.wait_recorded(&stack.upstream.gtid_binlog_pos());
    // Blocking, so that it stays.
    let request = Request { server_id: 4307, flags: 2, ..Request::everything() };
    let rival = || Dump::start(stack.upstream.port(), CAPTURE_USER, &request).unwrap();
    let mut held = Vec::new();
    wait::until("the log and /status name the cause", || {
        // Each ends our dump anew.
        held.push(rival());
        std::thread::sleep(Duration::from_millis(50));
        let status = stack.spillway.http("/status")?.1;
        let named = "another replica has our server_id";
        (stack.spillway.log().contains(named) && status.contains(named)).then_some(())
    });
    drop(held);
    stack.upstream.run(&insert(1));
    stack.assert_equal();
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
