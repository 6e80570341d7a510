//! From the configuration to the options of the parts: one function a part.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use spillway_binlog::event::ChecksumAlgorithm;
use spillway_binlog::gtid::Domains;
use spillway_binlog::{CommitObserver, LogOptions, Retention};
use spillway_metrics::binlog::BinlogMetrics;

use crate::capture::{CaptureOptions, Credentials, HEARTBEAT_PERIOD};
use crate::config::{Capture, Checksum, Config, Source};
use crate::relay::RelayOptions;
use crate::serve::ServeOptions;

/// The log's.
pub(crate) fn log_options(config: &Config, metrics: BinlogMetrics) -> LogOptions {
    LogOptions {
        basename: config.binlog.log_bin.clone(),
        max_binlog_size: config.binlog.max_binlog_size,
        checksum: checksum(config),
        commit_level: config.binlog.flush_log_at_trx_commit,
        row_event_max_size: bounded(config.binlog.binlog_row_event_max_size),
        cache_size: bounded(config.binlog.binlog_cache_size),
        max_cache_size: config.binlog.max_binlog_cache_size,
        large_commit_threshold: config.binlog.binlog_large_commit_threshold,
        mmap: config.binlog.binlog_mmap,
        retention: retention(config),
        observer: Arc::new(Observer(metrics)),
        ..LogOptions::new(&config.binlog.dir, config.server_id)
    }
}

/// What the log keeps.
pub(crate) fn retention(config: &Config) -> Retention {
    Retention {
        expire_after: config.binlog.binlog_expire_logs_seconds,
        max_total_size: config.binlog.max_binlog_total_size,
    }
}

/// The replica port's.
pub(crate) fn serve_options(config: &Config) -> ServeOptions {
    ServeOptions {
        listen: config.replicas.listen,
        server_id: config.server_id,
        accounts: config.replicas.users.clone(),
    }
}

/// A source's relay's.
pub(crate) fn relay_options(source: &Source, listen: SocketAddr) -> RelayOptions {
    let max_connections = usize::try_from(source.max_connections);
    RelayOptions {
        max_connections: max_connections.unwrap_or(usize::MAX),
        ..RelayOptions::new(listen)
    }
}

/// A source's capture's.
pub(crate) fn capture_options(config: &Config, capture: &Capture) -> CaptureOptions {
    let password = capture.password.clone();
    let read = move || match password.read() {
        Ok(secret) => Ok(secret.expose().to_owned()),
        Err(error) => Err(error.to_string()),
    };
    CaptureOptions {
        server_id: config.server_id,
        credentials: Credentials { user: capture.user.clone(), password: Box::new(read) },
        start: capture.start.clone(),
        domains: capture.gtid_domains.clone().map_or_else(Domains::all, Domains::only),
        semi_sync: capture.semi_sync,
        heartbeat_period: HEARTBEAT_PERIOD,
    }
}

/// A size that its key bounds to 1 GiB, which fits everywhere.
fn bounded(size: u64) -> usize {
    usize::try_from(size).unwrap_or(usize::MAX)
}

fn checksum(config: &Config) -> ChecksumAlgorithm {
    match config.binlog.binlog_checksum {
        Checksum::Crc32 => ChecksumAlgorithm::Crc32,
        Checksum::None => ChecksumAlgorithm::None,
    }
}

/// The commit thread's news, as metrics.
struct Observer(BinlogMetrics);

impl CommitObserver for Observer {
    fn committed(&self, transactions: u64, bytes: u64) {
        self.0.committed(transactions, bytes);
    }

    fn synced(&self, took: Duration) {
        self.0.synced(took);
    }

    fn file_opened(&self) {
        self.0.file_created();
    }

    fn renamed(&self, bytes: u64) {
        self.0.renamed(bytes);
    }

    fn purged(&self, reason: &'static str, files: u64) {
        self.0.purged(reason, files);
    }

    fn purge_refused(&self, reason: &'static str) {
        self.0.purge_refused(reason);
    }
}
