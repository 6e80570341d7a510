//! Finding by GTID and time in a log of several MiB, with its index and without.

use std::sync::Arc;

use spillway_binlog::event::{ChecksumAlgorithm, EventHeader, FormatDescription, control};
use spillway_binlog::gtid::mariadb::GtidState;
use spillway_binlog::transaction::Assembled;
use spillway_binlog::{Log, LogOptions};

use super::*;
use crate::binlog::{beside, list, verify};

fn format() -> Arc<FormatDescription> {
    Arc::new(FormatDescription {
        server_version: "10.11.19-MariaDB-log".into(),
        created: 0,
        post_header_lengths: vec![0; 171],
        checksum: ChecksumAlgorithm::Crc32,
    })
}

fn event(event_type: EventType, timestamp: u32, body: &[u8]) -> Vec<u8> {
    let (event_size, end_position, flags) = (0, 0, 0);
    let header =
        EventHeader { timestamp, event_type, server_id: 1, event_size, end_position, flags };
    control::event(header, body, ChecksumAlgorithm::None)
}

/// Transactions of 70 kB with these numbers and times, in files of 4 MiB.
fn recorded(all: &[(u64, u32)]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    record(dir.path(), "binlog", all);
    dir
}

fn record(dir: &std::path::Path, basename: &str, all: &[(u64, u32)]) {
    let options = LogOptions {
        max_binlog_size: 4 << 20,
        basename: basename.into(),
        ..LogOptions::new(dir, 4307)
    };
    let log = Log::open(options).unwrap();
    let source = log.submitter();
    source.begin(format(), GtidState::default());
    for (sequence, seconds) in all {
        let mut assembler = source.assembler(format());
        let gtid = [&sequence.to_le_bytes()[..], &[0, 0, 0, 0, 4], &[0; 6]].concat();
        assembler.push(&event(EventType::GTID, *seconds, &gtid)).unwrap();
        assembler.push(&event(EventType::ANNOTATE_ROWS, *seconds, &[b'x'; 70_000])).unwrap();
        let xid = event(EventType::XID, *seconds, &sequence.to_le_bytes());
        let Assembled::Complete(transaction) = assembler.push(&xid).unwrap() else { panic!() };
        source.submit(transaction).wait_durable().unwrap();
    }
}

fn run(
    dir: &std::path::Path,
    command: impl FnOnce(&[Target], &mut Out<Vec<u8>>) -> Result<(), Stop>,
) -> Result<String, Stop> {
    let mut out = Out(Vec::new());
    command(&Target::open(dir)?, &mut out)?;
    Ok(String::from_utf8(out.0).unwrap())
}

fn found(dir: &std::path::Path, wanted: Wanted) -> Option<String> {
    run(dir, |targets, out| find(targets, wanted, out)).ok()
}

fn listed(dir: &std::path::Path) -> String {
    run(dir, |targets, out| list::list(&targets[0], out)).unwrap()
}

fn remove_indexes(dir: &std::path::Path) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "idx") {
            std::fs::remove_file(path).unwrap();
        }
    }
}

#[test]
fn the_index_finds_and_lists_what_reading_all_does() {
    // Numbers that go back, and clocks that do.
    let mut all: Vec<_> = (1..=60).map(|n| (n, 1000 + u32::try_from(n).unwrap())).collect();
    all.extend((30..=90).map(|n| (n + 1000, 500 + u32::try_from(n).unwrap())));
    all.extend((61..=100).map(|n| (n, 1100 + u32::try_from(n).unwrap())));
    let dir = recorded(&all);
    let gtid = |sequence| Wanted::Gtid(Gtid { domain: 0, server: 1, sequence });
    let mut wanted: Vec<_> = all.iter().map(|(sequence, _)| gtid(*sequence)).collect();
    wanted.extend((490..=1210).step_by(7).map(Wanted::Time));
    wanted.extend([gtid(101), gtid(0), gtid(1000)]);
    let with: Vec<_> = wanted.iter().map(|one| found(dir.path(), *one)).collect();
    let before = listed(dir.path());
    assert!(dir.path().join("binlog.000001.idx").exists());
    remove_indexes(dir.path());
    let without: Vec<_> = wanted.iter().map(|one| found(dir.path(), *one)).collect();
    assert_eq!(with, without);
    assert_eq!(before, listed(dir.path()));
    let known = with.iter().filter(|line| line.is_some()).count();
    assert!(known > all.len() && known < wanted.len());
    let line = with[0].as_ref().unwrap();
    assert!(line.starts_with("binlog.000001 ") && line.ends_with(" 0-1-1 1970-01-01T00:16:41Z\n"));
}

#[test]
fn of_several_logs_in_a_directory_each_is_looked_at() {
    let dir = recorded(&[(1, 1000), (2, 1001)]);
    assert_eq!(beside(dir.path(), "binlog"), []);
    record(dir.path(), "new.log", &[(7, 1002)]);
    let verified = run(dir.path(), |targets, out| {
        targets.iter().try_for_each(|target| verify::verify(target, out))
    });
    let verified = verified.unwrap();
    assert!(verified.contains("ok binlog.000001") && verified.contains("ok new.log.000001"));
    let gtid = |sequence| Wanted::Gtid(Gtid { domain: 0, server: 1, sequence });
    assert!(found(dir.path(), gtid(2)).unwrap().starts_with("binlog.000001"));
    assert!(found(dir.path(), gtid(7)).unwrap().starts_with("new.log.000001"));
    let told = |log_bin: &str| -> Vec<_> {
        beside(dir.path(), log_bin).iter().map(ToString::to_string).collect()
    };
    assert_eq!(told("binlog").len(), 1);
    let sentence = &told("new.log")[0];
    assert!(sentence.contains("another log, binlog, lies in"), "{sentence}");
    assert!(sentence.contains("1 files, last GTID 0-1-2"), "{sentence}");
    assert_eq!(told("third").len(), 2);
}

#[test]
fn times_are_read_with_and_without_a_zone() {
    let second = |text| parse_time(text).map(|time| time.as_second());
    assert_eq!(second("1970-01-01T00:00:10Z"), Ok(10));
    assert_eq!(second("1970-01-01T02:00:10+02:00"), Ok(10));
    assert_eq!(second("1970-01-02 00:00:10"), Ok(86_410));
    assert!(parse_time("yesterday").is_err());
}
