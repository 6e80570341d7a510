//! `make bench ARGS=log`: what the log costs and what others notice of a large transaction. Parts, all by default: `memory`,
//! `stall`, `levels`, `reading`. Rounds of the candidates are interleaved and medians reported: compare within one run only.
//!
//! Environment: `LOG_BENCH_ROUNDS` (3); MiB: `LOG_BENCH_STALL_FROM_MIB` (0) and `LOG_BENCH_STALL_MIB` (1024; 4096 is the largest),
//! `LOG_BENCH_READ_MIB` and `LOG_BENCH_MEMORY_MIB` (1024); `LOG_BENCH_CASE`: one case of *levels*, by its name;
//! `LOG_BENCH_DIR`: where, and the disk there decides much.

// A bench reports by panicking: what it measures would mean nothing.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod counted;
mod levels;
mod memory;
mod place;
mod reading;
mod shapes;
mod stall;

fn main() {
    type Part = (&'static str, fn());
    // Memory first: what later parts have freed would be counted.
    let parts: [Part; 4] = [
        ("memory", memory::run),
        ("stall", stall::run),
        ("levels", levels::run),
        ("reading", reading::run),
    ];
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    if let Some(odd) = wanted.iter().find(|name| !parts.iter().any(|part| part.0 == **name)) {
        let names = parts.map(|part| part.0).join(", ");
        eprintln!("log_bench: unknown part `{odd}`; there are: {names}");
        std::process::exit(2);
    }
    for (name, run) in parts {
        if wanted.is_empty() || wanted.iter().any(|part| part == name) {
            run();
        }
    }
}
