//! docs/CONFIG.md, written from the keys themselves.

use std::fmt::Write as _;

use super::key::Row;
use super::section::Keys;
use super::{binlog, http, log, replicas, source, unavailable};

const INTRO: &str = "\
# Configuration

Written by `SPILLWAY_WRITE_DOCS=1 cargo test -p spillway config`; a test fails when this page is stale. An example that a test reads is
[deploy/spillway.toml](../deploy/spillway.toml).

The file is TOML. `spillway run` and `spillway check` take it from `-c FILE`, then from `$SPILLWAY_CONFIG`, then from
`/etc/spillway/spillway.toml`. An unknown key, a wrong type or a value out of bounds is refused with the key's name, the value and what is
allowed. Sizes are bytes, or text with KiB, MiB, GiB (also K, M, G). *Applies*: *restart* means at the next start; *reload* means also at SIGHUP. Keys marked
*not available in this release* are known and refused, so that a file written for a later release is never half obeyed.
";

/// The text of docs/CONFIG.md.
pub fn render() -> String {
    let sections: [(&str, &str, Keys); 8] = [
        ("Top of the file", "", super::KEYS),
        (
            "`[[source]]`",
            "One per upstream cluster; at least one. All are recorded into one log.",
            source::KEYS,
        ),
        ("`[relay]`", "Nothing to set in this release.", unavailable::RELAY_KEYS),
        ("`[binlog]`", "The log.", binlog::KEYS),
        ("`[replicas]`", "The port replicas and tools connect to.", replicas::KEYS),
        (
            "`[[replicas.user]]`",
            "One per account of that port. Without any, nobody is let in and a warning says so.",
            replicas::USER_KEYS,
        ),
        ("`[http]`", "Metrics, status and readiness.", http::KEYS),
        ("`[log]`", "What Spillway says about itself, on standard error.", log::KEYS),
    ];
    let mut page = INTRO.to_owned();
    for (title, about, keys) in sections {
        section(&mut page, title, about, keys);
    }
    page
}

fn section(page: &mut String, title: &str, about: &str, keys: Keys) {
    let about = if about.is_empty() { String::new() } else { format!("{about}\n\n") };
    let head = "| key | meaning | allowed | default | applies |\n|---|---|---|---|---|\n";
    let rows = keys.iter().map(|key| line(&key.row())).collect::<String>();
    // Writing to a String cannot fail.
    let _ = write!(page, "\n## {title}\n\n{about}{head}{rows}");
}

fn line(row: &Row) -> String {
    let default = row.default.map_or("—".to_owned(), |text| format!("`{text}`"));
    format!(
        "| `{}` | {} | {} | {default} | {} |\n",
        row.name, row.meaning, row.allowed, row.applies
    )
}
