//! Metrics of capture, one label set a source.

use std::collections::BTreeMap;

use prometheus::proto::MetricFamily;
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
    acknowledgements: IntCounterVec,
    reconnects: IntCounterVec,
    purge: IntGaugeVec,
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
    /// Acknowledgements sent, each for one transaction or more.
    pub acknowledgements: IntCounter,
    /// Sessions that ended, by `reason`.
    pub reconnects: Reconnects,
    /// Until the upstream purges what the log lacks.
    pub purge: Purge,
    /// When certificates end.
    pub certificates: Certificates,
}

/// `spillway_source_purge_seconds` of one source: there while it is known.
#[derive(Clone, Debug)]
pub struct Purge {
    family: IntGaugeVec,
    source: String,
}

impl Purge {
    /// Shows these seconds, or nothing.
    pub fn set(&self, seconds: Option<u64>) {
        let label = [self.source.as_str()];
        match seconds {
            Some(seconds) => {
                let seconds = i64::try_from(seconds).unwrap_or(i64::MAX);
                self.family.with_label_values(&label).set(seconds);
            }
            // It fails where there is none, which is as it should be.
            None => drop(self.family.remove_label_values(&label)),
        }
    }
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

    /// How many there were of each reason.
    pub fn by_reason(&self) -> BTreeMap<String, u64> {
        let families = self.family.collect();
        let metrics = families.iter().flat_map(MetricFamily::get_metric);
        let counted = metrics.filter_map(|metric| {
            let label = |name| metric.get_label().iter().find(|label| label.name() == name);
            if label("source")?.value() != self.source {
                return None;
            }
            // A counter of whole numbers shows them as such.
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
            let count = metric.get_counter().get_value() as u64;
            Some((label("reason")?.value().to_owned(), count))
        });
        counted.collect()
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
            acknowledgements: IntCounterVec::new(
                Opts::new(
                    "spillway_source_acknowledgements_total",
                    "Semi-synchronous acknowledgements sent to the source, each for one transaction or more.",
                ),
                &source,
            )?,
            reconnects: IntCounterVec::new(
                Opts::new(
                    "spillway_source_reconnects_total",
                    "Capture sessions that ended, by what ended them.",
                ),
                &["source", "reason"],
            )?,
            purge: IntGaugeVec::new(
                Opts::new(
                    "spillway_source_purge_seconds",
                    "Until the source, by its retention time, removes the next events the log lacks, or would lack if it read nothing more; 0 from then on. Absent where it is not known.",
                ),
                &source,
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
        let all: [Box<dyn Collector>; 9] = [
            Box::new(self.up.clone()),
            Box::new(self.last_event_timestamp.clone()),
            Box::new(self.transactions.clone()),
            Box::new(self.skipped.clone()),
            Box::new(self.bytes.clone()),
            Box::new(self.acknowledgements.clone()),
            Box::new(self.reconnects.clone()),
            Box::new(self.purge.clone()),
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
            acknowledgements: self.acknowledgements.with_label_values(&label),
            purge: Purge { family: self.purge.clone(), source: source.to_owned() },
            reconnects: Reconnects { family: self.reconnects.clone(), source: source.to_owned() },
            certificates: Certificates {
                family: self.certificates.clone(),
                source: source.to_owned(),
            },
        }
    }
}
