//! Transactions of the sizes that are measured, as their events come from a source.

use std::sync::Arc;

use spillway_binlog::Submitter;
use spillway_binlog::event::{
    ChecksumAlgorithm, EventHeader, EventType, FormatDescription, control,
};
use spillway_binlog::transaction::{Assembled, Transaction, TransactionAssembler};

/// Bytes of one row of the table below.
const ROW: usize = 1000;

/// What a MariaDB 10.11 says of its events.
pub fn format() -> Arc<FormatDescription> {
    let mut post_header_lengths = vec![0; 171];
    post_header_lengths[18] = 8;
    post_header_lengths[22..25].fill(8);
    Arc::new(FormatDescription {
        server_version: "10.11.19-MariaDB-log".into(),
        created: 0,
        post_header_lengths,
        checksum: ChecksumAlgorithm::Crc32,
    })
}

/// Makes transactions of one source.
pub struct Maker {
    assembler: TransactionAssembler,
    domain: u32,
    sequence: u64,
    map: Vec<u8>,
    /// One row, and as many as an upstream of today sends in one event.
    rows: [Vec<u8>; 2],
    last_rows: Vec<u8>,
}

impl Maker {
    pub fn new(source: &Submitter, domain: u32) -> Self {
        Self {
            assembler: source.assembler(format()),
            domain,
            sequence: 0,
            map: event(EventType::TABLE_MAP, &table_map()),
            rows: [rows(0, 1, 300), rows(0, 7, ROW)],
            last_rows: rows(1, 1, 300),
        }
    }

    /// About 1.5 KB: four statements of one row, as sysbench's read/write transactions have.
    pub fn small(&mut self) -> Transaction {
        self.begin();
        for _ in 0..4 {
            push(&mut self.assembler, &self.map);
            push(&mut self.assembler, &self.last_rows);
        }
        self.end()
    }

    /// One statement of about this many bytes.
    pub fn large(&mut self, bytes: u64) -> Transaction {
        self.begin();
        push(&mut self.assembler, &self.map);
        let rows = &self.rows[1];
        for _ in 0..bytes.div_ceil(rows.len() as u64) {
            push(&mut self.assembler, rows);
        }
        push(&mut self.assembler, &self.last_rows);
        self.end()
    }

    fn begin(&mut self) {
        self.sequence += 1;
        let mut body = self.sequence.to_le_bytes().to_vec();
        body.extend(self.domain.to_le_bytes());
        body.extend([0x0c, 0, 0, 0, 0, 0, 0]);
        push(&mut self.assembler, &event(EventType::GTID, &body));
    }

    fn end(&mut self) -> Transaction {
        let xid = event(EventType::XID, &self.sequence.to_le_bytes());
        match self.assembler.push(&xid).expect("an Xid ends a transaction") {
            Assembled::Complete(transaction) => transaction,
            other => panic!("an Xid led to {other:?}"),
        }
    }
}

fn push(assembler: &mut TransactionAssembler, event: &[u8]) {
    assembler.push(event).expect("the event is sound");
}

fn event(event_type: EventType, body: &[u8]) -> Vec<u8> {
    let header = EventHeader {
        timestamp: 1_700_000_000,
        event_type,
        server_id: 1,
        event_size: 0,
        end_position: 0,
        flags: 0,
    };
    control::event(header, body, ChecksumAlgorithm::None)
}

/// One VARCHAR(2000).
fn table_map() -> Vec<u8> {
    let mut body = vec![7, 0, 0, 0, 0, 0, 1, 0];
    body.extend(b"\x06sbtest\0\x03sb1\0");
    body.extend([1, 15, 2, 0xd0, 0x07, 1]);
    body
}

fn rows(flags: u16, count: usize, row: usize) -> Vec<u8> {
    let mut body = vec![7, 0, 0, 0, 0, 0];
    body.extend(flags.to_le_bytes());
    body.extend([1, 0xff]);
    let text = row - 3;
    for _ in 0..count {
        body.push(0xfe);
        body.extend(u16::try_from(text).expect("a row of under 64 KiB").to_le_bytes());
        body.extend((0..text).map(|at| b'a' + u8::try_from(at % 23).unwrap_or(0)));
    }
    event(EventType(23), &body)
}
