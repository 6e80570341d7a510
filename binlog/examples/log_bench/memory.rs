//! *memory*: anonymous memory of the process while a large transaction is taken and readers read. Mapped files do not count: the
//! kernel can drop those.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::place::{MIB, Place, begun, fill, setting};
use crate::reading::read_all;
use crate::shapes::Maker;

const READERS: u64 = 16;

pub fn run() {
    let size = setting("LOG_BENCH_MEMORY_MIB", 1024);
    println!(
        "\n### memory: anonymous, MiB, while a transaction of {size} MiB is taken and {READERS} readers read\n"
    );
    println!("| reading through | at rest | most |\n|---|---|---|");
    for (name, mmap) in [("memory maps", true), ("buffers", false)] {
        let place = Place::new("memory");
        let mut options = place.options();
        options.mmap = mmap;
        let log = begun(options);
        let source = log.submitter();
        fill(&source, 0, 256 * MIB);
        let rest = anonymous();
        let stop = Arc::new(AtomicBool::new(false));
        let readers: Vec<_> = (0..READERS)
            .map(|_| {
                let (log, stop) = (Arc::clone(&log), Arc::clone(&stop));
                std::thread::spawn(move || {
                    while !stop.load(Ordering::Relaxed) {
                        read_all(&log);
                    }
                })
            })
            .collect();
        let most = {
            let stop = Arc::clone(&stop);
            std::thread::spawn(move || {
                let mut most = 0;
                while !stop.load(Ordering::Relaxed) {
                    most = most.max(anonymous());
                    std::thread::sleep(Duration::from_millis(2));
                }
                most
            })
        };
        let large = Maker::new(&source, 1).large(size * MIB);
        source.submit(large).wait_durable().expect("the log records");
        stop.store(true, Ordering::Relaxed);
        readers.into_iter().for_each(|reader| reader.join().expect("it reads"));
        println!("| {name} | {rest} | {} |", most.join().expect("it looks"));
    }
}

/// MiB.
fn anonymous() -> u64 {
    let text = std::fs::read_to_string("/proc/self/smaps_rollup").expect("Linux tells it");
    let line = text.lines().find_map(|line| line.strip_prefix("Anonymous:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kib.expect("a number of kB") / 1024
}
