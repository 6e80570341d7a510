//! docs/METRICS.md, written from the registered families.

use std::fmt::Write as _;

use prometheus::proto::MetricType;

use crate::Registry;
use crate::registry::Description;

const INTRO: &str = "\
# Metrics

Written by `SPILLWAY_WRITE_DOCS=1 cargo test -p spillway-metrics docs`; a test fails when this page is stale.

Served as text at `http://127.0.0.1:4308/metrics` (`http.listen`). Names keep their spelling once released. Labels are bounded: `source` is
a name of the configuration, `replica` a server id; a GTID is never a label.

| name | type | labels | meaning |
|---|---|---|---|
";

/// The text of docs/METRICS.md for what `registry` holds.
pub fn render(registry: &Registry) -> String {
    let all = registry.descriptions();
    let mut page = INTRO.to_owned();
    page.extend(all.iter().map(row));
    let mut histograms = all.iter().filter(|family| !family.buckets.is_empty()).peekable();
    if histograms.peek().is_some() {
        page.push_str("\n## Buckets\n\n| name | upper bounds |\n|---|---|\n");
        page.extend(histograms.map(buckets));
    }
    page
}

fn row(family: &Description) -> String {
    let labels = family.labels.iter().map(|label| format!("`{label}`")).collect::<Vec<_>>();
    let labels = if labels.is_empty() { "—".to_owned() } else { labels.join(", ") };
    let kind = match family.kind {
        MetricType::COUNTER => "counter",
        MetricType::GAUGE => "gauge",
        MetricType::HISTOGRAM => "histogram",
        MetricType::SUMMARY => "summary",
        MetricType::UNTYPED => "untyped",
    };
    format!("| `{}` | {kind} | {labels} | {} |\n", family.name, family.help)
}

fn buckets(family: &Description) -> String {
    let mut bounds = String::new();
    for bound in &family.buckets {
        // Writing to a String cannot fail.
        let _ = write!(bounds, "{bound} ");
    }
    format!("| `{}` | {} |\n", family.name, bounds.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Families;

    #[test]
    fn docs_metrics_md_is_current() {
        let registry = Registry::new();
        let families = Families::register(&registry, "0").unwrap();
        // A family with labels shows its type and buckets only once it has a child.
        let shard = families.relay.source("main", &["query"]).shard();
        shard.command(0);
        shard.answered(0, std::time::Duration::ZERO);
        shard.add_bytes(crate::relay::Direction::ToClient, 1);
        let page = render(&registry);
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/METRICS.md");
        if std::env::var_os("SPILLWAY_WRITE_DOCS").is_some() {
            std::fs::write(path, &page).unwrap();
        }
        let stored = std::fs::read_to_string(path).unwrap_or_default();
        assert!(stored == page, "stale: SPILLWAY_WRITE_DOCS=1 cargo test -p spillway-metrics docs");
        assert!(page.contains("| `spillway_source_up` | gauge | `source` |"), "{page}");
        assert!(!page.contains("untyped"), "{page}");
    }
}
