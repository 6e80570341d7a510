//! Events about as large as packets of the protocol can be, and far larger: split on their way in and on their way out.

use spillway_integration_tests::dump::{Dump, Request};
use spillway_integration_tests::servers::{APP_USER, Server};
use spillway_integration_tests::stack::Stack;

use crate::setting;

const MIB: u64 = 1 << 20;
const TABLE: &str =
    "CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY, b LONGBLOB) ENGINE=MyISAM";
const WRITE_ROWS_V1: u8 = 23;

/// A row in an event of its own.
fn insert(server: &Server, id: u64, bytes: u64) {
    server.run(&format!("INSERT INTO d.t VALUES ({id}, REPEAT('x', {bytes}))"));
}

/// Lengths of the Write_rows events that the upstream sends after a position.
fn lengths(upstream: &Server, from: &str) -> Vec<u64> {
    let dump = Dump::start(upstream.port(), APP_USER, &Request::from_gtid(from)).unwrap();
    let events = dump.map(|event| event.unwrap()).filter(|event| event.kind == WRITE_ROWS_V1);
    events.map(|event| u64::from(event.length)).collect()
}

/// The payload is the event and a byte before it, and a payload of 2²⁴ − 1 bytes or more goes on in another packet, be that empty.
#[test]
fn events_at_the_edges_of_packets_come_in_and_go_out_whole() {
    const PACKET: u64 = 0xff_ffff;
    let stack = Stack::start();
    stack.upstream.run(TABLE);
    let begin = stack.upstream.gtid_binlog_pos();
    insert(&stack.upstream, 0, MIB);
    let around = lengths(&stack.upstream, &begin)[0] - MIB;
    let mut id = 0;
    for packets in 1..=setting("SPILLWAY_PACKETS", 1) {
        let begin = stack.upstream.gtid_binlog_pos();
        // Both the payload and the event alone come to be a multiple, and two bytes off it on either side.
        let wanted: Vec<u64> = (packets * PACKET - 3..=packets * (PACKET + 1) + 2).collect();
        for length in &wanted {
            id += 1;
            insert(&stack.upstream, id, length - around);
        }
        assert_eq!(lengths(&stack.upstream, &begin), wanted);
        stack.assert_equal();
        stack.upstream.run("TRUNCATE d.t");
    }
}

/// Of 48 MiB, and of the 900 MiB that `max_allowed_packet` just allows in soak runs.
#[test]
fn a_very_large_row_goes_through_whole() {
    let stack = Stack::start();
    stack.upstream.run(TABLE);
    insert(&stack.upstream, 1, setting("SPILLWAY_LARGE_ROW_MIB", 48) * MIB);
    insert(&stack.upstream, 2, 1);
    stack.assert_equal();
}
