//! Entering files of several MiB by GTID and by position, with an index that is there, missing, stale or damaged.

use std::fs;
use std::path::PathBuf;

use super::*;
use crate::event::EventType;
use crate::event::gtid::GtidEvent;
use crate::gtid_index::path_of;
use crate::reader::Run;
use crate::testing::{Sample, format, transaction_with};
use crate::{LogOptions, index_path};

/// Bytes of a transaction: sixteen of them make a point due.
const NOTE: usize = 70_000;

struct Big {
    sample: Sample,
}

impl Big {
    fn new() -> Self {
        Self { sample: Sample::new() }
    }

    fn options(&self) -> LogOptions {
        LogOptions { max_binlog_size: 16 << 20, ..self.sample.options() }
    }

    fn open(&self) -> Log {
        Log::open(self.options()).unwrap()
    }

    fn side(&self, index: usize) -> PathBuf {
        path_of(&self.sample.files()[index])
    }
}

fn gtid(text: &str) -> Gtid {
    text.parse().unwrap()
}

fn record(log: &Log, gtids: impl IntoIterator<Item = Gtid>) {
    let source = log.submitter();
    source.begin(Arc::new(format()), GtidState::default()).wait_durable().unwrap();
    for gtid in gtids {
        let transaction = transaction_with(&source, gtid, Arc::new(format()), &[NOTE]);
        source.submit(transaction).wait_durable().unwrap();
    }
}

fn numbered(range: std::ops::RangeInclusive<u64>) -> impl Iterator<Item = Gtid> {
    range.map(|sequence| Gtid { domain: 0, server: 1, sequence })
}

/// Position and GTID of all transactions of a file.
fn all(log: &Log, file: u64) -> Vec<(u64, Gtid)> {
    from(log.cursor(file, 4).unwrap())
}

fn from(mut cursor: Cursor) -> Vec<(u64, Gtid)> {
    let (file, mut found) = (cursor.file(), Vec::new());
    while let Run::Events(run) = cursor.next_run(1 << 20).unwrap() {
        for (position, header, event) in run.events() {
            if header.event_type == EventType::GTID {
                found.push((position, GtidEvent::parse(event).unwrap().gtid));
            }
        }
    }
    assert!(cursor.file() >= file);
    found
}

/// What a dump to a replica at `wanted` in one domain sends of these.
fn owed(all: &[(u64, Gtid)], wanted: Gtid) -> Vec<(u64, Gtid)> {
    let of_server = |gtid: Gtid| gtid.server == wanted.server && gtid.sequence >= wanted.sequence;
    let Some(at) = all.iter().position(|(_, gtid)| of_server(*gtid)) else { return Vec::new() };
    let rest = if all[at].1 == wanted { at + 1 } else { at };
    all[rest..].to_vec()
}

/// For every transaction: a replica there is sent the same from the place found as from the file's beginning.
fn nothing_is_missed(log: &Log) -> u64 {
    let whole = all(log, 1);
    let mut furthest = 0;
    for (_, wanted) in &whole {
        let Some(sought) = log.seek_gtid(1, &[*wanted]).unwrap() else { continue };
        let (position, state) = (sought.cursor.position(), sought.state.clone());
        let before: Vec<_> = whole.iter().filter(|one| one.0 < position).map(|one| one.1).collect();
        assert_eq!(state, GtidState::from_list(&before));
        let mut sent = from(sought.cursor);
        if !state.list().contains(wanted) {
            sent = owed(&sent, *wanted);
        }
        assert_eq!(sent, owed(&whole, *wanted), "{wanted}");
        furthest = furthest.max(position);
    }
    furthest
}

#[test]
fn a_replica_enters_near_where_it_is_and_misses_nothing() {
    let big = Big::new();
    let log = big.open();
    record(&log, numbered(1..=100));
    assert!(nothing_is_missed(&log) > 5 << 20);
    assert!(log.seek_gtid(1, &[]).unwrap().is_none());
    assert!(log.seek_gtid(1, &[gtid("5-1-1")]).unwrap().is_none());
    let near = log.seek_gtid(1, &[gtid("0-1-80")]).unwrap().unwrap();
    let exact = all(&log, 1)[79].0;
    assert!(near.cursor.position() <= exact && exact - near.cursor.position() < 2 * SPACING);
    // A server not seen in the file: all of it is passed over.
    assert!(log.seek_gtid(1, &[gtid("0-9-1")]).unwrap().is_some());
}

#[test]
fn numbers_that_go_back_and_quiet_domains_miss_nothing() {
    let big = Big::new();
    let log = big.open();
    let mut gtids: Vec<_> = numbered(1..=40).collect();
    gtids.insert(3, gtid("7-1-1"));
    gtids.extend(numbered(10..=50).map(|gtid| Gtid { server: 2, ..gtid }));
    gtids.extend(numbered(20..=39));
    gtids.extend(numbered(41..=60));
    let whole = gtids.clone();
    record(&log, gtids);
    for one in whole.iter().filter(|gtid| gtid.domain == 0) {
        let both = [*one, gtid("7-1-1")];
        let Some(sought) = log.seek_gtid(1, &both).unwrap() else { continue };
        let of_zero = |all: Vec<(u64, Gtid)>| -> Vec<_> {
            all.into_iter().filter(|(_, gtid)| gtid.domain == 0).collect()
        };
        let state = sought.state.clone();
        let mut sent = of_zero(from(sought.cursor));
        if !state.list().contains(one) {
            sent = owed(&sent, *one);
        }
        assert_eq!(sent, owed(&of_zero(all(&log, 1)), *one), "{one}");
    }
    // The quiet domain's position lies at the beginning, and holds nobody there.
    let late = log.seek_gtid(1, &[gtid("0-1-59"), gtid("7-1-1")]).unwrap();
    assert!(late.is_none_or(|sought| sought.cursor.position() > SPACING));
    let early = log.seek_gtid(1, &[gtid("0-2-45"), gtid("7-1-1")]).unwrap().unwrap();
    assert!(early.cursor.position() > 4 << 20);
}

#[test]
fn any_position_has_the_state_that_its_transactions_add_up_to() {
    let big = Big::new();
    let log = big.open();
    record(&log, numbered(1..=300));
    assert_eq!(log.files().len(), 2);
    for file in [1, 2] {
        let entry = log.shared.files.get(file).unwrap();
        let mut state = GtidState::from_list(&entry.gtid_list);
        for (position, gtid) in all(&log, file) {
            assert_eq!(log.gtid_state_at(file, position).unwrap(), state);
            let inside = log.gtid_state_at(file, position + 1);
            assert!(matches!(inside, Err(ReadError::InsideEvent { .. })), "{inside:?}");
            state.update(gtid);
        }
    }
}

/// Damages a side file in many ways; each time the same places are found.
#[test]
fn a_side_file_that_is_missing_stale_or_damaged_is_made_anew() {
    let big = Big::new();
    let log = big.open();
    record(&log, numbered(1..=300));
    let wanted = [gtid("0-1-150")];
    let place = |log: &Log| log.seek_gtid(1, &wanted).unwrap().map(|s| s.cursor.position());
    let expected = place(&log);
    assert!(expected.is_some());
    let side = big.side(0);
    let good = fs::read(&side).unwrap();
    type Corruptor = fn(&[u8]) -> Vec<u8>;
    let corruptors: [Corruptor; 7] = [
        |_| Vec::new(),
        |good| good[..good.len() / 2].to_vec(),
        |good| good[..20].to_vec(),
        |good| [&good[..40], &[good[40] ^ 1], &good[41..]].concat(),
        |good| [&good[..9], &[good[9] ^ 1], &good[10..]].concat(),
        |good| [&good[..16], &[0xff; 4], &good[20..]].concat(),
        |good| [good, &[7; 100]].concat(),
    ];
    for corrupt in corruptors {
        fs::write(&side, corrupt(&good)).unwrap();
        assert_eq!(place(&log), expected);
    }
    fs::remove_file(&side).unwrap();
    assert_eq!(place(&log), expected);
    assert_eq!(fs::read(&side).unwrap(), good);
    // That of another file.
    fs::copy(big.side(0), big.side(1)).unwrap_or_default();
    assert_eq!(log.gtid_state_at(2, 4).unwrap().list().len(), 1);
    assert!(gtid_index::load(&crate::fs::OsFileSystem, &big.sample.files()[1]).is_none());
}

#[test]
fn opening_reads_only_what_follows_the_last_point_and_goes_on_with_the_index() {
    let big = Big::new();
    let log = big.open();
    record(&log, numbered(1..=100));
    let wanted = [gtid("0-1-95")];
    let near = log.seek_gtid(1, &wanted).unwrap().unwrap().cursor.position();
    log.close();
    drop(log);
    let log = big.open();
    let entry = log.shared.files.get(1).unwrap();
    assert!(entry.known_from >= near && log.end().position - entry.known_from < 2 * SPACING);
    assert_eq!(log.gtid_state().latest(0), Some(gtid("0-1-100")));
    record(&log, numbered(101..=140));
    assert!(nothing_is_missed(&log) > 8 << 20);
    assert_eq!(entry.verified_to.load(std::sync::atomic::Ordering::Acquire), u64::MAX);
    log.close();
    drop(log);
    // Touched: read whole.
    let path = &big.sample.files()[0];
    let bytes = fs::read(path).unwrap();
    fs::write(path, bytes).unwrap();
    let log = big.open();
    assert_eq!(log.shared.files.get(1).unwrap().known_from, u64::MAX);
    assert!(index_path(big.sample.dir(), "binlog").exists());
}

#[test]
fn damage_in_the_part_that_opening_passed_over_ends_the_reader() {
    let big = Big::new();
    let log = big.open();
    record(&log, numbered(1..=100));
    log.close();
    drop(log);
    let path = &big.sample.files()[0];
    let modified = fs::metadata(path).unwrap().modified().unwrap();
    let mut bytes = fs::read(path).unwrap();
    bytes[3 << 20] ^= 1;
    fs::write(path, bytes).unwrap();
    fs::File::options().write(true).open(path).unwrap().set_modified(modified).unwrap();
    let log = big.open();
    let mut cursor = log.cursor(1, 4).unwrap();
    let error = loop {
        match cursor.next_run(1 << 20) {
            Ok(Run::Events(_)) => {}
            Ok(other) => panic!("{other:?}"),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, ReadError::Damaged { .. }), "{error}");
}
