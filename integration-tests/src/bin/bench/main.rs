//! `make bench`: what the relay costs against HAProxy, and how fast capture records against `mariadb-binlog --raw`.
//!
//! Rounds of the candidates are interleaved, so that a slow minute of the machine hits all of them; medians are reported.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod capture;
mod relay;
mod report;

use report::Row;

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    let known = ["relay", "capture"];
    if let Some(odd) = wanted.iter().find(|name| !known.contains(&name.as_str())) {
        eprintln!("bench: unknown part `{odd}`; there are: {}", known.join(", "));
        std::process::exit(2);
    }
    let runs = |name: &str| wanted.is_empty() || wanted.iter().any(|part| part == name);
    let mut rows: Vec<Row> = Vec::new();
    if runs("relay") {
        rows.extend(relay::measure());
    }
    if runs("capture") {
        rows.extend(capture::measure());
    }
    report::print(&rows);
}

/// A number from the environment, for longer or shorter runs.
fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().map_or(default, |text| {
        text.parse().unwrap_or_else(|_| panic!("{name} must be a number, it is `{text}`"))
    })
}
