//! Domains that are not recorded leave nothing behind, whatever their transactions look like.

use super::*;
use crate::event::EventType;
use crate::testing::{Sample, event, format, gtid_event};
use crate::{Log, LogOptions};

fn gtid(text: &str) -> Vec<u8> {
    gtid_event(text.parse().unwrap())
}

/// As [`gtid`], of a group that one event makes.
fn standalone(text: &str) -> Vec<u8> {
    let mut event = gtid(text);
    event[EventHeader::LEN + 12] = 1;
    event
}

fn query(text: &str) -> Vec<u8> {
    let body = [&[0; 13][..], b"\0", text.as_bytes()].concat();
    event(EventType::QUERY, &body)
}

fn note(len: usize) -> Vec<u8> {
    event(EventType::ANNOTATE_ROWS, &vec![b'n'; len])
}

fn xid() -> Vec<u8> {
    event(EventType::XID, &[0; 8])
}

fn incident() -> Vec<u8> {
    event(EventType::INCIDENT, &[1, 0, 0])
}

/// What a stream came to: GTID and events of each transaction recorded, GTIDs of those skipped.
#[derive(Debug, Default, PartialEq)]
struct Stream {
    recorded: Vec<(String, Vec<u8>)>,
    skipped: Vec<String>,
}

fn assemble(domains: Domains, events: &[Vec<u8>]) -> Stream {
    let sample = Sample::new();
    let limits = LogOptions { cache_size: 4096, max_cache_size: Some(8192), ..sample.options() };
    let log = Log::open(limits).unwrap();
    let mut assembler = log.submitter().assembler(Arc::new(format())).recording(domains);
    let mut stream = Stream::default();
    for event in events {
        match assembler.push(event).unwrap() {
            Assembled::Complete(transaction) => {
                let gtid = transaction.gtid().to_string();
                let Events::Memory(events) = transaction.into_events() else { panic!() };
                stream.recorded.push((gtid, events));
            }
            Assembled::Skipped(gtid) => stream.skipped.push(gtid.to_string()),
            Assembled::Pending | Assembled::Outside => {}
        }
        let caches = std::fs::read_dir(sample.dir().join("#binlog_cache_files")).unwrap();
        assert_eq!(caches.count(), 0, "a cache file for {event:?}");
    }
    assert!(!assembler.in_transaction());
    stream
}

fn own() -> Vec<Vec<u8>> {
    [vec![incident(), gtid("1-1-1"), note(9), xid()], vec![standalone("1-2-2"), query("DROP x")]]
        .concat()
}

#[test]
fn transactions_of_other_domains_are_followed_to_their_ends_and_skipped() {
    let foreign: [Vec<Vec<u8>>; 5] = [
        vec![gtid("2-2-7"), note(1), xid()],
        vec![standalone("0-1-1"), note(1), query("CREATE TABLE t (a INT)")],
        vec![gtid("2-2-8"), query("SAVEPOINT a"), query("ROLLBACK")],
        // Over every limit of a cache.
        vec![gtid("3-1-1"), note(100_000), note(100_000), xid()],
        // What rode with it goes with it.
        vec![incident(), incident(), gtid("2-9-9"), xid()],
    ];
    let alone = assemble(Domains::all(), &own());
    assert_eq!(alone.recorded.len(), 2);
    let [first, second] = [&own()[..4], &own()[4..]];
    for group in &foreign {
        let events = [group, first, group, second, group].map(<[_]>::to_vec).concat();
        let mixed = assemble(Domains::only([1]), &events);
        assert_eq!(mixed.recorded, alone.recorded, "{group:?}");
        assert_eq!(mixed.skipped.len(), 3);
    }
    let all = foreign.concat();
    let mixed = assemble(Domains::only([1]), &[&all[..], first, &all[..], second].concat());
    assert_eq!(mixed.recorded, alone.recorded);
    assert_eq!(mixed.skipped[..5], ["2-2-7", "0-1-1", "2-2-8", "3-1-1", "2-9-9"]);
}

#[test]
fn the_domains_named_are_recorded_all_of_them() {
    let events = [vec![gtid("0-1-1"), xid(), gtid("5-1-1"), xid(), gtid("6-1-1"), xid()]].concat();
    let stream = assemble(Domains::only([5, 0]), &events);
    let recorded: Vec<_> = stream.recorded.iter().map(|(gtid, _)| gtid.as_str()).collect();
    assert_eq!(recorded, ["0-1-1", "5-1-1"]);
    assert_eq!(stream.skipped, ["6-1-1"]);
}

#[test]
fn half_a_skipped_transaction_counts_as_open_and_what_cannot_stand_there_is_an_error() {
    let log = Log::open(Sample::new().options()).unwrap();
    let mut assembler = log.submitter().assembler(Arc::new(format())).recording(Domains::only([1]));
    assert!(matches!(assembler.push(&gtid("2-1-1")).unwrap(), Assembled::Pending));
    assert!(assembler.in_transaction());
    assert!(assembler.push(&gtid("1-1-1")).is_err());
}
