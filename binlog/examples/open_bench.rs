//! How long a log takes to open: many small files, and one large last file with and without what spares reading it.
//!
//! ```text
//! cargo run --release -p spillway-binlog --example open_bench [FILES] [MIB]
//! ```

#![allow(clippy::print_stdout, clippy::unwrap_used, missing_docs)]

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use spillway_binlog::event::{
    ChecksumAlgorithm, EventHeader, EventType, FormatDescription, control,
};
use spillway_binlog::gtid::mariadb::{Gtid, GtidState};
use spillway_binlog::transaction::Assembled;
use spillway_binlog::{CommitLevel, Log, LogOptions};

fn main() {
    let mut arguments = std::env::args().skip(1).filter_map(|argument| argument.parse().ok());
    let (files, mib) = (arguments.next().unwrap_or(1000), arguments.next().unwrap_or(1024));
    many_files(files);
    large_file(mib);
}

fn options(dir: &Path, max_binlog_size: u64) -> LogOptions {
    let commit_level = CommitLevel::Two;
    LogOptions { max_binlog_size, commit_level, ..LogOptions::new(dir, 4307) }
}

fn many_files(files: u64) {
    let dir = tempfile::tempdir().unwrap();
    record(&options(dir.path(), 4096), files, 4096);
    let took = best(|| open(&options(dir.path(), 4096)));
    println!("{files} files: opened in {took:?}");
    std::fs::remove_file(dir.path().join("binlog.verified")).unwrap();
    println!("{files} files, not known to be verified: {:?}", open(&options(dir.path(), 4096)));
}

fn large_file(mib: u64) {
    let dir = tempfile::tempdir().unwrap();
    let options = options(dir.path(), u64::MAX);
    record(&options, mib * 64, 16_384);
    let took = best(|| open(&options));
    println!("one file of {mib} MiB: opened in {took:?}");
    let log = Log::open(options.clone()).unwrap();
    let wanted = [gtid(mib * 64 * 9 / 10)];
    let took = best(|| {
        let started = Instant::now();
        assert!(mib < 8 || log.seek_gtid(1, &wanted).unwrap().is_some());
        started.elapsed()
    });
    println!("  a GTID in it: found in {took:?}");
    drop(log);
    let whole = best(|| {
        std::fs::remove_file(dir.path().join("binlog.verified")).unwrap();
        open(&options)
    });
    let speed = mib as f64 / 1024.0 / whole.as_secs_f64();
    println!("  without binlog.verified, read whole: {whole:?}, {speed:.1} GiB/s");
}

fn best(mut run: impl FnMut() -> Duration) -> Duration {
    (0..5).map(|_| run()).min().unwrap_or_default()
}

fn open(options: &LogOptions) -> Duration {
    let started = Instant::now();
    let log = Log::open(options.clone()).unwrap();
    let took = started.elapsed();
    drop(log);
    took
}

fn gtid(sequence: u64) -> Gtid {
    Gtid { domain: 0, server: 1, sequence }
}

fn record(options: &LogOptions, transactions: u64, size: usize) {
    let log = Log::open(options.clone()).unwrap();
    let source = log.submitter();
    let format = Arc::new(FormatDescription {
        server_version: "10.11.19-MariaDB-log".into(),
        created: 0,
        post_header_lengths: vec![0; 171],
        checksum: ChecksumAlgorithm::Crc32,
    });
    let mut last = source.begin(Arc::clone(&format), GtidState::default());
    let mut assembler = source.assembler(Arc::clone(&format));
    for sequence in 1..=transactions {
        let body = [&sequence.to_le_bytes()[..], &[0, 0, 0, 0, 4], &[0; 6]].concat();
        assembler.push(&event(EventType::GTID, &body)).unwrap();
        assembler.push(&event(EventType::ANNOTATE_ROWS, &vec![b'x'; size - 120])).unwrap();
        let Assembled::Complete(transaction) =
            assembler.push(&event(EventType::XID, &sequence.to_le_bytes())).unwrap()
        else {
            panic!("an Xid ends a transaction")
        };
        last = source.submit(transaction);
        if sequence % 1000 == 0 {
            last.wait_durable().unwrap();
        }
    }
    last.wait_durable().unwrap();
}

fn event(event_type: EventType, body: &[u8]) -> Vec<u8> {
    let (timestamp, event_size, end_position, flags) = (1_700_000_000, 0, 0, 0);
    let header =
        EventHeader { timestamp, event_type, server_id: 1, event_size, end_position, flags };
    control::event(header, body, ChecksumAlgorithm::None)
}
