//! `spillway check`: probes the upstream and the disk, one line a finding, exit code 1 on a fault.
//!
//! `probe` and `disk` gather facts, `judge` turns facts into findings without any I/O.

mod disk;
mod grants;
mod judge;
mod probe;

use std::fmt;

use crate::config::Config;
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
    let Some(capture) = &config.source.capture else {
        findings.push(Finding::ok("source.capture is false: the upstream is not recorded"));
        findings.push(probe::reach(&config.source.server).await);
        return findings;
    };
    let disk = disk::look(&config.binlog);
    match probe::probe(&config.source, capture).await {
        Ok(facts) => {
            findings.extend(judge::server(&facts, config));
            findings.extend(judge::history(&facts, &capture.start, disk.as_ref().ok()));
        }
        Err(sentence) => findings.push(Finding::fault(sentence)),
    }
    findings.push(judge::disk(disk, &config.binlog));
    findings
}
