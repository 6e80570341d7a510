//! Metrics of the replica port: connected replicas, bytes sent, lag, and what was refused.
//!
//! A replica's series live while its dump does; the label is its server id, so their number is that of the replicas.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use prometheus::{
    IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Result as PrometheusResult,
};

use crate::Registry;

/// The families of the replica port.
#[derive(Clone, Debug)]
pub struct ServeMetrics {
    families: Arc<Families>,
}

#[derive(Debug)]
struct Families {
    connections: IntGauge,
    refused_logins: IntCounterVec,
    dump_errors: IntCounterVec,
    info: IntGaugeVec,
    lag: IntGaugeVec,
    sent: IntCounterVec,
    /// Dumps by their labels: a replica that comes back before its old dump is gone must not lose its series to it.
    live: Mutex<HashMap<[String; 3], usize>>,
}

impl ServeMetrics {
    /// Registers the families.
    ///
    /// # Errors
    /// A family of the same name is registered already.
    pub fn register(registry: &Registry) -> PrometheusResult<Self> {
        let families = Families {
            connections: IntGauge::with_opts(opts(
                "serve_connections",
                "Connections of the replica port, replicas or not.",
            ))?,
            refused_logins: IntCounterVec::new(
                opts("serve_refused_logins_total", "Connections of the replica port not let in."),
                &["reason"],
            )?,
            dump_errors: IntCounterVec::new(
                opts("serve_dump_errors_total", "Binlog dumps that ended with an error."),
                &["reason"],
            )?,
            info: IntGaugeVec::new(
                opts("replica_info", "1 for each replica that is being served."),
                &["replica", "user", "address"],
            )?,
            lag: IntGaugeVec::new(
                opts("replica_lag_bytes", "Recorded bytes not yet sent to the replica."),
                &["replica"],
            )?,
            sent: IntCounterVec::new(
                opts("replica_sent_bytes_total", "Bytes sent to the replica by its dumps."),
                &["replica"],
            )?,
            live: Mutex::default(),
        };
        families.register(registry)?;
        Ok(Self { families: Arc::new(families) })
    }

    /// A connection came; it goes when the guard is dropped.
    pub fn connected(&self) -> ConnectionGuard {
        self.families.connections.inc();
        ConnectionGuard(self.families.connections.clone())
    }

    /// A connection was not let in.
    pub fn login_refused(&self, reason: &str) {
        self.families.refused_logins.with_label_values(&[reason]).inc();
    }

    /// A dump ended with an error.
    pub fn dump_failed(&self, reason: &str) {
        self.families.dump_errors.with_label_values(&[reason]).inc();
    }

    /// A dump began. A client without a server id is a tool, not a replica, and has no series.
    pub fn replica_connected(&self, server_id: u32, user: &str, address: &str) -> ReplicaMetrics {
        if server_id == 0 {
            return ReplicaMetrics { live: None };
        }
        let labels = [server_id.to_string(), user.to_owned(), address.to_owned()];
        *self.families.live().entry(labels.clone()).or_default() += 1;
        self.families.info.with_label_values(&labels).set(1);
        let sent = self.families.sent.with_label_values(&labels[..1]);
        let families = Arc::clone(&self.families);
        ReplicaMetrics { live: Some(LiveReplica { families, labels, sent }) }
    }

    /// How much a replica has not been sent yet.
    pub fn set_replica_lag(&self, server_id: u32, bytes: u64) {
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
        let replica = server_id.to_string();
        let live = self.families.live();
        // Not after it has left: that would bring its series back.
        if live.keys().any(|[known, ..]| *known == replica) {
            self.families.lag.with_label_values(&[&replica]).set(bytes);
        }
    }
}

impl Families {
    fn register(&self, registry: &Registry) -> PrometheusResult<()> {
        registry.register(Box::new(self.connections.clone()))?;
        registry.register(Box::new(self.refused_logins.clone()))?;
        registry.register(Box::new(self.dump_errors.clone()))?;
        registry.register(Box::new(self.info.clone()))?;
        registry.register(Box::new(self.lag.clone()))?;
        registry.register(Box::new(self.sent.clone()))
    }

    fn live(&self) -> std::sync::MutexGuard<'_, HashMap<[String; 3], usize>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn forget(&self, labels: &[String; 3]) {
        let mut live = self.live();
        let count = live.get_mut(labels).map_or(0, |count| {
            *count = count.saturating_sub(1);
            *count
        });
        if count > 0 {
            return;
        }
        live.remove(labels);
        // An error says that the series is not there, which is what is wanted.
        let _ = self.info.remove_label_values(labels);
        if !live.keys().any(|[replica, ..]| *replica == labels[0]) {
            let _ = self.lag.remove_label_values(&labels[..1]);
            let _ = self.sent.remove_label_values(&labels[..1]);
        }
    }
}

fn opts(name: &str, help: &str) -> Opts {
    Opts::new(name, help).namespace("spillway")
}

/// Counts a connection for as long as it lives.
#[derive(Debug)]
pub struct ConnectionGuard(IntGauge);

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// The series of one dump; dropped with it.
#[derive(Debug)]
pub struct ReplicaMetrics {
    live: Option<LiveReplica>,
}

#[derive(Debug)]
struct LiveReplica {
    families: Arc<Families>,
    labels: [String; 3],
    sent: IntCounter,
}

impl ReplicaMetrics {
    /// Bytes were sent.
    pub fn sent(&self, bytes: u64) {
        if let Some(live) = &self.live {
            live.sent.inc_by(bytes);
        }
    }
}

impl Drop for ReplicaMetrics {
    fn drop(&mut self) {
        if let Some(live) = &self.live {
            live.families.forget(&live.labels);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(registry: &Registry) -> String {
        String::from_utf8(registry.text().unwrap()).unwrap()
    }

    #[test]
    fn series_live_as_long_as_the_last_dump_of_a_replica() {
        let registry = Registry::new();
        let metrics = ServeMetrics::register(&registry).unwrap();
        let old = metrics.replica_connected(7, "repl", "10.0.0.1");
        let new = metrics.replica_connected(7, "repl", "10.0.0.1");
        new.sent(5);
        metrics.set_replica_lag(7, 9);
        drop(old);
        let shown = text(&registry);
        assert!(shown.contains("spillway_replica_sent_bytes_total{replica=\"7\"} 5"), "{shown}");
        assert!(shown.contains("spillway_replica_lag_bytes{replica=\"7\"} 9"), "{shown}");
        assert!(shown.contains("address=\"10.0.0.1\",replica=\"7\",user=\"repl\"} 1"), "{shown}");
        drop(new);
        metrics.set_replica_lag(7, 9);
        assert!(!text(&registry).contains("replica=\"7\""));
    }

    #[test]
    fn tools_have_no_series() {
        let registry = Registry::new();
        let metrics = ServeMetrics::register(&registry).unwrap();
        let tool = metrics.replica_connected(0, "repl", "::1");
        tool.sent(5);
        assert!(!text(&registry).contains("replica="));
    }

    #[test]
    fn connections_are_counted_while_they_live() {
        let registry = Registry::new();
        let metrics = ServeMetrics::register(&registry).unwrap();
        let guard = metrics.connected();
        assert!(text(&registry).contains("spillway_serve_connections 1"));
        drop(guard);
        assert!(text(&registry).contains("spillway_serve_connections 0"));
    }
}
