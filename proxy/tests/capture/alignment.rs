//! Never twice, never missing, never another history: what is in the log after cuts, restarts and changes of the upstream.

use std::path::Path;

use spillway_binlog::event::{EventHeader, EventType};
use spillway_binlog::reader::{FileScan, Run};

use super::scripted::{Group, Mishap, ScriptedServer, dump_len, group, groups, is_header_event};
use super::*;

/// Everything that stands in a closed log but header events, file by file in order.
pub(super) fn recorded(dir: &Path) -> Vec<Vec<u8>> {
    let log = Log::open(LogOptions::new(dir, 4307)).unwrap();
    let mut events = Vec::new();
    for file in log.files() {
        let mut scan =
            FileScan::open(&spillway_binlog::fs::OsFileSystem, &dir.join(&file.name)).unwrap();
        while let Some(event) = scan.next_event().unwrap() {
            if !is_header_event(event.header.event_type) {
                let mut bytes = event.event.to_vec();
                bytes[13..17].fill(0);
                events.push(bytes);
            }
        }
    }
    events
}

/// What an upstream's groups look like in a log.
pub(super) fn expected(groups: &[Group]) -> Vec<Vec<u8>> {
    let events = groups.iter().flat_map(|(_, events)| events);
    events
        .map(|event| {
            let mut bytes = event[..event.len() - 4].to_vec();
            bytes[13..17].fill(0);
            bytes
        })
        .collect()
}

impl Capturing {
    pub(super) fn wait_state(&self, state: CaptureState) {
        self.wait(state.as_str(), |this| this.upstream.capture_status().state == state);
    }

    /// Stops, and compares the log with what the upstream committed.
    pub(super) fn ends_with(self, groups: &[Group]) {
        let dir = self.stop_and_keep();
        assert_eq!(recorded(dir.path()), expected(groups));
    }
}

#[test]
fn a_link_cut_or_corrupted_at_any_byte_leaves_the_log_of_an_uncut_run() {
    let all = groups("0-1-1,0-1-2,0-1-3", "some text");
    let len = dump_len(&all);
    let threads = 32;
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let all = &all;
            scope.spawn(move || {
                for at in (thread..len).step_by(threads) {
                    let flips = at % 3 == 0;
                    let mishaps = [Mishap::Cut(at), Mishap::Flip(at)];
                    for mishap in mishaps.into_iter().take(1 + usize::from(flips)) {
                        let server = ScriptedServer::start(all.clone());
                        server.mishaps([mishap]);
                        let capturing = Capturing::start_at(server.address());
                        capturing.wait_position("0-1-3");
                        capturing.ends_with(all);
                    }
                }
            });
        }
    });
}

#[test]
fn after_every_reconnect_only_what_is_new_is_recorded() {
    let server = ScriptedServer::start(groups("0-1-1", "a"));
    let capturing = Capturing::start_at(server.address());
    let mut all = groups("0-1-1", "a");
    for sequence in 2..=6 {
        capturing.wait_position(&format!("0-1-{}", sequence - 1));
        server.disconnect();
        all.push(group(&format!("0-1-{sequence}"), "b"));
        server.commit(all[all.len() - 1..].to_vec());
    }
    capturing.wait_position("0-1-6");
    capturing.wait_state(CaptureState::Streaming);
    capturing.ends_with(&all);
}

#[test]
fn numbers_that_repeat_and_go_back_are_recorded_once_over_restarts() {
    let all: Vec<_> =
        [("0-1-1", "a"), ("0-1-2", "b"), ("0-1-3", "c"), ("0-1-4", "d"), ("0-1-30", "e")]
            .into_iter()
            .chain([("0-1-3", "f"), ("0-1-4", "g"), ("0-1-2", "h")])
            .map(|(gtid, content)| group(gtid, content))
            .collect();
    for shown in 5..=all.len() {
        let server = ScriptedServer::start(all[..shown].to_vec());
        let capturing = Capturing::start_at(server.address());
        capturing.wait_position(&all[shown - 1].0.to_string());
        let capturing = capturing.restart();
        capturing.wait_state(CaptureState::Streaming);
        server.disconnect();
        server.commit(groups("0-1-31", "new"));
        capturing.wait_position("0-1-31");
        let mut whole = all[..shown].to_vec();
        whole.extend(groups("0-1-31", "new"));
        capturing.ends_with(&whole);
    }
}

/// The upstream's binlog becomes another; the source diverges, tells both sides, and nothing is appended.
fn diverges(head: &str, other: Vec<Group>, told: &[&str]) {
    let all = groups("0-1-1,0-1-2,0-1-3", "old");
    let server = ScriptedServer::start(all.clone());
    let capturing = Capturing::start_at(server.address());
    capturing.wait_position("0-1-3");
    server.replace(head, other);
    capturing.wait_state(CaptureState::Diverged);
    let reason = capturing.reason();
    for part in told.iter().chain(&["name CONTINUE", "name START = 'current'"]) {
        assert!(reason.contains(part), "{part}: {reason}");
    }
    assert!(capturing.reconnects("diverged") || capturing.reconnects("server_error"));
    // Also in its next life.
    let capturing = capturing.restart();
    capturing.wait_state(CaptureState::Diverged);
    // The right server comes back.
    let mut whole = all;
    whole.extend(groups("0-1-4", "old"));
    server.replace("", whole.clone());
    capturing.upstream.retry_now();
    capturing.wait_position("0-1-4");
    capturing.wait_state(CaptureState::Streaming);
    capturing.ends_with(&whole);
}

#[test]
fn reset_master_is_another_history() {
    diverges("", vec![], &["0-1-3"]);
    diverges("", groups("0-1-1", "new"), &["0-1-3"]);
    diverges("", groups("0-1-1,0-1-2,0-1-3", "new"), &["0-1-3", "binlog.000001"]);
    diverges("", groups("0-1-1,0-1-2,0-1-3,0-1-4,0-1-5", "new"), &["0-1-3", "binlog.000001"]);
}

#[test]
fn an_upstream_with_a_lost_tail_is_another_history() {
    diverges("", groups("0-1-1,0-1-2", "old"), &["0-1-3"]);
    diverges("", groups("0-1-1", "old"), &["0-1-3"]);
    let mut replaced = groups("0-1-1,0-1-2", "old");
    replaced.extend(groups("0-1-3,0-1-4", "another tail"));
    diverges("", replaced, &["0-1-3", "another"]);
}

#[test]
fn an_upstream_restored_from_a_backup_is_another_history() {
    // The backup ended at 0-1-2, and its binlog begins there.
    diverges("0-1-2", groups("0-1-3,0-1-4", "after the restore"), &["0-1-3"]);
    diverges("0-1-2", vec![], &["0-1-3"]);
}

#[test]
fn a_different_server_behind_the_same_name_is_another_history() {
    diverges("", groups("0-2-1,0-2-2,0-2-3", "other"), &["0-1-"]);
    diverges("", groups("7-9-1", "other"), &["0-1-3"]);
    // Promoted without our last transaction.
    let mut promoted = groups("0-1-1,0-1-2", "old");
    promoted.extend(groups("0-2-3", "of the new primary"));
    diverges("", promoted, &["0-2-3", "0-1-3"]);
}

#[test]
fn an_upstream_that_purged_our_last_transaction_is_taken_at_its_word() {
    let server = ScriptedServer::start(groups("0-1-1,0-1-2", "old"));
    let capturing = Capturing::start_at(server.address());
    capturing.wait_position("0-1-2");
    server.purge(2);
    server.disconnect();
    server.commit(groups("0-1-3", "old"));
    capturing.wait_position("0-1-3");
    capturing.ends_with(&groups("0-1-1,0-1-2,0-1-3", "old"));
}

/// What showed the other history is gone: neither that nor a restart makes it the same.
#[test]
fn a_diverged_upstream_that_purges_stays_diverged_over_restarts() {
    let server = ScriptedServer::start(groups("0-1-1,0-1-2", "old"));
    let capturing = Capturing::start_at(server.address());
    capturing.wait_position("0-1-2");
    server.replace("", [groups("0-1-1", "old"), groups("0-1-2,0-1-3", "new")].concat());
    capturing.wait_state(CaptureState::Diverged);
    server.purge(2);
    let capturing = capturing.restart();
    let purged = "it has purged since what would show it";
    capturing.wait("diverged without a proof", |this| this.reason().contains(purged));
    assert_eq!(capturing.upstream.capture_status().state, CaptureState::Diverged);
    assert_eq!(capturing.position(), "0-1-2");
    // The right one is gone on with, and nothing is held against it later.
    server.replace("", groups("0-1-1,0-1-2,0-1-3", "old"));
    capturing.wait_position("0-1-3");
    capturing.wait_state(CaptureState::Streaming);
    server.purge(3);
    server.commit(groups("0-1-4", "old"));
    let capturing = capturing.restart();
    capturing.wait_position("0-1-4");
    capturing.ends_with(&groups("0-1-1,0-1-2,0-1-3,0-1-4", "old"));
}

#[test]
fn an_upstream_that_purged_what_we_lack_is_refused_with_one_clear_state() {
    let server = ScriptedServer::start(groups("0-1-1,0-1-2", "old"));
    let capturing = Capturing::start_at(server.address());
    capturing.wait_position("0-1-2");
    let mut later = groups("0-1-3,0-1-4", "old");
    server.replace("0-1-3", later.split_off(1));
    capturing.wait_state(CaptureState::Refused);
    assert!(capturing.reason().contains("has purged what comes next"), "{}", capturing.reason());
    assert_eq!(capturing.position(), "0-1-2");
}

#[test]
fn a_dump_that_the_upstream_left_behind_is_noticed() {
    let all = groups("0-1-1,0-1-2", "old");
    let server = ScriptedServer::start(all.clone());
    let capturing = Capturing::start_at(server.address());
    capturing.wait_position("0-1-2");
    // Only the dump is stuck.
    let mut more = all.clone();
    more.extend(groups("0-1-3", "old"));
    server.replace_silently("", more.clone());
    capturing.wait_position("0-1-3");
    assert!(capturing.reconnects("stale"));
    server.replace_silently("", groups("0-1-1", "after RESET MASTER"));
    capturing.wait_state(CaptureState::Diverged);
    capturing.ends_with(&more);
}

#[test]
fn a_difference_that_connecting_anew_does_not_mend_is_left_alone() {
    let server = ScriptedServer::start(groups("0-1-1", "a"));
    let capturing = Capturing::start_at(server.address());
    capturing.wait_position("0-1-1");
    server.claims("0-1-1,9-9-9");
    capturing.wait("connected anew", |this| this.reconnects("stale"));
    // Several heartbeats on one connection.
    let sessions = server.sessions().len();
    let heartbeats = server.heartbeats();
    capturing.wait("more heartbeats", |_| server.heartbeats() > heartbeats + 8);
    assert!(server.sessions().len() <= sessions + 1);
    server.claims("");
}

#[test]
fn current_begins_with_the_state_the_upstream_had() {
    let server = ScriptedServer::start(groups("0-1-1,0-2-2,0-1-3,1-1-9", "old"));
    let capturing = Capturing::start_with(server.address(), |options| {
        options.start = StartPosition::Current;
    });
    capturing.wait("begun", |this| this.position() == "0-1-3,1-1-9");
    let list = spillway_binlog::gtid::mariadb::print_list(&capturing.log.gtid_state().list());
    assert_eq!(list, "0-2-2,0-1-3,1-1-9");
    server.commit(groups("0-2-4,1-1-10", "new"));
    capturing.wait_position("0-2-4,1-1-10");
    capturing.ends_with(&groups("0-2-4,1-1-10", "new"));
}

#[test]
fn a_source_asks_for_other_domains_only_from_where_the_upstream_is() {
    let server = ScriptedServer::start(groups("0-1-1,5-1-77,0-1-2", "old"));
    let capturing = Capturing::start_with(server.address(), |options| {
        options.start = StartPosition::Current;
        options.domains = Domains::only([0, 3]);
    });
    capturing.wait("begun", |this| this.position() == "0-1-2");
    assert_eq!(server.sessions()[0].connect_state.as_deref(), Some("0-1-2,5-1-77"));
}

#[test]
fn what_an_empty_domain_begins_with_is_not_passed_over_at_the_next_connect() {
    let server = ScriptedServer::start(groups("0-1-1", "a"));
    let first = Capturing::start_with(server.address(), |options| {
        options.domains = Domains::only([0]);
    });
    first.wait_position("0-1-1");
    // In a log that has a file, nothing tells that domain 1 was begun.
    let capturing = Capturing::open(first.stop_and_keep(), server.address(), |options| {
        options.domains = Domains::only([1]);
        options.start = StartPosition::Current;
    });
    capturing.wait_state(CaptureState::Streaming);
    server.replace("", groups("0-1-1,1-1-1", "a"));
    capturing.wait_position("0-1-1,1-1-1");
    capturing.ends_with(&groups("0-1-1,1-1-1", "a"));
}

/// Random numbers, the same for the same seed (splitmix64).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((z ^ (z >> 31)) >> 1).unwrap() % limit
    }
}

/// Groups of three servers in two domains, numbers that go on, jump and go back; each with a content of its own.
fn history(random: &mut Random, len: usize) -> Vec<Group> {
    let mut next = [1_u64; 2];
    (0..len)
        .map(|index| {
            let (domain, server) = (random.below(2), 1 + random.below(3) / 2);
            match random.below(12) {
                0 => next[domain] += 7,
                1 => next[domain] = next[domain].saturating_sub(1 + random.below(6) as u64).max(1),
                _ => {}
            }
            let text = format!("{domain}-{server}-{}", next[domain]);
            next[domain] += 1;
            group(&text, &format!("content {index}"))
        })
        .collect()
}

/// One life of an upstream under one seed: commits, cuts at any byte, ends of connections and restarts of capture in any order.
fn survives(seed: u64) {
    let mut random = Random(seed);
    let all = history(&mut random, 30);
    let mut committed = random.below(5);
    let server = ScriptedServer::start(all[..committed].to_vec());
    let mut capturing = Capturing::start_at(server.address());
    while committed < all.len() {
        let more = (1 + random.below(4)).min(all.len() - committed);
        if random.below(2) == 0 {
            server.mishaps([Mishap::Cut(random.below(2000))]);
        }
        match random.below(4) {
            0 => server.disconnect(),
            1 => capturing = capturing.restart(),
            2 => capturing.upstream.retry_now(),
            _ => {}
        }
        server.commit(all[committed..committed + more].to_vec());
        committed += more;
        if random.below(3) == 0 {
            let count = committed;
            capturing.wait(&format!("all of seed {seed}"), |this| this.transactions() == count);
        }
    }
    capturing.wait(&format!("all of seed {seed}"), |this| this.transactions() == all.len());
    capturing.ends_with(&all);
}

impl Capturing {
    /// How many transactions the log has.
    pub(super) fn transactions(&self) -> usize {
        let Some(first) = self.log.files().into_iter().next() else { return 0 };
        let (mut cursor, mut count) = (self.log.cursor(first.number, 4).unwrap(), 0);
        loop {
            match cursor.next_run(1 << 20).unwrap() {
                Run::CaughtUp => return count,
                Run::NextFile => {}
                Run::Events(run) => {
                    let is_gtid = |header: &EventHeader| header.event_type == EventType::GTID;
                    count += run.events().filter(|(_, header, _)| is_gtid(header)).count();
                }
            }
        }
    }
}

/// `SPILLWAY_HISTORIES` seeds, from `SPILLWAY_HISTORY` on.
#[test]
fn any_history_is_recorded_once_and_in_order_whatever_happens_to_the_link() {
    let setting = |name, default| {
        std::env::var(name).map_or(default, |text: String| text.parse::<u64>().unwrap())
    };
    let first = setting("SPILLWAY_HISTORY", 1);
    let seeds: Vec<u64> = (first..first + setting("SPILLWAY_HISTORIES", 32)).collect();
    std::thread::scope(|scope| {
        for lane in 0..16 {
            let seeds = &seeds;
            scope.spawn(move || {
                seeds.iter().skip(lane).step_by(16).for_each(|seed| survives(*seed));
            });
        }
    });
}
