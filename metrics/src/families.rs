//! All families of a Spillway, in one place: what the process registers is what docs/METRICS.md describes.

use crate::Registry;
use crate::binlog::BinlogMetrics;
use crate::process::ProcessMetrics;
use crate::relay::RelayMetrics;
use crate::serve::ServeMetrics;
use crate::source::SourceFamilies;

/// All families.
#[derive(Clone, Debug)]
pub struct Families {
    /// The process itself.
    pub process: ProcessMetrics,
    /// The log.
    pub binlog: BinlogMetrics,
    /// Capture.
    pub source: SourceFamilies,
    /// The relay.
    pub relay: RelayMetrics,
    /// The replica port.
    pub serve: ServeMetrics,
}

impl Families {
    /// Makes and registers them; `version` is the release's.
    ///
    /// # Errors
    /// A name is registered twice.
    pub fn register(registry: &Registry, version: &str) -> prometheus::Result<Self> {
        Ok(Self {
            process: ProcessMetrics::register(registry, version)?,
            binlog: BinlogMetrics::register(registry)?,
            source: SourceFamilies::register(registry)?,
            relay: RelayMetrics::register(registry)?,
            serve: ServeMetrics::register(registry)?,
        })
    }
}
