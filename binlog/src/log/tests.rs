//! The log as its users see it: order, atomic visibility, rotation, faults of the disk.

use std::fs;
use std::sync::Arc;

use super::*;
use crate::event::EventType;
use crate::fs::faulty::{Fault, FaultyFileSystem};
use crate::gtid::mariadb::Gtid;
use crate::reader::{AttachError, FileScan, ReadError, Run, ScanErrorKind};
use crate::testing::{Sample, format, sequences, transaction, transaction_of};

fn open(sample: &Sample) -> Log {
    Log::open(sample.options()).unwrap()
}

fn gtid(text: &str) -> Gtid {
    text.parse().unwrap()
}

#[test]
fn files_hold_what_was_submitted_in_order_and_say_where_they_end() {
    let sample = Sample::new();
    let log = open(&sample);
    sample.record(&log, 1..=100);
    assert_eq!(sequences(&log), (1..=100).collect::<Vec<_>>());
    log.close();
    assert!(log.files().len() > 5);
    for (index, path) in sample.files().iter().enumerate() {
        let mut scan = FileScan::open(&OsFileSystem, path).unwrap();
        let mut types = Vec::new();
        while let Some(event) = scan.next_event().unwrap() {
            types.push(event.header.event_type);
            assert_eq!(
                u64::from(event.header.end_position),
                event.position + event.raw.len() as u64
            );
        }
        assert_eq!(types[..2], [EventType::FORMAT_DESCRIPTION, EventType::GTID_LIST]);
        let closed = index + 1 < log.files().len();
        assert_eq!(types.last() == Some(&EventType::ROTATE), closed);
    }
}

#[test]
fn both_ways_of_reading_see_the_same() {
    let sample = Sample::new();
    sample.record(&open(&sample), 1..=60);
    let mapped = open(&sample);
    let seen = sequences(&mapped);
    drop(mapped);
    let buffered = Log::open(LogOptions { mmap: false, ..sample.options() }).unwrap();
    assert_eq!(sequences(&buffered), seen);
    assert_eq!(seen.len(), 60);
}

#[test]
fn a_waiting_reader_sees_every_transaction_over_rotations() {
    let sample = Sample::new();
    let log = Arc::new(open(&sample));
    sample.record(&log, 1..=1);
    let reader = {
        let log = Arc::clone(&log);
        std::thread::spawn(move || {
            let mut cursor = log.cursor(1, 4).unwrap();
            let mut seen = 0;
            while seen < 300 {
                let end = cursor.end();
                match cursor.next_run(500).unwrap() {
                    Run::Events(run) => {
                        let gtids =
                            run.events().filter(|event| event.1.event_type == EventType::GTID);
                        seen += gtids.count();
                    }
                    Run::NextFile => {}
                    Run::CaughtUp => {
                        log.shared.published.wait(|view| (view.end != end).then_some(()));
                    }
                }
            }
        })
    };
    let tickets: Vec<_> = (2..=300).map(|sequence| log.submit(transaction(sequence))).collect();
    tickets.last().unwrap().wait_durable().unwrap();
    assert!(tickets.iter().all(Ticket::is_durable));
    reader.join().unwrap();
}

#[test]
fn the_gtid_state_is_that_of_the_end_and_of_any_position() {
    let sample = Sample::new();
    let log = open(&sample);
    sample.record(&log, 1..=3);
    for text in ["0-2-4", "7-1-1", "0-1-5"] {
        log.submit(transaction_of(gtid(text), Arc::new(format()))).wait_durable().unwrap();
    }
    let print = |state: &GtidState| crate::gtid::mariadb::print_list(&state.list());
    assert_eq!(print(&log.gtid_state()), "0-2-4,0-1-5,7-1-1");
    let ends = sample.ends();
    assert_eq!(print(&log.gtid_state_at(1, ends[4]).unwrap()), "0-1-3,0-2-4");
    assert_eq!(print(&log.gtid_state_at(1, 4).unwrap()), "");
    log.close();
    assert_eq!(print(&open(&sample).gtid_state()), "0-2-4,0-1-5,7-1-1");
}

#[test]
fn a_replica_attaches_to_the_newest_file_that_misses_nothing() {
    let sample = Sample::new();
    let log = open(&sample);
    sample.record(&log, 1..=60);
    assert_eq!(log.find_attach(&[]), Ok(1));
    for sequence in 1..=60 {
        let file = log.find_attach(&[gtid(&format!("0-1-{sequence}"))]).unwrap();
        let before = log.gtid_state_at(file, 4).unwrap().latest(0).map_or(0, |gtid| gtid.sequence);
        let next = log.gtid_state_at(file + 1, 4).ok();
        let after = next.map_or(60, |state| state.latest(0).unwrap().sequence);
        assert!((before..=after).contains(&sequence), "{sequence} in {file}: {before}..{after}");
    }
    assert_eq!(log.find_attach(&[gtid("0-1-61")]), Err(AttachError::Ahead(gtid("0-1-61"))));
    assert_eq!(log.find_attach(&[gtid("0-9-1")]), Err(AttachError::Ahead(gtid("0-9-1"))));
    // A domain the log never saw holds nothing back, but a domain it has begins in file 1.
    assert_eq!(log.find_attach(&[gtid("5-1-9")]), Ok(1));
}

#[test]
fn a_state_older_than_the_first_file_is_purged() {
    let sample = Sample::new();
    let log = open(&sample);
    let state = GtidState::from_list(&[gtid("0-1-100"), gtid("3-1-7")]);
    log.begin(Arc::new(format()), state).wait_durable().unwrap();
    assert_eq!(log.find_attach(&[]), Err(AttachError::Purged));
    assert_eq!(log.find_attach(&[gtid("0-1-99"), gtid("3-1-7")]), Err(AttachError::Purged));
    assert_eq!(log.find_attach(&[gtid("0-1-100")]), Err(AttachError::Purged));
    assert_eq!(log.find_attach(&[gtid("0-1-100"), gtid("3-1-7")]), Ok(1));
}

#[test]
fn another_server_version_or_a_restart_of_the_source_starts_a_new_file() {
    let sample = Sample::new();
    let log = open(&sample);
    sample.record(&log, 1..=1);
    let submit = |sequence, format: &Arc<FormatDescription>| {
        let gtid = gtid(&format!("0-1-{sequence}"));
        log.submit(transaction_of(gtid, Arc::clone(format))).wait_durable().unwrap();
    };
    let upgraded = FormatDescription { server_version: "11.8.9-MariaDB".into(), ..format() };
    let restarted = FormatDescription { created: 77, ..upgraded.clone() };
    submit(2, &Arc::new(upgraded));
    let restarted = Arc::new(restarted);
    submit(3, &restarted);
    submit(4, &restarted);
    let created = |number: u64| log.cursor(number, 4).unwrap().format().created;
    assert_eq!(log.files().len(), 3);
    assert_eq!((created(1), created(2), created(3)), (0, 0, 77));
    for sequence in 5..=30 {
        submit(sequence, &restarted);
    }
    assert!(log.files().len() > 4);
    assert_eq!(created(4), 0, "a rotation is no restart of the source");
    assert_eq!(sequences(&log), (1..=30).collect::<Vec<_>>());
}

#[test]
fn positions_are_refused_where_no_event_starts() {
    let sample = Sample::new();
    let log = open(&sample);
    sample.record(&log, 1..=2);
    let ends = sample.ends();
    assert!(ends.iter().all(|end| log.cursor(1, *end).is_ok()));
    assert!(matches!(log.cursor(1, ends[0] + 1), Err(ReadError::InsideEvent { .. })));
    assert!(matches!(log.cursor(1, ends[2] + 1), Err(ReadError::BeyondEnd { .. })));
    assert!(matches!(log.cursor(2, 4), Err(ReadError::NoSuchFile)));
}

#[test]
fn damage_is_never_read_past() {
    let sample = Sample::new();
    sample.record(&open(&sample), 1..=40);
    let log = open(&sample);
    // Damaged behind the log's back, with the time of change put back: only the checksum can tell.
    log.shared.files.get(1).unwrap().verified_to.store(0, std::sync::atomic::Ordering::SeqCst);
    let path = &sample.files()[0];
    let at = usize::try_from(sample.ends()[2]).unwrap();
    let mut bytes = fs::read(path).unwrap();
    bytes[at + 60] ^= 1;
    fs::write(path, bytes).unwrap();
    let mut cursor = log.cursor(1, 4).unwrap();
    let fault = loop {
        match cursor.next_run(1) {
            Ok(_) => {}
            Err(error) => break error,
        }
    };
    let ReadError::Damaged { file, position, .. } = fault else { panic!("{fault}") };
    assert_eq!((file.as_str(), position), ("binlog.000001", at as u64 + 42));
    let mut scan = FileScan::open(&OsFileSystem, path).unwrap();
    let fault = loop {
        if let Err(error) = scan.next_event() {
            break error;
        }
    };
    assert_eq!(fault.position, at as u64 + 42);
    assert!(matches!(fault.kind, ScanErrorKind::Event(_)));
}

#[test]
fn a_full_disk_pauses_and_then_nothing_is_missing() {
    for at in 0..12 {
        let sample = Sample::new();
        let fs = Arc::new(FaultyFileSystem::new(Fault::Full { times: 1 }, at));
        let log = Log::open(LogOptions { fs: fs.clone(), ..sample.options() }).unwrap();
        let full_at_sync = {
            log.begin(Arc::new(format()), GtidState::default());
            let tickets: Vec<_> =
                (1..=5).map(|n| log.submit(transaction(n)).wait_durable()).collect();
            tickets.iter().any(Result::is_err)
        };
        if full_at_sync {
            assert!(matches!(log.health(), Health::Latched(_)), "operation {at}");
            continue;
        }
        assert_eq!(sequences(&log), [1, 2, 3, 4, 5], "operation {at}");
        assert_eq!(log.health(), Health::Running);
        log.close();
        assert_eq!(sequences(&open(&sample)), [1, 2, 3, 4, 5], "operation {at}");
    }
}

#[test]
fn a_broken_disk_latches_and_what_was_acknowledged_is_there() {
    for at in 0..40 {
        let sample = Sample::new();
        let fs = Arc::new(FaultyFileSystem::new(Fault::Broken, at));
        let log = Log::open(LogOptions { fs: fs.clone(), ..sample.options() }).unwrap();
        log.begin(Arc::new(format()), GtidState::default());
        let results: Vec<_> =
            (1..=15).map(|sequence| log.submit(transaction(sequence)).wait_durable()).collect();
        let acknowledged = results.iter().take_while(|result| result.is_ok()).count() as u64;
        assert!(results.iter().skip_while(|result| result.is_ok()).all(Result::is_err));
        assert_eq!(matches!(log.health(), Health::Latched(_)), acknowledged < 15, "operation {at}");
        log.close();
        let again = open(&sample);
        if again.files().is_empty() {
            assert_eq!(acknowledged, 0);
            continue;
        }
        let found = sequences(&again);
        assert!(found.len() as u64 >= acknowledged, "operation {at}: {found:?} < {acknowledged}");
        assert_eq!(found, (1..=found.len() as u64).collect::<Vec<_>>());
        again.close();
    }
}

#[test]
fn a_closed_log_takes_nothing_more() {
    let sample = Sample::new();
    let log = open(&sample);
    sample.record(&log, 1..=2);
    let queued: Vec<_> = (3..=50).map(|sequence| log.submit(transaction(sequence))).collect();
    log.close();
    assert!(queued.iter().all(Ticket::is_durable));
    assert_eq!(log.submit(transaction(51)).wait_durable(), Err(SubmitError::Closed));
    assert_eq!(sequences(&open_again(&sample, log)), (1..=50).collect::<Vec<_>>());
}

fn open_again(sample: &Sample, log: Log) -> Log {
    drop(log);
    open(sample)
}

#[test]
fn a_transaction_before_the_log_is_begun_is_an_error() {
    let sample = Sample::new();
    let log = open(&sample);
    assert!(matches!(log.submit(transaction(1)).wait_durable(), Err(SubmitError::Latched(_))));
}
