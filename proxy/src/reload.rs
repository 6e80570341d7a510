//! SIGHUP: reads the file again, applies what can change while Spillway runs, and says what waits for a restart.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use spillway_binlog::Log;
use spillway_metrics::process::ProcessMetrics;

use crate::build;
use crate::config::Config;
use crate::logging::LevelHandle;

/// What a reload needs.
#[derive(Debug)]
pub struct Reloader {
    path: PathBuf,
    running: Config,
    level: LevelHandle,
    log: Arc<Log>,
    metrics: ProcessMetrics,
}

impl Reloader {
    /// `running` is the configuration the process was started with.
    pub fn new(
        path: &Path,
        running: Config,
        level: LevelHandle,
        log: Arc<Log>,
        metrics: ProcessMetrics,
    ) -> Self {
        Self { path: path.to_owned(), running, level, log, metrics }
    }

    /// Reads the file again. A file that is refused changes nothing.
    pub fn reload(&mut self) {
        let read = Config::load(&self.path);
        self.metrics.reloaded(read.is_ok());
        match read {
            Ok(config) => self.apply(&config),
            Err(error) => tracing::error!("reload refused, nothing changes: {error}"),
        }
    }

    fn apply(&mut self, config: &Config) {
        self.level.set(config.log.level);
        self.log.set_retention(build::retention(config));
        take_over(&mut self.running, config);
        let waiting = waiting(&self.running, config);
        if waiting.is_empty() {
            tracing::info!("reloaded");
        } else {
            let sections = waiting.join(", ");
            tracing::warn!("reloaded, but changes in {sections} apply at the next start");
        }
    }
}

/// What was applied is what runs.
fn take_over(running: &mut Config, applied: &Config) {
    running.log.level = applied.log.level;
    running.binlog.binlog_expire_logs_seconds = applied.binlog.binlog_expire_logs_seconds;
    running.binlog.max_binlog_total_size = applied.binlog.max_binlog_total_size;
}

/// The sections in which `wanted` differs from what runs.
fn waiting(running: &Config, wanted: &Config) -> Vec<&'static str> {
    let sections = [
        ("server_id", running.server_id == wanted.server_id),
        ("[[source]]", running.sources == wanted.sources),
        ("[binlog]", running.binlog == wanted.binlog),
        ("[replicas]", running.replicas == wanted.replicas),
        ("[http]", running.http == wanted.http),
        ("[log]", running.log == wanted.log),
    ];
    sections.into_iter().filter(|(_, same)| !same).map(|(name, _)| name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(extra: &str) -> Config {
        let text = format!(
            "server_id = 1\n[[source]]\nservers = [\"db:3306\"]\nuser = \"u\"\npassword = \"\"\n{extra}"
        );
        Config::parse(&text, Path::new("f")).unwrap()
    }

    #[test]
    fn what_was_applied_does_not_wait() {
        let mut running = config("");
        let wanted = config(
            "[binlog]\nbinlog_expire_logs_seconds = 5\nmax_binlog_total_size = \"1GiB\"\n[log]\nlevel = \"debug\"",
        );
        assert_eq!(waiting(&running, &wanted), ["[binlog]", "[log]"]);
        take_over(&mut running, &wanted);
        assert!(waiting(&running, &wanted).is_empty());
    }

    #[test]
    fn what_waits_for_a_restart_is_named() {
        let running = config("");
        assert!(waiting(&running, &running).is_empty());
        for (extra, expected) in [
            ("name = \"other\"", "[[source]]"),
            ("[binlog]\nmax_binlog_size = 4096", "[binlog]"),
            ("[[replicas.user]]\nname = \"r\"\npassword = \"\"", "[replicas]"),
            ("[http]\nlisten = \"127.0.0.1:1\"", "[http]"),
            ("[log]\nformat = \"json\"", "[log]"),
        ] {
            assert_eq!(waiting(&running, &config(extra)), [expected]);
        }
    }
}
