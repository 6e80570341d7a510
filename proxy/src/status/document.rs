//! The status document: what /status serves and `spillway status` reads. Plain data, no I/O.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::source::SemiSync;

/// The whole document.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Document {
    /// Spillway's release.
    pub version: String,
    /// `server_id`.
    pub server_id: u32,
    /// When the process started.
    pub started: String,
    /// What needs a person, one sentence each; empty while all is well.
    pub attention: Vec<String>,
    /// The upstreams.
    pub sources: Vec<Source>,
    /// The log.
    pub binlog: Binlog,
    /// The replica port.
    pub replicas: ReplicaPort,
}

/// One `[[source]]`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Source {
    /// Its name.
    pub name: String,
    /// The upstream server.
    pub server: String,
    /// The version it greeted with last, if it has been reached.
    pub server_version: Option<String>,
    /// The apps' port, if there is one.
    pub relay: Option<Relay>,
    /// How recording goes.
    pub capture: Capture,
}

/// The apps' port.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Relay {
    /// Its address.
    pub listen: String,
    /// Apps connected.
    pub connections: u64,
}

/// How recording of a source goes.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Capture {
    /// `stopped`, `connecting`, `streaming`, `paused_for_disk`, `diverged`, `refused` or `duplicate_server_id`.
    pub state: String,
    /// Since when.
    pub since: String,
    /// Why, where there is a reason.
    pub reason: String,
    /// The last GTID handed to the log; before the first, the GTID position that the log, or a new timeline, was begun at.
    pub last_gtid: String,
    /// The source's clock at the last event read.
    pub last_event: Option<String>,
    /// Bytes of events read since the start.
    #[serde(default)]
    pub bytes: u64,
    /// Transactions handed to the log since the start.
    #[serde(default)]
    pub transactions: u64,
    /// Sessions that ended since the start, by what ended them.
    #[serde(default)]
    pub reconnects: BTreeMap<String, u64>,
    /// Until the upstream, by its retention time, removes the next events the log lacks, or would lack if it read nothing more; left
    /// out where it is not known.
    pub purge_in_seconds: Option<u64>,
    /// With `semi_sync` set: `active`, `off_at_upstream` or `unsupported`.
    pub semi_sync: Option<String>,
}

/// How the log is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogState {
    /// Transactions are recorded.
    #[default]
    Running,
    /// The disk is full.
    DiskFull,
    /// Too many files are open for the log to open one more.
    OutOfFiles,
    /// A write or sync failed.
    Latched,
    /// Closed.
    Closed,
    /// It is not open yet: recovery needs room on the disk. Apps are served, replicas are not.
    WaitingForRoom,
}

/// The log.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Binlog {
    /// Its directory.
    pub dir: String,
    /// How it is.
    pub state: LogState,
    /// The error of a latched log, or of one that is not open; what one waits for that has too few files.
    pub reason: String,
    /// How many files.
    pub files: u64,
    /// Their size in all.
    pub size_bytes: u64,
    /// The newest file; empty before the first.
    pub file: String,
    /// The end in that file.
    pub position: u64,
    /// The GTID position at the end.
    pub gtid_position: String,
    /// Other logs in the directory, a sentence each, where this one was empty when Spillway started.
    #[serde(default)]
    pub beside: Vec<String>,
}

/// The replica port.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ReplicaPort {
    /// Its address.
    pub listen: String,
    /// Who reads the log now.
    pub connected: Vec<Replica>,
}

/// A reader of the log.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Replica {
    /// Its server id; 0 for tools.
    pub server_id: u32,
    /// The account it uses.
    pub user: String,
    /// What it calls itself, or its address.
    pub host: String,
    /// What its dump is doing, in MariaDB's words.
    pub state: String,
    /// The file it is at.
    pub file: String,
    /// The position in that file.
    pub position: u64,
    /// Bytes of the log behind the end.
    pub lag_bytes: u64,
}

/// What in a document needs a person.
pub fn attention(document: &Document) -> Vec<String> {
    let sources = document.sources.iter().flat_map(|source| {
        [source_attention(source), purge_attention(source), semi_sync_attention(source)]
    });
    let sources = sources.flatten();
    let beside = document.binlog.beside.iter().cloned();
    sources.chain(log_attention(&document.binlog)).chain(beside).collect()
}

fn source_attention(source: &Source) -> Option<String> {
    let capture = &source.capture;
    let name = &source.name;
    let told = if capture.reason.is_empty() { "no reason given" } else { &capture.reason };
    match capture.state.as_str() {
        "diverged" | "refused" | "duplicate_server_id" => {
            Some(format!("source {name}: capture is {}: {told}", capture.state))
        }
        "paused_for_disk" => Some(format!("source {name}: capture waits: {told}")),
        // Without a reason it is the first connection, or the first try after a loss.
        "connecting" if !capture.reason.is_empty() => Some(format!(
            "source {name}: {} is not reached since {}: {told}",
            source.server, capture.since
        )),
        _ => None,
    }
}

/// Nobody needs to know while it is read: what comes next is read long before.
fn purge_attention(source: &Source) -> Option<String> {
    const DAY: u64 = 86_400;
    let capture = &source.capture;
    let left = capture.purge_in_seconds.filter(|left| *left < DAY)?;
    let held_up = !capture.reason.is_empty() && capture.state != "stopped";
    held_up.then(|| {
        let name = &source.name;
        format!("source {name}: the upstream may purge what the log lacks in {left} s: it must be read before")
    })
}

fn semi_sync_attention(source: &Source) -> Option<String> {
    let semi_sync = [SemiSync::OffAtUpstream, SemiSync::Unsupported];
    let told = source.capture.semi_sync.as_deref()?;
    let found = semi_sync.into_iter().find(|semi_sync| semi_sync.as_str() == told)?;
    found.shortcoming().map(|sentence| format!("source {}: {sentence}", source.name))
}

fn log_attention(binlog: &Binlog) -> Option<String> {
    let dir = &binlog.dir;
    match binlog.state {
        LogState::Running | LogState::Closed => None,
        LogState::DiskFull => {
            Some(format!("the disk of {dir} is full: make room, recording goes on by itself"))
        }
        LogState::OutOfFiles => Some(format!("the log in {dir} waits: {}", binlog.reason)),
        LogState::WaitingForRoom => Some(format!(
            "the log in {dir} is not open, waiting for room on the disk: make some, recording begins by itself ({})",
            binlog.reason
        )),
        LogState::Latched => Some(format!(
            "a write to {dir} failed, nothing is recorded until Spillway is started again: {}",
            binlog.reason
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(state: &str, reason: &str, log: LogState) -> Document {
        let capture = Capture { state: state.into(), reason: reason.into(), ..Capture::default() };
        let source = Source { name: "main".into(), capture, ..Source::default() };
        let binlog = Binlog { state: log, reason: "EIO".into(), ..Binlog::default() };
        Document { sources: vec![source], binlog, ..Document::default() }
    }

    #[test]
    fn only_what_a_person_must_see_asks_for_attention() {
        for (state, reason, log, expected) in [
            ("streaming", "", LogState::Running, 0),
            ("stopped", "", LogState::Running, 0),
            ("connecting", "", LogState::Running, 0),
            ("connecting", "connection refused", LogState::Running, 1),
            ("refused", "log_bin is off", LogState::Running, 1),
            ("duplicate_server_id", "another has it", LogState::Running, 1),
            ("diverged", "0-1-7 differs", LogState::Running, 1),
            ("paused_for_disk", "", LogState::DiskFull, 2),
            ("streaming", "", LogState::Latched, 1),
            ("stopped", "", LogState::WaitingForRoom, 1),
        ] {
            let told = attention(&document(state, reason, log));
            assert_eq!(told.len(), expected, "{state} {log:?}: {told:?}");
            assert!(told.iter().all(|line| line.contains(reason)) || log != LogState::Running);
        }
    }

    #[test]
    fn what_is_about_to_be_purged_matters_while_it_is_not_read() {
        for (state, reason, left, expected) in [
            ("connecting", "connection refused", Some(3600), true),
            ("connecting", "connection refused", Some(100_000), false),
            ("connecting", "connection refused", None, false),
            ("connecting", "", Some(3600), false),
            ("streaming", "", Some(3600), false),
        ] {
            let mut document = document(state, reason, LogState::Running);
            document.sources[0].capture.purge_in_seconds = left;
            let told = attention(&document);
            assert_eq!(told.iter().any(|line| line.contains("3600 s")), expected, "{told:?}");
        }
    }

    #[test]
    fn commits_that_do_not_wait_although_they_should_ask_for_attention() {
        for (semi_sync, expected) in [("active", 0), ("off_at_upstream", 1), ("unsupported", 1)] {
            let mut document = document("streaming", "", LogState::Running);
            document.sources[0].capture.semi_sync = Some(semi_sync.into());
            assert_eq!(attention(&document).len(), expected, "{semi_sync}");
        }
    }

    #[test]
    fn a_log_that_may_have_been_forgotten_asks_for_attention() {
        let mut document = document("streaming", "", LogState::Running);
        document.binlog.beside.push("another log, old, lies in /var".into());
        assert_eq!(attention(&document), document.binlog.beside);
    }

    #[test]
    fn the_document_reads_back() {
        let before = document("refused", "log_bin is off", LogState::Latched);
        let text = serde_json::to_string(&before).unwrap();
        assert!(text.contains("\"state\":\"latched\""), "{text}");
        let after: Document = serde_json::from_str(&text).unwrap();
        assert_eq!(attention(&after), attention(&before));
    }
}
