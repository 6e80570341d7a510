//! Each fact that matters, one at a time, against a server where all else is well.

use std::path::{Path, PathBuf};

use super::super::Level;
use super::*;
use crate::tls::Encryption;

fn config(source: &str) -> Config {
    let text =
        "server_id = 4307\n[[source]]\nservers = [\"db:3306\"]\nuser = \"u\"\npassword = \"\"\n";
    Config::parse(&format!("{text}{source}\n"), Path::new("f")).unwrap()
}

fn sound() -> Facts {
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
    not_ok_with(facts, "")
}

fn not_ok_with(facts: &Facts, source: &str) -> Vec<Finding> {
    let all = server(facts, &config(source)).into_iter();
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

fn ending_in(days: u64) -> Certificate {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    Certificate {
        subject: "CN=db1".into(),
        issuer: "CN=ca".into(),
        common_names: Vec::new(),
        dns_names: Vec::new(),
        addresses: Vec::new(),
        not_before: 0,
        not_after: i64::try_from(now.as_secs() + days * 86_400 + 60).unwrap(),
    }
}

fn encrypted(upstream: Certificate, own: Option<Certificate>) -> Facts {
    let (protocol, cipher_suite) = ("TLSv1_3".to_owned(), "S".to_owned());
    let encryption = Encryption { protocol, cipher_suite, upstream: Some(upstream), own };
    Facts { encryption: Some(encryption), ..sound() }
}

#[test]
fn the_encryption_is_told() {
    let has = |facts: &Facts, part: &str| {
        let all = server(facts, &config(""));
        assert!(all.iter().any(|finding| finding.text.contains(part)), "{part}: {all:?}");
    };
    has(&sound(), "the connection is not encrypted (ssl_mode is PREFERRED)");
    has(&encrypted(ending_in(90), None), "encrypted: TLSv1_3, S, certificate CN=db1 valid until 2");
    assert_eq!(not_ok(&encrypted(ending_in(90), Some(ending_in(15)))), []);
    let soon = only(&encrypted(ending_in(13), None));
    assert_eq!(
        (soon.level, soon.text.contains("certificate ends in 13 days")),
        (Level::Warn, true)
    );
    assert!(
        only(&encrypted(ending_in(90), Some(ending_in(1)))).text.contains("in ssl_cert ends in 1")
    );
    let unused = not_ok_with(&sound(), "ssl_mode = \"REQUIRED\"\nssl_ca = \"ca\"");
    assert!(unused[0].text.contains("ssl_mode REQUIRED checks no certificate"), "{unused:?}");
}

#[test]
fn a_relay_that_is_too_plain_for_the_upstream_is_told() {
    let mut facts = sound();
    facts.variables.insert("require_secure_transport".into(), "ON".into());
    let listen = "listen = \"127.0.0.1:4306\"";
    let found = not_ok_with(&facts, listen);
    assert_eq!(found[0].level, Level::Fault);
    assert!(found[0].text.contains("apps do not get in: set ssl_mode = \"REQUIRED\""), "{found:?}");
    assert_eq!(not_ok_with(&facts, &format!("{listen}\nssl_mode = \"REQUIRED\"")), []);
    assert_eq!(not_ok(&facts), []);
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
    facts.variables.insert("gtid_mode".into(), "ON".into());
    facts.grants = vec!["GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO `u`@`%`".into()];
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
    let found = history(&sound(), &StartPosition::Oldest, Some(&space(1 << 40, false)));
    let expected = "start = \"oldest\" will fetch 2 files from mbin.000003 on, 4.0 MiB in all";
    assert_eq!(found, [Finding::ok(expected)]);
    let found = history(&sound(), &StartPosition::Oldest, Some(&space(1 << 20, false)));
    assert!(found.iter().all(|finding| finding.level == Level::Fault), "{found:?}");
    let found = history(&sound(), &StartPosition::Oldest, Some(&space(1 << 20, true)));
    assert!(found.iter().all(|finding| finding.level == Level::Ok), "{found:?}");
    let refused = Facts { binlogs: Err("no".into()), ..sound() };
    let found = history(&refused, &StartPosition::Current, None);
    assert_eq!(found, [Finding::fault("SHOW BINARY LOGS is refused: no")]);
}

#[test]
fn the_disk_is_judged() {
    let binlog = config("").binlog;
    assert_eq!(disk(Ok(space(1 << 40, false)), &binlog).level, Level::Ok);
    assert_eq!(disk(Ok(space(1 << 20, false)), &binlog).level, Level::Warn);
    let locked = Disk { writable: false, ..space(1 << 40, false) };
    assert_eq!(disk(Ok(locked), &binlog).level, Level::Fault);
    assert_eq!(disk(Err(io::ErrorKind::NotFound.into()), &binlog).level, Level::Fault);
}
