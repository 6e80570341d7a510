//! *levels*: what `flush_log_at_trx_commit` costs, against plain appending with one sync per commit.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use spillway_binlog::{CommitLevel, CommitObserver, LogOptions};

use crate::counted::CountedFs;
use crate::place::{Place, begun, float, load, median, millis, setting};
use crate::shapes::Maker;

const SUBMITTERS: u64 = 50;
/// Bytes of the small transaction, for the plain appending.
const BYTES: usize = 1500;
const LEVELS: [CommitLevel; 3] = [CommitLevel::One, CommitLevel::Two, CommitLevel::Zero];

/// Who submits, and what they wait for.
#[derive(Clone, Copy)]
struct Case {
    name: &'static str,
    submitters: u64,
    /// Each waits until its transaction is durable before the next; else only at the end.
    waits: bool,
    transactions: u64,
}

pub fn run() {
    let one_case = std::env::var("LOG_BENCH_CASE").ok();
    println!("\n### levels: transactions of 1.5 KB, commits/s (medians of rounds)\n");
    println!(
        "| case | plain pwrite + fdatasync each | level 1 | level 2 | level 0 | 1 : 2 : 0 | level 1 ÷ plain | commits per sync at level 1 |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for case in [
        Case {
            name: "50 sources, streaming",
            submitters: SUBMITTERS,
            waits: false,
            transactions: 100_000,
        },
        Case {
            name: "50 submitters, each waits until durable",
            submitters: SUBMITTERS,
            waits: true,
            transactions: 20_000,
        },
        Case { name: "one source, streaming", submitters: 1, waits: false, transactions: 100_000 },
        Case {
            name: "one submitter, waits until durable",
            submitters: 1,
            waits: true,
            transactions: 1_000,
        },
    ] {
        if one_case.as_ref().is_none_or(|name| name == case.name) {
            print(case);
        }
    }
    if one_case.is_none() {
        slow_sync();
    }
    println!("\nload average {}", load());
}

fn print(case: Case) {
    let mut plain = Vec::new();
    let mut rates: [Vec<f64>; 3] = Default::default();
    let mut per_sync = Vec::new();
    for _ in 0..setting("LOG_BENCH_ROUNDS", 3) {
        plain.push(plain_rate(case));
        for (level, rates) in LEVELS.into_iter().zip(&mut rates) {
            let (rate, grouped) = rate(case, level);
            rates.push(rate);
            if level == CommitLevel::One {
                per_sync.push(grouped);
            }
        }
    }
    let [one, two, zero] = rates.map(median);
    let plain = median(plain);
    println!(
        "| {} | {plain:.0} | {one:.0} | {two:.0} | {zero:.0} | {:.2} : {:.2} : 1 | {:.1} | {:.1} |",
        case.name,
        one / zero,
        two / zero,
        one / plain,
        median(per_sync)
    );
}

#[derive(Default)]
struct Syncs(AtomicU64);

impl CommitObserver for Syncs {
    fn synced(&self, _took: Duration) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn rate(case: Case, commit_level: CommitLevel) -> (f64, f64) {
    let (place, syncs) = (Place::new("levels"), Arc::new(Syncs::default()));
    let observer: Arc<dyn CommitObserver> = syncs.clone();
    let log = begun(LogOptions { commit_level, observer, ..place.options() });
    let each = case.transactions / case.submitters;
    let start = Instant::now();
    let submitter = |number: u64| {
        let source = log.submitter();
        let mut maker = Maker::new(&source, u32::try_from(number).unwrap_or(0));
        std::thread::spawn(move || {
            let mut last = None;
            for _ in 0..each {
                let ticket = source.submit(maker.small());
                if case.waits {
                    ticket.wait_durable().expect("the log records");
                }
                last = Some(ticket);
            }
            last.map(|ticket| ticket.wait_durable())
        })
    };
    let threads: Vec<_> = (0..case.submitters).map(submitter).collect();
    threads.into_iter().for_each(|thread| drop(thread.join()));
    let took = start.elapsed();
    let synced = syncs.0.load(Ordering::Relaxed).max(1);
    let total = float(each * case.submitters);
    (total / took.as_secs_f64(), total / float(synced))
}

/// What a log without groups would do: as many threads append to one file, each syncs its own.
fn plain_rate(case: Case) -> f64 {
    let place = Place::new("plain");
    let file = Arc::new(File::create(place.path().join("plain")).expect("a file"));
    let (end, bytes) = (Arc::new(AtomicU64::new(0)), vec![b'x'; BYTES]);
    let each = (2_000 / case.submitters).max(1);
    let start = Instant::now();
    let append = |_| {
        let (file, end, bytes) = (Arc::clone(&file), Arc::clone(&end), bytes.clone());
        std::thread::spawn(move || {
            for _ in 0..each {
                let at = end.fetch_add(BYTES as u64, Ordering::Relaxed);
                file.write_all_at(&bytes, at).expect("the write succeeds");
                file.sync_data().expect("the sync succeeds");
            }
        })
    };
    let threads: Vec<_> = (0..case.submitters).map(append).collect();
    threads.into_iter().for_each(|thread| drop(thread.join()));
    float(each * case.submitters) / start.elapsed().as_secs_f64()
}

/// One source that sends 5,000 transactions a second to a disk whose sync takes 2 ms more than this one's.
fn slow_sync() {
    const RATE: u64 = 5_000;
    const SECONDS: u64 = 4;
    let (place, syncs) = (Place::new("slow"), Arc::new(Syncs::default()));
    let fs = CountedFs::with_sync_delay(Duration::from_millis(2));
    let observer: Arc<dyn CommitObserver> = syncs.clone();
    let log = begun(LogOptions { fs: Arc::new(fs), observer, ..place.options() });
    let source = log.submitter();
    let mut maker = Maker::new(&source, 1);
    let (tickets, durable) = std::sync::mpsc::channel();
    let waiter = std::thread::spawn(move || -> Vec<f64> {
        let wait = |(due, ticket): (Instant, spillway_binlog::Ticket)| {
            ticket.wait_durable().expect("the log records");
            millis(due.elapsed())
        };
        durable.into_iter().map(wait).collect()
    });
    let start = Instant::now();
    for number in 0..RATE * SECONDS {
        let due = start + Duration::from_micros(number * 1_000_000 / RATE);
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        tickets.send((due, source.submit(maker.small()))).expect("the waiter is there");
    }
    drop(tickets);
    let lags = waiter.join().expect("the waiter ends");
    let quarter = lags.len() / 4;
    let (first, last) = (&lags[..quarter], &lags[3 * quarter..]);
    println!(
        "\nOne source, {RATE} transactions/s, sync slower by 2 ms: {:.1} commits per sync; lag until durable, median: first quarter {:.1} ms, last quarter {:.1} ms",
        float(RATE * SECONDS) / float(syncs.0.load(Ordering::Relaxed).max(1)),
        median(first.iter().copied()),
        median(last.iter().copied()),
    );
}
