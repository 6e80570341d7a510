//! The rules of MariaDB, one by one, on streams of made-up events.

use spillway_binlog::gtid::mariadb::parse_list;

use super::*;
use crate::serve::dump::request::DumpRequest;
use crate::serve::sql::Value;
use crate::serve::testing::{event, gtid, standalone, transaction};

const NONE: ChecksumAlgorithm = ChecksumAlgorithm::None;

/// A request by these variables; flag 0x0002 asks for Annotate_rows.
fn request(flags: u8, variables: &[(&str, &str)]) -> DumpRequest {
    let packet = [0x12, 4, 0, 0, 0, flags, 0, 2, 0, 0, 0];
    DumpRequest::parse(&packet, |wanted| {
        let found = variables.iter().find(|(name, _)| *name == wanted);
        found.map(|(_, value)| Value::Text((*value).to_owned()))
    })
    .unwrap()
}

fn state(text: &str) -> GtidState {
    GtidState::from_list(&parse_list(text).unwrap())
}

fn filter(variables: &[(&str, &str)], log: &str, head: &str) -> Filter {
    let mut all = vec![("mariadb_slave_capability", "4")];
    all.extend_from_slice(variables);
    Filter::new(&request(2, &all), &state(log), &parse_list(head).unwrap())
}

/// What came of a stream: `G` and a GTID for each GTID event sent, `L` and the list for each notice, the rest by type.
fn run(filter: &mut Filter, events: &[Vec<u8>], log: &str) -> Result<Vec<String>, FilterError> {
    let mut seen = Vec::new();
    for event in events {
        let header = EventHeader::parse(event).unwrap();
        match filter.decide(&header, event, NONE, || state(log))? {
            Decision::Send => seen.push(match header.event_type {
                EventType::GTID => format!("G{}", GtidEvent::parse(event).unwrap().gtid),
                other => other.name().to_owned(),
            }),
            Decision::Replace(made) => {
                seen.push(format!("->{}", EventHeader::parse(&made).unwrap().event_type));
            }
            Decision::Skip => {}
        }
        match filter.notice() {
            Some(Notice::Reached(body)) => seen.push(format!("L{}", list(&body))),
            Some(Notice::UntilReached(body)) => {
                seen.push(format!("END{}", list(&body)));
                break;
            }
            None => {}
        }
    }
    Ok(seen)
}

fn list(body: &[u8]) -> String {
    let event = event(EventType::GTID_LIST, 1, body);
    spillway_binlog::gtid::mariadb::print_list(&gtid_list::parse(&event).unwrap().0)
}

/// Only the GTIDs and the notices.
fn summary(seen: Vec<String>) -> String {
    let short = seen.into_iter().filter(|seen| ["G", "L", "E"].contains(&&seen[..1]));
    short.filter(|seen| !seen.starts_with("Gtid")).collect::<Vec<_>>().join(" ")
}

fn file(head: &str, groups: &[Vec<Vec<u8>>]) -> Vec<Vec<u8>> {
    let body = gtid_list::body(&parse_list(head).unwrap(), 0);
    let mut events = vec![event(EventType::GTID_LIST, 1, &body)];
    events.extend(groups.iter().flatten().cloned());
    events
}

fn t(text: &str) -> Vec<Vec<u8>> {
    transaction(gtid(text), "insert into t values (1)")
}

#[test]
fn a_fresh_replica_gets_everything_unchanged() {
    let mut filter = filter(&[("slave_connect_state", "")], "0-1-2", "");
    assert!(filter.is_at_start() && filter.passes_all());
    let events = file("", &[t("0-1-1"), standalone(gtid("0-1-2"))]);
    let seen = run(&mut filter, &events, "0-1-2").unwrap();
    let expected = ["Gtid_list", "G0-1-1", "Annotate_rows", "Query", "Xid", "G0-1-2", "Query"];
    assert_eq!(seen, expected);
}

#[test]
fn groups_up_to_the_position_are_passed_over_and_reaching_it_is_told() {
    let mut filter = filter(&[("slave_connect_state", "0-1-2")], "0-1-4", "");
    assert!(!filter.is_at_start() && !filter.passes_all());
    let groups = [t("0-1-1"), standalone(gtid("0-1-2")), t("0-1-3"), t("0-1-4")];
    let seen = run(&mut filter, &file("", &groups), "0-1-4").unwrap();
    assert_eq!(summary(seen), "L0-1-2 G0-1-3 G0-1-4");
    assert!(filter.passes_all());
}

#[test]
fn each_domain_is_reached_by_itself() {
    let variables = [("slave_connect_state", "7-1-1,0-1-2")];
    let mut filter = filter(&variables, "7-1-2,0-1-3", "");
    let groups = [t("7-1-1"), t("0-1-1"), t("7-1-2"), t("0-1-2"), t("0-1-3")];
    let seen = run(&mut filter, &file("", &groups), "7-1-2,0-1-3").unwrap();
    assert_eq!(summary(seen), "L7-1-1 G7-1-2 L7-1-2,0-1-2 G0-1-3");
}

#[test]
fn what_is_last_before_the_file_needs_no_passing_over() {
    let mut filter = filter(&[("slave_connect_state", "0-1-2")], "0-1-3", "0-1-2");
    assert!(filter.is_at_start());
    let seen = run(&mut filter, &file("0-1-2", &[t("0-1-3")]), "0-1-3").unwrap();
    assert_eq!(summary(seen), "G0-1-3");
}

#[test]
fn groups_of_other_servers_before_the_position_are_passed_over() {
    let mut filter = filter(&[("slave_connect_state", "0-2-2")], "0-1-4", "");
    let groups = [t("0-1-1"), t("0-2-2"), t("0-1-3")];
    let seen = run(&mut filter, &file("", &groups), "0-2-2,0-1-3").unwrap();
    assert_eq!(summary(seen), "L0-1-1,0-2-2 G0-1-3");
}

#[test]
fn a_missing_position_is_a_hole_in_strict_mode_only() {
    let groups = file("", &[t("0-1-1"), t("0-1-3")]);
    let mut lenient = filter(&[("slave_connect_state", "0-1-2")], "0-1-3", "");
    let seen = run(&mut lenient, &groups, "0-1-3").unwrap();
    // As MariaDB: the list comes behind the GTID event that showed the position to be passed.
    assert_eq!(summary(seen), "G0-1-3 L0-1-3");
    let variables = [("slave_connect_state", "0-1-2"), ("slave_gtid_strict_mode", "1")];
    let result = run(&mut filter(&variables, "0-1-3", ""), &groups, "0-1-3");
    assert_eq!(result, Err(FilterError::Hole(gtid("0-1-2"))));
}

#[test]
fn a_domain_that_begins_later_has_to_contain_the_position() {
    let variables = [("slave_connect_state", "9-1-5")];
    let mut missing = filter(&variables, "0-1-1", "");
    assert!(missing.is_at_start());
    let result = run(&mut missing, &file("", &[t("0-1-1"), t("9-1-1")]), "0-1-1,9-1-1");
    assert_eq!(result, Err(FilterError::Ahead(gtid("9-1-5"))));
    let mut there = filter(&variables, "0-1-1", "");
    let groups = [t("0-1-1"), t("9-1-4"), t("9-1-5"), t("9-1-6")];
    let seen = run(&mut there, &file("", &groups), "0-1-1,9-1-6").unwrap();
    assert_eq!(summary(seen), "G0-1-1 L0-1-1,9-1-5 G9-1-6");
}

#[test]
fn until_ends_behind_its_group_or_before_it() {
    let groups = file("", &[t("0-1-1"), standalone(gtid("0-1-2")), t("0-1-3")]);
    let mut behind =
        filter(&[("slave_connect_state", ""), ("slave_until_gtid", "0-1-2")], "0-1-3", "");
    let seen = run(&mut behind, &groups, "0-1-3").unwrap();
    assert_eq!(summary(seen), "G0-1-1 G0-1-2 END0-1-2");
    let before = [
        ("slave_connect_state", ""),
        ("slave_until_gtid", "0-1-3"),
        ("slave_gtid_until_before_gtids", "1"),
    ];
    let seen = run(&mut filter(&before, "0-1-3", ""), &groups, "0-1-3").unwrap();
    assert_eq!(summary(seen), "G0-1-1 G0-1-2 END0-1-2");
}

#[test]
fn until_stops_each_domain_and_leaves_out_unnamed_ones() {
    let variables = [("slave_connect_state", ""), ("slave_until_gtid", "0-1-1,7-1-2")];
    let mut filter = filter(&variables, "0-1-2,7-1-2,8-1-1", "");
    let groups = [t("0-1-1"), t("8-1-1"), t("7-1-1"), t("0-1-2"), t("7-1-2"), t("7-1-3")];
    let seen = run(&mut filter, &file("", &groups), "").unwrap();
    let until = summary(seen);
    assert!(until.starts_with("G0-1-1 G7-1-1 G7-1-2 END"), "{until}");
}

#[test]
fn until_that_is_passed_already_is_over_at_once() {
    let variables = [("slave_connect_state", "0-1-5"), ("slave_until_gtid", "0-1-2")];
    let over = filter(&variables, "0-1-5", "0-1-5").is_over_at_start();
    assert!(matches!(over, Some(Notice::UntilReached(_))), "{over:?}");
    // A position that the log has not reached, and an UNTIL that it has.
    let variables = [("slave_connect_state", "0-1-9"), ("slave_until_gtid", "0-1-5")];
    assert!(filter(&variables, "0-1-5", "0-1-3").is_over_at_start().is_some());
    let variables = [("slave_connect_state", "0-1-1"), ("slave_until_gtid", "0-1-5")];
    assert!(filter(&variables, "0-1-5", "").is_over_at_start().is_none());
}

fn translated(flags: u8, capability: &str) -> Vec<String> {
    let variables = [("mariadb_slave_capability", capability)];
    let mut filter = Filter::new(&request(flags, &variables), &state(""), &[]);
    let mut events = file("", &[t("0-1-1"), standalone(gtid("0-1-2"))]);
    events.push(event(EventType::BINLOG_CHECKPOINT, 1, &[0; 15]));
    run(&mut filter, &events, "").unwrap()
}

#[test]
fn annotations_are_for_who_asks() {
    assert!(translated(2, "4").contains(&"Annotate_rows".to_owned()));
    assert!(!translated(0, "4").contains(&"Annotate_rows".to_owned()));
}

#[test]
fn who_knows_nothing_of_mariadb_gets_events_of_the_same_size() {
    let expected =
        ["->User var", "->Query", "->Query", "Query", "Xid", "->Query", "Query", "->Query"];
    assert_eq!(translated(0, "0"), expected);
}

#[test]
fn who_tolerates_holes_is_left_without_what_it_does_not_know() {
    assert_eq!(translated(0, "2"), ["->Query", "Query", "Xid", "Query"]);
    assert_eq!(translated(0, "3"), ["->Query", "Query", "Xid", "Query", "Binlog_checkpoint"]);
}

#[test]
fn events_without_a_group_pass_when_nothing_is_passed_over() {
    // A start by position may lie inside a transaction.
    let mut filter =
        Filter::new(&request(2, &[("mariadb_slave_capability", "4")]), &state(""), &[]);
    let inside = &t("0-1-1")[2..];
    assert_eq!(run(&mut filter, inside, "").unwrap(), ["Query", "Xid"]);
}
