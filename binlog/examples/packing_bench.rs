//! How fast rows are packed: MB/s and ns per event for the shapes of transactions that matter.
//!
//! `cargo run --release -p spillway-binlog --example packing_bench`

use spillway_binlog::rows::{PackError, RowsLayout, RowsPacker};
use std::convert::Infallible;
use std::hint::black_box;
use std::time::{Duration, Instant};

const TABLE_MAP: u8 = 19;
const WRITE_ROWS_V1: u8 = 23;
const LIMIT: usize = 64 << 10;

type Result<T> = std::result::Result<T, PackError<Infallible>>;

fn main() -> Result<()> {
    println!("{:44} {:>9} {:>10} {:>10}", "", "MB/s", "ns/event", "events");
    let row = |text| wide_row(0, text);
    measure("large rows, 5,000 bytes each, 1 per event", &statement(2_000, 1, &row(4_990)))?;
    measure("1,000-byte rows, 8 KiB events", &statement(10_000, 8, &row(930)))?;
    measure("100-byte rows of 8 columns, 8 KiB events", &statement(50_000, 70, &row(30)))?;
    let with_nulls = wide_row(0b0010_0100, 30);
    measure("the same, 2 columns NULL", &statement(50_000, 70, &with_nulls))?;
    measure("the same, one event split", &statement(50_000, 50_000, &row(30)))?;
    measure("one-row statements", &[table_map(7), rows_event(7, 1, &row(30))])?;
    measure("the same, event copied only", &[vec![0; 90], vec![0; 130]])?;
    let mut trigger: Vec<_> = vec![table_map(7), table_map(8)];
    for at in 0..200 {
        trigger.push(rows_event(7 + at % 2, 0, &row(30)));
    }
    measure("trigger: rows of two tables by turns", &trigger)
}

/// Packs the transaction over and over for about half a second, three times, and prints the best.
fn measure(name: &str, transaction: &[Vec<u8>]) -> Result<()> {
    let bytes: usize = transaction.iter().map(Vec::len).sum();
    let mut packer = RowsPacker::new(LIMIT, RowsLayout::default());
    let mut out = Vec::with_capacity(bytes * 2);
    let mut best = f64::MAX;
    for _ in 0..3 {
        let (start, mut rounds) = (Instant::now(), 0.0);
        while start.elapsed() < Duration::from_millis(300) {
            for _ in 0..1 + 200_000 / bytes {
                out.clear();
                for event in transaction {
                    packer.push(black_box(event), &mut out)?;
                }
                packer.flush(&mut out)?;
                black_box(&out);
                rounds += 1.0;
            }
        }
        best = best.min(start.elapsed().as_secs_f64() / rounds);
    }
    let events = transaction.len();
    #[allow(clippy::cast_precision_loss)]
    let (rate, each) = (bytes as f64 / best / 1e6, best * 1e9 / events as f64);
    println!("{name:44} {rate:9.0} {each:10.1} {events:10}");
    Ok(())
}

fn statement(rows: usize, per_event: usize, row: &[u8]) -> Vec<Vec<u8>> {
    let mut events = vec![table_map(7)];
    for at in (0..rows).step_by(per_event) {
        let here = per_event.min(rows - at);
        let flags = u16::from(at + here == rows);
        events.push(rows_event(7, flags, &row.repeat(here)));
    }
    events
}

/// INT, BIGINT, VARCHAR, DATETIME2, INT, VARCHAR, DECIMAL(10,2), INT.
fn table_map(id: u8) -> Vec<u8> {
    let mut body = vec![id, 0, 0, 0, 0, 0, 1, 0];
    body.extend(b"\x04shop\0\x06orders\0");
    body.extend([8, 3, 8, 15, 18, 3, 15, 246, 3]);
    body.extend([7, 0xff, 0, 0, 0xff, 0xff, 10, 2, 0]);
    event(TABLE_MAP, &body)
}

fn wide_row(nulls: u8, text: u16) -> Vec<u8> {
    let mut short = vec![10];
    short.extend([b'a'; 10]);
    let mut long = text.to_le_bytes().to_vec();
    long.resize(2 + usize::from(text), b'x');
    let columns =
        [vec![1; 4], vec![2; 8], short, vec![3; 5], vec![4; 4], long, vec![5; 5], vec![6; 4]];
    let mut row = vec![nulls];
    for (at, column) in columns.iter().enumerate() {
        if nulls >> at & 1 == 0 {
            row.extend(column);
        }
    }
    row
}

fn rows_event(id: u8, flags: u16, rows: &[u8]) -> Vec<u8> {
    let mut body = vec![id, 0, 0, 0, 0, 0];
    body.extend(flags.to_le_bytes());
    body.extend([8, 0xff]);
    body.extend(rows);
    event(WRITE_ROWS_V1, &body)
}

fn event(event_type: u8, body: &[u8]) -> Vec<u8> {
    let mut event = vec![0; 19];
    event[4] = event_type;
    event.extend(body);
    event
}
