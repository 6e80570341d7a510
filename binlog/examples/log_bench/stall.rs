//! *stall*: what eight committers of small transactions notice while another source's large one commits.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use spillway_binlog::{Log, LogOptions};

use crate::counted::{CountedFs, Slot};
use crate::place::{MIB, Place, begun, float, load, median, millis, setting};
use crate::shapes::Maker;

const COMMITTERS: u32 = 8;
/// How long the small ones are watched before the large one comes, and after it is durable.
const BEFORE: Duration = Duration::from_secs(2);
const AFTER: Duration = Duration::from_secs(2);
/// Sizes, MiB. `LOG_BENCH_STALL_MIB` is the largest that is run.
const SIZES: [u64; 9] = [10, 16, 32, 64, 128, 256, 512, 1024, 4096];

/// How a large transaction commits.
#[derive(Clone, Copy, PartialEq)]
enum Way {
    Copy,
    Rename,
}

pub fn run() {
    let largest = setting("LOG_BENCH_STALL_MIB", 1024);
    let cases: Vec<_> = SIZES
        .into_iter()
        .filter(|size| *size <= largest)
        .flat_map(|size| [(size, Way::Copy), (size, Way::Rename)])
        .collect();
    let mut rounds: Vec<Vec<Watched>> = cases.iter().map(|_| Vec::new()).collect();
    for round in 0..setting("LOG_BENCH_ROUNDS", 3) {
        for ((size, way), of) in cases.iter().zip(&mut rounds) {
            eprintln!("stall: round {}, {size} MiB by {}", round + 1, way.name());
            of.push(watch(size * MIB, *way));
        }
    }
    print(&cases, &rounds);
    slots();
}

impl Way {
    fn name(self) -> &'static str {
        if self == Self::Copy { "copy" } else { "rename" }
    }

    fn options(self, place: &Place, fs: &CountedFs) -> LogOptions {
        let large_commit_threshold = if self == Self::Copy { u64::MAX } else { 10 * MIB };
        LogOptions { large_commit_threshold, fs: Arc::new(fs.clone()), ..place.options() }
    }
}

/// Durable latencies, ms, by when they were.
#[derive(Default)]
struct Watched {
    before: Vec<f64>,
    /// While the large one arrives into its cache file.
    arriving: Vec<f64>,
    /// Overlapping the time from its submission until it is durable.
    during: Vec<f64>,
    after: Vec<f64>,
    /// Of the large one itself.
    large: f64,
    /// Small ones of the large one's own source: the first behind it, and the median.
    behind: (f64, f64),
    /// The longest call of the commit thread in `during` and `after`: sync of data, of a directory, write.
    longest: [f64; 3],
}

fn watch(size: u64, way: Way) -> Watched {
    let (place, fs) = (Place::new("stall"), CountedFs::default());
    let log = begun(way.options(&place, &fs));
    let stop = Arc::new(AtomicBool::new(false));
    let committers = committers(&log, &stop);
    std::thread::sleep(BEFORE);
    let own = log.submitter();
    let mut maker = Maker::new(&own, 100);
    let arriving = Instant::now();
    let large = maker.large(size);
    fs.take();
    let submitted = Instant::now();
    let ticket = own.submit(large);
    let mut behind = Vec::new();
    let after_end = loop {
        let start = Instant::now();
        own.submit(maker.small()).wait_durable().expect("the log records");
        behind.push(millis(start.elapsed()));
        if ticket.is_durable() {
            break Instant::now();
        }
    };
    let durable = after_end;
    while durable.elapsed() < AFTER {
        let start = Instant::now();
        own.submit(maker.small()).wait_durable().expect("the log records");
        behind.push(millis(start.elapsed()));
    }
    let slot = fs.take();
    stop.store(true, Ordering::Relaxed);
    let mut watched = Watched {
        large: millis(durable - submitted),
        behind: (behind[0], median(behind)),
        longest: [slot.sync_data, slot.sync_dir, slot.write].map(|calls| millis(calls.longest)),
        ..Watched::default()
    };
    for (start, latency) in committers.into_iter().flat_map(|one| one.join().expect("commits")) {
        let end = start + latency;
        let phase = match () {
            () if end < arriving => &mut watched.before,
            () if end < submitted => &mut watched.arriving,
            () if start <= durable => &mut watched.during,
            () => &mut watched.after,
        };
        phase.push(millis(latency));
    }
    watched
}

type Samples = Vec<(Instant, Duration)>;

/// Threads that commit small transactions of one source, one after another, until told to stop.
fn committers(log: &Arc<Log>, stop: &Arc<AtomicBool>) -> Vec<JoinHandle<Samples>> {
    let source = Arc::new(log.submitter());
    let commit = |number: u32| {
        let (source, stop) = (Arc::clone(&source), Arc::clone(stop));
        std::thread::spawn(move || {
            let (mut maker, mut samples) = (Maker::new(&source, number), Vec::new());
            while !stop.load(Ordering::Relaxed) {
                let transaction = maker.small();
                let start = Instant::now();
                source.submit(transaction).wait_durable().expect("the log records");
                samples.push((start, start.elapsed()));
            }
            samples
        })
    };
    (0..COMMITTERS).map(commit).collect()
}

fn quantile(samples: &[f64], q: f64) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let at = (float(sorted.len() as u64) * q) as usize;
    sorted.get(at.min(sorted.len().saturating_sub(1))).copied().unwrap_or(f64::NAN)
}

fn print(cases: &[(u64, Way)], rounds: &[Vec<Watched>]) {
    println!(
        "\n### stall: durable latency of 8 committers' small transactions, ms (p50 / p99 / p99.9 / max; medians of rounds)\n"
    );
    println!(
        "| large one | before | while it arrives | while it commits | 2 s after | p99.9 of commit and after ÷ before | its own commit | first of its own source behind it | longest sync / dir sync / write in the slot |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    for ((size, way), rounds) in cases.iter().zip(rounds) {
        let phase = |of: fn(&Watched) -> Vec<f64>| {
            let at = |q| median(rounds.iter().map(|one| quantile(&of(one), q)));
            format!("{:.1} / {:.1} / {:.1} / {:.1}", at(0.5), at(0.99), at(0.999), at(1.0))
        };
        let ratio = median(rounds.iter().map(|one| {
            let both = [one.during.as_slice(), &one.after].concat();
            quantile(&both, 0.999) / quantile(&one.before, 0.999)
        }));
        let of = |figure: fn(&Watched) -> f64| median(rounds.iter().map(figure));
        println!(
            "| {size} MiB by {} | {} | {} | {} | {} | {ratio:.2} | {:.1} | {:.1} (p50 {:.1}) | {:.1} / {:.1} / {:.1} |",
            way.name(),
            phase(|one| one.before.clone()),
            phase(|one| one.arriving.clone()),
            phase(|one| one.during.clone()),
            phase(|one| one.after.clone()),
            of(|one| one.large),
            of(|one| one.behind.0),
            of(|one| one.behind.1),
            of(|one| one.longest[0]),
            of(|one| one.longest[1]),
            of(|one| one.longest[2]),
        );
    }
    println!("\nload average {}", load());
}

/// What the commit thread calls for one large transaction in an otherwise idle log.
fn slots() {
    println!("\n### calls of the commit thread for one transaction in an idle log\n");
    println!("| transaction | syncs of data | of directories | until durable | ms in calls |");
    println!("|---|---|---|---|---|");
    for (name, size, way) in [
        ("small", 0, Way::Copy),
        ("64 MiB by copy", 64, Way::Copy),
        ("64 MiB by rename", 64, Way::Rename),
        ("1100 MiB by rename (over max_binlog_size)", 1100, Way::Rename),
    ] {
        let (place, fs) = (Place::new("slot"), CountedFs::default());
        let log = begun(way.options(&place, &fs));
        let source = log.submitter();
        let mut maker = Maker::new(&source, 1);
        let one = if size == 0 { maker.small() } else { maker.large(size * MIB) };
        fs.take();
        source.submit(one).wait_durable().expect("the log records");
        let until_durable = fs.peek().syncs();
        log.close();
        let slot = fs.take();
        let total = |Slot { sync_data, sync_dir, write, other }: Slot| {
            sync_data.total + sync_dir.total + write.total + other.total
        };
        println!(
            "| {name} | {} | {} | {until_durable} | {:.1} |",
            slot.sync_data.count,
            slot.sync_dir.count,
            millis(total(slot))
        );
    }
}
