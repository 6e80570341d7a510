//! `spillway status`: asks a running Spillway and prints a summary.

use std::fmt::Write as _;

use spillway_metrics::http::fetch;

use super::document::{Document, Source};
use crate::exit::{Failure, Outcome};

/// Prints the status of the Spillway at `url`.
///
/// # Errors
/// It does not answer, or not with a status document.
pub fn show(url: &str, json: bool) -> Result<Outcome, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Failure::fault)?;
    let body = runtime.block_on(fetch(url, "/status")).map_err(Failure::fault)?;
    let document: Document = serde_json::from_slice(&body)
        .map_err(|error| Failure::fault(format!("{url}/status is no status document: {error}")))?;
    if json {
        println!("{}", String::from_utf8_lossy(&body));
    } else {
        print!("{}", summary(&document));
    }
    Ok(if document.attention.is_empty() { Outcome::Fine } else { Outcome::Fault })
}

/// A few lines a person reads at a glance.
fn summary(document: &Document) -> String {
    let mut text = format!(
        "spillway {}  server_id {}  running since {}\n",
        document.version, document.server_id, document.started
    );
    text.extend(document.sources.iter().map(source));
    let log = &document.binlog;
    // Writing to a String cannot fail, here and below.
    let _ = writeln!(
        text,
        "log      {}: {} files, {} bytes, end {} {}, GTID {}",
        log.dir,
        log.files,
        log.size_bytes,
        log.file,
        log.position,
        or_none(&log.gtid_position)
    );
    let port = &document.replicas;
    let _ = writeln!(text, "replicas {}: {} connected", port.listen, port.connected.len());
    for replica in &port.connected {
        let _ = writeln!(
            text,
            "         server_id {} from {}: at {} {}, {} bytes behind",
            replica.server_id, replica.host, replica.file, replica.position, replica.lag_bytes
        );
    }
    for sentence in &document.attention {
        let _ = writeln!(text, "NEEDS A PERSON: {sentence}");
    }
    text
}

fn source(source: &Source) -> String {
    let capture = &source.capture;
    let version = source.server_version.as_deref().unwrap_or("not seen yet");
    let relay = source.relay.as_ref().map_or("no relay".to_owned(), |relay| {
        format!("relay {} with {} connected", relay.listen, relay.connections)
    });
    format!(
        "source   {}: {} ({version}), {relay}\ncapture  {} since {}, last GTID {}\n         {} transactions, {} bytes received{}\n",
        source.name,
        source.server,
        capture.state,
        capture.since,
        or_none(&capture.last_gtid),
        capture.transactions,
        capture.bytes,
        capture.purge_in_seconds.map(purged).unwrap_or_default(),
    )
}

fn purged(seconds: u64) -> String {
    format!(", purged at the upstream in {seconds} s if not read")
}

fn or_none(text: &str) -> &str {
    if text.is_empty() { "none" } else { text }
}
