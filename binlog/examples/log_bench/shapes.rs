//! Transactions of the sizes that are measured, as their events come from a source.

#[path = "../../tests/samples/mod.rs"]
mod samples;

use spillway_binlog::Submitter;
use spillway_binlog::event::EventType;
use spillway_binlog::gtid::mariadb::Gtid;
use spillway_binlog::transaction::{Assembled, Transaction, TransactionAssembler};

pub(crate) use samples::format;
use samples::{event, gtid_event, xid_event};

/// Bytes of one row of the table below.
const ROW: usize = 1000;

/// Makes transactions of one source.
pub struct Maker {
    assembler: TransactionAssembler,
    /// The last one's.
    gtid: Gtid,
    map: Vec<u8>,
    /// One row, and as many as an upstream of today sends in one event.
    rows: [Vec<u8>; 2],
    last_rows: Vec<u8>,
}

impl Maker {
    pub fn new(source: &Submitter, domain: u32) -> Self {
        Self {
            assembler: source.assembler(format()),
            gtid: Gtid { domain, server: 1, sequence: 0 },
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
        self.gtid.sequence += 1;
        push(&mut self.assembler, &gtid_event(self.gtid));
    }

    fn end(&mut self) -> Transaction {
        match self.assembler.push(&xid_event(self.gtid)).expect("an Xid ends a transaction") {
            Assembled::Complete(transaction) => transaction,
            other => panic!("an Xid led to {other:?}"),
        }
    }
}

fn push(assembler: &mut TransactionAssembler, event: &[u8]) {
    assembler.push(event).expect("the event is sound");
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
