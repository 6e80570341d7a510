//! Group boundaries, event by event.

use super::*;
use crate::event::control;
use crate::event::{ChecksumAlgorithm, EventHeader};

fn event(event_type: EventType, body: &[u8]) -> Vec<u8> {
    let header = EventHeader { flags: 0, ..control::artificial(event_type, 1, 0) };
    control::event(header, body, ChecksumAlgorithm::None)
}

fn gtid(flags2: u8) -> Vec<u8> {
    let mut body = vec![0; 19];
    body[0] = 7;
    body[12] = flags2;
    event(EventType::GTID, &body)
}

fn query(text: &str) -> Vec<u8> {
    let mut body = vec![0; 13];
    body[8] = 2;
    body[11] = 3;
    body.extend_from_slice(b"sssdb\0");
    body.extend_from_slice(text.as_bytes());
    event(EventType::QUERY, &body)
}

/// One letter a step: `<` begins, `.` inside, `>` ends, `o` outside, `r` rides along.
fn steps(events: &[Vec<u8>]) -> Result<String, GroupError> {
    let mut tracker = GroupTracker::default();
    let mut letters = String::new();
    for event in events {
        letters.push(match tracker.step(event)? {
            Step::Outside => 'o',
            Step::Rider => 'r',
            Step::Begin(_) => '<',
            Step::Inside => '.',
            Step::End => '>',
        });
    }
    Ok(letters)
}

#[test]
fn transactions_end_with_xid_commit_rollback_or_xa_prepare() {
    let table_map = event(EventType::TABLE_MAP, &[0; 8]);
    let rows = event(EventType::WRITE_ROWS_V1, &[0; 8]);
    for end in [
        event(EventType::XID, &[0; 8]),
        query("COMMIT"),
        query("ROLLBACK"),
        event(EventType::XA_PREPARE, &[0; 8]),
    ] {
        let events = [gtid(0x0c), table_map.clone(), rows.clone(), end, gtid(0x0c)];
        assert_eq!(steps(&events).unwrap(), "<..><");
    }
}

#[test]
fn an_event_that_may_be_ignored_ends_nothing() {
    let mut ignorable = event(EventType(120), b"of a later release");
    ignorable[17] = 0x80;
    let standalone = [gtid(1), ignorable.clone(), query("DROP TABLE t"), ignorable.clone()];
    assert_eq!(steps(&standalone).unwrap(), "<.>r");
    let transaction = [gtid(0x0c), ignorable, event(EventType::XID, &[0; 8])];
    assert_eq!(steps(&transaction).unwrap(), "<.>");
}

#[test]
fn statements_that_only_look_like_an_end_are_inside() {
    let texts = ["SAVEPOINT a", "ROLLBACK TO a", "insert into t values ('\0COMMIT", "XA END X'61'"];
    for text in texts {
        assert_eq!(steps(&[gtid(0x0c), query(text)]).unwrap(), "<.", "{text}");
    }
}

#[test]
fn a_standalone_group_ends_with_its_statement() {
    let intvar = event(EventType::INTVAR, &[0; 9]);
    assert_eq!(steps(&[gtid(1), query("CREATE TABLE t (a int)"), gtid(1)]).unwrap(), "<><");
    assert_eq!(steps(&[gtid(1), intvar, query("INSERT …")]).unwrap(), "<.>");
    let compressed = event(EventType::QUERY_COMPRESSED, &[0; 20]);
    assert_eq!(steps(&[gtid(1), compressed]).unwrap(), "<>");
}

#[test]
fn events_between_groups_are_framing_or_ride_along() {
    let events = [
        event(EventType::FORMAT_DESCRIPTION, &[]),
        event(EventType::GTID_LIST, &[0; 6]),
        event(EventType::BINLOG_CHECKPOINT, &[]),
        event(EventType::INCIDENT, &[0; 3]),
        event(EventType(200), &[]),
        event(EventType::HEARTBEAT, &[]),
        event(EventType::ROTATE, &[0; 9]),
    ];
    assert_eq!(steps(&events).unwrap(), "ooorroo");
}

#[test]
fn what_cannot_stand_where_it_does_is_an_error() {
    let rotate = event(EventType::ROTATE, &[0; 9]);
    let misplaced = steps(&[gtid(0x0c), rotate]);
    assert_eq!(misplaced, Err(GroupError::Misplaced(EventType::ROTATE)));
    assert_eq!(steps(&[gtid(0x0c), gtid(0x0c)]), Err(GroupError::Misplaced(EventType::GTID)));
    for orphan in [EventType::XID, EventType::TABLE_MAP, EventType::WRITE_ROWS_V1] {
        assert_eq!(steps(&[event(orphan, &[0; 8])]), Err(GroupError::NoGtid(orphan)));
    }
    assert!(steps(&[query("COMMIT")]).is_err());
    assert!(GroupTracker::default().step(&[0; 10]).is_err());
}
