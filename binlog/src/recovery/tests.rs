//! Every row of the recovery table, on real files.

use std::fs;

use super::*;
use crate::Log;
use crate::testing::{self, Sample};

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
fn damage_in_what_was_durable_is_refused_with_its_position() {
    let sample = recorded(3);
    let path = last(&sample);
    flip(&path, usize::try_from(sample.head_len()).unwrap() + 25);
    let Err(OpenError::Damaged { fault, .. }) = open(&sample) else { panic!("opened") };
    assert_eq!(fault.position, sample.head_len());
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
