//! Purges: what goes, what stays and why, and that a crash anywhere leaves a log that opens.

use std::fs;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};

use super::*;
use crate::fs::faulty::{Fault, FaultyFileSystem};
use crate::gtid::mariadb::Gtid;
use crate::reader::{AttachError, Cursor, ReadError, Run};
use crate::testing::{Sample, sequences, transaction};
use crate::{CommitObserver, LogOptions};

/// A log of at least six files.
fn recorded(options: LogOptions, sample: &Sample) -> Log {
    let log = Log::open(options).unwrap();
    sample.record(&log, 1..=70);
    assert!(log.files().len() >= 6);
    log
}

fn names(log: &Log) -> Vec<String> {
    log.files().into_iter().map(|file| file.name).collect()
}

/// Names of the log's files that are on the disk.
fn on_disk(sample: &Sample) -> Vec<String> {
    let name = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().to_owned();
    sample.files().iter().map(name).collect()
}

fn index(sample: &Sample) -> Vec<String> {
    let text = fs::read_to_string(crate::index_path(sample.dir(), "binlog")).unwrap();
    text.lines().map(str::to_owned).collect()
}

fn wait_for(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !done() {
        assert!(Instant::now() < deadline, "{what} does not come");
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn run_to_next_file(cursor: &mut Cursor) {
    let file = cursor.file();
    while cursor.file() == file {
        cursor.next_run(1 << 20).unwrap();
    }
}

#[derive(Default)]
struct Counts {
    purged: AtomicU64,
    refused: AtomicU64,
}

impl CommitObserver for Counts {
    fn purged(&self, _reason: &'static str, files: u64) {
        self.purged.fetch_add(files, Ordering::SeqCst);
    }

    fn purge_refused(&self, _reason: &'static str) {
        self.refused.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn the_files_before_a_name_go_with_what_lies_beside_them() {
    let sample = Sample::new();
    let log = recorded(sample.options(), &sample);
    let before = names(&log);
    fs::write(sample.dir().join("binlog.000002.idx"), "").unwrap();
    fs::write(sample.dir().join("binlog.000004.idx"), "").unwrap();
    let purge = log.purge_to("binlog.000004").unwrap();
    assert_eq!((purge.files, purge.wanted, purge.held), (before[..3].to_vec(), 3, None));
    assert_eq!(names(&log), before[3..]);
    assert_eq!(index(&sample), before[3..]);
    wait_for("the removal", || !sample.dir().join("binlog.purge").exists());
    assert_eq!(on_disk(&sample), before[3..]);
    assert!(!sample.dir().join("binlog.000002.idx").exists());
    assert!(sample.dir().join("binlog.000004.idx").exists());

    // The oldest state is now that of the fourth file.
    let first = log.gtid_state_at(4, 4).unwrap().latest(0).unwrap();
    assert_eq!(log.find_attach(&[first]), Ok(4));
    let older = Gtid { sequence: first.sequence - 1, ..first };
    assert_eq!(log.find_attach(&[older]), Err(AttachError::Purged));
    assert!(matches!(log.cursor(3, 4), Err(ReadError::Purged { .. })));
    let left: Vec<_> = (first.sequence + 1..=70).collect();
    assert_eq!(sequences(&log), left);
    drop(log);
    let again = Log::open(sample.options()).unwrap();
    assert_eq!((names(&again), sequences(&again)), (before[3..].to_vec(), left));
}

#[test]
fn names_are_of_this_log_and_the_active_file_stays() {
    let sample = Sample::new();
    let log = recorded(sample.options(), &sample);
    assert!(matches!(log.purge_to("binlog.000099"), Err(PurgeError::NoSuchFile)));
    assert_eq!(log.purge_to("binlog.000001").unwrap(), Purge::default());
    let active = names(&log).pop().unwrap();
    let far = SystemTime::now() + Duration::from_secs(1000);
    assert!(
        log.purge_before(SystemTime::now() - Duration::from_secs(1000)).unwrap().files.is_empty()
    );
    assert_eq!(log.purge_before(far).unwrap().held, None);
    assert_eq!(names(&log), [active.as_str()]);
    assert_eq!(log.purge_to(&active).unwrap(), Purge::default());
    log.close();
    assert!(matches!(log.purge_to(&active), Err(PurgeError::Closed)));
    assert_eq!(on_disk(&sample), [active]);
}

#[test]
fn a_reader_keeps_its_file_and_those_behind_it_until_it_has_gone_on() {
    let sample = Sample::new();
    let counts = Arc::new(Counts::default());
    let log = recorded(LogOptions { observer: counts.clone(), ..sample.options() }, &sample);
    let (mut slow, fast) = (log.cursor(2, 4).unwrap(), log.cursor(5, 4).unwrap());
    let purge = log.purge_to("binlog.000005").unwrap();
    let held = Held { file: "binlog.000002".into(), by: PurgeRefusal::Reader, readers: 1 };
    assert_eq!((purge.files.len(), purge.wanted, purge.held), (1, 4, Some(held)));
    let again = log.purge_to("binlog.000005").unwrap();
    assert_eq!((again.files.len(), again.wanted, again.held.is_some()), (0, 3, true));
    run_to_next_file(&mut slow);
    assert_eq!(log.purge_to("binlog.000005").unwrap().files, ["binlog.000002"]);
    run_to_next_file(&mut slow);
    drop(slow);
    assert_eq!(log.purge_to("binlog.000005").unwrap().files.len(), 2);
    assert_eq!(fast.file(), 5);
    assert_eq!(counts.purged.load(Ordering::SeqCst), 4);
    assert_eq!(counts.refused.load(Ordering::SeqCst), 3);
}

#[test]
fn beyond_the_total_size_a_reader_is_expelled() {
    let sample = Sample::new();
    let log = recorded(sample.options(), &sample);
    let total = |log: &Log| log.files().iter().map(|file| file.size).sum::<u64>();
    let mut stuck = log.cursor(1, 4).unwrap();
    let mut fine = log.cursor(names(&log).len() as u64, 4).unwrap();
    let mut expelled = Box::pin(stuck.expelled());
    let mut cx = Context::from_waker(Waker::noop());
    assert_eq!(expelled.as_mut().poll(&mut cx), Poll::Pending);
    let max = total(&log) - 1;
    log.set_retention(Retention { max_total_size: Some(max), ..Retention::default() });
    wait_for("the purge", || total(&log) <= max);
    assert_eq!(names(&log)[0], "binlog.000002", "no more than must go");
    assert_eq!(expelled.as_mut().poll(&mut cx), Poll::Ready(()));
    let Err(ReadError::Purged { file }) = stuck.next_run(100) else { panic!("read on") };
    assert_eq!(file, "binlog.000001");
    assert!(matches!(fine.next_run(100), Ok(Run::Events(_))));

    // As the log grows it stays below the limit, and the active file stays even where it alone is above.
    sample.record(&log, 71..=120);
    wait_for("the purge", || total(&log) <= max);
    log.set_retention(Retention { max_total_size: Some(1), ..Retention::default() });
    wait_for("the purge", || names(&log).len() == 1);
    assert_eq!(sequences(&log).last(), Some(&120));
}

#[test]
fn age_waits_for_readers_and_tells_once() {
    let sample = Sample::new();
    let counts = Arc::new(Counts::default());
    let options = LogOptions { observer: counts.clone(), ..sample.options() };
    let log = recorded(options, &sample);
    let reader = log.cursor(2, 4).unwrap();
    let old = Retention { expire_after: Some(Duration::from_secs(3600)), ..Retention::default() };
    log.set_retention(old);
    let all = Retention { expire_after: Some(Duration::ZERO), ..old };
    log.set_retention(all);
    wait_for("the first file's end", || names(&log)[0] == "binlog.000002");
    wait_for("the refusal", || counts.refused.load(Ordering::SeqCst) == 1);
    log.set_retention(all);
    wait_for("another look", || !lock(&log.shared.purge.state).due);
    drop(reader);
    wait_for("the others' end", || names(&log).len() == 1);
    assert_eq!(counts.refused.load(Ordering::SeqCst), 1);
}

#[test]
fn a_purge_that_breaks_off_anywhere_leaves_a_log_that_opens() {
    let whole = Sample::new();
    recorded(whole.options(), &whole).close();
    for at in 0..24 {
        let sample = whole.copy();
        let fs = Arc::new(FaultyFileSystem::new(Fault::Broken, at));
        let Ok(log) = Log::open(LogOptions { fs, ..sample.options() }) else { continue };
        let purged = log.purge_to("binlog.000004");
        log.close();
        let again = Log::open(sample.options()).unwrap();
        assert_eq!(names(&again), on_disk(&sample), "operation {at}: nothing is left over");
        assert_eq!(index(&sample), names(&again), "operation {at}");
        if purged.is_ok() {
            assert_eq!(names(&again)[0], "binlog.000004", "operation {at}");
        }
        let seen = sequences(&again);
        assert_eq!(seen, (seen[0]..=70).collect::<Vec<_>>(), "operation {at}");
        assert!(!sample.dir().join("binlog.purge").exists());
    }
}

#[test]
fn a_full_disk_does_not_keep_room_from_being_made() {
    let whole = Sample::new();
    recorded(whole.options(), &whole).close();
    let operations = {
        let sample = whole.copy();
        let fs = Arc::new(FaultyFileSystem::new(Fault::Broken, u64::MAX));
        let log = Log::open(LogOptions { fs: fs.clone(), ..sample.options() }).unwrap();
        let operations = fs.operations();
        drop(log);
        operations
    };
    let sample = whole.copy();
    // Neither `binlog.purge` nor a second index can be made.
    let fs = Arc::new(FaultyFileSystem::new(Fault::Full { times: 2 }, operations));
    let log = Log::open(LogOptions { fs: fs.clone(), ..sample.options() }).unwrap();
    assert_eq!(fs.operations(), operations);
    assert_eq!(log.purge_to("binlog.000004").unwrap().files.len(), 3);
    assert_eq!(index(&sample), names(&log));
    log.close();
    assert_eq!(on_disk(&sample), names(&log));
    assert_eq!(names(&Log::open(sample.options()).unwrap())[0], "binlog.000004");
}

#[test]
fn purges_and_new_files_do_not_lose_each_others_names() {
    let sample = Sample::new();
    let log = Arc::new(recorded(sample.options(), &sample));
    let purging = {
        let log = Arc::clone(&log);
        std::thread::spawn(move || {
            for number in 2..40_u64 {
                let name = crate::file_name("binlog", number);
                wait_for("a file", || log.file_by_name(&name).is_some());
                log.purge_to(&name).unwrap();
            }
        })
    };
    let source = log.submitter();
    let mut sequence = 70;
    while !purging.is_finished() {
        sequence += 1;
        source.submit(transaction(&source, sequence)).wait_durable().unwrap();
    }
    purging.join().unwrap();
    assert_eq!(index(&sample), names(&log));
    log.close();
    assert_eq!(on_disk(&sample), names(&log));
    assert_eq!(sequences(&Log::open(sample.options()).unwrap()).last(), Some(&sequence));
}

#[test]
fn a_rotation_on_demand_comes_behind_what_was_submitted() {
    let sample = Sample::new();
    let log = Log::open(LogOptions { max_binlog_size: 1 << 30, ..sample.options() }).unwrap();
    log.rotate().wait_durable().unwrap();
    assert!(log.files().is_empty());
    sample.record(&log, 1..=2);
    let source = log.submitter();
    source.submit(transaction(&source, 3));
    log.rotate().wait_durable().unwrap();
    assert_eq!(log.end().file, 2);
    assert_eq!(log.gtid_state_at(2, 4).unwrap().latest(0).unwrap().sequence, 3);
    log.rotate().wait_durable().unwrap();
    source.submit(transaction(&source, 4)).wait_durable().unwrap();
    assert_eq!((log.files().len(), sequences(&log)), (3, vec![1, 2, 3, 4]));
    let began = log.oldest_event_time().unwrap();
    assert!(began.elapsed().unwrap() < Duration::from_secs(3600));
    log.close();
    assert_eq!(sequences(&Log::open(sample.options()).unwrap()), [1, 2, 3, 4]);
}
