//! Sessions recorded from real servers and clients: every command is answered, in any split.

use std::path::PathBuf;

use proptest::prelude::*;

use super::*;
use crate::wire::handshake::{HandshakeResponse, ServerGreeting};
use crate::wire::packet::split_packet;

/// Name, commands, replies, and how many of these were errors.
const SESSIONS: &[(&str, usize, usize, usize)] = &[
    ("mariadb-10.11-client-0", 18, 17, 2),
    ("mariadb-10.11-connector-python-0", 31, 28, 0),
    ("mariadb-10.11-denied-0", 0, 0, 0),
    ("mariadb-10.11-pymysql-0", 18, 17, 1),
    ("mariadb-10.11-raw-0", 60, 56, 16),
    ("mariadb-10.11-raw-1", 60, 56, 16),
    ("mariadb-10.11-raw-2", 64, 60, 17),
    ("mariadb-10.11-raw-3", 68, 64, 17),
    ("mariadb-10.11-raw-4", 64, 60, 16),
    ("mariadb-10.11-raw-5", 68, 64, 17),
    ("mariadb-10.11-sysbench-0", 63, 51, 0),
];

/// A recorded session behind its login packet.
fn session(name: &str) -> Script {
    let path = [env!("CARGO_MANIFEST_DIR"), "tests/fixtures/sessions", name];
    let path = path.iter().collect::<PathBuf>().with_added_extension("session");
    let mut recorded = &std::fs::read(&path).unwrap()[..];
    let mut bytes: Vec<(Side, Vec<u8>)> = Vec::new();
    while let Some(([side, length @ ..], rest)) = recorded.split_first_chunk::<5>() {
        let (chunk, rest) = rest.split_at(u32::from_le_bytes(*length).try_into().unwrap());
        let side = if *side == b'c' { Side::Client } else { Side::Server };
        bytes.push((side, chunk.to_vec()));
        recorded = rest;
    }
    let greeting = ServerGreeting::parse(&first_payload(&mut bytes, Side::Server)).unwrap();
    let login = HandshakeResponse::parse(&first_payload(&mut bytes, Side::Client)).unwrap();
    Script { capabilities: greeting.capabilities & login.capabilities, sequence: 0, bytes }
}

/// Takes the first packet of one side out of a recording.
fn first_payload(bytes: &mut [(Side, Vec<u8>)], from: Side) -> Vec<u8> {
    let (_, chunk) = bytes.iter_mut().find(|(side, _)| *side == from).unwrap();
    let (_, payload, rest) = split_packet(chunk).unwrap();
    let (payload, rest) = (payload.to_vec(), rest.to_vec());
    *chunk = rest;
    payload
}

fn counts(events: &[Event]) -> (usize, usize, usize) {
    let count = |wanted: fn(&Event) -> bool| events.iter().filter(|event| wanted(event)).count();
    (
        count(|event| matches!(event, Event::Command(_))),
        count(|event| matches!(event, Event::Reply { .. })),
        count(|event| matches!(event, Event::Reply { error: Some(_), .. })),
    )
}

#[test]
fn every_command_is_answered() {
    for (name, commands, replies, errors) in SESSIONS {
        let (follower, events) = session(name).run();
        let lost = events.iter().find(|event| matches!(event, Event::Lost(_)));
        assert_eq!(lost, None, "{name}");
        assert_eq!(counts(&events), (*commands, *replies, *errors), "{name}");
        let unanswered = events
            .iter()
            .filter(|event| matches!(event, Event::Command(command) if !command.has_reply()))
            .count();
        assert_eq!(commands - replies, unanswered, "{name}");
        assert!(follower.is_idle(), "{name}");
    }
}

#[test]
fn every_recording_is_replayed() {
    let path = [env!("CARGO_MANIFEST_DIR"), "tests/fixtures/sessions"];
    let mut found: Vec<_> = std::fs::read_dir(path.iter().collect::<PathBuf>())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "session"))
        .map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned())
        .collect();
    found.sort_unstable();
    let listed: Vec<_> = SESSIONS.iter().map(|(name, ..)| (*name).to_owned()).collect();
    assert_eq!(found, listed);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn any_split_gives_the_same_events(
        (name, ..) in prop::sample::select(SESSIONS),
        lengths in prop::collection::vec(1..300_usize, 1..20),
    ) {
        let script = session(name);
        let mut lengths = lengths.into_iter().cycle();
        let (_, pieces) = script.run_in_pieces(&mut |_| lengths.next().unwrap());
        prop_assert_eq!(script.run().1, pieces);
    }
}
