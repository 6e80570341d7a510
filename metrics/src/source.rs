//! Metrics of capture, one label set a source.

use prometheus::{IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, core::Collector};

use crate::Registry;

/// The families of all sources.
#[derive(Clone, Debug)]
pub struct SourceFamilies {
    up: IntGaugeVec,
    last_event_timestamp: IntGaugeVec,
    transactions: IntCounterVec,
    skipped: IntCounterVec,
    bytes: IntCounterVec,
    reconnects: IntCounterVec,
    certificates: IntGaugeVec,
}

/// Handles of one source.
#[derive(Clone, Debug)]
pub struct SourceMetrics {
    /// 1 while events arrive.
    pub up: IntGauge,
    /// Time of the last event, by the source's clock.
    pub last_event_timestamp: IntGauge,
    /// Transactions handed to the log.
    pub transactions: IntCounter,
    /// Transactions of domains that are not recorded from this source.
    pub skipped: IntCounter,
    /// Bytes of events read.
    pub bytes: IntCounter,
    /// Sessions that ended, by `reason`.
    pub reconnects: Reconnects,
    /// When certificates end.
    pub certificates: Certificates,
}

/// `spillway_certificate_not_after_timestamp_seconds` of one source.
#[derive(Clone, Debug)]
pub struct Certificates {
    family: IntGaugeVec,
    source: String,
}

impl Certificates {
    /// The upstream's certificate as capture last saw it ends at this Unix time.
    pub fn upstream_ends(&self, seconds: i64) {
        self.family.with_label_values(&[self.source.as_str(), "upstream"]).set(seconds);
    }

    /// The certificate in `ssl_cert` as capture last showed it ends at this Unix time.
    pub fn own_ends(&self, seconds: i64) {
        self.family.with_label_values(&[self.source.as_str(), "ssl_cert"]).set(seconds);
    }
}

/// `spillway_source_reconnects_total` of one source.
#[derive(Clone, Debug)]
pub struct Reconnects {
    family: IntCounterVec,
    source: String,
}

impl Reconnects {
    /// The counter of a reason, one of capture's few.
    pub fn with_label_values(&self, reason: &[&str; 1]) -> IntCounter {
        self.family.with_label_values(&[self.source.as_str(), reason[0]])
    }
}

impl SourceFamilies {
    /// Makes and registers the families.
    ///
    /// # Errors
    /// Where a family of the same name is registered already.
    pub fn register(registry: &Registry) -> prometheus::Result<Self> {
        let source = ["source"];
        let families = Self {
            up: IntGaugeVec::new(
                Opts::new("spillway_source_up", "1 while events of the source arrive."),
                &source,
            )?,
            last_event_timestamp: IntGaugeVec::new(
                Opts::new(
                    "spillway_source_last_event_timestamp_seconds",
                    "Time of the last event read, Unix seconds by the source's clock.",
                ),
                &source,
            )?,
            transactions: IntCounterVec::new(
                Opts::new("spillway_source_transactions_total", "Transactions handed to the log."),
                &source,
            )?,
            skipped: IntCounterVec::new(
                Opts::new(
                    "spillway_source_skipped_transactions_total",
                    "Transactions read and not recorded: of domains that the source's gtid_domains does not name.",
                ),
                &source,
            )?,
            bytes: IntCounterVec::new(
                Opts::new("spillway_source_bytes_total", "Bytes of events read from the source."),
                &source,
            )?,
            reconnects: IntCounterVec::new(
                Opts::new(
                    "spillway_source_reconnects_total",
                    "Capture sessions that ended, by what ended them.",
                ),
                &["source", "reason"],
            )?,
            certificates: IntGaugeVec::new(
                Opts::new(
                    "spillway_certificate_not_after_timestamp_seconds",
                    "When a certificate ends, Unix seconds: the upstream's, and the one in ssl_cert, as of capture's last encrypted connection.",
                ),
                &["source", "certificate"],
            )?,
        };
        families.register_all(registry)?;
        Ok(families)
    }

    fn register_all(&self, registry: &Registry) -> prometheus::Result<()> {
        let all: [Box<dyn Collector>; 7] = [
            Box::new(self.up.clone()),
            Box::new(self.last_event_timestamp.clone()),
            Box::new(self.transactions.clone()),
            Box::new(self.skipped.clone()),
            Box::new(self.bytes.clone()),
            Box::new(self.reconnects.clone()),
            Box::new(self.certificates.clone()),
        ];
        all.into_iter().try_for_each(|family| registry.register(family))
    }

    /// The handles of a source.
    pub fn of(&self, source: &str) -> SourceMetrics {
        let label = [source];
        SourceMetrics {
            up: self.up.with_label_values(&label),
            last_event_timestamp: self.last_event_timestamp.with_label_values(&label),
            transactions: self.transactions.with_label_values(&label),
            skipped: self.skipped.with_label_values(&label),
            bytes: self.bytes.with_label_values(&label),
            reconnects: Reconnects { family: self.reconnects.clone(), source: source.to_owned() },
            certificates: Certificates {
                family: self.certificates.clone(),
                source: source.to_owned(),
            },
        }
    }
}
