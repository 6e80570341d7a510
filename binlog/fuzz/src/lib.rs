//! What is fuzzed: every decoder of the crate on any bytes. `cargo fuzz` runs these functions under libFuzzer, the test
//! `fuzz_targets` on the corpus and seeded mutations of it. A fault is a panic.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use spillway_binlog::event::gtid::{FLAG_TRANSACTIONAL, GtidEvent};
use spillway_binlog::event::{
    ChecksumAlgorithm, EventHeader, EventType, FormatDescription, MAGIC, control, gtid_list,
};
use spillway_binlog::fs::crash::CrashFileSystem;
use spillway_binlog::gtid::mariadb::{self, Gtid, GtidState};
use spillway_binlog::gtid_index;
use spillway_binlog::reader::{FileScan, Run};
use spillway_binlog::rows::{PackCounters, RowsLayout, RowsPacker};
use spillway_binlog::transaction::Assembled;
use spillway_binlog::transaction::group::{GroupTracker, query_text};
use spillway_binlog::{Log, LogOptions, Submitter};

const DIR: &str = "/log";

/// One event's bytes, to the parser of every type.
pub fn events(data: &[u8]) {
    if let Ok(header) = EventHeader::parse(data) {
        assert_eq!(header.to_bytes(), data[..EventHeader::LEN]);
    }
    if let Ok(format) = FormatDescription::parse_checked(data) {
        let _ = (format.to_event(1, 2, 3), RowsLayout::from_post_header_lengths(data));
        let _ = format.post_header_length(EventType::TABLE_MAP);
    }
    if let Ok((list, flags)) = gtid_list::parse(data) {
        let body = gtid_list::body(&list, flags);
        assert_eq!(EventHeader::LEN + body.len(), gtid_list::event_len(list.len()));
        let event = [&data[..EventHeader::LEN], &body].concat();
        assert_eq!(gtid_list::parse(&event).ok(), Some((list.clone(), flags)));
        if let Ok(Some(domains)) = gtid_list::timeline_domains(data) {
            let body = gtid_list::timeline_body(&list, &domains);
            let event = [&data[..EventHeader::LEN], &body].concat();
            assert_eq!(gtid_list::timeline_domains(&event), Ok(Some(domains)));
        }
        let state = GtidState::from_list(&list);
        assert_eq!(GtidState::from_list(&state.list()), state);
    }
    let _ = (GtidEvent::parse(data), control::parse_rotate(data), query_text(data));
    let _ = (FormatDescription::parse(data), ChecksumAlgorithm::Crc32.verify(data));
    if let Ok(list) = mariadb::parse_list(&String::from_utf8_lossy(data)) {
        assert_eq!(mariadb::parse_list(&mariadb::print_list(&list)), Ok(list));
    }
}

/// A stream of events without checksums, to the groups and the packer.
pub fn rows(data: &[u8]) {
    let _ = pack(data);
}

/// See [`rows`]: what was packed. Seven bits of the first byte are the packer's limit, the eighth a source of MySQL's family.
pub fn pack(data: &[u8]) -> Option<PackCounters> {
    let (mode, mut rest) = data.split_first()?;
    let mut lengths = vec![0; if mode & 128 == 0 { 171 } else { 42 }];
    lengths[18] = 8;
    lengths[22..25].fill(8);
    lengths[29..32].fill(10);
    let limit = 256 + usize::from(mode & 127) * 32;
    let mut packer = RowsPacker::new(limit, RowsLayout::from_post_header_lengths(&lengths));
    let mut groups = GroupTracker::default();
    let (mut out, mut given) = (Vec::new(), 0);
    while let Ok(header) = EventHeader::parse(rest) {
        let len = (header.event_size as usize).min(rest.len());
        let (event, others) = rest.split_at(len);
        let _ = groups.step(event);
        packer.push(event, &mut out).ok()?;
        (rest, given) = (others, given + 1);
    }
    packer.flush(&mut out).ok()?;
    let (mut left, mut made) = (out.as_slice(), 0);
    while !left.is_empty() {
        let header = EventHeader::parse(left);
        let size = header.map_or(0, |header| header.event_size as usize);
        assert!((EventHeader::LEN..=left.len()).contains(&size), "size {size} of an event put out");
        (left, made) = (&left[size..], made + 1);
    }
    assert!(given == 0 || made > 0, "events went missing");
    let _ = packer.take_unpacked();
    Some(packer.counters())
}

/// A log's only file, to the scan, to recovery and to a reader. With an odd first byte the checksums are made anew, so that what is
/// behind them is reached.
pub fn file(data: &[u8]) {
    let Some((mode, bytes)) = data.split_first() else { return };
    let mut bytes = bytes.to_vec();
    if mode % 2 == 1 {
        reseal(&mut bytes);
    }
    let disk = CrashFileSystem::new();
    let path = Path::new(DIR).join("binlog.000001");
    disk.put(&path, &bytes);
    if let Ok(mut scan) = FileScan::open(&disk, &path) {
        while let Ok(Some(_)) = scan.next_event() {}
        assert!(scan.position() <= scan.file_len());
    }
    let Ok(log) = Log::open(options(&disk)) else { return };
    read(&log);
    let (end, state) = (log.end(), log.gtid_state());
    drop(log);
    // Once opened, it opens again, as it was.
    let again = Log::open(options(&disk)).map_err(|error| error.to_string());
    let again = again.map(|log| (log.end(), log.gtid_state()));
    assert!(again == Ok((end, state)), "{again:?}");
}

/// The index, the hint or the first file's GTID index of a sound log, by the first byte. Whatever they say, a log that opens is at its
/// end, and a GTID is found where it is or said to be unknown.
pub fn side_files(data: &[u8]) {
    let Some((mode, bytes)) = data.split_first() else { return };
    let disk = sound_log().after_kill();
    let name = ["binlog.index", "binlog.verified", "binlog.000001.idx"][usize::from(mode % 3)];
    disk.put(&Path::new(DIR).join(name), bytes);
    let Ok(log) = Log::open(options(&disk)) else {
        assert!(mode % 3 == 0, "no hint keeps a sound log from being opened");
        return;
    };
    read(&log);
    assert_eq!(log.gtid_state().latest(0).map(|gtid| gtid.sequence), Some(RECORDED));
    if let Some(index) = gtid_index::load(&disk, &Path::new(DIR).join("binlog.000001")) {
        let _ = (index.before(1000), index.seek(&[], &[gtid(2)]));
    }
    let _ = log.seek_gtid(1, &[gtid(2)]);
}

fn gtid(sequence: u64) -> Gtid {
    Gtid { domain: 0, server: 1 + u32::from(sequence == 5), sequence }
}

/// Transactions in [`sound_log`].
const RECORDED: u64 = 12;

/// A log of a few files.
pub fn sound_log() -> &'static CrashFileSystem {
    static DISK: OnceLock<CrashFileSystem> = OnceLock::new();
    DISK.get_or_init(|| {
        let disk = CrashFileSystem::new();
        let Ok(log) = Log::open(options(&disk)) else { return disk };
        let source = log.submitter();
        let _ = source.begin(Arc::new(format()), GtidState::default()).wait_durable();
        for sequence in 1..=RECORDED {
            record(&source, sequence);
        }
        log.close();
        disk
    })
}

/// Small limits: some are renamed, the rest fill a file with three.
fn options(disk: &CrashFileSystem) -> LogOptions {
    LogOptions {
        max_binlog_size: 1200,
        cache_size: 512,
        large_commit_threshold: 1024,
        fs: Arc::new(disk.clone()),
        ..LogOptions::new(DIR, 4307)
    }
}

fn format() -> FormatDescription {
    FormatDescription {
        server_version: "10.11.19-MariaDB-log".into(),
        created: 0,
        post_header_lengths: vec![0; 171],
        checksum: ChecksumAlgorithm::Crc32,
    }
}

fn record(source: &Submitter, sequence: u64) {
    let mut assembler = source.assembler(Arc::new(format()));
    let gtid = gtid(sequence);
    let mut body = gtid.sequence.to_le_bytes().to_vec();
    body.extend([0, 0, 0, 0, FLAG_TRANSACTIONAL, 0, 0, 0, 0, 0, 0]);
    let note = vec![b'n'; if sequence == 9 { 1500 } else { 200 }];
    let event = |event_type, body: &[u8]| {
        let header = EventHeader { flags: 0, ..control::artificial(event_type, gtid.server, 0) };
        control::event(header, body, ChecksumAlgorithm::None)
    };
    let xid = sequence.to_le_bytes();
    let parts: [(_, &[u8]); 3] =
        [(EventType::GTID, &body), (EventType::ANNOTATE_ROWS, &note), (EventType::XID, &xid)];
    for (event_type, body) in parts {
        if let Ok(Assembled::Complete(transaction)) = assembler.push(&event(event_type, body)) {
            let _ = source.submit(transaction).wait_durable();
        }
    }
}

/// Reads what there is, from the first file's beginning.
fn read(log: &Log) {
    let Some(first) = log.files().first().cloned() else { return };
    let Ok(mut cursor) = log.cursor(first.number, MAGIC.len() as u64) else { return };
    loop {
        match cursor.next_run(1000) {
            Ok(Run::Events(run)) => assert!(run.events().count() > 0, "a run of no events"),
            Ok(Run::NextFile) => {}
            Ok(Run::CaughtUp) | Err(_) => return,
        }
    }
}

/// Makes end positions and checksums of a file's events anew, as far as their sizes lead.
fn reseal(bytes: &mut [u8]) {
    let mut at = MAGIC.len();
    while let Ok(header) = EventHeader::parse(bytes.get(at..).unwrap_or_default()) {
        let end = at + header.event_size as usize;
        if header.event_size < 23 || end > bytes.len() {
            return;
        }
        let position = u32::try_from(end).unwrap_or(u32::MAX).to_le_bytes();
        bytes[at + 13..at + 17].copy_from_slice(&position);
        ChecksumAlgorithm::Crc32.write(&mut bytes[at..end]);
        at = end;
    }
}
