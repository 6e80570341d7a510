//! From facts to findings. No I/O.

use std::io;

use spillway_binlog::event::version_family;

use super::Finding;
use super::disk::Disk;
use super::grants;
use super::probe::Facts;
use crate::capture::StartPosition;
use crate::config::{Binlog, Capture};
use crate::source::SemiSync;

/// Below a day, a weekend without Spillway loses history.
const SHORT_RETENTION: f64 = 86_400.0;
/// With less free space the log is full before anybody looks.
const LITTLE_SPACE: u64 = 1 << 30;

/// What the server's version, account and settings mean.
pub(super) fn server(facts: &Facts, ours: u32, capture: &Capture) -> Vec<Finding> {
    let mut findings = vec![version(facts)];
    if !facts.is_mariadb() {
        return findings;
    }
    findings.extend(privileges(facts));
    findings.extend([log_bin(facts), binlog_format(facts), row_image(facts), checksum(facts)]);
    findings.push(server_id(facts, ours));
    findings.extend(gtids(facts, capture));
    findings.push(retention(facts));
    findings.extend(semi_sync(facts, capture));
    findings
}

impl Facts {
    pub(super) fn variable(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str)
    }

    pub(super) fn is_mariadb(&self) -> bool {
        self.version.contains("MariaDB")
    }

    /// Major and minor version.
    fn number(&self) -> Option<(u32, u32)> {
        let mut parts = self.version.split(['.', '-']);
        Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
    }
}

fn version(facts: &Facts) -> Finding {
    let text = format!("upstream {} is {}", facts.address, facts.version);
    if facts.is_mariadb() {
        return Finding::ok(text);
    }
    Finding::fault(format!(
        "{text}: this release records MariaDB only; set `capture = false` to relay to it"
    ))
}

fn privileges(facts: &Facts) -> Vec<Finding> {
    let granted = grants::global(&facts.grants);
    let renamed = facts.number().is_none_or(|number| number >= (10, 5));
    let monitor = if renamed { "BINLOG MONITOR" } else { "REPLICATION CLIENT" };
    let wanted: [(&str, &[&str]); 2] = [
        ("REPLICATION SLAVE", &["REPLICATION SLAVE", "REPLICATION REPLICA"]),
        (monitor, &["BINLOG MONITOR", "REPLICATION CLIENT", "SUPER"]),
    ];
    let account = grants::quoted_account(&facts.account);
    let judge = |(name, names): (&str, &[&str])| {
        if grants::has(&granted, names) {
            Finding::ok(format!("{account} has {name}"))
        } else {
            Finding::fault(format!("{account} lacks {name}: GRANT {name} ON *.* TO {account};"))
        }
    };
    wanted.into_iter().map(judge).collect()
}

fn log_bin(facts: &Facts) -> Finding {
    match facts.variable("log_bin") {
        Some("ON" | "1") => Finding::ok("log_bin is ON"),
        _ => Finding::fault(
            "log_bin is OFF: there is nothing to record; start the upstream with --log-bin",
        ),
    }
}

fn binlog_format(facts: &Facts) -> Finding {
    match facts.variable("binlog_format") {
        Some("ROW") => Finding::ok("binlog_format is ROW"),
        Some("MIXED") => Finding::warn(
            "binlog_format is MIXED: some changes are logged as statements, which replicas run again; \
             SET GLOBAL binlog_format = 'ROW';",
        ),
        other => Finding::fault(format!(
            "binlog_format is {}: row events are needed; SET GLOBAL binlog_format = 'ROW'; and reconnect the apps",
            other.unwrap_or("unknown")
        )),
    }
}

fn row_image(facts: &Facts) -> Finding {
    match facts.variable("binlog_row_image") {
        None | Some("FULL") => Finding::ok("binlog_row_image is FULL"),
        Some(other) => Finding::warn(format!(
            "binlog_row_image is {other}: it is recorded as it is; readers that need whole rows want FULL"
        )),
    }
}

fn checksum(facts: &Facts) -> Finding {
    match facts.variable("binlog_checksum") {
        Some("CRC32") => Finding::ok("binlog_checksum is CRC32"),
        _ => Finding::warn(
            "binlog_checksum is NONE: damage on the way here goes unnoticed; SET GLOBAL binlog_checksum = 'CRC32';",
        ),
    }
}

fn server_id(facts: &Facts, ours: u32) -> Finding {
    let theirs = facts.variable("server_id").and_then(|id| id.parse::<u32>().ok());
    if theirs == Some(ours) {
        return Finding::fault(format!(
            "server_id {ours} is the upstream's own: choose another for Spillway"
        ));
    }
    if facts.replica_ids.contains(&ours) {
        return Finding::warn(format!(
            "server_id {ours} is connected to the upstream as a replica: if that is not this Spillway, choose another"
        ));
    }
    Finding::ok(format!("server_id {ours} is not the upstream's"))
}

fn gtids(facts: &Facts, capture: &Capture) -> Vec<Finding> {
    let strict = match facts.variable("gtid_strict_mode") {
        Some("ON" | "1") => Finding::ok("gtid_strict_mode is ON"),
        _ => Finding::warn(
            "gtid_strict_mode is OFF: sequence numbers of a domain may go back, which is recorded as it is; \
             SET GLOBAL gtid_strict_mode = 1; refuses that at the upstream",
        ),
    };
    vec![domain(facts, capture), strict]
}

fn domain(facts: &Facts, capture: &Capture) -> Finding {
    let domain = facts.variable("gtid_domain_id").unwrap_or("unknown");
    let text = format!("gtid_domain_id is {domain}");
    match &capture.gtid_domains {
        Some(domains) if !domain.parse().is_ok_and(|domain| domains.contains(&domain)) => {
            Finding::warn(format!(
                "{text}, which source.gtid_domains does not name: what is written in that domain is not recorded"
            ))
        }
        _ => Finding::ok(text),
    }
}

/// Whether the events of all recorded sources, each a name and a version, may stand in one log file.
pub(super) fn series(sources: &[(&str, String)]) -> Option<Finding> {
    let (name, version) = sources.first()?;
    let differs = |(_, other): &&(&str, String)| version_family(other) != version_family(version);
    let (other_name, other) = sources.iter().find(differs)?;
    Some(Finding::fault(format!(
        "source {name} is {version} and source {other_name} is {other}: events of both cannot stand in one log file, so \
         whichever connects second is refused; bring both to one MariaDB series, or record one with a Spillway of its own"
    )))
}

fn retention(facts: &Facts) -> Finding {
    let number = |name| facts.variable(name).and_then(|text| text.parse::<f64>().ok());
    let seconds = number("binlog_expire_logs_seconds")
        .filter(|seconds| *seconds > 0.0)
        .or_else(|| number("expire_logs_days").map(|days| days * 86_400.0));
    match seconds {
        None => Finding::warn("the upstream does not tell how long it keeps its binlogs"),
        Some(0.0) => Finding::ok("the upstream keeps its binlogs until they are purged"),
        Some(seconds) if seconds < SHORT_RETENTION => Finding::warn(format!(
            "the upstream keeps its binlogs for {seconds} s only: Spillway must not be away for longer"
        )),
        Some(seconds) => Finding::ok(format!(
            "the upstream keeps its binlogs for {:.1} days",
            seconds / 86_400.0
        )),
    }
}

/// What `semi_sync` promises with this upstream.
fn semi_sync(facts: &Facts, capture: &Capture) -> Vec<Finding> {
    if !capture.semi_sync {
        return Vec::new();
    }
    match facts.variable("rpl_semi_sync_master_enabled") {
        Some("ON" | "1") => {}
        found => {
            let semi_sync = found.map_or(SemiSync::Unsupported, |_| SemiSync::OffAtUpstream);
            return semi_sync.shortcoming().map(Finding::warn).into_iter().collect();
        }
    }
    let alone = Finding::warn(
        "one acknowledgement is enough for the upstream, and it may be Spillway's alone: a commit may then be on the upstream \
         and in Spillway's log only",
    );
    let timeout = facts.variable("rpl_semi_sync_master_timeout").unwrap_or("unknown");
    let waits = Finding::ok(format!(
        "semi_sync: the upstream's commits wait for an acknowledgement, at most rpl_semi_sync_master_timeout = {timeout} ms"
    ));
    vec![waits, alone]
}

/// How much recording will fetch at first.
pub(super) fn history(facts: &Facts, capture: &Capture, disk: Option<&Disk>) -> Vec<Finding> {
    let files = match &facts.binlogs {
        Ok(files) => files,
        Err(message) => {
            return vec![Finding::fault(format!("SHOW BINARY LOGS is refused: {message}"))];
        }
    };
    if disk.is_some_and(|disk| disk.has_log) {
        let text = match capture.gtid_domains {
            None => "the log is not empty: recording goes on behind its last transaction",
            Some(_) => {
                "the log is not empty: recording goes on behind its last transaction of source.gtid_domains, or begins at \
                 source.start where it has none"
            }
        };
        return vec![Finding::ok(text)];
    }
    let bytes: u64 = files.iter().map(|(_, size)| size).sum();
    match &capture.start {
        StartPosition::Current => vec![Finding::ok("start = \"current\": history is not fetched")],
        StartPosition::Gtid(_) => {
            vec![Finding::ok("start is a GTID position: recording begins after it")]
        }
        StartPosition::Oldest => vec![oldest(files, bytes, disk.map(|disk| disk.free))],
    }
}

fn oldest(files: &[(String, u64)], bytes: u64, free: Option<u64>) -> Finding {
    let first = files.first().map_or("nothing", |(name, _)| name);
    let text = format!(
        "start = \"oldest\" will fetch {} files from {first} on, {} in all",
        files.len(),
        human(bytes)
    );
    match free.filter(|free| *free < bytes) {
        Some(free) => {
            Finding::fault(format!("{text}: only {} are free at binlog.dir", human(free)))
        }
        None => Finding::ok(text),
    }
}

/// What the disk means.
pub(super) fn disk(disk: io::Result<Disk>, binlog: &Binlog) -> Finding {
    let dir = binlog.dir.display();
    match disk {
        Err(error) => Finding::fault(format!("binlog.dir {dir} cannot be looked at: {error}")),
        Ok(disk) if !disk.writable => Finding::fault(format!(
            "binlog.dir {dir}: this user may not write in {}",
            disk.existing.display()
        )),
        Ok(disk) if disk.free < LITTLE_SPACE => {
            Finding::warn(format!("binlog.dir {dir} has only {} free", human(disk.free)))
        }
        Ok(disk) => Finding::ok(format!("binlog.dir {dir} has {} free", human(disk.free))),
    }
}

/// Bytes for people.
fn human(bytes: u64) -> String {
    let units = ["KiB", "MiB", "GiB", "TiB"];
    // Three digits are all that is shown.
    #[allow(clippy::cast_precision_loss)]
    let mut value = bytes as f64 / 1024.0;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", units.get(unit).unwrap_or(&"TiB"))
}

#[cfg(test)]
pub(super) mod tests;
