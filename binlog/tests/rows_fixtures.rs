//! The packer against real servers: `data/rows/record.sh` ran the same statements on servers with
//! different `binlog_row_event_max_size`, and from one server's events the packer makes the
//! other's.
#![allow(clippy::unwrap_used)] // Helpers of tests, outside of test functions.

use flate2::read::GzDecoder;
use spillway_binlog::rows::{PackCounters, RowsLayout, RowsPacker, Unpacked, UnpackedReason};
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;

const MAGIC: &[u8] = b"\xfebin";
const FORMAT_DESCRIPTION: u8 = 15;
const TABLE_MAP: u8 = 19;
const GTID: u8 = 162;
const ALL: [&str; 3] = ["workload-10.11", "workload-11.8", "vector-11.8"];

/// A recorded binlog file, its events without checksums.
struct Fixture {
    /// With the checksum algorithm, without the checksum.
    format_description: Vec<u8>,
    events: Vec<Vec<u8>>,
}

impl Fixture {
    fn read(name: &str, limit: usize) -> Self {
        let path = data(&format!("{name}-{limit}.binlog.gz"));
        let mut bytes = vec![];
        GzDecoder::new(File::open(path).unwrap()).read_to_end(&mut bytes).unwrap();
        let mut events = split(bytes.strip_prefix(MAGIC).unwrap(), 4);
        let format_description = events.remove(0);
        assert_eq!(format_description[4], FORMAT_DESCRIPTION);
        Self { format_description, events }
    }

    fn layout(&self) -> RowsLayout {
        // Header, binlog version, server version, time of creation, header length; behind the
        // lengths the checksum algorithm.
        let lengths = &self.format_description[19 + 2 + 50 + 4 + 1..];
        RowsLayout::from_post_header_lengths(&lengths[..lengths.len() - 1])
    }

    fn packed(&self, limit: usize) -> (Vec<Vec<u8>>, PackCounters, Vec<Unpacked>) {
        let mut packer = RowsPacker::new(limit, self.layout());
        let mut out: Vec<u8> = vec![];
        for event in &self.events {
            if event[4] == GTID {
                packer.flush(&mut out).unwrap();
            }
            packer.push(event, &mut out).unwrap();
        }
        packer.flush(&mut out).unwrap();
        (split(&out, 0), packer.counters(), packer.take_unpacked())
    }

    /// Table maps and rows events, which do not depend on the server's start.
    fn rows(&self) -> Vec<Vec<u8>> {
        let plain = |event: &Vec<u8>| {
            let mut event = event.clone();
            let size = u32::try_from(event.len()).unwrap();
            event[9..13].copy_from_slice(&size.to_le_bytes());
            event[13..17].fill(0);
            event
        };
        only_rows(self.events.iter().map(plain).collect())
    }
}

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/rows").join(name)
}

fn split(mut bytes: &[u8], checksum: usize) -> Vec<Vec<u8>> {
    let mut events = vec![];
    while !bytes.is_empty() {
        let size = u32::from_le_bytes(bytes[9..13].try_into().unwrap()) as usize;
        events.push(bytes[..size - checksum].to_vec());
        bytes = &bytes[size..];
    }
    events
}

fn only_rows(events: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    events.into_iter().filter(|event| matches!(event[4], TABLE_MAP | 23..=25)).collect()
}

/// Equal, with a short message where not.
fn assert_same(ours: &[Vec<u8>], servers: &[Vec<u8>], what: &str) {
    for (at, (ours, servers)) in ours.iter().zip(servers).enumerate() {
        let brief = |event: &[u8]| (event.len(), event[..event.len().min(60)].to_vec());
        assert!(ours == servers, "{what}: event {at}: {:?} / {:?}", brief(ours), brief(servers));
    }
    assert_eq!(ours.len(), servers.len(), "{what}");
}

#[test]
fn packs_to_what_a_server_with_that_limit_writes() {
    for name in ALL {
        for (from, to) in [(256, 8_192), (8_192, 256), (256, 256), (8_192, 8_192)] {
            let source = Fixture::read(name, from);
            let (out, counters, unpacked) = source.packed(to);
            assert_eq!(unpacked, [], "{name}: every type is known");
            let expected = Fixture::read(name, to).rows();
            assert_same(&only_rows(out), &expected, &format!("{name}, {from} to {to}"));
            assert_eq!(unpacked, [], "{name}: every type is known");
            assert_eq!(counters.unknown_type + counters.malformed, 0);
            assert_eq!(counters.without_table_map, 0);
            assert_eq!(usize::try_from(counters.rows_events_in).unwrap(), rows_events(&source));
        }
    }
}

fn rows_events(fixture: &Fixture) -> usize {
    fixture.events.iter().filter(|event| matches!(event[4], 23..=25)).count()
}

#[test]
fn packs_to_the_same_whatever_the_servers_limit_was() {
    for name in ALL {
        for limit in [300, 1_000, 65_536, 1 << 20] {
            let [one, other] = [256, 8_192].map(|from| Fixture::read(name, from).packed(limit).0);
            assert_same(&only_rows(one), &only_rows(other), &format!("{name} to {limit}"));
        }
    }
}

#[test]
fn events_of_all_other_types_keep_their_bytes() {
    let others = |events: Vec<Vec<u8>>| -> Vec<Vec<u8>> {
        let others = events.into_iter().filter(|event| !matches!(event[4], 23..=25));
        others.map(|event| [&event[..9], &event[17..]].concat()).collect()
    };
    for name in ALL {
        let source = Fixture::read(name, 8_192);
        let (out, ..) = source.packed(65_536);
        assert_same(&others(out), &others(source.events), name);
    }
}

#[test]
fn old_temporal_types_pass_and_are_reported() {
    for name in ["old_temporals-10.11", "old_temporals-11.8"] {
        let source = Fixture::read(name, 256);
        let (out, counters, unpacked) = source.packed(65_536);
        let report = |table: &str, type_code| Unpacked {
            table: format!("d.{table}"),
            reason: UnpackedReason::UnknownType { column: 1, type_code },
        };
        let expected =
            [report("old_datetime", 12), report("old_time", 11), report("old_timestamp", 7)];
        assert_eq!(unpacked, expected);
        // An event that ends its statement and fits is not looked at.
        let goes_on = |event: &&Vec<u8>| event[4] == 23 && event[25] == 0;
        let going_on = |events: &[Vec<u8>]| events.iter().filter(goes_on).count();
        let new_events = going_on(&source.events) - usize::try_from(counters.unknown_type).unwrap();
        assert!(new_events > 0, "the table of the new types is packed");
        assert_eq!(going_on(&out), going_on(&source.events) - new_events);
    }
}

/// `mariadb-binlog` decodes the same rows from the packed events.
#[test]
fn mariadb_binlog_prints_the_same_rows() {
    if Command::new("mariadb-binlog").arg("--version").output().is_err() {
        eprintln!("SKIPPED mariadb_binlog_prints_the_same_rows: no mariadb-binlog is installed");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (original, packed) = (dir.path().join("original"), dir.path().join("packed"));
    // Without the old temporal types: on those mariadb-binlog -v gives up, whoever wrote the file.
    for name in ALL {
        let fixture = Fixture::read(name, 256);
        write_binlog(&original, &fixture.format_description, &fixture.events);
        write_binlog(&packed, &fixture.format_description, &fixture.packed(65_536).0);
        let [before, after] = [&original, &packed].map(|file| printed_rows(file));
        assert!(!before.is_empty());
        assert!(before == after, "{name}: other rows");
    }
}

fn write_binlog(path: &Path, format_description: &[u8], events: &[Vec<u8>]) {
    let mut bytes = MAGIC.to_vec();
    for event in std::iter::once(format_description).chain(events.iter().map(Vec::as_slice)) {
        let size = u32::try_from(event.len() + 4).unwrap();
        let mut event = event.to_vec();
        event[9..13].copy_from_slice(&size.to_le_bytes());
        let end = u32::try_from(bytes.len()).unwrap() + size;
        event[13..17].copy_from_slice(&end.to_le_bytes());
        let checksum = crc32fast::hash(&event);
        bytes.extend(event);
        bytes.extend(checksum.to_le_bytes());
    }
    fs::write(path, bytes).unwrap();
}

/// The rows as pseudo SQL, which does not show how they were spread over events.
fn printed_rows(file: &Path) -> Vec<String> {
    let mut command = Command::new("mariadb-binlog");
    command.args([
        "--no-defaults",
        "-vv",
        "--base64-output=decode-rows",
        "--verify-binlog-checksum",
    ]);
    let output = command.arg(file).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {errors}", output.status);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().filter(|line| line.starts_with("###")).map(str::to_owned).collect()
}
