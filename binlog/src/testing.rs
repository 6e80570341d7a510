//! Sample logs for the crate's tests.

use std::fs;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tempfile::TempDir;

use crate::event::gtid::GtidEvent;
use crate::event::{EventType, FormatDescription};
use crate::fs::OsFileSystem;
use crate::gtid::mariadb::{Gtid, GtidState};
use crate::reader::{FileScan, Run};
use crate::transaction::group::{GroupTracker, Step};
use crate::transaction::{Assembled, Transaction};
use crate::{Log, LogOptions, Submitter};

#[path = "../tests/samples/mod.rs"]
mod samples;

pub(crate) use samples::{event, gtid_event, xid_event};

/// A directory with a log that turns to a new file every 4 KiB.
pub(crate) struct Sample {
    dir: TempDir,
}

impl Sample {
    pub(crate) fn new() -> Self {
        Self { dir: TempDir::new().unwrap() }
    }

    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn options(&self) -> LogOptions {
        LogOptions { max_binlog_size: 4096, ..LogOptions::new(self.dir.path(), 4307) }
    }

    /// A second directory with the same files, times of change included.
    pub(crate) fn copy(&self) -> Self {
        let copy = Self::new();
        for entry in fs::read_dir(self.dir()).unwrap() {
            let entry = entry.unwrap();
            if entry.file_type().unwrap().is_dir() {
                continue;
            }
            let to = copy.dir().join(entry.file_name());
            fs::copy(entry.path(), &to).unwrap();
            let modified = entry.metadata().unwrap().modified().unwrap();
            fs::File::options().write(true).open(&to).unwrap().set_modified(modified).unwrap();
        }
        copy
    }

    /// The log's files, oldest first.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        let names = fs::read_dir(self.dir()).unwrap().map(|entry| entry.unwrap().path());
        let is_log = |path: &PathBuf| {
            let name = path.file_name().unwrap().to_str().unwrap();
            crate::file_number("binlog", name).is_some()
        };
        let mut files: Vec<_> = names.filter(is_log).collect();
        files.sort();
        files
    }

    /// Where the first transaction of the first file begins.
    pub(crate) fn head_len(&self) -> u64 {
        let mut scan = FileScan::open(&OsFileSystem, &self.files()[0]).unwrap();
        scan.next_event().unwrap();
        scan.next_event().unwrap();
        scan.position()
    }

    /// Ends of the transactions in the first file, that of the header events first.
    pub(crate) fn ends(&self) -> Vec<u64> {
        let mut scan = FileScan::open(&OsFileSystem, &self.files()[0]).unwrap();
        let (mut groups, mut ends) = (GroupTracker::default(), vec![self.head_len()]);
        while let Some(event) = scan.next_event().unwrap() {
            let end = event.position + event.raw.len() as u64;
            if groups.step(event.event).unwrap() == Step::End {
                ends.push(end);
            }
        }
        ends
    }

    /// Records transactions `0-1-sequence` and waits for them.
    pub(crate) fn record(&self, log: &Log, sequences: RangeInclusive<u64>) {
        let source = log.submitter();
        source.begin(Arc::new(format()), GtidState::default()).wait_durable().unwrap();
        for sequence in sequences {
            source.submit(transaction(&source, sequence)).wait_durable().unwrap();
        }
    }
}

pub(crate) fn format() -> FormatDescription {
    samples::format().as_ref().clone()
}

/// A transaction of three events, about 350 bytes.
pub(crate) fn transaction(source: &Submitter, sequence: u64) -> Transaction {
    transaction_of(source, Gtid { domain: 0, server: 1, sequence }, Arc::new(format()))
}

pub(crate) fn transaction_of(
    source: &Submitter,
    gtid: Gtid,
    format: Arc<FormatDescription>,
) -> Transaction {
    transaction_with(source, gtid, format, &[250])
}

/// A transaction with annotations of these many bytes.
pub(crate) fn transaction_with(
    source: &Submitter,
    gtid: Gtid,
    format: Arc<FormatDescription>,
    notes: &[usize],
) -> Transaction {
    let mut assembler = source.assembler(format);
    assert!(matches!(assembler.push(&gtid_event(gtid)).unwrap(), Assembled::Pending));
    for len in notes {
        let note = vec![u8::try_from(gtid.sequence % 251).unwrap(); *len];
        let note = event(EventType::ANNOTATE_ROWS, &note);
        assert!(matches!(assembler.push(&note).unwrap(), Assembled::Pending));
    }
    let xid = xid_event(gtid);
    let Assembled::Complete(transaction) = assembler.push(&xid).unwrap() else { panic!() };
    transaction
}

/// The same, unless the cache's disk fails.
pub(crate) fn try_transaction(
    source: &Submitter,
    gtid: Gtid,
    format: Arc<FormatDescription>,
    notes: &[usize],
) -> Option<Transaction> {
    let mut assembler = source.assembler(format);
    let mut events = vec![gtid_event(gtid)];
    events.extend(notes.iter().map(|len| event(EventType::ANNOTATE_ROWS, &vec![1; *len])));
    events.push(xid_event(gtid));
    for event in events {
        if let Assembled::Complete(transaction) = assembler.push(&event).ok()? {
            return Some(transaction);
        }
    }
    None
}

/// Sequence numbers of all transactions a cursor over the whole log sees.
pub(crate) fn sequences(log: &Log) -> Vec<u64> {
    let mut cursor = log.cursor(log.files()[0].number, 4).unwrap();
    let mut sequences = Vec::new();
    loop {
        match cursor.next_run(1000).unwrap() {
            Run::CaughtUp => return sequences,
            Run::NextFile => {}
            Run::Events(run) => {
                for (_, header, event) in run.events() {
                    if header.event_type == EventType::GTID {
                        sequences.push(GtidEvent::parse(event).unwrap().gtid.sequence);
                    }
                }
            }
        }
    }
}

/// An INSERT of so many rows of 1,000 bytes into a table of (INT, VARCHAR(9000)): rows events of 8 rows each.
pub(crate) fn insert(rows: u32) -> Vec<Vec<u8>> {
    const TABLE: [u8; 8] = [7, 0, 0, 0, 0, 0, 1, 0];
    let map = [&TABLE, b"\x01d\0\x01t\0".as_slice(), &[2, 3, 15, 2, 0x28, 0x23, 0]].concat();
    let mut events = vec![event(EventType::TABLE_MAP, &map)];
    let keys: Vec<u32> = (0..rows).collect();
    for keys in keys.chunks(8) {
        let mut body = TABLE.to_vec();
        body[6] = u8::from(keys.last() == Some(&(rows - 1)));
        body.extend([2, 0x03]);
        for key in keys {
            body.push(0xfc);
            body.extend(key.to_le_bytes());
            body.extend(1000_u16.to_le_bytes());
            body.resize(body.len() + 1000, b'x');
        }
        events.push(event(EventType(23), &body));
    }
    events
}
