//! One log of two files, many small corruptors: each fault is found and named with its position.

use std::path::Path;

use spillway_binlog::event::{ChecksumAlgorithm, EventHeader, FormatDescription};

use super::*;

/// A binlog file under construction.
struct File {
    bytes: Vec<u8>,
    /// Where each event starts.
    positions: Vec<u64>,
}

impl File {
    fn new(list: &[Gtid]) -> Self {
        Self::with_list(&gtid_list::body(list, 0))
    }

    fn with_list(list: &[u8]) -> Self {
        let format = FormatDescription {
            server_version: "10.11.19-MariaDB".into(),
            created: 0,
            post_header_lengths: vec![0; 171],
            checksum: ChecksumAlgorithm::Crc32,
        };
        let len = u32::try_from(format.to_event(1, 1, 0).len()).unwrap();
        let mut file = Self { bytes: b"\xfebin".to_vec(), positions: vec![4] };
        file.bytes.extend(format.to_event(1, 1, 4 + len));
        file.push(EventType::GTID_LIST, list);
        file
    }

    fn push(&mut self, event_type: EventType, body: &[u8]) -> &mut Self {
        let start = self.bytes.len();
        self.positions.push(start as u64);
        let end = u32::try_from(start + EventHeader::LEN + body.len() + 4).unwrap();
        let header = EventHeader {
            timestamp: 1_700_000_000,
            event_type,
            server_id: 1,
            event_size: 0,
            end_position: end,
            flags: 0,
        };
        self.bytes.extend(control::event(header, body, ChecksumAlgorithm::Crc32));
        self
    }

    /// A transaction of a GTID event and an Xid event.
    fn transaction(&mut self, sequence: u64) -> &mut Self {
        self.open(sequence).push(EventType::XID, &[7; 8])
    }

    fn open(&mut self, sequence: u64) -> &mut Self {
        let mut body = sequence.to_le_bytes().to_vec();
        body.extend([0; 11]);
        self.push(EventType::GTID, &body)
    }

    fn rotate(&mut self, next: &str) -> &mut Self {
        self.push(EventType::ROTATE, &control::rotate_body(4, next))
    }
}

fn gtid(sequence: u64) -> Gtid {
    Gtid { domain: 0, server: 1, sequence }
}

fn first() -> File {
    let mut file = File::new(&[]);
    file.transaction(1).transaction(2).rotate("binlog.000002");
    file
}

fn second() -> File {
    let mut file = File::new(&[gtid(2)]);
    file.transaction(3);
    file
}

/// Verifies a log of these files; the last lines printed, and the fault.
fn run(dir: &Path, files: &[(&str, &File)]) -> (String, Option<String>) {
    for (name, file) in files {
        std::fs::write(dir.join(name), &file.bytes).unwrap();
    }
    let index: String = files.iter().map(|(name, _)| format!("./{name}\n")).collect();
    std::fs::write(dir.join("binlog.index"), index).unwrap();
    let mut out = Out(Vec::new());
    let result = Target::open(dir).and_then(|targets| verify(&targets[0], &mut out));
    let fault = match result {
        Ok(()) => None,
        Err(Stop::Failure(failure)) => Some(failure.sentence().to_owned()),
        Err(Stop::ReaderGone) => panic!("nobody reads"),
    };
    (String::from_utf8(out.0).unwrap(), fault)
}

fn fault_of(files: &[(&str, &File)]) -> String {
    let dir = tempfile::tempdir().unwrap();
    run(dir.path(), files).1.expect("a fault is found")
}

#[test]
fn a_sound_log_has_a_line_a_file() {
    let dir = tempfile::tempdir().unwrap();
    let files = [("binlog.000001", &first()), ("binlog.000002", &second())];
    let (lines, fault) = run(dir.path(), &files);
    assert_eq!(fault, None);
    assert!(lines.contains("ok binlog.000001") && lines.contains("2 transactions, GTID 0-1-2"));
    assert!(lines.contains("ok binlog.000002") && lines.contains("1 transactions, GTID 0-1-3"));
}

#[test]
fn a_flipped_byte_is_named_with_its_events_position() {
    let sound = first();
    for index in 0..sound.positions.len() {
        let mut file = first();
        let start = file.positions[index];
        // In the body of the event.
        let at = usize::try_from(start).unwrap() + EventHeader::LEN + 1;
        file.bytes[at] ^= 0x10;
        let fault = fault_of(&[("binlog.000001", &file), ("binlog.000002", &second())]);
        assert!(fault.contains("binlog.000001"), "{fault}");
        assert!(fault.contains(&format!("position {start}:")), "event {index}: {fault}");
    }
}

#[test]
fn a_cut_file_is_named() {
    let mut file = second();
    let length = file.bytes.len();
    file.bytes.truncate(length - 3);
    let fault = fault_of(&[("binlog.000001", &first()), ("binlog.000002", &file)]);
    assert!(fault.contains("the file ends within an event"), "{fault}");
    let mut file = second();
    file.open(4);
    let fault = fault_of(&[("binlog.000001", &first()), ("binlog.000002", &file)]);
    assert!(fault.contains("the file ends within a transaction"), "{fault}");
}

#[test]
fn events_out_of_place_are_named() {
    let mut twice = second();
    twice.transaction(3);
    let mut loose = second();
    loose.push(EventType::XID, &[7; 8]);
    let mut nested = second();
    nested.open(4).open(5);
    let mut behind = second();
    behind.rotate("binlog.000003").transaction(4);
    for (file, index, expected) in [
        (twice, 4, "GTID 0-1-3 is there twice"),
        (loose, 4, "a Xid event stands outside any transaction"),
        (nested, 5, "a Gtid event stands inside a transaction"),
        (behind, 5, "a Gtid event stands behind the Rotate event to binlog.000003"),
    ] {
        let position = file.positions[index];
        let fault = fault_of(&[("binlog.000001", &first()), ("binlog.000002", &file)]);
        assert!(fault.contains(&format!("position {position}: {expected}")), "{fault}");
    }
}

#[test]
fn files_must_follow_each_other() {
    let mut elsewhere = File::new(&[]);
    elsewhere.transaction(1).transaction(2).rotate("binlog.000007");
    let mut endless = File::new(&[]);
    endless.transaction(1).transaction(2);
    let mut later = File::new(&[gtid(9)]);
    later.transaction(10);
    for (one, two, expected) in [
        (elsewhere, second(), "its Rotate event names binlog.000007, not binlog.000002"),
        (endless, second(), "no Rotate event to binlog.000002 ends it"),
        (first(), later, "its Gtid_list is [0-1-9], but binlog.000001 ends with [0-1-2]"),
    ] {
        let fault = fault_of(&[("binlog.000001", &one), ("binlog.000002", &two)]);
        assert!(fault.contains(expected), "{fault}");
    }
    let fault = fault_of(&[("binlog.000001", &first()), ("binlog.000003", &second())]);
    assert!(fault.contains("binlog.000003 does not follow binlog.000001"), "{fault}");
}

#[test]
fn a_timeline_need_not_follow_in_its_own_domains() {
    let second = |domains: &[u32]| {
        let mut file = File::with_list(&gtid_list::timeline_body(&[gtid(9)], domains));
        file.transaction(10);
        file
    };
    let dir = tempfile::tempdir().unwrap();
    let files = [("binlog.000001", &first()), ("binlog.000002", &second(&[0]))];
    let (lines, fault) = run(dir.path(), &files);
    assert_eq!(fault, None);
    assert!(lines.contains("begins a new timeline"), "{lines}");
    let fault = fault_of(&[("binlog.000001", &first()), ("binlog.000002", &second(&[1]))]);
    assert!(fault.contains("binlog.000001 ends with [0-1-2]"), "{fault}");
}

#[test]
fn a_file_that_only_the_index_knows_is_missing() {
    let dir = tempfile::tempdir().unwrap();
    run(dir.path(), &[("binlog.000001", &first()), ("binlog.000002", &second())]);
    std::fs::remove_file(dir.path().join("binlog.000002")).unwrap();
    let (_, fault) = run(dir.path(), &[("binlog.000001", &first())]);
    assert_eq!(fault, None, "the index is written anew by the test");
    std::fs::write(dir.path().join("binlog.index"), "binlog.000001\nbinlog.000002\n").unwrap();
    let mut out = Out(Vec::new());
    let result = Target::open(dir.path()).and_then(|targets| verify(&targets[0], &mut out));
    assert!(
        matches!(result, Err(Stop::Failure(failure)) if failure.sentence().contains("binlog.000002"))
    );
}

#[test]
fn one_file_may_be_looked_at_by_itself() {
    let dir = tempfile::tempdir().unwrap();
    run(dir.path(), &[("binlog.000001", &first()), ("binlog.000002", &second())]);
    let mut out = Out(Vec::new());
    let target = Target::open(&dir.path().join("binlog.000002")).unwrap().remove(0);
    verify(&target, &mut out).unwrap();
    assert!(String::from_utf8(out.0).unwrap().contains("ok binlog.000002"));
}
