//! *reading*: cursors over a log of 1 GiB; where a replica attaches; how fast a log opens.

use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use spillway_binlog::event::EventType;
use spillway_binlog::event::gtid::GtidEvent;
use spillway_binlog::gtid::mariadb::Gtid;
use spillway_binlog::reader::Run;
use spillway_binlog::{Log, LogOptions};

use crate::place::{MIB, Place, begun, fill, float, load, median, millis, setting};

const RUN: usize = 256 << 10;

pub fn run() {
    let place = Place::new("reading");
    let bytes = setting("LOG_BENCH_READ_MIB", 1024) * MIB;
    let log = begun(options(&place, true));
    let start = Instant::now();
    let transactions = fill(&log.submitter(), 0, bytes);
    let recorded = float(bytes) / start.elapsed().as_secs_f64() / 1e9;
    println!("\n### reading a log of {} MiB (recorded at {recorded:.2} GB/s)\n", bytes / MIB);
    println!("| what | memory maps | buffers |\n|---|---|---|");
    drop(log);
    for readers in [1, 16] {
        let rates = [true, false].map(|mmap| {
            let log = Arc::new(Log::open(options(&place, mmap)).expect("the log opens"));
            let rounds = (0..setting("LOG_BENCH_ROUNDS", 3)).map(|_| rate(&log, readers));
            median(rounds.collect::<Vec<_>>())
        });
        println!(
            "| {readers} cursor(s), every byte copied once, GB/s in all | {:.2} | {:.2} |",
            rates[0], rates[1]
        );
    }
    attach(&place, transactions);
    recovery(&place, bytes);
    println!("\nload average {}", load());
}

/// One file: what is found within it is found by no file's name.
fn options(place: &Place, mmap: bool) -> LogOptions {
    LogOptions { mmap, max_binlog_size: 1 << 40, ..place.options() }
}

fn rate(log: &Arc<Log>, readers: u64) -> f64 {
    let start = Instant::now();
    let read = |_| {
        let log = Arc::clone(log);
        std::thread::spawn(move || read_all(&log))
    };
    let threads: Vec<_> = (0..readers).map(read).collect();
    let bytes: u64 = threads.into_iter().map(|thread| thread.join().expect("it reads")).sum();
    float(bytes) / start.elapsed().as_secs_f64() / 1e9
}

/// Copies all events, as sending them does.
pub fn read_all(log: &Log) -> u64 {
    let mut cursor = log.cursor(log.files()[0].number, 4).expect("a cursor at the start");
    let (mut copy, mut bytes) = (Vec::with_capacity(2 * RUN), 0);
    loop {
        match cursor.next_run(RUN).expect("the log is sound") {
            Run::CaughtUp => return bytes,
            Run::NextFile => {}
            Run::Events(run) => {
                copy.clear();
                copy.extend_from_slice(run.bytes);
                bytes += black_box(&copy).len() as u64;
            }
        }
    }
}

/// From a GTID to a cursor at the transaction behind it, as a dump begins: near the start, in the middle, near the end.
fn attach(place: &Place, transactions: u64) {
    let times = [true, false].map(|mmap| {
        let log = Log::open(options(place, mmap)).expect("the log opens");
        [1, transactions / 2, transactions - 1].map(|sequence| {
            let gtid = Gtid { domain: 0, server: 1, sequence };
            let rounds = (0..setting("LOG_BENCH_ROUNDS", 3)).map(|_| seek(&log, gtid));
            format!("{:.2}", median(rounds.collect::<Vec<_>>()))
        })
    });
    println!(
        "| GTID to its place (start / middle / end), ms | {} | {} |",
        times[0].join(" / "),
        times[1].join(" / ")
    );
}

fn seek(log: &Log, gtid: Gtid) -> f64 {
    let start = Instant::now();
    let file = log.find_attach(&[gtid]).expect("the log has it");
    // As a replica's dump does it: by the GTID index, then on to the transaction itself.
    let mut cursor = match log.seek_gtid(file, &[gtid]).expect("the log is sound") {
        Some(sought) => sought.cursor,
        None => log.cursor(file, 4).expect("a cursor at the start"),
    };
    loop {
        let Run::Events(run) = cursor.next_run(RUN).expect("the log is sound") else { continue };
        let found = run.events().any(|(_, header, event)| {
            header.event_type == EventType::GTID
                && GtidEvent::parse(event).is_ok_and(|found| found.gtid.sequence >= gtid.sequence)
        });
        if found {
            return millis(start.elapsed());
        }
    }
}

fn recovery(place: &Place, bytes: u64) {
    let open = |mmap| {
        let start = Instant::now();
        drop(Log::open(options(place, mmap)).expect("the log opens"));
        start.elapsed().as_secs_f64()
    };
    let hint = place.path().join("binlog.verified");
    let rounds = setting("LOG_BENCH_ROUNDS", 3);
    let known =
        [true, false].map(|mmap| median((0..rounds).map(|_| open(mmap)).collect::<Vec<_>>()));
    println!(
        "| open after a close in good order, ms | {:.1} | {:.1} |",
        known[0] * 1e3,
        known[1] * 1e3
    );
    let unknown = [true, false].map(|mmap| {
        let cold = |_| {
            forget(&hint);
            open(mmap)
        };
        float(bytes) / median((0..rounds).map(cold).collect::<Vec<_>>()) / 1e9
    });
    println!("| open with nothing verified, GB/s | {:.2} | {:.2} |", unknown[0], unknown[1]);
}

fn forget(hint: &Path) {
    if let Err(error) = std::fs::remove_file(hint) {
        assert_eq!(error.kind(), std::io::ErrorKind::NotFound, "{error}");
    }
}
