use super::*;
use crate::event::ChecksumAlgorithm;
use crate::event::EventType;
use crate::gtid::mariadb::{parse_list, print_list};
use crate::testing::{Sample, event, format, gtid_event, insert, transaction_of, transaction_with};
use crate::transaction::Assembled;
use crate::{LogOptions, Submitter};

fn gtid(text: &str) -> Gtid {
    text.parse().unwrap()
}

/// A log that `texts` were recorded in, one after another.
struct Recorded {
    _sample: Sample,
    log: Arc<Log>,
    source: Submitter,
}

impl Recorded {
    fn new(texts: &str) -> Self {
        let sample = Sample::new();
        let log = Arc::new(Log::open(sample.options()).unwrap());
        let source = log.submitter();
        source.begin(Arc::new(format()), GtidState::default()).wait_durable().unwrap();
        let recorded = Self { _sample: sample, log, source };
        recorded.record(texts);
        recorded
    }

    fn record(&self, texts: &str) {
        for (index, gtid) in parse_list(texts).unwrap().into_iter().enumerate() {
            self.source.submit(self.made(gtid, index)).wait_durable().unwrap();
        }
    }

    /// Two transactions of one GTID are told apart by what is in them.
    fn made(&self, gtid: Gtid, content: usize) -> Transaction {
        transaction_with(&self.source, gtid, Arc::new(format()), &[200 + content])
    }

    fn align(&self, domains: &Domains) -> Alignment {
        Alignment::with_last(&self.log, domains, &self.log.gtid_state()).unwrap()
    }
}

fn position(alignment: &Alignment) -> String {
    print_list(alignment.position())
}

/// At most one.
fn owed(alignment: &Alignment) -> Option<Gtid> {
    assert!(alignment.all_owed().count() < 2);
    alignment.owed()
}

#[test]
fn an_empty_log_owes_nothing() {
    let recorded = Recorded::new("");
    let mut alignment = recorded.align(&Domains::all());
    assert_eq!((position(&alignment), owed(&alignment)), (String::new(), None));
    assert_eq!(alignment.offer(&recorded.made(gtid("0-1-1"), 0)).unwrap(), Offer::Append);
}

#[test]
fn the_last_transaction_is_asked_for_again_and_skipped() {
    // Over several files of 4 KiB, and where the last stands first in a file or is the only one.
    for count in 1..40_u64 {
        let texts: Vec<_> = (1..=count).map(|sequence| format!("0-1-{sequence}")).collect();
        let recorded = Recorded::new(&texts.join(","));
        let mut alignment = recorded.align(&Domains::all());
        let before = if count == 1 { String::new() } else { format!("0-1-{}", count - 1) };
        assert_eq!(position(&alignment), before);
        let index = usize::try_from(count).unwrap() - 1;
        let last = Gtid { domain: 0, server: 1, sequence: count };
        assert_eq!(owed(&alignment), Some(last));
        assert_eq!(alignment.offer(&recorded.made(last, index)).unwrap(), Offer::Skip);
        assert_eq!(owed(&alignment), None);
        let next = Gtid { sequence: count + 1, ..last };
        assert_eq!(alignment.offer(&recorded.made(next, 0)).unwrap(), Offer::Append);
    }
}

#[test]
fn another_transaction_under_the_same_gtid_is_another_history() {
    let recorded = Recorded::new("0-1-1,0-1-2");
    let mut alignment = recorded.align(&Domains::all());
    let offer = alignment.offer(&recorded.made(gtid("0-1-2"), 7)).unwrap();
    let Offer::Diverged(divergence) = offer else { panic!("{offer:?}") };
    assert_eq!((divergence.sent.0, divergence.recorded.0), (gtid("0-1-2"), gtid("0-1-2")));
    let text = divergence.to_string();
    assert!(text.contains("another 0-1-2") && text.contains("binlog.000001"), "{text}");
    // It stays so.
    let mut again = recorded.align(&Domains::all());
    assert!(matches!(again.offer(&recorded.made(gtid("0-1-2"), 7)).unwrap(), Offer::Diverged(_)));
}

#[test]
fn a_source_that_goes_on_without_the_last_transaction_is_another_history() {
    let recorded = Recorded::new("0-1-1,0-1-2");
    for other in ["0-1-3", "0-2-2", "1-1-1", "0-1-1"] {
        let mut alignment = recorded.align(&Domains::all());
        let offer = alignment.offer(&recorded.made(gtid(other), 9)).unwrap();
        let Offer::Diverged(divergence) = offer else { panic!("{other}: {offer:?}") };
        assert_eq!(divergence.sent.0, gtid(other));
    }
}

#[test]
fn an_older_stretch_of_numbers_that_went_back_is_followed_to_the_end() {
    let texts = "0-1-1,0-1-2,0-1-3,0-1-4,0-1-30,0-1-3,0-1-4";
    let recorded = Recorded::new(texts);
    let list = parse_list(texts).unwrap();
    let mut alignment = recorded.align(&Domains::all());
    // A server asked for what follows 0-1-3 begins behind the first of that name.
    assert_eq!(position(&alignment), "0-1-3");
    for (index, gtid) in list.iter().enumerate().skip(3) {
        assert_eq!(alignment.offer(&recorded.made(*gtid, index)).unwrap(), Offer::Skip, "{index}");
    }
    assert_eq!(alignment.offer(&recorded.made(gtid("0-1-5"), 0)).unwrap(), Offer::Append);
    // A stretch that breaks off is another history.
    let mut alignment = recorded.align(&Domains::all());
    assert_eq!(alignment.offer(&recorded.made(gtid("0-1-4"), 3)).unwrap(), Offer::Skip);
    let offer = alignment.offer(&recorded.made(gtid("0-1-31"), 4)).unwrap();
    assert!(matches!(offer, Offer::Diverged(_)), "{offer:?}");
}

#[test]
fn where_the_last_number_went_back_a_position_is_asked_for_that_the_server_accepts() {
    // It would refuse 0-1-30: its last is 0-1-3.
    let recorded = Recorded::new("0-1-1,0-1-2,0-1-30,0-1-3");
    let mut alignment = recorded.align(&Domains::all());
    assert_eq!(position(&alignment), "0-1-2");
    assert_eq!(alignment.offer(&recorded.made(gtid("0-1-30"), 2)).unwrap(), Offer::Skip);
    assert_eq!(alignment.offer(&recorded.made(gtid("0-1-3"), 3)).unwrap(), Offer::Skip);
    assert_eq!(owed(&alignment), None);
}

#[test]
fn where_the_source_went_back_since_a_position_is_asked_for_that_it_accepts_now() {
    let recorded = Recorded::new("0-1-5,1-1-1,0-2-7,0-1-9,1-1-2");
    for (source, wanted) in [
        ("0-2-7,0-1-9,1-1-2", "0-1-9,1-1-1"),
        ("0-1-9,0-2-8,1-1-2", "0-1-9,1-1-1"),
        // 0-1-9 is in its binlog, but its last of server 1 is 0-1-6.
        ("0-2-7,0-1-6,1-1-2", "0-2-7,1-1-1"),
        ("0-2-6,0-1-6,1-1-2", "0-1-5,1-1-1"),
        ("0-3-100,1-1-2", "1-1-1"),
        // A domain it does not know is accepted.
        ("1-1-2", "0-1-9,1-1-1"),
    ] {
        let source = GtidState::from_list(&parse_list(source).unwrap());
        let alignment = Alignment::with_last(&recorded.log, &Domains::all(), &source).unwrap();
        assert_eq!(position(&alignment), wanted, "{source:?}");
    }
}

fn of_each(recorded: &Recorded) -> Alignment {
    let state = recorded.log.gtid_state();
    Alignment::with_last_of_each(&recorded.log, &Domains::all(), &state).unwrap()
}

#[test]
fn the_last_transaction_of_each_domain_is_asked_for_again() {
    let recorded = Recorded::new("2-1-1,0-1-1,1-1-1,1-1-2,0-1-2,0-1-3");
    let mut alignment = of_each(&recorded);
    assert_eq!(print_list(&alignment.all_owed().collect::<Vec<_>>()), "0-1-3,1-1-2,2-1-1");
    let mut position = alignment.position().to_vec();
    position.sort_by_key(|gtid| gtid.domain);
    assert_eq!(print_list(&position), "0-1-2,1-1-1");
    // In any order, and nothing new before they are there.
    for (text, content) in [("0-1-3", 5), ("2-1-1", 0)] {
        let offer = alignment.offer(&recorded.made(gtid(text), content)).unwrap();
        assert_eq!(offer, Offer::Skip, "{text}");
    }
    let mut early = of_each(&recorded);
    assert!(matches!(early.offer(&recorded.made(gtid("0-1-4"), 9)).unwrap(), Offer::Diverged(_)));
    assert_eq!(alignment.offer(&recorded.made(gtid("1-1-2"), 3)).unwrap(), Offer::Skip);
    assert_eq!(owed(&alignment), None);
    assert_eq!(alignment.offer(&recorded.made(gtid("0-1-4"), 0)).unwrap(), Offer::Append);
}

#[test]
fn another_history_in_one_domain_alone_is_noticed() {
    let recorded = Recorded::new("1-1-1,1-1-2,0-1-1,0-1-2");
    let mut alignment = of_each(&recorded);
    let offer = alignment.offer(&recorded.made(gtid("1-1-2"), 7)).unwrap();
    let Offer::Diverged(divergence) = offer else { panic!("{offer:?}") };
    assert!(divergence.to_string().contains("another 1-1-2"), "{divergence}");
    // Unless that domain is taken at its word.
    let mut alignment = of_each(&recorded);
    alignment.go_behind_last_of(1);
    let mut position = alignment.position().to_vec();
    position.sort_by_key(|gtid| gtid.domain);
    assert_eq!(print_list(&position), "0-1-1,1-1-2");
    assert_eq!(owed(&alignment), Some(gtid("0-1-2")));
}

#[test]
fn equal_bytes_tell_which_of_two_with_the_same_content_is_sent_again() {
    let recorded = Recorded::new("0-1-3,0-1-4,0-1-9,0-1-3");
    // The same rows, number and second, in other bytes: that of the Xid.
    let twin = |xid: u8| {
        let mut assembler = recorded.source.assembler(Arc::new(format()));
        let events = [gtid_event(gtid("0-1-4")), event(EventType::XID, &[xid; 8])];
        for event in events {
            if let Assembled::Complete(transaction) = assembler.push(&event).unwrap() {
                return transaction;
            }
        }
        panic!("no transaction")
    };
    for xid in [1, 2] {
        recorded.source.submit(twin(xid)).wait_durable().unwrap();
        recorded.record("0-1-9,0-1-3");
    }
    recorded.source.submit(twin(3)).wait_durable().unwrap();
    let mut alignment = recorded.align(&Domains::all());
    assert_eq!(alignment.offer(&twin(1)).unwrap(), Offer::Skip);
    assert_eq!(owed(&alignment), Some(gtid("0-1-4")));
    for (index, text) in ["0-1-9", "0-1-3"].iter().enumerate() {
        let offer = alignment.offer(&recorded.made(gtid(text), index)).unwrap();
        assert_eq!(offer, Offer::Skip, "{text}");
    }
    assert_eq!(alignment.offer(&twin(2)).unwrap(), Offer::Skip);
    for (index, text) in ["0-1-9", "0-1-3"].iter().enumerate() {
        let offer = alignment.offer(&recorded.made(gtid(text), index)).unwrap();
        assert_eq!(offer, Offer::Skip, "{text}");
    }
    assert_eq!(alignment.offer(&twin(3)).unwrap(), Offer::Skip);
    assert_eq!(owed(&alignment), None);
}

#[test]
fn only_the_sources_own_domains_count() {
    let recorded = Recorded::new("0-1-1,1-1-1,0-1-2,1-1-2,1-1-3");
    let mut alignment = recorded.align(&Domains::only([0]));
    assert_eq!((position(&alignment), owed(&alignment)), ("0-1-1".into(), Some(gtid("0-1-2"))));
    assert_eq!(alignment.offer(&recorded.made(gtid("0-1-2"), 2)).unwrap(), Offer::Skip);
    let alignment = recorded.align(&Domains::only([1, 7]));
    assert_eq!((position(&alignment), owed(&alignment)), ("1-1-2".into(), Some(gtid("1-1-3"))));
    assert_eq!(owed(&recorded.align(&Domains::only([7]))), None);
    // Far back, behind files of the other.
    let texts: Vec<_> = (4..100).map(|sequence| format!("1-1-{sequence}")).collect();
    recorded.record(&texts.join(","));
    let alignment = recorded.align(&Domains::only([0]));
    assert_eq!((position(&alignment), owed(&alignment)), ("0-1-1".into(), Some(gtid("0-1-2"))));
}

#[test]
fn a_source_taken_at_its_word_goes_on_behind_the_last() {
    let recorded = Recorded::new("0-1-1,0-1-2");
    let alignment = Alignment::behind_last(&recorded.log, &Domains::all());
    assert_eq!((position(&alignment), owed(&alignment)), ("0-1-2".into(), None));
}

#[test]
fn a_transaction_with_an_incident_before_it_is_one() {
    let recorded = Recorded::new("0-1-1");
    let made = || {
        let mut assembler = recorded.source.assembler(Arc::new(format()));
        for event in [
            event(EventType(26), &[1, 0]),
            gtid_event(gtid("0-1-2")),
            event(EventType::ANNOTATE_ROWS, b"note"),
        ] {
            assert!(matches!(assembler.push(&event).unwrap(), Assembled::Pending));
        }
        match assembler.push(&event(EventType::XID, &[0; 8])).unwrap() {
            Assembled::Complete(transaction) => transaction,
            other => panic!("{other:?}"),
        }
    };
    recorded.source.submit(made()).wait_durable().unwrap();
    let mut alignment = recorded.align(&Domains::all());
    assert_eq!(alignment.offer(&made()).unwrap(), Offer::Skip);
}

#[test]
fn a_spilled_and_renamed_transaction_is_recognised_after_its_rows_are_packed_otherwise() {
    let sample = Sample::new();
    let small = LogOptions {
        cache_size: 4096,
        large_commit_threshold: 64 << 10,
        row_event_max_size: 8192,
        ..sample.options()
    };
    let rows = |source: &Submitter| {
        let mut assembler = source.assembler(Arc::new(format()));
        let mut events = vec![gtid_event(gtid("0-1-2"))];
        events.extend(insert(3000));
        events.push(event(EventType::XID, &[0; 8]));
        for event in events {
            if let Assembled::Complete(transaction) = assembler.push(&event).unwrap() {
                return transaction;
            }
        }
        panic!("no transaction")
    };
    {
        let log = Arc::new(Log::open(small.clone()).unwrap());
        let source = log.submitter();
        source.begin(Arc::new(format()), GtidState::default()).wait_durable().unwrap();
        source
            .submit(transaction_of(&source, gtid("0-1-1"), Arc::new(format())))
            .wait_durable()
            .unwrap();
        source.submit(rows(&source)).wait_durable().unwrap();
        let mut alignment = Alignment::with_last(&log, &Domains::all(), &log.gtid_state()).unwrap();
        assert_eq!(alignment.offer(&rows(&source)).unwrap(), Offer::Skip);
    }
    let options =
        LogOptions { row_event_max_size: 64 << 10, checksum: ChecksumAlgorithm::None, ..small };
    let log = Arc::new(Log::open(options).unwrap());
    let source = log.submitter();
    let mut alignment = Alignment::with_last(&log, &Domains::all(), &log.gtid_state()).unwrap();
    assert_eq!(owed(&alignment), Some(gtid("0-1-2")));
    assert_eq!(alignment.offer(&rows(&source)).unwrap(), Offer::Skip);
}
