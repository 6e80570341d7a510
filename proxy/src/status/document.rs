//! The status document: what /status serves and `spillway status` reads. Plain data, no I/O.

use serde::{Deserialize, Serialize};

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
    /// `stopped`, `connecting`, `streaming`, `paused_for_disk`, `diverged` or `refused`.
    pub state: String,
    /// Since when.
    pub since: String,
    /// Why, where there is a reason.
    pub reason: String,
    /// The last GTID handed to the log.
    pub last_gtid: String,
    /// The source's clock at the last event read.
    pub last_event: Option<String>,
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
    /// A write or sync failed.
    Latched,
    /// Closed.
    Closed,
}

/// The log.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Binlog {
    /// Its directory.
    pub dir: String,
    /// How it is.
    pub state: LogState,
    /// The error of a latched log.
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
    let sources = document.sources.iter().filter_map(source_attention);
    sources.chain(log_attention(&document.binlog)).collect()
}

fn source_attention(source: &Source) -> Option<String> {
    let capture = &source.capture;
    let name = &source.name;
    let told = if capture.reason.is_empty() { "no reason given" } else { &capture.reason };
    match capture.state.as_str() {
        "diverged" | "refused" => {
            Some(format!("source {name}: capture is {}: {told}", capture.state))
        }
        "paused_for_disk" => Some(format!("source {name}: capture waits for disk space: {told}")),
        // Without a reason it is the first connection, or the first try after a loss.
        "connecting" if !capture.reason.is_empty() => Some(format!(
            "source {name}: {} is not reached since {}: {told}",
            source.server, capture.since
        )),
        _ => None,
    }
}

fn log_attention(binlog: &Binlog) -> Option<String> {
    let dir = &binlog.dir;
    match binlog.state {
        LogState::Running | LogState::Closed => None,
        LogState::DiskFull => {
            Some(format!("the disk of {dir} is full: make room, recording goes on by itself"))
        }
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
            ("diverged", "0-1-7 differs", LogState::Running, 1),
            ("paused_for_disk", "", LogState::DiskFull, 2),
            ("streaming", "", LogState::Latched, 1),
        ] {
            let told = attention(&document(state, reason, log));
            assert_eq!(told.len(), expected, "{state} {log:?}: {told:?}");
            assert!(told.iter().all(|line| line.contains(reason)) || log != LogState::Running);
        }
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
