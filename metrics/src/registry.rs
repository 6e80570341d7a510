//! The registry all families are made from: Prometheus's own, which also remembers what was registered for docs/METRICS.md.

use std::sync::{Mutex, PoisonError};

use prometheus::core::{Collector, Desc};
use prometheus::proto::{MetricFamily, MetricType};
use prometheus::{Encoder, TextEncoder};

/// Where families are registered and read from.
#[derive(Debug, Default)]
pub struct Registry {
    inner: prometheus::Registry,
    described: Mutex<Vec<Description>>,
}

/// What docs/METRICS.md says of a family.
#[derive(Clone, Debug)]
pub(crate) struct Description {
    pub(crate) name: String,
    pub(crate) help: String,
    pub(crate) labels: Vec<String>,
    pub(crate) kind: MetricType,
    /// Upper bounds, of a histogram that has a child.
    pub(crate) buckets: Vec<f64>,
}

impl Registry {
    /// An empty registry.
    pub fn new() -> Self {
        Self::default()
    }

    /// Registers a family.
    ///
    /// # Errors
    /// The name is taken, or malformed.
    pub fn register(&self, collector: Box<dyn Collector>) -> prometheus::Result<()> {
        let families = collector.collect();
        let described: Vec<_> =
            collector.desc().into_iter().map(|desc| describe(desc, &families)).collect();
        self.inner.register(collector)?;
        self.described.lock().unwrap_or_else(PoisonError::into_inner).extend(described);
        Ok(())
    }

    /// All values now, in Prometheus's text format.
    ///
    /// # Errors
    /// A family contradicts itself.
    pub fn text(&self) -> prometheus::Result<Vec<u8>> {
        let mut text = Vec::new();
        TextEncoder::new().encode(&self.inner.gather(), &mut text)?;
        Ok(text)
    }

    /// What was registered, by name. Of a family with labels, the buckets are known once it has a child.
    pub(crate) fn descriptions(&self) -> Vec<Description> {
        let mut all = self.described.lock().unwrap_or_else(PoisonError::into_inner).clone();
        all.sort_by(|one, other| one.name.cmp(&other.name));
        for family in self.inner.gather() {
            if let Some(known) = all.iter_mut().find(|known| known.name == family.name()) {
                known.kind = family.get_field_type();
                known.buckets = buckets(&family);
            }
        }
        all
    }
}

fn describe(desc: &Desc, families: &[MetricFamily]) -> Description {
    let family = families.iter().find(|family| family.name() == desc.fq_name);
    let constant = desc.const_label_pairs.iter().map(|pair| pair.name().to_owned());
    Description {
        name: desc.fq_name.clone(),
        help: desc.help.clone(),
        labels: constant.chain(desc.variable_labels.iter().cloned()).collect(),
        kind: family.map_or(MetricType::UNTYPED, MetricFamily::get_field_type),
        buckets: Vec::new(),
    }
}

fn buckets(family: &MetricFamily) -> Vec<f64> {
    if family.get_field_type() != MetricType::HISTOGRAM {
        return Vec::new();
    }
    let children = family.get_metric();
    let first = children.first().map(|child| child.get_histogram().get_bucket());
    let bounds = first.unwrap_or_default().iter().map(|bucket| bucket.upper_bound());
    bounds.filter(|bound| bound.is_finite()).collect()
}
