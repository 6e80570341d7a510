//! The log as its users see it: order, atomic visibility, rotation, faults of the disk.

use std::fs;
use std::sync::Arc;

use super::*;

mod timelines;
use crate::event::EventType;
use crate::fs::faulty::{Fault, FaultyFileSystem, Held, Operation};
use crate::gtid::mariadb::Gtid;
use crate::reader::{AttachError, FileScan, ReadError, Run, ScanErrorKind};
use crate::testing::{
    self, Sample, format, sequences, transaction, transaction_of, transaction_with,
};

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
    let source = log.submitter();
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
    let tickets: Vec<_> =
        (2..=300).map(|sequence| source.submit(transaction(&source, sequence))).collect();
    tickets.last().unwrap().wait_durable().unwrap();
    assert!(tickets.iter().all(Ticket::is_durable));
    reader.join().unwrap();
}

#[test]
fn the_gtid_state_is_that_of_the_end_and_of_any_position() {
    let sample = Sample::new();
    let log = open(&sample);
    let source = log.submitter();
    sample.record(&log, 1..=3);
    for text in ["0-2-4", "7-1-1", "0-1-5"] {
        source
            .submit(transaction_of(&source, gtid(text), Arc::new(format())))
            .wait_durable()
            .unwrap();
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
    let source = log.submitter();
    let state = GtidState::from_list(&[gtid("0-1-100"), gtid("3-1-7")]);
    source.begin(Arc::new(format()), state).wait_durable().unwrap();
    assert_eq!(log.find_attach(&[]), Err(AttachError::Purged));
    assert_eq!(log.find_attach(&[gtid("0-1-99"), gtid("3-1-7")]), Err(AttachError::Purged));
    assert_eq!(log.find_attach(&[gtid("0-1-100")]), Err(AttachError::Purged));
    assert_eq!(log.find_attach(&[gtid("0-1-100"), gtid("3-1-7")]), Ok(1));
}

#[test]
fn another_server_version_or_a_restart_of_the_source_starts_a_new_file() {
    let sample = Sample::new();
    let log = open(&sample);
    let source = log.submitter();
    sample.record(&log, 1..=1);
    let submit = |sequence, format: &Arc<FormatDescription>| {
        let gtid = gtid(&format!("0-1-{sequence}"));
        source.submit(transaction_of(&source, gtid, Arc::clone(format))).wait_durable().unwrap();
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
fn another_checksum_setting_starts_a_new_file() {
    let sample = Sample::new();
    sample.record(&open(&sample), 1..=2);
    let checksum = ChecksumAlgorithm::None;
    let log = Log::open(LogOptions { checksum, ..sample.options() }).unwrap();
    let source = log.submitter();
    for sequence in 3..=4 {
        let gtid = gtid(&format!("0-1-{sequence}"));
        source.submit(transaction_of(&source, gtid, Arc::new(format()))).wait_durable().unwrap();
    }
    assert_eq!(sequences(&log), [1, 2, 3, 4]);
    assert_eq!(log.files().len(), 2);
    log.close();
    assert_eq!(sequences(&open(&sample)), [1, 2, 3, 4]);
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
    log.shared.files.get(1).unwrap().verified_to.store(0, Ordering::SeqCst);
    let path = &sample.files()[0];
    let at = usize::try_from(sample.ends()[2]).unwrap();
    let mut bytes = fs::read(path).unwrap();
    bytes[at + 60] ^= 1;
    fs::write(path, bytes).unwrap();
    let mut cursor = log.cursor(1, 4).unwrap();
    let Run::Events(sound) = cursor.next_run(1 << 20).unwrap() else { panic!() };
    assert_eq!(sound.bytes.len(), at + 42 - 4, "what is sound before it is read");
    let fault = cursor.next_run(1 << 20).unwrap_err();
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
        let source = log.submitter();
        let full_at_sync = {
            source.begin(Arc::new(format()), GtidState::default());
            let tickets: Vec<_> =
                (1..=5).map(|n| source.submit(transaction(&source, n)).wait_durable()).collect();
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
        let source = log.submitter();
        source.begin(Arc::new(format()), GtidState::default());
        let results: Vec<_> = (1..=15)
            .map(|sequence| source.submit(transaction(&source, sequence)).wait_durable())
            .collect();
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
    let source = log.submitter();
    sample.record(&log, 1..=2);
    let queued: Vec<_> =
        (3..=50).map(|sequence| source.submit(transaction(&source, sequence))).collect();
    log.close();
    assert!(queued.iter().all(Ticket::is_durable));
    assert_eq!(source.submit(transaction(&source, 51)).wait_durable(), Err(SubmitError::Closed));
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
    let source = log.submitter();
    assert!(matches!(
        source.submit(transaction(&source, 1)).wait_durable(),
        Err(SubmitError::Latched(_))
    ));
}

/// Options under which transactions of over 2 KiB spill and those of over 16 KiB are renamed.
fn small_limits(sample: &Sample) -> LogOptions {
    LogOptions {
        max_binlog_size: 1 << 20,
        cache_size: 2048,
        large_commit_threshold: 16 << 10,
        ..sample.options()
    }
}

fn of_size(source: &Submitter, text: &str, notes: &[usize]) -> Transaction {
    transaction_with(source, gtid(text), Arc::new(format()), notes)
}

/// Every event of a file, with position and bytes as they stand there.
fn events_of(path: &std::path::Path) -> Vec<(u64, EventType, u64)> {
    let mut scan = FileScan::open(&OsFileSystem, path).unwrap();
    let mut events = Vec::new();
    while let Some(event) = scan.next_event().unwrap() {
        let end = event.position + event.raw.len() as u64;
        assert_eq!(u64::from(event.header.end_position), end, "every event says where it ends");
        events.push((event.position, event.header.event_type, end));
    }
    events
}

fn caches(sample: &Sample) -> usize {
    fs::read_dir(sample.dir().join("#binlog_cache_files")).unwrap().count()
}

#[test]
fn a_large_transaction_becomes_the_next_file_with_its_gtid_event_padded() {
    let sample = Sample::new();
    let log = Log::open(small_limits(&sample)).unwrap();
    sample.record(&log, 1..=2);
    let source = log.submitter();
    for (sequence, notes) in [(3, vec![1000; 40]), (4, vec![300_000]), (5, vec![5, 60_000, 5])] {
        let large = of_size(&source, &format!("0-1-{sequence}"), &notes);
        source.submit(large).wait_durable().unwrap();
    }
    source.submit(transaction(&source, 6)).wait_durable().unwrap();
    assert_eq!(log.files().len(), 4);
    assert_eq!(caches(&sample), 0);
    for path in &sample.files()[1..] {
        let events = events_of(path);
        let types: Vec<_> = events[..3].iter().map(|event| event.1).collect();
        assert_eq!(types, [EventType::FORMAT_DESCRIPTION, EventType::GTID_LIST, EventType::GTID]);
        let (_, _, gtid_end) = events[2];
        assert_eq!(gtid_end % 4096, 0, "the body begins at a page");
    }
    assert_eq!(sequences(&log), [1, 2, 3, 4, 5, 6]);
    log.close();
    let again = Log::open(small_limits(&sample)).unwrap();
    assert_eq!(sequences(&again), [1, 2, 3, 4, 5, 6]);
    assert_eq!(again.gtid_state().latest(0), Some(gtid("0-1-6")));
}

#[test]
fn a_spilled_transaction_below_the_threshold_is_copied_with_valid_positions() {
    let sample = Sample::new();
    let log = Log::open(LogOptions { large_commit_threshold: 8 << 20, ..small_limits(&sample) });
    let log = log.unwrap();
    sample.record(&log, 1..=1);
    let source = log.submitter();
    for (sequence, notes) in [(2, vec![500; 100]), (3, vec![10, 3 << 20, 10]), (4, vec![2100])] {
        let spilled = of_size(&source, &format!("0-1-{sequence}"), &notes);
        assert!(spilled.spilled().is_some());
        source.submit(spilled);
    }
    source.submit(transaction(&source, 5)).wait_durable().unwrap();
    assert_eq!(sequences(&log), [1, 2, 3, 4, 5]);
    assert_eq!(caches(&sample), 0);
    log.close();
    sample.files().iter().for_each(|path| drop(events_of(path)));
}

#[test]
fn a_renamed_file_has_the_same_events_as_a_copied_one() {
    let body = |threshold| {
        let sample = Sample::new();
        let options = LogOptions { large_commit_threshold: threshold, ..small_limits(&sample) };
        let log = Log::open(options).unwrap();
        sample.record(&log, 1..=1);
        let source = log.submitter();
        source.submit(of_size(&source, "0-1-2", &[700; 90])).wait_durable().unwrap();
        log.close();
        let bytes = fs::read(sample.files().last().unwrap()).unwrap();
        let gtid = gtid("0-1-2");
        let mut found = Vec::new();
        for (start, event_type, end) in events_of(sample.files().last().unwrap()) {
            let event = &bytes[usize::try_from(start).unwrap()..usize::try_from(end).unwrap()];
            if event_type == EventType::ANNOTATE_ROWS {
                found.push((event[..9].to_vec(), event[17..event.len() - 4].to_vec()));
            }
        }
        assert!(log.gtid_state().latest(0) == Some(gtid));
        found.split_off(found.len() - 90)
    };
    assert_eq!(body(16 << 10), body(1 << 30));
}

#[test]
fn a_head_that_has_outgrown_its_room_is_copied() {
    let sample = Sample::new();
    let log = Log::open(LogOptions { max_binlog_size: 1 << 30, ..small_limits(&sample) }).unwrap();
    sample.record(&log, 1..=1);
    let (large, others) = (log.submitter(), log.submitter());
    let waiting = of_size(&large, "0-1-2", &[1000; 40]);
    for domain in 1..=5000 {
        others.submit(of_size(&others, &format!("{domain}-1-1"), &[1]));
    }
    others.submit(of_size(&others, "0-1-1", &[1])).wait_durable().unwrap();
    large.submit(waiting).wait_durable().unwrap();
    assert_eq!(log.gtid_state().latest(0), Some(gtid("0-1-2")));
    log.close();
    sample.files().iter().for_each(|path| drop(events_of(path)));
    let again = open(&sample);
    assert_eq!(again.gtid_state().list().len(), 5001);
}

#[test]
fn sources_keep_their_order_around_large_transactions() {
    let sample = Sample::new();
    let log = Arc::new(Log::open(small_limits(&sample)).unwrap());
    sample.record(&log, 1..=1);
    let sources: Vec<_> = (1..=4_u32)
        .map(|domain| {
            let log = Arc::clone(&log);
            std::thread::spawn(move || {
                let source = log.submitter();
                let mut last = None;
                for sequence in 1..=60_u64 {
                    let notes = if sequence % 7 == 0 { vec![900; 30] } else { vec![20] };
                    let one = of_size(&source, &format!("{domain}-1-{sequence}"), &notes);
                    last = Some(source.submit(one));
                }
                last.unwrap().wait_durable().unwrap();
            })
        })
        .collect();
    sources.into_iter().for_each(|source| source.join().unwrap());
    let mut seen = std::collections::HashMap::new();
    let mut cursor = log.cursor(1, 4).unwrap();
    loop {
        match cursor.next_run(10_000).unwrap() {
            Run::CaughtUp => break,
            Run::NextFile => {}
            Run::Events(run) => {
                for (_, header, event) in run.events() {
                    if header.event_type == EventType::GTID {
                        let found = crate::event::gtid::GtidEvent::parse(event).unwrap().gtid;
                        let before = seen.insert(found.domain, found.sequence).unwrap_or(0);
                        assert_eq!(found.sequence, before + 1, "domain {}", found.domain);
                    }
                }
            }
        }
    }
    assert_eq!(seen.len(), 5);
    assert_eq!(caches(&sample), 0);
}

#[test]
fn levels_two_and_zero_show_writes_before_they_are_synced_and_sync_for_whoever_waits() {
    for level in [CommitLevel::Two, CommitLevel::Zero] {
        let sample = Sample::new();
        let options = LogOptions { commit_level: level, ..small_limits(&sample) };
        let log = Log::open(options).unwrap();
        sample.record(&log, 1..=30);
        let source = log.submitter();
        source.submit(of_size(&source, "0-1-31", &[1000; 40])).wait_durable().unwrap();
        let ticket = source.submit(transaction(&source, 32));
        while !ticket.is_written() {
            log.shared.queue.press();
            std::thread::yield_now();
        }
        assert_eq!(sequences(&log), (1..=32).collect::<Vec<_>>(), "{level:?}");
        log.close();
        assert!(ticket.is_durable(), "closing syncs");
        assert_eq!(sequences(&open(&sample)), (1..=32).collect::<Vec<_>>());
    }
}

#[test]
fn a_disk_that_breaks_anywhere_in_a_rename_loses_nothing_acknowledged() {
    for level in [CommitLevel::One, CommitLevel::Two] {
        for at in 0..60 {
            let sample = Sample::new();
            let fs = Arc::new(FaultyFileSystem::new(Fault::Broken, at));
            let options = LogOptions { fs, commit_level: level, ..small_limits(&sample) };
            let Ok(log) = Log::open(options) else { continue };
            let source = log.submitter();
            source.begin(Arc::new(format()), GtidState::default());
            let mut acknowledged = 0;
            for sequence in 1..=6 {
                let notes = if sequence % 2 == 0 { vec![1000; 20] } else { vec![10] };
                let Some(one) = try_of_size(&source, sequence, &notes) else { break };
                if source.submit(one).wait_durable().is_err() {
                    break;
                }
                acknowledged = sequence;
            }
            log.close();
            let again = Log::open(small_limits(&sample)).unwrap();
            if again.files().is_empty() {
                assert_eq!(acknowledged, 0);
                continue;
            }
            let found = sequences(&again);
            assert!(found.len() as u64 >= acknowledged, "{level:?} {at}: {found:?} {acknowledged}");
            assert_eq!(found, (1..=found.len() as u64).collect::<Vec<_>>());
            assert_eq!(caches(&sample), 0);
        }
    }
}

#[test]
fn a_file_that_cannot_be_opened_because_too_many_are_is_waited_for() {
    // A new file, the index, and the directory of one that is renamed.
    let created = |operation: &Operation| matches!(operation, Operation::Create(path) if path.ends_with("binlog.000002"));
    let indexed = |operation: &Operation| matches!(operation, Operation::Create(path) if path.ends_with("binlog.index.new"));
    let renamed = |operation: &Operation| matches!(operation, Operation::Rename(path) if path.ends_with("binlog.000002"));
    let faulty = |at| FaultyFileSystem::at_first(Fault::OutOfFiles, at);
    for (fs, is_large) in
        [(faulty(created), false), (faulty(indexed), false), (faulty(renamed), true)]
    {
        let (sample, fs) = (Sample::new(), Arc::new(fs));
        let log = Log::open(LogOptions { fs: fs.clone(), ..small_limits(&sample) }).unwrap();
        let source = log.submitter();
        let begun = source.begin(Arc::new(format()), GtidState::default());
        let first = source.submit(transaction(&source, 1));
        let ticket = if is_large {
            source.submit(of_size(&source, "0-1-2", &[1000; 40]))
        } else {
            wait_until(|| first.is_durable() || log.health() == Health::OutOfFiles);
            log.rotate();
            source.submit(transaction(&source, 2))
        };
        wait_until(|| log.health() == Health::OutOfFiles);
        assert!(!ticket.is_durable());
        assert!(log.health().shortage().unwrap().contains("ulimit -n"));
        fs.repair();
        ticket.wait_durable().unwrap();
        begun.wait_durable().unwrap();
        source.submit(transaction(&source, 3)).wait_durable().unwrap();
        assert_eq!((log.health(), sequences(&log)), (Health::Running, vec![1, 2, 3]));
        log.close();
        assert_eq!(sequences(&open(&sample)), [1, 2, 3]);
    }
}

/// The header events and the Gtid event go into a hole at the head of the cache file: it needs room as any other write.
fn is_head_of_cache(operation: &Operation) -> bool {
    let Operation::Write(path, 0) = operation else { return false };
    path.parent().is_some_and(|dir| dir.ends_with("#binlog_cache_files"))
}

#[test]
fn a_disk_that_is_full_at_the_head_of_a_rename_is_waited_for() {
    for level in [CommitLevel::One, CommitLevel::Two] {
        let sample = Sample::new();
        let full = Fault::Full { times: u64::MAX };
        let fs = Arc::new(FaultyFileSystem::at_first(full, is_head_of_cache));
        let options = LogOptions { fs: fs.clone(), commit_level: level, ..small_limits(&sample) };
        let log = Log::open(options).unwrap();
        sample.record(&log, 1..=1);
        let source = log.submitter();
        let ticket = source.submit(of_size(&source, "0-1-2", &[1000; 40]));
        let tried = || fs.journal().iter().filter(|one| is_head_of_cache(one)).count();
        wait_until(|| tried() >= 3);
        assert_eq!(log.health(), Health::DiskFull);
        assert_eq!(sequences(&log), [1], "{level:?}: readers go on");
        fs.repair();
        ticket.wait_durable().unwrap();
        source.submit(transaction(&source, 3)).wait_durable().unwrap();
        assert_eq!(log.health(), Health::Running);
        log.close();
        assert_eq!(log.files().len(), 2);
        sample.files().iter().for_each(|path| drop(events_of(path)));
        assert_eq!(sequences(&open(&sample)), [1, 2, 3], "{level:?}");
        assert_eq!(caches(&sample), 0);
    }
}

#[test]
fn a_rename_syncs_in_the_designs_order_and_nothing_twice() {
    let sample = Sample::new();
    let fs = Arc::new(FaultyFileSystem::sound());
    let log = Log::open(LogOptions { fs: fs.clone(), ..small_limits(&sample) }).unwrap();
    sample.record(&log, 1..=1);
    let before = fs.journal().len();
    let source = log.submitter();
    source.submit(of_size(&source, "0-1-2", &[1000; 40])).wait_durable().unwrap();
    log.close();
    let path = |name: &str| sample.dir().join(name);
    let (caches, cache) = (path("#binlog_cache_files"), path("#binlog_cache_files/cache-1"));
    let expected = [
        // The body, before the commit slot.
        Operation::Sync(cache.clone()),
        // Rotate, the head, the names.
        Operation::Sync(path("binlog.000001")),
        Operation::Sync(cache),
        Operation::Rename(path("binlog.000002")),
        Operation::SyncDir(caches),
        Operation::SyncDir(sample.dir().to_owned()),
        // Published here; the index.
        Operation::Sync(path("binlog.index.new")),
        Operation::Rename(path("binlog.index")),
        Operation::SyncDir(sample.dir().to_owned()),
    ];
    let mut done = fs.journal().split_off(before);
    done.retain(|operation| match operation {
        Operation::Sync(_) | Operation::SyncDir(_) => true,
        // Neither the hint nor the GTID index are promised to be there.
        Operation::Rename(to) => !to.ends_with("binlog.verified"),
        _ => false,
    });
    assert_eq!(done, expected);
}

#[test]
fn before_a_rename_at_level_two_the_active_file_is_synced_outside_the_commit_slot() {
    for level in [CommitLevel::Two, CommitLevel::Zero] {
        let sample = Sample::new();
        let fs = Arc::new(FaultyFileSystem::sound());
        let options = LogOptions { fs: fs.clone(), commit_level: level, ..small_limits(&sample) };
        let log = Log::open(options).unwrap();
        sample.record(&log, 1..=1);
        let source = log.submitter();
        let ticket = source.submit(transaction(&source, 2));
        log.shared.queue.press();
        wait_until(|| ticket.is_written());
        let before = fs.journal().len();
        source.submit(of_size(&source, "0-1-3", &[1000; 40])).wait_durable().unwrap();
        let active = sample.dir().join("binlog.000001");
        let done = fs.journal().split_off(before);
        let at = |wanted: Operation| done.iter().position(|operation| *operation == wanted);
        let syncs = done.iter().filter(|one| **one == Operation::Sync(active.clone())).count();
        let rotate =
            done.iter().position(|one| matches!(one, Operation::Write(path, _) if *path == active));
        assert_eq!(syncs, 2, "{level:?}: {done:?}");
        assert!(at(Operation::Sync(active)) < rotate, "{level:?}: {done:?}");
        assert_eq!(sequences(&log), [1, 2, 3]);
    }
}

fn wait_until(mut done: impl FnMut() -> bool) {
    let started = Instant::now();
    while !done() {
        assert!(started.elapsed() < Duration::from_secs(60), "waited in vain");
        std::thread::yield_now();
    }
}

/// Lets syncs end before the log is closed, a failed test's too.
struct HeldSyncs(Arc<FaultyFileSystem>);

impl Drop for HeldSyncs {
    fn drop(&mut self) {
        self.0.hold(Held::Nothing);
    }
}

#[test]
fn level_one_writes_on_while_it_syncs_and_shows_nothing_before() {
    let sample = Sample::new();
    let fs = Arc::new(FaultyFileSystem::sound());
    let options =
        LogOptions { max_binlog_size: 1 << 30, fs: fs.clone(), ..LogOptions::new(sample.dir(), 1) };
    let log = Log::open(options).unwrap();
    sample.record(&log, 1..=1);
    let (source, end, begun) = (log.submitter(), log.end(), fs.journal().len());
    let held = HeldSyncs(fs.clone());
    fs.hold(Held::Syncs);
    // Large enough that the first is not synced by the commit thread itself.
    let submit = |n| source.submit(of_size(&source, &format!("0-1-{n}"), &[700]));
    let tickets: Vec<_> = (2..=400).map(submit).collect();
    let done = |fs: &FaultyFileSystem| fs.journal().split_off(begun);
    let is_sync: fn(&Operation) -> bool = |one| matches!(one, Operation::Sync(_));
    let is_write: fn(&Operation) -> bool = |one| matches!(one, Operation::Write(..));
    // The first sync has not ended, and there is a second write.
    let count = |is: fn(&Operation) -> bool| done(&fs).iter().filter(|one| is(one)).count();
    wait_until(|| count(is_sync) == 1 && count(is_write) >= 2);
    assert_eq!(log.end(), end, "nothing is shown before its sync");
    assert!(tickets.iter().all(|ticket| !ticket.is_written() && !ticket.is_durable()));
    assert_eq!(sequences(&log), [1]);
    drop(held);
    tickets.last().unwrap().wait_durable().unwrap();
    assert_eq!(sequences(&log), (1..=400).collect::<Vec<_>>());
    // How far it was written when each sync began: never far ahead of the one before.
    let (mut written, mut at_sync) = (end.position, end.position);
    for operation in done(&fs) {
        match operation {
            Operation::Write(path, at) if path.ends_with("binlog.000001") => written = at,
            Operation::Sync(_) => {
                assert!(written - at_sync <= 3 * (commit::PART + 800), "{at_sync}..{written}");
                at_sync = written;
            }
            _ => {}
        }
    }
}

#[test]
fn a_stream_whose_disk_breaks_anywhere_is_acknowledged_only_where_it_was_synced() {
    let mut latched = 0;
    for at in 0..60 {
        let disk = crate::fs::crash::CrashFileSystem::new();
        let options = || LogOptions { fs: Arc::new(disk.clone()), ..LogOptions::new("/log", 1) };
        let log = Log::open(options()).unwrap();
        let source = log.submitter();
        source.begin(Arc::new(format()), GtidState::default()).wait_durable().unwrap();
        disk.fail_at(Fault::Broken, disk.operations() + at);
        let tickets: Vec<_> = (1..=60).map(|n| source.submit(transaction(&source, n))).collect();
        let answers: Vec<_> = tickets.iter().map(|ticket| ticket.wait_durable().is_ok()).collect();
        let acknowledged = answers.iter().take_while(|answer| **answer).count() as u64;
        assert!(answers.iter().skip_while(|answer| **answer).all(|answer| !answer));
        assert_eq!(matches!(log.health(), Health::Latched(_)), acknowledged < 60, "{at}");
        latched += u32::from(acknowledged < 60);
        let shown = sequences(&log).len() as u64;
        log.close();
        disk.stop();
        for seed in 0..8 {
            let fs = Arc::new(disk.after_power_cut(seed));
            let again = Log::open(LogOptions { fs, ..LogOptions::new("/log", 1) }).unwrap();
            let found = sequences(&again);
            assert!(found.len() as u64 >= acknowledged.max(shown), "{at} {seed}: {found:?}");
            assert_eq!(found, (1..=found.len() as u64).collect::<Vec<_>>());
        }
    }
    assert!(latched > 5, "{latched}");
}

/// A transaction, unless the disk is broken.
fn try_of_size(source: &Submitter, sequence: u64, notes: &[usize]) -> Option<Transaction> {
    let gtid = Gtid { domain: 0, server: 1, sequence };
    testing::try_transaction(source, gtid, Arc::new(format()), notes)
}

#[test]
fn closing_after_a_failed_sync_does_not_tell_unsynced_bytes_durable() {
    let mut latched = 0;
    for failing in 0..4 {
        let disk = crate::fs::crash::CrashFileSystem::new();
        let options = || LogOptions { fs: Arc::new(disk.clone()), ..LogOptions::new("/log", 1) };
        let log = Log::open(options()).unwrap();
        let source = log.submitter();
        source.begin(Arc::new(format()), GtidState::default()).wait_durable().unwrap();
        // One operation fails, a sync among them; everything else works.
        disk.fail_at(Fault::Full { times: 1 }, disk.operations() + failing);
        let ticket = source.submit(transaction(&source, 1));
        let _ = ticket.wait_durable();
        log.close();
        let hint = disk.get(std::path::Path::new("/log/binlog.verified")).unwrap();
        let hint = String::from_utf8(hint).unwrap();
        let noted: u64 = hint.split_whitespace().nth(2).unwrap().parse().unwrap();
        assert!(noted <= log.end().position, "{hint}");
        assert_eq!(matches!(log.health(), Health::Latched(_)), !ticket.is_durable());
        latched += u32::from(!ticket.is_durable());
    }
    assert!(latched > 0, "no sync was hit");
}
