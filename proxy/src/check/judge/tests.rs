//! Each fact that matters, one at a time, against a server where all else is well.

use std::path::{Path, PathBuf};

use super::super::Level;
use super::*;
use crate::config::Config;

fn config() -> Config {
    let text =
        "server_id = 4307\n[[source]]\nservers = [\"db:3306\"]\nuser = \"u\"\npassword = \"\"\n";
    Config::parse(text, Path::new("f")).unwrap()
}

fn capture() -> Capture {
    config().sources.remove(0).capture.unwrap()
}

pub(in crate::check) fn sound() -> Facts {
    let variables = [
        ("log_bin", "ON"),
        ("binlog_format", "ROW"),
        ("binlog_row_image", "FULL"),
        ("binlog_checksum", "CRC32"),
        ("server_id", "1"),
        ("gtid_domain_id", "0"),
        ("gtid_strict_mode", "ON"),
        ("binlog_expire_logs_seconds", "864000"),
        ("require_secure_transport", "OFF"),
    ];
    Facts {
        address: "db:3306".into(),
        encryption: None,
        version: "10.11.19-MariaDB-log".into(),
        account: "spillway@%".into(),
        grants: vec!["GRANT REPLICATION SLAVE, BINLOG MONITOR ON *.* TO `spillway`@`%`".into()],
        variables: variables.map(|(name, value)| (name.into(), value.into())).into(),
        binlogs: Ok(vec![("mbin.000003".into(), 3 << 20), ("mbin.000004".into(), 1 << 20)]),
        replica_ids: Vec::new(),
    }
}

fn not_ok(facts: &Facts) -> Vec<Finding> {
    let all = server(facts, 4307, &capture()).into_iter();
    all.filter(|finding| finding.level != Level::Ok).collect()
}

fn only(facts: &Facts) -> Finding {
    let found = not_ok(facts);
    assert_eq!(found.len(), 1, "{found:?}");
    found.into_iter().next().unwrap()
}

#[test]
fn a_sound_server_has_no_findings() {
    assert_eq!(not_ok(&sound()), []);
}

#[test]
fn each_setting_is_judged() {
    for (name, value, level, part) in [
        ("log_bin", "OFF", Level::Fault, "start the upstream with --log-bin"),
        ("binlog_format", "MIXED", Level::Warn, "SET GLOBAL binlog_format = 'ROW';"),
        ("binlog_format", "STATEMENT", Level::Fault, "row events are needed"),
        ("binlog_row_image", "MINIMAL", Level::Warn, "binlog_row_image is MINIMAL"),
        ("binlog_checksum", "NONE", Level::Warn, "SET GLOBAL binlog_checksum = 'CRC32';"),
        ("server_id", "4307", Level::Fault, "server_id 4307 is the upstream's own"),
        ("gtid_strict_mode", "OFF", Level::Warn, "gtid_strict_mode is OFF"),
        ("binlog_expire_logs_seconds", "3600", Level::Warn, "for 3600 s only"),
    ] {
        let mut facts = sound();
        facts.variables.insert(name.into(), value.into());
        let finding = only(&facts);
        assert_eq!(finding.level, level, "{name}={value}");
        assert!(finding.text.contains(part), "{name}={value}: {}", finding.text);
    }
}

#[test]
fn a_default_domain_that_is_not_recorded_is_named() {
    let mut capture = capture();
    let warned = |capture: &Capture| {
        let findings = server(&sound(), 4307, capture).into_iter();
        findings.filter(|finding| finding.level == Level::Warn).collect::<Vec<_>>()
    };
    capture.gtid_domains = Some([0, 7].into());
    assert_eq!(warned(&capture), []);
    capture.gtid_domains = Some([7].into());
    let [finding] = &warned(&capture)[..] else { panic!() };
    assert!(finding.text.contains("gtid_domain_id is 0, which"), "{}", finding.text);
}

#[test]
fn semi_sync_tells_who_waits_for_whom() {
    let mut capture = capture();
    capture.semi_sync = true;
    let told = |setting: Option<&str>| {
        let mut facts = sound();
        let variables = [
            ("rpl_semi_sync_master_enabled", setting),
            ("rpl_semi_sync_master_timeout", Some("10000")),
        ];
        let given = variables.into_iter().filter_map(|(name, value)| Some((name, value?)));
        facts.variables.extend(given.map(|(name, value)| (name.to_owned(), value.to_owned())));
        let findings = server(&facts, 4307, &capture).into_iter();
        let texts = findings.filter(|finding| finding.level == Level::Warn);
        texts.map(|finding| finding.text).collect::<Vec<_>>()
    };
    for (setting, part) in [
        (None, "has no rpl_semi_sync_master_enabled"),
        (Some("OFF"), "SET GLOBAL rpl_semi_sync_master_enabled = ON"),
        (Some("ON"), "it may be Spillway's alone"),
    ] {
        let [text] = &told(setting)[..] else { panic!("{setting:?}") };
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn sources_of_different_series_are_a_fault() {
    let sources = |versions: &[&str]| -> Vec<(&str, String)> {
        let names = ["a", "b", "c"].into_iter().zip(versions);
        names.map(|(name, version)| (name, (*version).to_owned())).collect()
    };
    let old = ["10.11.19-MariaDB-log", "10.11.2-MariaDB"];
    assert_eq!(series(&sources(&[])), None);
    assert_eq!(series(&sources(&old[..1])), None);
    assert_eq!(series(&sources(&old)), None);
    let finding = series(&sources(&[old[0], old[1], "11.8.9-MariaDB"])).unwrap();
    assert_eq!(finding.level, Level::Fault);
    assert!(finding.text.contains("and source c is 11.8.9-MariaDB"), "{}", finding.text);
}

#[test]
fn a_missing_privilege_comes_with_its_grant() {
    let mut facts = sound();
    facts.grants = vec!["GRANT REPLICATION SLAVE ON *.* TO `spillway`@`%`".into()];
    assert!(only(&facts).text.ends_with("GRANT BINLOG MONITOR ON *.* TO 'spillway'@'%';"));
    facts.version = "10.4.34-MariaDB".into();
    assert!(only(&facts).text.ends_with("GRANT REPLICATION CLIENT ON *.* TO 'spillway'@'%';"));
    facts.grants = vec!["GRANT USAGE ON *.* TO `spillway`@`%`".into()];
    assert_eq!(not_ok(&facts).len(), 2);
}

#[test]
fn mysql_is_told_what_this_release_does() {
    let mut facts = sound();
    facts.version = "9.7.4".into();
    // Nothing of what is asked of a MariaDB.
    facts.variables.clear();
    facts.grants.clear();
    assert!(only(&facts).text.contains("this release records MariaDB only"));
}

#[test]
fn a_replica_with_our_id_is_named() {
    let mut facts = sound();
    facts.replica_ids = vec![2, 4307];
    assert_eq!(only(&facts).level, Level::Warn);
}

#[test]
fn retention_is_read_in_days_where_seconds_are_missing() {
    let mut facts = sound();
    facts.variables.remove("binlog_expire_logs_seconds");
    facts.variables.insert("expire_logs_days".into(), "0.000000".into());
    assert_eq!(not_ok(&facts), []);
    facts.variables.insert("expire_logs_days".into(), "0.500000".into());
    assert!(only(&facts).text.contains("for 43200 s only"));
}

fn space(free: u64, has_log: bool) -> Disk {
    Disk { existing: PathBuf::from("/d"), free, writable: true, has_log }
}

#[test]
fn history_says_how_much_will_be_fetched() {
    let mut capture = capture();
    let found = history(&sound(), &capture, Some(&space(1 << 40, false)));
    let expected = "start = \"oldest\" will fetch 2 files from mbin.000003 on, 4.0 MiB in all";
    assert_eq!(found, [Finding::ok(expected)]);
    let found = history(&sound(), &capture, Some(&space(1 << 20, false)));
    assert!(found.iter().all(|finding| finding.level == Level::Fault), "{found:?}");
    let found = history(&sound(), &capture, Some(&space(1 << 20, true)));
    assert!(found.iter().all(|finding| finding.level == Level::Ok), "{found:?}");
    let refused = Facts { binlogs: Err("no".into()), ..sound() };
    capture.start = StartPosition::Current;
    let found = history(&refused, &capture, None);
    assert_eq!(found, [Finding::fault("SHOW BINARY LOGS is refused: no")]);
}

#[test]
fn the_disk_is_judged() {
    let binlog = config().binlog;
    assert_eq!(disk(Ok(space(1 << 40, false)), &binlog).level, Level::Ok);
    assert_eq!(disk(Ok(space(1 << 20, false)), &binlog).level, Level::Warn);
    let locked = Disk { writable: false, ..space(1 << 40, false) };
    assert_eq!(disk(Ok(locked), &binlog).level, Level::Fault);
    assert_eq!(disk(Err(io::ErrorKind::NotFound.into()), &binlog).level, Level::Fault);
}
