//! Metrics of the process itself: its version, its resources, its configuration, its faults.

use prometheus::{IntCounter, IntGauge, IntGaugeVec, Opts};

use crate::Registry;

/// Handles of the process's metrics.
#[derive(Clone, Debug)]
pub struct ProcessMetrics {
    config_last_reload_successful: IntGauge,
    panics: IntCounter,
}

impl ProcessMetrics {
    /// Registers them; `version` is the release's.
    ///
    /// # Errors
    /// A name is taken.
    pub fn register(registry: &Registry, version: &str) -> prometheus::Result<Self> {
        let build = IntGaugeVec::new(
            Opts::new("spillway_build_info", "1, with the release as a label."),
            &["version"],
        )?;
        build.with_label_values(&[version]).set(1);
        let reload = IntGauge::new(
            "spillway_config_last_reload_successful",
            "1 if the configuration was accepted the last time it was read, 0 if it was refused.",
        )?;
        reload.set(1);
        let panics = IntCounter::new(
            "spillway_panics_total",
            "Panics. Each is a fault of Spillway's and stands in its log.",
        )?;
        registry.register(Box::new(build))?;
        registry.register(Box::new(reload.clone()))?;
        registry.register(Box::new(panics.clone()))?;
        #[cfg(target_os = "linux")]
        registry.register(Box::new(prometheus::process_collector::ProcessCollector::for_self()))?;
        Ok(Self { config_last_reload_successful: reload, panics })
    }

    /// The configuration was read again.
    pub fn reloaded(&self, accepted: bool) {
        self.config_last_reload_successful.set(accepted.into());
    }

    /// Something panicked.
    pub fn panicked(&self) {
        self.panics.inc();
    }
}
