//! A rotation, a rename and a purge, cut short at every operation: by a power cut, with what it may leave of it, and by a kill.

use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::Arc;

use crate::fs::FileSystem;
use crate::fs::crash::CrashFileSystem;
use crate::fs::faulty::Fault;
use crate::gtid::mariadb::{Gtid, GtidState};
use crate::testing::{format, sequences, try_transaction};
use crate::{CommitLevel, Log, LogOptions, Submitter, Ticket, file_name, file_number};

const LEVELS: [CommitLevel; 3] = [CommitLevel::Zero, CommitLevel::One, CommitLevel::Two];
/// What power cuts are tried of each operation.
const IMAGES: u64 = 24;

#[test]
fn a_rotation_cut_short_at_any_operation_loses_nothing_promised() {
    for level in LEVELS {
        cut_everywhere(level, &[20, 2000, 20]);
    }
}

#[test]
fn a_rename_cut_short_at_any_operation_loses_nothing_promised() {
    for level in LEVELS {
        cut_everywhere(level, &[20, 5000, 20]);
        cut_everywhere(level, &[5000, 5000]);
    }
}

#[test]
fn a_purge_cut_short_at_any_operation_takes_no_more_than_was_asked() {
    const FILES: u64 = 5;
    const ASKED: u64 = 4;
    let whole = CrashFileSystem::new();
    assert_eq!(record(&whole, CommitLevel::One, &[2000; 4]), (4, 4));
    for at in 0.. {
        let disk = whole.after_kill();
        let log = Log::open(options(&disk, CommitLevel::One)).unwrap();
        assert_eq!(log.files().len() as u64, FILES);
        disk.cut_power_at(disk.operations() + at);
        let purged = log.purge_to(&file_name("binlog", ASKED));
        log.close();
        let done = purged.is_ok_and(|purge| purge.files.len() == 3);
        let whole = !disk.is_off();
        disk.stop();
        // What a purge has answered stays so.
        let first = if done { ASKED..=ASKED } else { 1..=ASKED };
        let (context, images) = (format!("operation {at}"), (0..IMAGES).map(Some));
        for image in images.chain([None]) {
            let left = image.map_or_else(|| disk.after_kill(), |seed| disk.after_power_cut(seed));
            purged_in_part(&left, first.clone(), FILES, &format!("{context}, image {image:?}"));
        }
        if whole {
            assert!(done && at > 8, "{context}");
            return;
        }
    }
}

#[test]
fn a_purge_that_was_answered_on_a_full_disk_outlives_a_power_cut() {
    let whole = CrashFileSystem::new();
    assert_eq!(record(&whole, CommitLevel::One, &[2000; 4]), (4, 4));
    for (at, cut) in (0..10).flat_map(|at| (at + 1..at + 9).map(move |cut| (at, cut))) {
        let disk = whole.after_kill();
        let log = Log::open(options(&disk, CommitLevel::One)).unwrap();
        let begun = disk.operations();
        disk.fail_at(Fault::Full { times: 1 }, begun + at);
        disk.cut_power_at(begun + cut);
        let purged = log.purge_to(&file_name("binlog", 4));
        let first = if purged.is_ok() { 4..=4 } else { 1..=4 };
        log.close();
        disk.stop();
        for seed in 0..IMAGES {
            let context = format!("full at {at}, cut at {cut}, image {seed}");
            let log = Log::open(options(&disk.after_power_cut(seed), CommitLevel::One))
                .unwrap_or_else(|error| panic!("{context}: {error}"));
            assert!(first.contains(&log.files()[0].number), "{context}: {purged:?}");
            assert_eq!(sequences(&log).last(), Some(&4), "{context}");
        }
    }
}

/// The log opens with one of these files as its first and none missing behind it, and is read from there; nothing else is left.
fn purged_in_part(disk: &CrashFileSystem, first: RangeInclusive<u64>, last: u64, context: &str) {
    let log = Log::open(options(disk, CommitLevel::One))
        .unwrap_or_else(|error| panic!("{context}: {error}"));
    let numbers: Vec<_> = log.files().iter().map(|file| file.number).collect();
    assert!(first.contains(&numbers[0]), "{context}: {numbers:?}");
    assert_eq!(numbers, (numbers[0]..=last).collect::<Vec<_>>(), "{context}");
    // One transaction in each file but the last.
    assert_eq!(sequences(&log), (numbers[0]..last).collect::<Vec<_>>(), "{context}");
    log.close();
    let names = disk.list(Path::new("/log")).unwrap();
    let on_disk: Vec<_> = names.iter().filter_map(|name| file_number("binlog", name)).collect();
    assert_eq!(on_disk, numbers, "{context}: nothing is left over");
    assert!(!names.contains(&"binlog.purge".to_owned()), "{context}");
}

fn options(disk: &CrashFileSystem, level: CommitLevel) -> LogOptions {
    LogOptions {
        max_binlog_size: 2000,
        cache_size: 3000,
        large_commit_threshold: 4000,
        commit_level: level,
        fs: Arc::new(disk.clone()),
        ..LogOptions::new("/log", 4307)
    }
}

/// Records transactions of these sizes with the power cut at each operation in turn, until none is reached.
fn cut_everywhere(level: CommitLevel, sizes: &[usize]) {
    for at in 0.. {
        let disk = CrashFileSystem::new();
        disk.cut_power_at(at);
        let (durable, written) = record(&disk, level, sizes);
        let whole = !disk.is_off();
        disk.stop();
        let context = format!("{level:?} {sizes:?} operation {at}");
        let killed = disk.after_kill();
        goes_on(&killed, level, sizes.len(), written, &format!("{context}, killed"));
        for seed in 0..IMAGES {
            let left = disk.after_power_cut(seed);
            goes_on(&left, level, sizes.len(), durable, &format!("{context}, image {seed}"));
        }
        if whole {
            assert!(at > 20, "{context}: {durable} durable");
            return;
        }
    }
}

/// Answers how many transactions were promised to survive a power cut, and a kill.
fn record(disk: &CrashFileSystem, level: CommitLevel, sizes: &[usize]) -> (usize, usize) {
    let Ok(log) = Log::open(options(disk, level)) else { return (0, 0) };
    let source = log.submitter();
    let _ = source.begin(Arc::new(format()), GtidState::default()).wait_durable();
    let tickets: Vec<_> =
        sizes.iter().zip(1..).map_while(|(size, n)| submit(&source, n, *size)).collect();
    let _ = tickets.last().map(Ticket::wait_durable);
    log.close();
    let count = |is: fn(&Ticket) -> bool| tickets.iter().take_while(|ticket| is(ticket)).count();
    let written = count(Ticket::is_written);
    // At level 1 a reader sees only what is durable.
    let durable = if level == CommitLevel::One { written } else { count(Ticket::is_durable) };
    (durable, written)
}

fn submit(source: &Submitter, sequence: u64, size: usize) -> Option<Ticket> {
    let gtid = Gtid { domain: 0, server: 1, sequence };
    Some(source.submit(try_transaction(source, gtid, Arc::new(format()), &[size])?))
}

/// The log opens, holds what was promised and no more than was submitted, takes what is missing, and opens again with all of it.
fn goes_on(disk: &CrashFileSystem, level: CommitLevel, all: usize, promised: usize, context: &str) {
    let open =
        || Log::open(options(disk, level)).unwrap_or_else(|error| panic!("{context}: {error}"));
    let read = |log: &Log| if log.files().is_empty() { Vec::new() } else { sequences(log) };
    let log = open();
    let found = read(&log);
    assert!((promised..=all).contains(&found.len()), "{context}: {found:?}, promised {promised}");
    let caches = disk.list(Path::new("/log/#binlog_cache_files")).unwrap();
    assert_eq!(caches, [""; 0], "{context}");
    let source = log.submitter();
    source.begin(Arc::new(format()), GtidState::default()).wait_durable().unwrap();
    for sequence in found.len() as u64 + 1..=all as u64 + 1 {
        submit(&source, sequence, 100).unwrap().wait_durable().unwrap();
    }
    log.close();
    let expected: Vec<_> = (1..=all as u64 + 1).collect();
    assert_eq!(read(&log), expected, "{context}");
    drop(log);
    assert_eq!(read(&open()), expected, "{context}");
}
