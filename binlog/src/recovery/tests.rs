//! Every row of the recovery table, on real files.

use std::fs;
use std::sync::Arc;

use super::*;
use crate::fs::faulty::{Fault, FaultyFileSystem};
use crate::reader::{ReadError, Run};
use crate::testing::{self, Sample};
use crate::{Log, LogOptions};

fn open(sample: &Sample) -> Result<Log, OpenError> {
    Log::open(sample.options())
}

/// A log of a few files with `count` transactions, closed cleanly.
fn recorded(count: u64) -> Sample {
    let sample = Sample::new();
    let log = open(&sample).unwrap();
    sample.record(&log, 1..=count);
    log.close();
    sample
}

fn last(sample: &Sample) -> PathBuf {
    sample.files().pop().unwrap()
}

fn cut(path: &std::path::Path, bytes: u64) {
    let len = fs::metadata(path).unwrap().len();
    fs::OpenOptions::new().write(true).open(path).unwrap().set_len(len - bytes).unwrap();
}

fn flip(path: &std::path::Path, at: usize) {
    let mut bytes = fs::read(path).unwrap();
    bytes[at] ^= 1;
    fs::write(path, bytes).unwrap();
}

/// The log goes on after what recovery left, and all of it is read back.
fn goes_on(sample: &Sample, from: u64, to: u64) {
    let log = open(sample).unwrap();
    assert_eq!(log.gtid_state().latest(0).map_or(0, |gtid| gtid.sequence), from - 1);
    sample.record(&log, from..=to);
    assert_eq!(testing::sequences(&log), (1..=to).collect::<Vec<_>>());
}

#[test]
fn an_empty_directory_is_an_empty_log() {
    let sample = Sample::new();
    let log = open(&sample).unwrap();
    assert_eq!(log.end(), crate::LogEnd::default());
    assert!(log.files().is_empty());
    drop(log);
    goes_on(&sample, 1, 3);
}

#[test]
fn a_clean_log_goes_on_where_it_ended() {
    goes_on(&recorded(40), 41, 80);
}

#[test]
fn the_directory_is_locked_while_it_is_open() {
    let sample = recorded(1);
    let log = open(&sample).unwrap();
    assert!(matches!(open(&sample), Err(OpenError::InUse(_))));
    drop(log);
    assert!(open(&sample).is_ok());
}

#[test]
fn a_lost_index_is_made_anew() {
    let sample = recorded(40);
    let index = crate::index_path(sample.dir(), "binlog");
    let before = fs::read_to_string(&index).unwrap();
    assert!(before.lines().count() > 2);
    fs::remove_file(&index).unwrap();
    open(&sample).unwrap();
    assert_eq!(fs::read_to_string(&index).unwrap(), before);
    // Half a line, and a file the index does not know yet.
    fs::write(&index, &before[..before.len() - 20]).unwrap();
    open(&sample).unwrap();
    assert_eq!(fs::read_to_string(&index).unwrap(), before);
}

#[test]
fn a_missing_file_is_refused_by_name() {
    let sample = recorded(40);
    fs::remove_file(&sample.files()[1]).unwrap();
    let Err(OpenError::Missing(path)) = open(&sample) else { panic!("opened") };
    assert!(path.ends_with("binlog.000002"));
}

#[test]
fn an_index_out_of_order_is_no_empty_log() {
    let sample = recorded(3);
    let index = crate::index_path(sample.dir(), "binlog");
    fs::write(&index, "binlog.000005\nbinlog.000001\n").unwrap();
    let Err(OpenError::Missing(path)) = open(&sample) else { panic!("opened") };
    assert!(path.ends_with("binlog.000002"));
}

#[test]
fn a_file_before_the_index_is_left_alone() {
    let sample = recorded(40);
    let index = crate::index_path(sample.dir(), "binlog");
    let names = fs::read_to_string(&index).unwrap();
    fs::write(&index, names.split_once('\n').unwrap().1).unwrap();
    let log = open(&sample).unwrap();
    assert_eq!(log.files()[0].number, 2);
    assert!(sample.files()[0].ends_with("binlog.000001"));
}

#[test]
fn the_last_file_may_end_anywhere() {
    let whole = recorded(3);
    let len = fs::metadata(last(&whole)).unwrap().len();
    let head = whole.head_len();
    for cut_off in (1..len).step_by(7) {
        let sample = whole.copy();
        cut(&last(&sample), cut_off);
        let log = open(&sample).unwrap();
        let left = log.gtid_state().latest(0).map_or(0, |gtid| gtid.sequence);
        drop(log);
        assert!(left < 3);
        goes_on(&sample, left + 1, 4);
        let aside = fs::read_dir(sample.dir()).unwrap();
        let aside = aside.filter(|entry| {
            entry.as_ref().unwrap().file_name().to_string_lossy().contains(".cut-")
        });
        let at_an_end = whole.ends().contains(&(len - cut_off)) || len - cut_off < head;
        assert_eq!(aside.count(), usize::from(!at_an_end), "cut {cut_off} of {len}");
    }
}

#[test]
fn a_full_disk_at_opening_leaves_no_half_copies() {
    let whole = recorded(3);
    for at in 0.. {
        let sample = whole.copy();
        cut(&last(&sample), 10);
        let faulty = Arc::new(FaultyFileSystem::new(Fault::Full { times: 1 }, at));
        let opened = Log::open(LogOptions { fs: faulty.clone(), ..sample.options() });
        if let Err(error) = &opened {
            assert!(error.is_full_disk(), "{at}: {error}");
        }
        let first_time = opened.is_ok();
        drop(opened);
        goes_on(&sample, 3, 4);
        let is_copy = |entry: &fs::DirEntry| entry.file_name().to_string_lossy().contains(".cut-");
        let copies = fs::read_dir(sample.dir()).unwrap().filter_map(Result::ok).filter(is_copy);
        let sizes: Vec<_> = copies.map(|entry| entry.metadata().unwrap().len()).collect();
        assert!(sizes.windows(2).all(|pair| pair[0] == pair[1]), "{at}: half a copy in {sizes:?}");
        if first_time {
            assert_eq!(sizes.len(), 1);
        }
        if faulty.operations() <= at {
            break;
        }
    }
}

#[test]
fn damage_in_what_was_durable_is_refused_with_its_position() {
    let sample = recorded(3);
    let path = last(&sample);
    flip(&path, usize::try_from(sample.head_len()).unwrap() + 25);
    let Err(OpenError::Damaged { fault, .. }) = open(&sample) else { panic!("opened") };
    assert_eq!(fault.position, sample.head_len());
}

#[test]
fn rot_in_a_closed_file_that_was_taken_on_trust_ends_the_reader() {
    let sample = recorded(40);
    let path = sample.files().remove(1);
    let modified = fs::metadata(&path).unwrap().modified().unwrap();
    let at = fs::metadata(&path).unwrap().len() / 2;
    flip(&path, usize::try_from(at).unwrap());
    fs::File::options().write(true).open(&path).unwrap().set_modified(modified).unwrap();
    let log = open(&sample).unwrap();
    let mut cursor = log.cursor(log.files()[1].number, 4).unwrap();
    let position = loop {
        match cursor.next_run(100) {
            Ok(Run::Events(run)) => assert!(run.position + run.bytes.len() as u64 <= at),
            Ok(other) => panic!("never ended: {other:?}"),
            Err(ReadError::Damaged { position, .. }) => break position,
            Err(error) => panic!("{error}"),
        }
    };
    assert!(position <= at);
}

#[test]
fn damage_behind_the_durable_position_is_cut_off() {
    let sample = recorded(3);
    let path = last(&sample);
    let ends = sample.ends();
    let hint = format!("durable binlog.000001 {}\n", ends[1]);
    fs::write(sample.dir().join("binlog.verified"), hint).unwrap();
    flip(&path, usize::try_from(ends[1]).unwrap() + 25);
    goes_on(&sample, 2, 5);
}

#[test]
fn a_closed_file_that_changed_is_verified_and_refused_where_damaged() {
    let sample = recorded(40);
    let first = sample.files()[0].clone();
    flip(&first, 300);
    let Err(OpenError::Damaged { path, .. }) = open(&sample) else { panic!("opened") };
    assert_eq!(path, first);
    flip(&first, 300);
    open(&sample).unwrap();
    cut(&first, 10);
    assert!(matches!(open(&sample), Err(OpenError::Damaged { .. })));
}

#[test]
fn a_closed_file_without_rotate_is_refused() {
    let sample = recorded(40);
    let first = sample.files()[0].clone();
    cut(&first, 44);
    let Err(OpenError::Unfit { reason, .. }) = open(&sample) else { panic!("opened") };
    assert!(reason.contains("binlog.000002"), "{reason}");
}

#[test]
fn a_rotation_cut_short_at_any_byte_of_the_new_file_is_completed() {
    let whole = recorded(40);
    let newest = last(&whole);
    let sequence = {
        let log = open(&whole).unwrap();
        let number = log.files().last().unwrap().number;
        log.gtid_state_at(number, 4).unwrap().latest(0).unwrap().sequence
    };
    for len in (0..=whole.head_len()).step_by(3) {
        let sample = whole.copy();
        let bytes = fs::read(&newest).unwrap();
        let len = usize::try_from(len).unwrap().min(bytes.len());
        fs::write(last(&sample), &bytes[..len]).unwrap();
        goes_on(&sample, sequence + 1, sequence + 3);
    }
    let sample = whole.copy();
    fs::remove_file(last(&sample)).unwrap();
    let index = crate::index_path(sample.dir(), "binlog");
    let names = fs::read_to_string(&index).unwrap();
    let known = names.trim_end().rsplit_once('\n').unwrap().0;
    fs::write(&index, format!("{known}\n")).unwrap();
    goes_on(&sample, sequence + 1, sequence + 3);
}

#[test]
fn magic_only_or_nothing_in_the_only_file_is_an_empty_log() {
    for len in [0, 1, 4, 100] {
        let sample = recorded(1);
        let bytes = fs::read(last(&sample)).unwrap();
        fs::write(last(&sample), &bytes[..len]).unwrap();
        goes_on(&sample, 1, 2);
    }
}

#[test]
fn a_file_that_is_no_binlog_is_refused() {
    let sample = recorded(1);
    fs::write(last(&sample), b"something else entirely").unwrap();
    assert!(matches!(open(&sample), Err(OpenError::Damaged { .. })));
}

fn hint(sample: &Sample) -> PathBuf {
    sample.dir().join("binlog.verified")
}

#[test]
fn a_bad_checksum_in_the_last_transaction_is_cut_off_unless_it_was_durable() {
    let sample = recorded(3);
    let ends = sample.ends();
    let in_last = usize::try_from(ends[2]).unwrap() + 60;
    flip(&last(&sample), in_last);
    let Err(OpenError::Damaged { fault, .. }) = open(&sample) else { panic!("opened") };
    assert_eq!(fault.position, ends[2] + 42);
    fs::write(hint(&sample), format!("durable binlog.000001 {}\n", ends[2])).unwrap();
    goes_on(&sample, 3, 5);
    let aside = sample.dir().join(format!("binlog.000001.cut-{}", ends[2]));
    assert_eq!(fs::metadata(aside).unwrap().len(), ends[3] - ends[2]);
}

#[test]
fn a_damaged_size_before_the_durable_position_is_no_torn_tail() {
    let sample = recorded(3);
    let second = sample.ends()[1];
    // The event seems to reach far beyond the file's end.
    let at = usize::try_from(second).unwrap() + 12;
    flip(&last(&sample), at);
    let Err(OpenError::Damaged { fault, .. }) = open(&sample) else { panic!("opened") };
    assert_eq!(fault.position, second);
}

#[test]
fn without_a_hint_damage_is_cut_off_in_the_first_file_only() {
    let first = recorded(3);
    flip(&last(&first), usize::try_from(first.ends()[2]).unwrap() + 60);
    fs::remove_file(hint(&first)).unwrap();
    goes_on(&first, 3, 5);
    let later = recorded(20);
    let head = usize::try_from(later.head_len()).unwrap();
    // Behind the header events, which are a GTID longer than the first file's.
    flip(&last(&later), head + 16 + 60);
    let damaged = later.copy();
    fs::remove_file(hint(&damaged)).unwrap();
    assert!(matches!(open(&damaged), Err(OpenError::Damaged { .. })));
    // A hint that lost its bytes was there when the crash came.
    fs::write(hint(&later), b"").unwrap();
    assert!(open(&later).is_ok());
}

#[test]
fn a_new_file_with_torn_header_events_is_set_aside_and_made_anew() {
    let whole = recorded(20);
    let newest = last(&whole);
    let len = usize::try_from(fs::metadata(&newest).unwrap().len()).unwrap();
    let before = {
        let log = open(&whole).unwrap();
        let number = log.files().last().unwrap().number;
        log.gtid_state_at(number, 4).unwrap().latest(0).unwrap().sequence
    };
    let sample = whole.copy();
    fs::write(last(&sample), vec![0; len]).unwrap();
    assert!(matches!(open(&sample), Err(OpenError::Damaged { .. })), "the index names it");
    let index = crate::index_path(sample.dir(), "binlog");
    let names = fs::read_to_string(&index).unwrap();
    fs::write(&index, format!("{}\n", names.trim_end().rsplit_once('\n').unwrap().0)).unwrap();
    goes_on(&sample, before + 1, before + 3);
    let mut aside = newest.file_name().unwrap().to_owned();
    aside.push(".cut-0");
    assert_eq!(fs::read(sample.dir().join(aside)).unwrap(), vec![0; len]);
}

#[test]
fn a_first_file_with_torn_header_events_is_an_empty_log() {
    let sample = Sample::new();
    fs::write(sample.dir().join("binlog.000001"), [0; 320]).unwrap();
    goes_on(&sample, 1, 2);
    let large = Sample::new();
    fs::write(large.dir().join("binlog.000001"), vec![0; 100_000]).unwrap();
    assert!(matches!(open(&large), Err(OpenError::Damaged { .. })), "no head is so long");
}

#[test]
fn a_stray_file_with_a_huge_number_is_refused_by_the_name_that_is_missing() {
    let sample = recorded(3);
    fs::write(sample.dir().join("binlog.18446744073709551615"), b"").unwrap();
    let Err(OpenError::Missing(path)) = open(&sample) else { panic!("opened") };
    assert!(path.ends_with("binlog.000002"));
}

#[test]
fn caches_a_crash_has_left_are_removed_and_the_lock_of_a_dead_process_is_free() {
    let sample = recorded(3);
    let caches = sample.dir().join("#binlog_cache_files");
    fs::write(caches.join("cache-7"), vec![1; 5000]).unwrap();
    fs::write(caches.join("mine"), b"x").unwrap();
    assert!(sample.dir().join("binlog.lock").exists(), "a dead process leaves its file");
    goes_on(&sample, 4, 5);
    let left: Vec<_> =
        fs::read_dir(caches).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["mine"]);
}

#[test]
fn half_a_line_in_the_index_does_not_count() {
    let whole = recorded(20);
    let names = fs::read_to_string(crate::index_path(whole.dir(), "binlog")).unwrap();
    for len in 0..names.len() {
        let sample = whole.copy();
        let index = crate::index_path(sample.dir(), "binlog");
        fs::write(&index, &names[..len]).unwrap();
        drop(open(&sample).unwrap());
        assert_eq!(fs::read_to_string(&index).unwrap(), names, "{len} bytes");
    }
}

#[test]
fn two_logs_do_not_share_a_directory_whatever_they_are_called() {
    let sample = Sample::new();
    let first = Log::open(sample.options()).unwrap();
    let second = LogOptions { basename: "other".into(), ..sample.options() };
    assert!(matches!(Log::open(second.clone()), Err(OpenError::InUse(_))));
    drop(first);
    Log::open(second).unwrap();
}
