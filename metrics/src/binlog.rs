//! Metrics of the log: commits, syncs, size, latch.

use std::time::Duration;

use prometheus::{Histogram, HistogramOpts, IntCounter, IntGauge};

use crate::Registry;

/// Seconds a sync may take: from a flush of a fast disk (0.1 ms) to one that stalls everybody (10 s); about 2.5 times from one to
/// the next, so that a quantile is off by no more than that.
const SYNC_SECONDS: [f64; 14] =
    [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 2.5, 10.0];

/// Handles of the log's metrics.
#[derive(Clone, Debug)]
pub struct BinlogMetrics {
    commits: IntCounter,
    written_bytes: IntCounter,
    files_created: IntCounter,
    rename_commits: IntCounter,
    rename_bytes: IntCounter,
    sync_seconds: Histogram,
    size_bytes: IntGauge,
    latched: IntGauge,
    disk_full: IntGauge,
}

impl BinlogMetrics {
    /// Makes and registers the families.
    ///
    /// # Errors
    /// A family of the same name is registered already.
    pub fn register(registry: &Registry) -> prometheus::Result<Self> {
        let sync = HistogramOpts::new(
            "spillway_binlog_sync_seconds",
            "Time of a sync that made a group of transactions durable.",
        );
        let metrics = Self {
            commits: IntCounter::new("spillway_binlog_commits_total", "Transactions recorded.")?,
            written_bytes: IntCounter::new(
                "spillway_binlog_written_bytes_total",
                "Bytes of transactions recorded.",
            )?,
            files_created: IntCounter::new(
                "spillway_binlog_files_created_total",
                "Files of the log created.",
            )?,
            rename_commits: IntCounter::new(
                "spillway_binlog_rename_commits_total",
                "Large transactions recorded by renaming their cache file.",
            )?,
            rename_bytes: IntCounter::new(
                "spillway_binlog_rename_bytes_total",
                "Bytes of the transactions recorded by a rename.",
            )?,
            sync_seconds: Histogram::with_opts(sync.buckets(SYNC_SECONDS.to_vec()))?,
            size_bytes: IntGauge::new(
                "spillway_binlog_size_bytes",
                "Size of all files of the log.",
            )?,
            latched: IntGauge::new(
                "spillway_binlog_latched",
                "1 after a write or sync failed: nothing is recorded until Spillway is started again.",
            )?,
            disk_full: IntGauge::new(
                "spillway_binlog_disk_full",
                "1 while the disk is full: recording goes on by itself once there is room.",
            )?,
        };
        registry.register(Box::new(metrics.commits.clone()))?;
        registry.register(Box::new(metrics.written_bytes.clone()))?;
        registry.register(Box::new(metrics.files_created.clone()))?;
        registry.register(Box::new(metrics.rename_commits.clone()))?;
        registry.register(Box::new(metrics.rename_bytes.clone()))?;
        registry.register(Box::new(metrics.sync_seconds.clone()))?;
        registry.register(Box::new(metrics.size_bytes.clone()))?;
        registry.register(Box::new(metrics.latched.clone()))?;
        registry.register(Box::new(metrics.disk_full.clone()))?;
        Ok(metrics)
    }

    /// Transactions were appended, of `bytes` in all.
    pub fn committed(&self, transactions: u64, bytes: u64) {
        self.commits.inc_by(transactions);
        self.written_bytes.inc_by(bytes);
    }

    /// A sync of a group took this long.
    pub fn synced(&self, took: Duration) {
        self.sync_seconds.observe(took.as_secs_f64());
    }

    /// A file was created.
    pub fn file_created(&self) {
        self.files_created.inc();
    }

    /// A transaction of `bytes` became a file of its own.
    pub fn renamed(&self, bytes: u64) {
        self.committed(1, bytes);
        self.rename_commits.inc();
        self.rename_bytes.inc_by(bytes);
    }

    /// How the log is now.
    pub fn set_state(&self, size_bytes: u64, latched: bool, disk_full: bool) {
        self.size_bytes.set(i64::try_from(size_bytes).unwrap_or(i64::MAX));
        self.latched.set(latched.into());
        self.disk_full.set(disk_full.into());
    }
}
