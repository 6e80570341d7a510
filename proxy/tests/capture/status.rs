//! What is told of a source besides its state: a dead peer, a server id that another has, how long the upstream keeps what comes.

use std::time::SystemTime;

use spillway_binlog::fs::faulty::{Fault, FaultyFileSystem, Operation};

use super::scripted::{ScriptedServer, groups};
use super::*;

#[test]
fn a_dead_peer_is_noticed_after_three_heartbeat_periods() {
    let server = ScriptedServer::start(groups("0-1-1", "text"));
    let capturing = Capturing::start_with(server.address(), |options| {
        options.heartbeat_period = Duration::from_millis(400);
    });
    capturing.wait_position("0-1-1");
    server.freeze(true);
    // Shown until the next attempt has failed: a frozen server takes connections and does not answer.
    capturing.wait("silent", |capturing| capturing.reason().contains("arrived for 1 seconds"));
    assert!(capturing.reconnects("silent"));
    server.freeze(false);
    server.commit(groups("0-1-2", "text"));
    capturing.wait_position("0-1-2");
}

#[test]
fn a_server_id_that_another_replica_has_is_a_state_of_its_own() {
    let first = Script::oldest(events(&[&xid_transaction(1)])).then_close();
    let text = "A slave with the same server_id as this slave has connected to the master";
    let fake = FakeUpstream::start(vec![first, Script::error(4052, text)]);
    let capturing = Capturing::start(&fake);
    capturing.wait("a duplicate", |capturing| {
        capturing.upstream.capture_status().state == CaptureState::DuplicateServerId
    });
    assert!(capturing.reconnects("duplicate_server_id"));
    assert!(capturing.reason().contains("a server_id of its own"), "{}", capturing.reason());
    assert_eq!(fake.sessions().len(), 2);
    // Whoever has made the ids differ need not wait.
    capturing.upstream.retry_now();
    capturing.wait("tried again", |_| fake.sessions().len() == 3);
}

#[test]
fn how_long_the_upstream_keeps_what_is_lacking_counts_from_when_nothing_was() {
    let server = ScriptedServer::start(groups("0-1-1", "text"));
    let capturing = Capturing::start_at(server.address());
    let left = |capturing: &Capturing, at| {
        capturing.upstream.capture_status().purged_in(at).map(|left| left.as_secs())
    };
    // The scripted server keeps its files for an hour; its events are years old.
    capturing.wait("all of it", |capturing| {
        left(capturing, SystemTime::now()).is_some_and(|left| left > 3500)
    });
    server.freeze(true);
    let later = SystemTime::now() + Duration::from_secs(1800);
    assert!(left(&capturing, later).is_some_and(|left| (1700..=1800).contains(&left)));
    let too_late = SystemTime::now() + Duration::from_secs(4000);
    assert_eq!(left(&capturing, too_late), Some(0));
}

/// One state, however often it is tried meanwhile.
#[test]
fn a_source_whose_transaction_finds_no_room_for_its_cache_file_is_paused_until_there_is() {
    let large = groups("0-1-2", &"x".repeat(3 << 20));
    let server = ScriptedServer::start(groups("0-1-1", "a"));
    let in_cache = |operation: &Operation| matches!(operation, Operation::Write(path, _) if path.to_string_lossy().contains("cache"));
    let faulty = FaultyFileSystem::at_first(Fault::Full { times: u64::MAX }, in_cache);
    let dir = TempDir::new().unwrap();
    let options = LogOptions {
        fs: Arc::new(faulty.clone()),
        max_cache_size: Some(8 << 20),
        ..LogOptions::new(dir.path(), 4307)
    };
    let capturing = Capturing::open_log(dir, options, server.address(), |_| {});
    capturing.wait_position("0-1-1");
    server.commit(large.clone());
    capturing.wait_state(CaptureState::PausedForDisk);
    let since = capturing.upstream.capture_status().since;
    assert!(capturing.reason().contains("transaction 0-1-2"), "{}", capturing.reason());
    capturing.retry(&server, 3);
    let status = capturing.upstream.capture_status();
    assert_eq!((status.state, status.since), (CaptureState::PausedForDisk, since));
    faulty.repair();
    capturing.wait_position("0-1-2");
    capturing.wait_state(CaptureState::Streaming);
    capturing.ends_with(&[groups("0-1-1", "a"), large].concat());
}

#[test]
fn a_source_whose_transactions_keep_coming_is_paused_as_soon_as_the_disk_is_full() {
    let is_second = |operation: &Operation| matches!(operation, Operation::Create(path) if path.ends_with("binlog.000002"));
    for (fault, told) in [
        (Fault::Full { times: u64::MAX }, "disk is full"),
        (Fault::OutOfFiles, "too many are open"),
    ] {
        let server = ScriptedServer::start(groups("0-1-1", "a"));
        // Nothing that would have the log waited for.
        server.quiet();
        let dir = TempDir::new().unwrap();
        let faulty = FaultyFileSystem::at_first(fault, is_second);
        let options =
            LogOptions { fs: Arc::new(faulty.clone()), ..LogOptions::new(dir.path(), 4307) };
        let capturing = Capturing::open_log(dir, options, server.address(), |_| {});
        capturing.wait_state(CaptureState::Streaming);
        capturing.wait_position("0-1-1");
        capturing.log.rotate();
        capturing.wait_state(CaptureState::PausedForDisk);
        assert!(capturing.reason().contains(told), "{}", capturing.reason());
        for sequence in 2..20 {
            server.commit(groups(&format!("0-1-{sequence}"), "a"));
        }
        capturing.wait("taken", |this| this.metric("spillway_source_transactions_total") == 19);
        assert_eq!(capturing.upstream.capture_status().state, CaptureState::PausedForDisk);
        faulty.repair();
        capturing.wait_state(CaptureState::Streaming);
        capturing.wait_position("0-1-19");
        assert!(!capturing.reconnects("lost"));
    }
}
