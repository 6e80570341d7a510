//! The live state behind the status document: asks the parts at each request.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

use jiff::Timestamp;
use spillway_binlog::Log;
use spillway_binlog::gtid::mariadb::print_list;
use spillway_metrics::binlog::BinlogMetrics;
use spillway_metrics::http::{Health, Part};
use spillway_metrics::relay::RelayMetrics;
use spillway_metrics::source::SourceMetrics;

use super::document::{
    self, Binlog, Capture, Document, LogState, Relay, Replica, ReplicaPort, Source,
};
use super::page;
use crate::serve::ReplicaStatus;
use crate::source::Upstream;

/// What the status is told about. Every handle is cheap to ask.
pub struct State {
    /// `server_id`.
    pub server_id: u32,
    /// When the process started.
    pub started: SystemTime,
    /// Every source, in the configuration's order.
    pub sources: Vec<SourceState>,
    /// The log's directory, for people.
    pub dir: String,
    /// Why the log could not be opened at once; only room was missing.
    pub waiting: Option<String>,
    /// What there is once the log is open.
    pub opened: OnceLock<Opened>,
    /// Counts the connections of each source's relay.
    pub relay_metrics: RelayMetrics,
    /// `replicas.listen`: where the replica port will be.
    pub listen: SocketAddr,
    /// The log's gauges.
    pub metrics: BinlogMetrics,
    /// Set once the process drains.
    pub draining: AtomicBool,
}

/// The log, and the port that serves it.
pub struct Opened {
    /// The log.
    pub log: Arc<Log>,
    /// Other logs in its directory, told because this one was empty at the start.
    pub beside: Vec<String>,
    /// The replica port.
    pub serve: SocketAddr,
    /// Answers who reads the log.
    pub replicas: Box<dyn Fn() -> Vec<ReplicaStatus> + Send + Sync>,
}

/// One source.
#[derive(Debug)]
pub struct SourceState {
    /// What is known of it.
    pub upstream: Arc<Upstream>,
    /// What is counted of it, where it is recorded.
    pub capture: Option<SourceMetrics>,
    /// The apps' port, if there is one.
    pub relay: Option<SocketAddr>,
}

impl State {
    /// The document now.
    pub fn document(&self) -> Document {
        let mut document = Document {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            server_id: self.server_id,
            started: timestamp(self.started),
            attention: Vec::new(),
            sources: self.sources.iter().map(|source| self.source(source)).collect(),
            binlog: self.binlog(),
            replicas: self.replica_port(),
        };
        document.attention = document::attention(&document);
        document
    }

    fn source(&self, SourceState { upstream, relay, capture: metrics }: &SourceState) -> Source {
        let of_listen = |listen: SocketAddr| Relay {
            listen: listen.to_string(),
            connections: self.relay_metrics.open_connections(upstream.name()),
        };
        Source {
            name: upstream.name().to_owned(),
            server: upstream.address().to_string(),
            server_version: upstream.greeting().map(|greeting| version(&greeting.version)),
            relay: relay.map(of_listen),
            capture: capture(upstream, metrics.as_ref()),
        }
    }

    fn replica_port(&self) -> ReplicaPort {
        let Some(opened) = self.opened.get() else {
            return ReplicaPort { listen: self.listen.to_string(), connected: Vec::new() };
        };
        let connected = (opened.replicas)().into_iter().map(|replica| Replica {
            server_id: replica.server_id,
            user: replica.user,
            host: if replica.host.is_empty() { replica.address.to_string() } else { replica.host },
            file: replica.file,
            position: replica.position,
            lag_bytes: replica.lag_bytes,
            state: replica.state.to_owned(),
        });
        ReplicaPort { listen: opened.serve.to_string(), connected: connected.collect() }
    }

    fn binlog(&self) -> Binlog {
        let Some(Opened { log, beside, .. }) = self.opened.get() else {
            let state = LogState::WaitingForRoom;
            let reason = self.waiting.clone().unwrap_or_default();
            return Binlog { dir: self.dir.clone(), state, reason, ..Binlog::default() };
        };
        let files = log.files();
        let health = log.health();
        let shortage = health.shortage().unwrap_or_default().to_owned();
        let (state, reason) = match health {
            spillway_binlog::Health::Running => (LogState::Running, String::new()),
            spillway_binlog::Health::DiskFull => (LogState::DiskFull, String::new()),
            spillway_binlog::Health::OutOfFiles => (LogState::OutOfFiles, shortage),
            spillway_binlog::Health::Latched(reason) => (LogState::Latched, reason.to_string()),
            spillway_binlog::Health::Closed => (LogState::Closed, String::new()),
        };
        Binlog {
            dir: self.dir.clone(),
            state,
            reason,
            files: files.len() as u64,
            size_bytes: files.iter().map(|file| file.size).sum(),
            file: files.last().map(|file| file.name.clone()).unwrap_or_default(),
            position: log.end().position,
            gtid_position: print_list(&log.gtid_state().position()),
            beside: beside.clone(),
        }
    }

    fn is_recording(&self) -> bool {
        self.sources.iter().any(|source| source.capture.is_some())
    }

    /// From now on neither part is ready.
    pub fn drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
    }
}

impl Health for State {
    fn refresh_metrics(&self) {
        for SourceState { upstream, capture, .. } in &self.sources {
            let left = upstream.capture_status().purged_in(SystemTime::now());
            capture.iter().for_each(|metrics| metrics.purge.set(left.map(|left| left.as_secs())));
        }
        let Some(Opened { log, .. }) = self.opened.get() else {
            return self.metrics.set_state(0, false, self.waiting.is_some());
        };
        let health = log.health();
        let latched = matches!(health, spillway_binlog::Health::Latched(_));
        let size = log.files().iter().map(|file| file.size).sum();
        let oldest = log.oldest_event_time();
        let oldest = oldest.and_then(|time| time.duration_since(SystemTime::UNIX_EPOCH).ok());
        self.metrics.set_oldest_event(oldest.map_or(0, |time| time.as_secs()));
        self.metrics.set_state(size, latched, health == spillway_binlog::Health::DiskFull);
    }

    fn status(&self) -> String {
        // Plain data with string keys: it always has a JSON form.
        serde_json::to_string_pretty(&self.document()).unwrap_or_default()
    }

    fn page(&self) -> String {
        page::render(&self.document())
    }

    fn ready(&self, part: Part) -> Result<(), String> {
        if self.draining.load(Ordering::Relaxed) {
            return Err("Spillway is stopping".to_owned());
        }
        match (part, self.opened.get()) {
            (Part::Relay, _) => Ok(()),
            (Part::Serve, None) => Err(format!(
                "the log is not open, waiting for room on the disk: {}",
                self.waiting.as_deref().unwrap_or_default()
            )),
            (Part::Serve, Some(Opened { log, .. }))
                if self.is_recording() && log.format().is_none() =>
            {
                Err("the log is empty: nothing has been recorded yet".to_owned())
            }
            (Part::Serve, Some(_)) => Ok(()),
        }
    }
}

fn capture(upstream: &Upstream, metrics: Option<&SourceMetrics>) -> Capture {
    let status = upstream.capture_status();
    let purged_in = status.purged_in(SystemTime::now());
    let last_event = i64::from(status.last_event_timestamp);
    Capture {
        state: status.state.as_str().to_owned(),
        since: timestamp(status.since),
        reason: status.reason,
        last_gtid: status.last_gtid,
        last_event: Timestamp::from_second(last_event)
            .ok()
            .filter(|_| last_event != 0)
            .map(|time| time.to_string()),
        bytes: metrics.map_or(0, |metrics| metrics.bytes.get()),
        transactions: metrics.map_or(0, |metrics| metrics.transactions.get()),
        reconnects: metrics.map(|metrics| metrics.reconnects.by_reason()).unwrap_or_default(),
        purge_in_seconds: purged_in.map(|left| left.as_secs()),
        semi_sync: status.semi_sync.map(|semi_sync| semi_sync.as_str().to_owned()),
    }
}

/// MariaDB 10 greets with a prefix that keeps old replicas from taking it for MySQL 1; people know it without.
fn version(greeted: &str) -> String {
    greeted.strip_prefix("5.5.5-").unwrap_or(greeted).to_owned()
}

fn timestamp(time: SystemTime) -> String {
    let time = Timestamp::try_from(time).map(|time| time.round(jiff::Unit::Second));
    time.ok().and_then(Result::ok).map(|time| time.to_string()).unwrap_or_default()
}
