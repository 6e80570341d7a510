//! A reader that waits at the end while file after file is made by renaming sees every event once.
//! `SPILLWAY_RENAMES` sets another number of renames than 30.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod samples;

use std::collections::HashMap;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

use spillway_binlog::event::EventType;
use spillway_binlog::event::gtid::GtidEvent;
use spillway_binlog::gtid::mariadb::{Gtid, GtidState};
use spillway_binlog::reader::Run;
use spillway_binlog::transaction::{Assembled, Transaction};
use spillway_binlog::{CommitLevel, CommitObserver, Log, LogOptions, Submitter};

use samples::{event, format, gtid_event, xid_event};

/// Small transactions of another source between two large ones.
const BETWEEN: u64 = 5;

#[derive(Default)]
struct Renames(AtomicU64);

impl CommitObserver for Renames {
    fn renamed(&self, _bytes: u64) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Transaction `domain-1-sequence` with these many annotations of 1,000 bytes.
fn transaction(source: &Submitter, domain: u32, sequence: u64, notes: usize) -> Transaction {
    let gtid = Gtid { domain, server: 1, sequence };
    let mut assembler = source.assembler(format());
    assembler.push(&gtid_event(gtid)).unwrap();
    for _ in 0..notes {
        assembler.push(&event(EventType::ANNOTATE_ROWS, &[b'n'; 1000])).unwrap();
    }
    match assembler.push(&xid_event(gtid)).unwrap() {
        Assembled::Complete(transaction) => transaction,
        other => panic!("{other:?}"),
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => return value,
            Poll::Pending => std::thread::park(),
        }
    }
}

/// Reads until both domains are at their last transaction; every event counts, every GTID comes in turn.
fn read(log: &Log, last: &[(u32, u64)], events: u64) {
    let mut cursor = log.cursor(1, 4).unwrap();
    let mut seen: HashMap<u32, u64> = HashMap::new();
    let (mut count, mut position) = (0, 4);
    while !last.iter().all(|(domain, last)| seen.get(domain) == Some(last)) || count < events {
        let end = cursor.end();
        match cursor.next_run(4096).unwrap() {
            Run::CaughtUp => drop(block_on(log.changed(end))),
            Run::NextFile => position = 4,
            Run::Events(run) => {
                assert_eq!(run.position, position, "no gap and nothing twice");
                position += run.bytes.len() as u64;
                for (_, header, event) in run.events() {
                    count += u64::from(matches!(
                        header.event_type,
                        EventType::GTID | EventType::ANNOTATE_ROWS | EventType::XID
                    ));
                    if header.event_type == EventType::GTID {
                        let gtid = GtidEvent::parse(event).unwrap().gtid;
                        let before = seen.insert(gtid.domain, gtid.sequence).unwrap_or(0);
                        assert_eq!(gtid.sequence, before + 1, "domain {}", gtid.domain);
                    }
                }
            }
        }
    }
    assert_eq!(count, events);
}

fn renamed_under_a_waiting_reader(commit_level: CommitLevel, renames: u64) {
    let (dir, observer) = (tempfile::TempDir::new().unwrap(), Arc::new(Renames::default()));
    let log = Arc::new(
        Log::open(LogOptions {
            cache_size: 4096,
            large_commit_threshold: 16 << 10,
            commit_level,
            observer: observer.clone(),
            ..LogOptions::new(dir.path(), 4307)
        })
        .unwrap(),
    );
    let (large, small) = (log.submitter(), log.submitter());
    large.begin(format(), GtidState::default()).wait_durable().unwrap();
    let reader = {
        let log = Arc::clone(&log);
        let events = renames * 42 + renames * BETWEEN * 3;
        std::thread::spawn(move || read(&log, &[(1, renames), (2, renames * BETWEEN)], events))
    };
    let mut tickets = Vec::new();
    for sequence in 1..=renames {
        tickets.push(large.submit(transaction(&large, 1, sequence, 40)));
        for between in 1..=BETWEEN {
            let sequence = (sequence - 1) * BETWEEN + between;
            tickets.push(small.submit(transaction(&small, 2, sequence, 1)));
        }
        // By turns the reader is behind and waits at the end.
        if sequence % 3 == 0 {
            tickets.drain(..).for_each(|ticket| ticket.wait_durable().unwrap());
        }
    }
    tickets.iter().for_each(|ticket| ticket.wait_durable().unwrap());
    reader.join().unwrap();
    assert_eq!(observer.0.load(Ordering::Relaxed), renames);
}

#[test]
fn a_waiting_reader_sees_every_event_once() {
    let renames = std::env::var("SPILLWAY_RENAMES").map_or(30, |text| text.parse().unwrap());
    for level in [CommitLevel::One, CommitLevel::Two, CommitLevel::Zero] {
        renamed_under_a_waiting_reader(level, renames);
    }
}
