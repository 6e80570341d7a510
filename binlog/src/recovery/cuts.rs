//! A rotation and a rename, cut short at every operation: by a power cut, with what it may leave of it, and by a kill.

use std::path::Path;
use std::sync::Arc;

use crate::fs::FileSystem;
use crate::fs::crash::CrashFileSystem;
use crate::gtid::mariadb::{Gtid, GtidState};
use crate::testing::{format, sequences, try_transaction};
use crate::{CommitLevel, Log, LogOptions, Submitter, Ticket};

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
