//! The packer's arithmetic, against a real server's own.

use spillway_integration_tests::dump::{Dump, Request};
use spillway_integration_tests::replica::REPLICA_USER;
use spillway_integration_tests::servers::{APP_USER, Server};
use spillway_integration_tests::spillway::Spillway;
use spillway_integration_tests::stack::assert_log_equal;

const WRITE_ROWS_V1: u8 = 23;
/// `binlog_row_event_max_size`, and the rows events that 1,000 rows of 5,000 bytes make.
const COUNTS: [(u32, usize); 4] = [(8, 1000), (32, 167), (64, 77), (128, 39)];

fn insert_rows(server: &Server) {
    server.run(
        "CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY, t TEXT); USE d;
         INSERT INTO t SELECT seq, REPEAT('x', 5000) FROM seq_1_to_1000",
    );
}

/// Sizes and statement-end flags of the Write_rows events a source sends.
fn write_rows(port: u16, login: (&str, &str)) -> Vec<(u32, bool)> {
    let dump = Dump::start(port, login, &Request::everything()).unwrap();
    let events = dump.map(|event| event.unwrap()).filter(|event| event.kind == WRITE_ROWS_V1);
    events.map(|event| (event.length, event.body[6] & 1 == 1)).collect()
}

#[test]
fn rows_events_are_repacked_to_the_configured_size_as_a_real_server_packs_them() {
    let upstream = Server::upstream_with(&["--binlog-row-event-max-size=8192"]);
    insert_rows(&upstream);
    for (kib, count) in COUNTS {
        let size = format!("--binlog-row-event-max-size={}", kib * 1024);
        let real = Server::upstream_with(&[&size]);
        insert_rows(&real);
        assert_eq!(write_rows(real.port(), APP_USER).len(), count, "MariaDB at {kib} KiB");

        let mut spillway = Spillway::prepared(&upstream).with(
            "[binlog]",
            "binlog_row_event_max_size",
            &format!("\"{kib}KiB\""),
        );
        spillway.start();
        assert_log_equal(&upstream, &spillway);
        let events = write_rows(spillway.replica_port(), REPLICA_USER);
        assert_eq!(events.len(), count, "Spillway at {kib} KiB");
        let (last, others) = events.split_last().unwrap();
        assert!(last.1 && others.iter().all(|(_, ends)| !ends), "only the last ends the statement");
        // One row alone may be larger; here none is.
        assert!(events.iter().all(|(length, _)| *length <= kib * 1024 + 1024), "{events:?}");
    }
}

#[test]
fn statements_of_one_transaction_are_not_packed_together() {
    let upstream = Server::upstream();
    upstream.run("CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY, t TEXT)");
    upstream.run("BEGIN; INSERT INTO d.t VALUES (1, 'a'); INSERT INTO d.t VALUES (2, 'b'); COMMIT");
    let spillway = Spillway::started(&upstream);
    assert_log_equal(&upstream, &spillway);
    let events = write_rows(spillway.replica_port(), REPLICA_USER);
    assert_eq!(events.iter().map(|(_, ends)| *ends).collect::<Vec<_>>(), [true, true]);
}
