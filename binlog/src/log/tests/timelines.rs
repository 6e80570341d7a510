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
fn a_history_that_comes_to_the_same_state_begins_a_timeline_nevertheless() {
    let sample = Sample::new();
    let log = open(&sample);
    sample.record(&log, 1..=5);
    let source = log.submitter();
    let of = |source: &Submitter, text: &str| {
        let transaction = transaction_of(source, gtid(text), Arc::new(format()));
        source.submit(transaction).wait_durable().unwrap();
    };
    of(&source, "1-1-7");
    of(&source, "2-1-9");
    // Of domains 0 to 2 the second is an operator's, equal in 0, and so is nothing of another source's.
    let state = GtidState::from_list(&list("0-1-5,1-1-8"));
    let domains = Domains::only([0, 1, 3]);
    source.begin_anew(Arc::new(format()), state.clone(), domains.clone()).wait_durable().unwrap();
    let check = |log: &Arc<Log>| {
        assert_eq!(log.files().len(), 2);
        assert!(log.has_begun_behind(1, &Domains::only([0])));
        assert!(log.has_begun_behind(1, &Domains::only([1, 9])));
        assert!(!log.has_begun_behind(1, &Domains::only([2, 3])));
        assert!(!log.has_begun_behind(2, &domains));
        // Exactly where it begins: of which history, GTIDs do not tell.
        for state in ["0-1-5,1-1-7,2-1-9", "0-1-4", "0-1-5"] {
            let first = list(state)[0];
            assert_eq!(log.find_attach(&list(state)), Err(AttachError::Ahead(first)), "{state}");
        }
        let aligned = Alignment::with_last(log, &domains, &log.gtid_state()).unwrap();
        assert_eq!(aligned.owed(), None);
        let others = Alignment::with_last(log, &Domains::only([2]), &log.gtid_state()).unwrap();
        assert_eq!(others.owed(), Some(gtid("2-1-9")));
    };
    let log = Arc::new(log);
    check(&log);
    let mut cursor = log.cursor(1, 4).unwrap();
    while !matches!(cursor.next_run(1000).unwrap(), Run::NextFile) {}
    let has = list("0-1-5,1-1-7,2-1-9");
    assert!(!cursor.can_enter(|domain| has.iter().copied().find(|gtid| gtid.domain == domain)));
    drop((source, cursor, log));
    let log = Arc::new(open(&sample));
    check(&log);
    let source = log.submitter();
    of(&source, "0-1-6");
    of(&source, "1-1-9");
    assert_eq!(log.find_attach(&list("0-1-6,1-1-9,2-1-9")), Ok(2));
    // Once the old one is purged its numbers are free, and that it was begun is still known.
    log.purge_to("binlog.000002").unwrap();
    assert_eq!(log.find_attach(&list("0-1-5,1-1-8,2-1-9")), Ok(2));
    drop((source, log));
    let log = open(&sample);
    assert!(log.has_begun_behind(1, &Domains::only([0])));
    assert_eq!(log.find_attach(&list("0-1-5,1-1-8,2-1-9")), Ok(2));
}

#[test]
fn what_neither_the_log_nor_the_source_has_needs_no_timeline() {
    let sample = Sample::new();
    let log = open(&sample);
    sample.record(&log, 1..=5);
    let (source, nothing) = (log.submitter(), GtidState::default());
    let begun = source.begin_anew(Arc::new(format()), nothing, Domains::only([1]));
    begun.wait_durable().unwrap();
    assert_eq!(log.files().len(), 1);
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
    cut_short("0-1-7");
    // Where the state does not tell, the file does.
    cut_short("0-1-20");
}

fn cut_short(begins: &str) {
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
            let state = GtidState::from_list(&list(begins));
            let begun = source.begin_anew(Arc::new(format()), state, Domains::only([0]));
            let answered = begun.wait_durable().is_ok();
            disk.stop();
            log.close();
            for seed in 0..6 {
                let image = disk.after_power_cut(seed);
                let again = Log::open(options(&image)).unwrap();
                let position = print_list(&again.gtid_state().position());
                let begun = again.has_begun_behind(1, &Domains::all());
                let expected = if begun { begins } else { "0-1-20" };
                assert_eq!(position, expected, "{level:?} {at} {seed}");
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
