//! Metrics of the relay: connections, commands and their times.
//!
//! What is counted for every packet is counted in shards: one for each worker thread, written by it alone without a locked
//! instruction, added up when somebody looks. Everything else is an ordinary counter.

use std::cell::Cell;
use std::collections::HashMap;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use prometheus::core::{Collector, Desc};
use prometheus::proto::{self, LabelPair, MetricFamily, MetricType};
use prometheus::{IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Result};

use crate::Registry;

/// Upper bounds of `relay_command_seconds`. From what a read from memory takes over a local network, through the few
/// milliseconds of a commit that is synced to disk, to what users call slow; about 2.5 times from one to the next, so that a
/// quantile is off by no more than that.
const COMMAND_SECONDS_BOUNDS: [f64; 15] = [
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5,
    10.0,
];

/// The same in nanoseconds, as times are measured.
const COMMAND_NANOS_BOUNDS: [u64; 15] = [
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    25_000_000,
    50_000_000,
    100_000_000,
    250_000_000,
    500_000_000,
    1_000_000_000,
    2_500_000_000,
    10_000_000_000,
];

/// Why a client was not let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// `max_connections` was reached.
    TooManyConnections,
    /// No connection to the upstream.
    UpstreamUnreachable,
    /// The upstream answered with an error where its greeting is due, or with no greeting at all.
    UpstreamGreeting,
    /// The client's packets were no login.
    BadLogin,
    /// The login took too long.
    LoginTimeout,
    /// The upstream refused the login.
    AccessDenied,
    /// Somebody hung up during the login.
    LoginCut,
    /// Spillway is being stopped.
    Shutdown,
}

/// Why a connection ended that had been let in, other than by the client's own goodbye.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Abort {
    /// The client hung up without a goodbye.
    ClientLost,
    /// The upstream hung up.
    UpstreamLost,
    /// Spillway is being stopped.
    Shutdown,
    /// A fault in Spillway.
    Internal,
}

impl Refusal {
    fn label(self) -> &'static str {
        match self {
            Self::TooManyConnections => "too_many_connections",
            Self::UpstreamUnreachable => "upstream_unreachable",
            Self::UpstreamGreeting => "upstream_greeting",
            Self::BadLogin => "bad_login",
            Self::LoginTimeout => "login_timeout",
            Self::AccessDenied => "access_denied",
            Self::LoginCut => "login_cut",
            Self::Shutdown => "shutdown",
        }
    }
}

impl Abort {
    fn label(self) -> &'static str {
        match self {
            Self::ClientLost => "client_lost",
            Self::UpstreamLost => "upstream_lost",
            Self::Shutdown => "shutdown",
            Self::Internal => "internal",
        }
    }
}

/// Which way bytes went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From clients.
    ToUpstream,
    /// To clients.
    ToClient,
}

/// The families of the relay. Cheap to clone.
#[derive(Clone, Debug)]
pub struct RelayMetrics {
    connections: IntGaugeVec,
    connections_total: IntCounterVec,
    refused: IntCounterVec,
    aborted: IntCounterVec,
    unfollowed: IntCounterVec,
    shards: ShardCollector,
}

impl RelayMetrics {
    /// Makes the families and registers them.
    ///
    /// # Errors
    /// When they are registered already.
    pub fn register(registry: &Registry) -> Result<Self> {
        let counter = |name: &str, help: &str, labels: &[&str]| {
            let family = IntCounterVec::new(Opts::new(name, help), labels)?;
            registry.register(Box::new(family.clone())).map(|()| family)
        };
        let connections = IntGaugeVec::new(
            Opts::new("spillway_relay_connections", "Client connections that are open now."),
            &["source"],
        )?;
        registry.register(Box::new(connections.clone()))?;
        let shards = ShardCollector::new()?;
        registry.register(Box::new(shards.clone()))?;
        Ok(Self {
            connections,
            connections_total: counter(
                "spillway_relay_connections_total",
                "Client connections accepted.",
                &["source"],
            )?,
            refused: counter(
                "spillway_relay_refused_connections_total",
                "Client connections that were not let in, by reason.",
                &["source", "reason"],
            )?,
            aborted: counter(
                "spillway_relay_aborted_connections_total",
                "Client connections that ended without the client's goodbye, by reason.",
                &["source", "reason"],
            )?,
            unfollowed: counter(
                "spillway_relay_unfollowed_connections_total",
                "Client connections whose commands are no longer followed, as something in them is not known.",
                &["source"],
            )?,
            shards,
        })
    }

    /// Client connections of a source that are open now.
    pub fn open_connections(&self, source: &str) -> u64 {
        u64::try_from(self.connections.with_label_values(&[source]).get()).unwrap_or_default()
    }

    /// The metrics of one source. `commands` are the label values of commands; [`Shard`] takes their indexes.
    pub fn source(&self, name: &str, commands: &'static [&'static str]) -> RelaySourceMetrics {
        let shards =
            Arc::new(SourceShards { source: name.to_owned(), commands, shards: Mutex::default() });
        lock(&self.shards.sources).push(Arc::clone(&shards));
        RelaySourceMetrics {
            name: name.to_owned(),
            connections: self.connections.with_label_values(&[name]),
            connections_total: self.connections_total.with_label_values(&[name]),
            unfollowed: self.unfollowed.with_label_values(&[name]),
            refused: self.refused.clone(),
            aborted: self.aborted.clone(),
            shards,
        }
    }
}

/// The metrics of one source. Cheap to clone.
#[derive(Clone, Debug)]
pub struct RelaySourceMetrics {
    name: String,
    connections: IntGauge,
    connections_total: IntCounter,
    refused: IntCounterVec,
    aborted: IntCounterVec,
    unfollowed: IntCounter,
    shards: Arc<SourceShards>,
}

impl RelaySourceMetrics {
    /// A client connected; the connection is open while the answer lives.
    pub fn connection(&self) -> OpenConnection {
        self.connections.inc();
        self.connections_total.inc();
        OpenConnection(self.connections.clone())
    }

    /// A client was not let in.
    pub fn refused(&self, reason: Refusal) {
        self.refused.with_label_values(&[self.name.as_str(), reason.label()]).inc();
    }

    /// A connection ended without the client's goodbye.
    pub fn aborted(&self, reason: Abort) {
        self.aborted.with_label_values(&[self.name.as_str(), reason.label()]).inc();
    }

    /// A connection's commands are no longer followed.
    pub fn unfollowed(&self) {
        self.unfollowed.inc();
    }

    /// A new shard, for one worker thread.
    pub fn shard(&self) -> Shard {
        let cells = Arc::new(Cells::new(self.shards.commands.len()));
        lock(&self.shards.shards).push(Arc::clone(&cells));
        Shard { cells, single_writer: PhantomData }
    }
}

/// A connection in the gauge of open ones.
#[derive(Debug)]
pub struct OpenConnection(IntGauge);

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// What one worker thread counts. Can be moved to that thread, but not be shared: only one writes.
#[derive(Debug)]
pub struct Shard {
    cells: Arc<Cells>,
    single_writer: PhantomData<Cell<()>>,
}

impl Shard {
    /// Bytes were passed.
    pub fn add_bytes(&self, direction: Direction, count: usize) {
        let cell = match direction {
            Direction::ToUpstream => &self.cells.to_upstream,
            Direction::ToClient => &self.cells.to_client,
        };
        add(cell, count as u64);
    }

    /// A command arrived, by its index among the label values.
    pub fn command(&self, index: usize) {
        if let Some(cells) = self.cells.commands.get(index) {
            add(&cells.count, 1);
        }
    }

    /// A command was answered.
    pub fn answered(&self, index: usize, after: Duration) {
        let Some(cells) = self.cells.commands.get(index) else { return };
        let nanos = u64::try_from(after.as_nanos()).unwrap_or(u64::MAX);
        let bucket = COMMAND_NANOS_BOUNDS.partition_point(|bound| *bound < nanos);
        if let Some(bucket) = cells.buckets.get(bucket) {
            add(bucket, 1);
        }
        add(&cells.nanos, nanos);
    }
}

/// The one writer of a cell needs no locked addition.
fn add(cell: &AtomicU64, more: u64) {
    cell.store(cell.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
}

#[derive(Debug)]
struct Cells {
    to_upstream: AtomicU64,
    to_client: AtomicU64,
    commands: Box<[CommandCells]>,
}

#[derive(Debug, Default)]
struct CommandCells {
    count: AtomicU64,
    nanos: AtomicU64,
    /// One more than there are bounds: the last is for what is above all of them.
    buckets: [AtomicU64; COMMAND_NANOS_BOUNDS.len() + 1],
}

impl Cells {
    fn new(commands: usize) -> Self {
        let commands = (0..commands).map(|_| CommandCells::default()).collect();
        Self { to_upstream: AtomicU64::new(0), to_client: AtomicU64::new(0), commands }
    }
}

#[derive(Debug)]
struct SourceShards {
    source: String,
    commands: &'static [&'static str],
    shards: Mutex<Vec<Arc<Cells>>>,
}

impl SourceShards {
    fn sum(&self, cell: impl Fn(&Cells) -> Option<&AtomicU64>) -> u64 {
        let value = |cells: &Arc<Cells>| cell(cells).map_or(0, |cell| cell.load(Ordering::Relaxed));
        lock(&self.shards).iter().map(value).fold(0, u64::wrapping_add)
    }
}

/// Adds the shards up whenever metrics are gathered.
#[derive(Clone, Debug)]
struct ShardCollector {
    sources: Arc<Mutex<Vec<Arc<SourceShards>>>>,
    bytes: Desc,
    commands: Desc,
    seconds: Desc,
}

impl ShardCollector {
    fn new() -> Result<Self> {
        let desc = |name: &str, help: &str, labels: &[&str]| {
            let labels = labels.iter().map(|label| (*label).to_owned()).collect();
            Desc::new(name.to_owned(), help.to_owned(), labels, HashMap::new())
        };
        Ok(Self {
            sources: Arc::default(),
            bytes: desc(
                "spillway_relay_bytes_total",
                "Bytes passed, by direction.",
                &["source", "direction"],
            )?,
            commands: desc(
                "spillway_relay_commands_total",
                "Commands received from clients.",
                &["source", "command"],
            )?,
            seconds: desc(
                "spillway_relay_command_seconds",
                "Time from a command's arrival to the end of its reply.",
                &["source", "command"],
            )?,
        })
    }
}

impl Collector for ShardCollector {
    fn desc(&self) -> Vec<&Desc> {
        vec![&self.bytes, &self.commands, &self.seconds]
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let (mut bytes, mut commands, mut seconds) = (Vec::new(), Vec::new(), Vec::new());
        for source in lock(&self.sources).iter() {
            for (direction, count) in [
                ("to_upstream", source.sum(|cells| Some(&cells.to_upstream))),
                ("to_client", source.sum(|cells| Some(&cells.to_client))),
            ] {
                bytes.push(counter(&source.source, ("direction", direction), count));
            }
            // Only what has been seen: most of these commands never are.
            for (index, name) in source.commands.iter().enumerate() {
                let count = source.sum(|cells| Some(&cells.commands.get(index)?.count));
                if count > 0 {
                    commands.push(counter(&source.source, ("command", name), count));
                }
                seconds.extend(histogram(source, index, name));
            }
        }
        let families = [
            family(&self.bytes, MetricType::COUNTER, bytes),
            family(&self.commands, MetricType::COUNTER, commands),
            family(&self.seconds, MetricType::HISTOGRAM, seconds),
        ];
        families.into_iter().filter(|family| !family.get_metric().is_empty()).collect()
    }
}

fn counter(source: &str, label: (&str, &str), count: u64) -> proto::Metric {
    let mut value = proto::Counter::default();
    value.set_value(count as f64);
    let mut metric = proto::Metric::default();
    metric.set_label(labels(source, label));
    metric.set_counter(value);
    metric
}

fn histogram(source: &SourceShards, index: usize, name: &str) -> Option<proto::Metric> {
    let mut value = proto::Histogram::default();
    let mut buckets = Vec::with_capacity(COMMAND_SECONDS_BOUNDS.len());
    let mut cumulative = 0;
    for bucket in 0..=COMMAND_SECONDS_BOUNDS.len() {
        cumulative += source.sum(|cells| cells.commands.get(index)?.buckets.get(bucket));
        if let Some(bound) = COMMAND_SECONDS_BOUNDS.get(bucket) {
            let mut entry = proto::Bucket::default();
            entry.set_upper_bound(*bound);
            entry.set_cumulative_count(cumulative);
            buckets.push(entry);
        }
    }
    let nanos = source.sum(|cells| Some(&cells.commands.get(index)?.nanos));
    value.set_bucket(buckets);
    value.set_sample_count(cumulative);
    value.set_sample_sum(nanos as f64 / 1e9);
    let mut metric = proto::Metric::default();
    metric.set_label(labels(&source.source, ("command", name)));
    metric.set_histogram(value);
    (cumulative > 0).then_some(metric)
}

fn labels(source: &str, label: (&str, &str)) -> Vec<LabelPair> {
    // The registry wants them in the order of their names.
    let mut pairs = [label, ("source", source)];
    pairs.sort_unstable();
    let pair = |(name, value): (&str, &str)| {
        let mut pair = LabelPair::default();
        pair.set_name(name.to_owned());
        pair.set_value(value.to_owned());
        pair
    };
    pairs.map(pair).into()
}

fn family(desc: &Desc, kind: MetricType, metrics: Vec<proto::Metric>) -> MetricFamily {
    let mut family = MetricFamily::default();
    family.set_name(desc.fq_name.clone());
    family.set_help(desc.help.clone());
    family.set_field_type(kind);
    family.set_metric(metrics);
    family
}

/// A panic while one of these was held cannot leave it half written: each guarded change is one push.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMMANDS: &[&str] = &["query", "ping"];

    fn text(registry: &Registry) -> String {
        String::from_utf8(registry.text().unwrap()).unwrap()
    }

    #[test]
    fn shards_are_added_up() {
        let registry = Registry::new();
        let source = RelayMetrics::register(&registry).unwrap().source("main", COMMANDS);
        let shards = [source.shard(), source.shard()];
        for shard in &shards {
            shard.command(0);
            shard.answered(0, Duration::from_micros(300));
            shard.add_bytes(Direction::ToClient, 11);
        }
        shards[0].answered(0, Duration::from_secs(60));
        let text = text(&registry);
        for line in [
            r#"spillway_relay_bytes_total{direction="to_client",source="main"} 22"#,
            r#"spillway_relay_commands_total{command="query",source="main"} 2"#,
            r#"spillway_relay_command_seconds_bucket{command="query",source="main",le="0.00025"} 0"#,
            r#"spillway_relay_command_seconds_bucket{command="query",source="main",le="0.0005"} 2"#,
            r#"spillway_relay_command_seconds_bucket{command="query",source="main",le="10"} 2"#,
            r#"spillway_relay_command_seconds_bucket{command="query",source="main",le="+Inf"} 3"#,
            r#"spillway_relay_command_seconds_sum{command="query",source="main"} 60.0006"#,
            r#"spillway_relay_command_seconds_count{command="query",source="main"} 3"#,
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
        assert!(!text.contains("ping"), "{text}");
    }

    #[test]
    fn bounds_are_the_same_in_both_units() {
        for (seconds, nanos) in COMMAND_SECONDS_BOUNDS.iter().zip(COMMAND_NANOS_BOUNDS) {
            assert!((seconds * 1e9 - nanos as f64).abs() < 1.0, "{seconds}");
        }
    }

    #[test]
    fn open_connections_go_down_again() {
        let registry = Registry::new();
        let source = RelayMetrics::register(&registry).unwrap().source("main", COMMANDS);
        let open = source.connection();
        assert!(text(&registry).contains(r#"spillway_relay_connections{source="main"} 1"#));
        drop(open);
        source.refused(Refusal::TooManyConnections);
        source.aborted(Abort::UpstreamLost);
        let text = text(&registry);
        assert!(text.contains(r#"spillway_relay_connections{source="main"} 0"#));
        assert!(text.contains(r#"reason="too_many_connections",source="main"} 1"#), "{text}");
        assert!(text.contains(r#"reason="upstream_lost",source="main"} 1"#), "{text}");
    }
}
