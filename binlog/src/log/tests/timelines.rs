//! Domains that begin anew: who can attach to what, and that a reopened log knows it.

use super::*;
use crate::alignment::Alignment;
use crate::gtid::Domains;
use crate::gtid::mariadb::{parse_list, print_list};

fn list(text: &str) -> Vec<Gtid> {
    parse_list(text).unwrap()
}

/// `0-1-1` to `0-1-20`, then domain 0 anew from `0-1-7` with `0-1-8` behind it.
fn begun_anew(sample: &Sample) -> Log {
    let log = open(sample);
    sample.record(&log, 1..=20);
    let source = log.submitter();
    let state = GtidState::from_list(&list("0-1-7"));
    source.begin_domains(Arc::new(format()), state, Domains::only([0])).wait_durable().unwrap();
    source.submit(transaction(&source, 8)).wait_durable().unwrap();
    log
}

fn check(log: &Arc<Log>) {
    assert_eq!(print_list(&log.gtid_state().list()), "0-1-8");
    for (state, attaches) in [
        // Of which timeline these are GTIDs do not tell.
        ("0-1-8", Err(AttachError::Ahead(gtid("0-1-8")))),
        ("0-1-7", Err(AttachError::Ahead(gtid("0-1-7")))),
        ("0-1-20", Err(AttachError::Ahead(gtid("0-1-20")))),
        ("", Err(AttachError::Purged)),
    ] {
        assert_eq!(log.find_attach(&list(state)), attaches, "{state}");
    }
    let aligned = Alignment::with_last(log, &Domains::all(), &log.gtid_state()).unwrap();
    assert_eq!(
        (print_list(aligned.position()), aligned.owed()),
        ("0-1-7".into(), Some(gtid("0-1-8")))
    );
}

#[test]
fn a_new_timeline_takes_in_nobody_of_the_old_also_after_the_log_was_reopened() {
    let sample = Sample::new();
    check(&Arc::new(begun_anew(&sample)));
    check(&Arc::new(open(&sample)));
    // Without the indexes of files, too.
    for path in fs::read_dir(sample.dir()).unwrap().map(|entry| entry.unwrap().path()) {
        if path.extension().is_some_and(|end| end == "idx") {
            fs::remove_file(path).unwrap();
        }
    }
    let log = Arc::new(open(&sample));
    check(&log);
    // Once the old timeline is gone, its numbers are the new one's.
    let newest = log.files().pop().unwrap();
    log.purge_to(&newest.name).unwrap();
    assert_eq!(log.find_attach(&list("0-1-8")), Ok(newest.number));
    assert_eq!(log.find_attach(&list("0-1-7")), Ok(newest.number));
    drop(log);
    assert_eq!(open(&sample).find_attach(&list("0-1-7")), Ok(newest.number));
}

#[test]
fn a_reader_of_the_old_timeline_cannot_enter_the_new() {
    let sample = Sample::new();
    let log = begun_anew(&sample);
    let mut cursor = log.cursor(1, 4).unwrap();
    let mut refused = 0;
    loop {
        match cursor.next_run(1000).unwrap() {
            Run::NextFile => refused += u32::from(!cursor.can_enter(|_| None)),
            Run::Events(_) => {}
            Run::CaughtUp => break,
        }
    }
    assert_eq!(refused, 1);
    assert!(cursor.can_enter(|_| Some(gtid("0-1-21"))));
    assert!(!cursor.can_enter(|_| Some(gtid("0-1-20"))));
}

#[test]
fn a_domain_that_comes_later_with_a_past_is_a_timeline_of_its_own() {
    let sample = Sample::new();
    let log = open(&sample);
    sample.record(&log, 1..=3);
    let source = log.submitter();
    let begin = |text: &str, domain| {
        let state = GtidState::from_list(&list(text));
        source
            .begin_domains(Arc::new(format()), state, Domains::only([domain]))
            .wait_durable()
            .unwrap();
    };
    // Without a past it needs no file of its own; nor where the log is there already.
    begin("", 1);
    begin("0-1-3", 0);
    assert_eq!(log.files().len(), 1);
    begin("1-2-50", 1);
    assert_eq!(log.files().len(), 2);
    assert_eq!(print_list(&log.gtid_state().list()), "0-1-3,1-2-50");
    let other = transaction_of(&source, gtid("1-2-51"), Arc::new(format()));
    source.submit(other).wait_durable().unwrap();
    sample.record(&log, 4..=5);
    let check = |log: &Log| {
        assert_eq!(log.find_attach(&list("0-1-3")), Err(AttachError::Purged));
        assert_eq!(log.find_attach(&list("0-1-1")), Err(AttachError::Purged));
        assert_eq!(log.find_attach(&list("0-1-1,1-2-50")), Ok(1));
        assert_eq!(log.find_attach(&list("0-1-3,1-2-50")), Ok(2));
        assert_eq!(log.find_attach(&list("0-1-5,1-2-51")), Ok(2));
    };
    check(&log);
    drop((source, log));
    check(&open(&sample));
}

#[test]
fn a_timeline_cut_short_at_any_operation_is_there_as_a_whole_or_not_at_all() {
    let (mut there, mut not_there) = (0, 0);
    for level in [CommitLevel::One, CommitLevel::Two, CommitLevel::Zero] {
        for at in 0..40 {
            let disk = crate::fs::crash::CrashFileSystem::new();
            let options = |disk: &crate::fs::crash::CrashFileSystem| LogOptions {
                fs: Arc::new(disk.clone()),
                commit_level: level,
                ..LogOptions::new("/log", 1)
            };
            let log = Log::open(options(&disk)).unwrap();
            let source = log.submitter();
            source.begin(Arc::new(format()), GtidState::default()).wait_durable().unwrap();
            source.submit(transaction(&source, 20)).wait_durable().unwrap();
            disk.cut_power_at(disk.operations() + at);
            let state = GtidState::from_list(&list("0-1-7"));
            let begun = source.begin_domains(Arc::new(format()), state, Domains::only([0]));
            let answered = begun.wait_durable().is_ok();
            disk.stop();
            log.close();
            for seed in 0..6 {
                let image = disk.after_power_cut(seed);
                let again = Log::open(options(&image)).unwrap();
                let position = print_list(&again.gtid_state().position());
                let begun = position == "0-1-7";
                assert!(begun || position == "0-1-20", "{level:?} {at} {seed}: {position}");
                assert!(begun || !answered, "{level:?} {at} {seed}: it was answered");
                assert_eq!(
                    again.find_attach(&list("0-1-20")).is_err(),
                    begun,
                    "{level:?} {at} {seed}"
                );
                (there, not_there) = (there + u32::from(begun), not_there + u32::from(!begun));
            }
        }
    }
    assert!(there > 20 && not_there > 20, "{there} {not_there}");
}
