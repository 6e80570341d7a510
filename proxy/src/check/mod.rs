//! `spillway check`: probes each upstream and the disk, one line a finding, exit code 1 on a fault.
//!
//! `probe` and `disk` gather facts, `judge` turns facts into findings without any I/O.

mod disk;
mod encryption;
mod grants;
mod judge;
mod probe;

use std::fmt;

use crate::config::{Config, Source};
use crate::exit::{Failure, Outcome};

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// As it should be.
    Ok,
    /// It works, and somebody should know.
    Warn,
    /// It does not work.
    Fault,
}

/// One line of the report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// How bad it is.
    pub level: Level,
    /// What was found and, where it matters, what to do.
    pub text: String,
}

impl Finding {
    fn ok(text: impl Into<String>) -> Self {
        Self { level: Level::Ok, text: text.into() }
    }

    fn warn(text: impl Into<String>) -> Self {
        Self { level: Level::Warn, text: text.into() }
    }

    fn fault(text: impl Into<String>) -> Self {
        Self { level: Level::Fault, text: text.into() }
    }

    /// The same, said of one source of several.
    fn of(self, source: &str) -> Self {
        Self { text: format!("source {source}: {}", self.text), ..self }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let level = match self.level {
            Level::Ok => "ok",
            Level::Warn => "warn",
            Level::Fault => "fault",
        };
        write!(f, "{level:<6} {}", self.text)
    }
}

/// Prints what is found.
///
/// # Errors
/// The check itself cannot run.
pub fn check(config: &Config) -> Result<Outcome, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Failure::fault)?;
    let findings = runtime.block_on(findings(config));
    for finding in &findings {
        println!("{finding}");
    }
    let fault = findings.iter().any(|finding| finding.level == Level::Fault);
    Ok(if fault { Outcome::Fault } else { Outcome::Fine })
}

async fn findings(config: &Config) -> Vec<Finding> {
    let mut findings = vec![Finding::ok("the configuration is valid")];
    if config.replicas.users.is_empty() {
        findings.push(Finding::warn("no [[replicas.user]]: the replica port lets nobody in"));
    }
    let disk = disk::look(&config.binlog);
    let (alone, mut versions) = (config.sources.len() == 1, Vec::new());
    for source in &config.sources {
        let (found, version) = look_at(source, config.server_id, disk.as_ref().ok()).await;
        let named = |finding: Finding| if alone { finding } else { finding.of(&source.name) };
        findings.extend(found.into_iter().map(named));
        versions.extend(version.map(|version| (source.name.as_str(), version)));
    }
    findings.extend(judge::series(&versions));
    if config.sources.iter().any(|source| source.capture.is_some()) {
        findings.push(judge::disk(disk, &config.binlog));
    }
    let beside = crate::binlog::beside(&config.binlog.dir, &config.binlog.log_bin);
    findings.extend(beside.into_iter().map(|other| Finding::warn(other.to_string())));
    findings
}

/// What is found of one source, and its version where it is recorded and was reached.
async fn look_at(
    source: &Source,
    server_id: u32,
    disk: Option<&disk::Disk>,
) -> (Vec<Finding>, Option<String>) {
    let Some(capture) = &source.capture else {
        let relayed = Finding::ok("source.capture is false: the upstream is not recorded");
        return (vec![relayed, probe::reach(source).await], None);
    };
    match probe::probe(source, capture).await {
        Ok(facts) => {
            let mut findings = judge::server(&facts, server_id, capture);
            findings.extend(encryption::encryption(&facts, source));
            if !facts.is_mariadb() {
                return (findings, None);
            }
            findings.extend(judge::history(&facts, capture, disk));
            (findings, Some(facts.version))
        }
        Err(sentence) => (vec![Finding::fault(sentence)], None),
    }
}
