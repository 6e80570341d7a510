//! Semi-synchronous: what is acknowledged to the upstream, where, and never before the log has it at its level.

use spillway::source::SemiSync as SemiSyncState;
use spillway_binlog::CommitLevel;
use spillway_binlog::fs::faulty::{FaultyFileSystem, Held};

use super::scripted::{Group, ScriptedServer, SemiSync, groups};
use super::*;

/// A disk is let go before the log on it is closed, whatever the test found.
struct LetGo(FaultyFileSystem);

impl Drop for LetGo {
    fn drop(&mut self) {
        self.0.hold(Held::Nothing);
    }
}

fn semi_sync(options: &mut CaptureOptions) {
    options.semi_sync = true;
}

fn acknowledging(groups: Vec<Group>, how: SemiSync) -> ScriptedServer {
    let server = ScriptedServer::start(groups);
    server.semi_sync(how);
    server
}

fn capturing_on(disk: &FaultyFileSystem, level: CommitLevel, server: &ScriptedServer) -> Capturing {
    let dir = TempDir::new().unwrap();
    let options = LogOptions {
        fs: Arc::new(disk.clone()),
        commit_level: level,
        ..LogOptions::new(dir.path(), 4307)
    };
    Capturing::open_log(dir, options, server.address(), semi_sync)
}

/// `ef | position u64 | file name` of the place behind each of these groups in one file.
fn places(begins_at: u64, groups: &[Group]) -> Vec<Vec<u8>> {
    let mut position = begins_at;
    let place = |(_, events): &Group| {
        position += events.iter().map(|event| event.len() as u64).sum::<u64>();
        [&[0xef], position.to_le_bytes().as_slice(), b"mbin.000007"].concat()
    };
    groups.iter().map(place).collect()
}

impl Capturing {
    /// Waits until this is what was acknowledged last.
    fn wait_acknowledged(&self, server: &ScriptedServer, place: &[u8]) {
        self.wait("acknowledged", |_| {
            server.acknowledged().last().is_some_and(|(_, last)| last == place)
        });
    }

    fn wait_received(&self, transactions: u64) {
        self.wait("received", |capturing| {
            capturing.metric("spillway_source_transactions_total") == transactions
        });
    }
}

/// Each is a place behind one of these groups, they go up, and are packets of number 0.
fn assert_cumulative(server: &ScriptedServer, places: &[Vec<u8>]) {
    let acknowledged = server.acknowledged();
    let index = |payload| places.iter().position(|place| place == payload);
    let indexes: Vec<_> = acknowledged.iter().map(|(_, payload)| index(payload)).collect();
    assert!(indexes.iter().all(Option::is_some), "{acknowledged:?}");
    assert!(indexes.is_sorted_by(|before, after| before < after), "{indexes:?}");
    assert!(acknowledged.iter().all(|(sequence, _)| *sequence == 0));
}

#[test]
fn no_acknowledgement_precedes_the_log_at_its_level() {
    for (level, held, harmless) in [
        (CommitLevel::One, Held::Syncs, Held::Nothing),
        (CommitLevel::One, Held::Writes, Held::Nothing),
        (CommitLevel::Two, Held::Writes, Held::Syncs),
        (CommitLevel::Zero, Held::Writes, Held::Syncs),
    ] {
        let all = groups("0-1-1,0-1-2,0-1-3", "text");
        let places = places(300, &all);
        let server = acknowledging(all[..1].to_vec(), SemiSync::default());
        let disk = FaultyFileSystem::sound();
        let capturing = capturing_on(&disk, level, &server);
        let _let_go = LetGo(disk.clone());
        capturing.wait_acknowledged(&server, &places[0]);
        server.quiet();
        disk.hold(held);
        server.commit(all[1..].to_vec());
        capturing.wait_received(3);
        // Long enough for a hasty one to arrive.
        std::thread::sleep(Duration::from_millis(200));
        assert_eq!(server.acknowledged().len(), 1, "{level:?} {held:?}");
        disk.hold(harmless);
        capturing.wait_acknowledged(&server, &places[2]);
        assert_cumulative(&server, &places);
        assert_eq!(
            capturing.metric("spillway_source_acknowledgements_total"),
            server.acknowledged().len() as u64
        );
    }
}

#[test]
fn one_acknowledgement_stands_for_all_before_it() {
    let all = groups("0-1-1,0-1-2,0-1-3,0-1-4,0-1-5,0-1-6", "text");
    let places = places(300, &all);
    let server = acknowledging(all[..1].to_vec(), SemiSync::default());
    let disk = FaultyFileSystem::sound();
    let capturing = capturing_on(&disk, CommitLevel::One, &server);
    let _let_go = LetGo(disk.clone());
    capturing.wait_acknowledged(&server, &places[0]);
    server.quiet();
    disk.hold(Held::Syncs);
    server.commit(all[1..].to_vec());
    capturing.wait_received(6);
    disk.hold(Held::Nothing);
    capturing.wait_acknowledged(&server, &places[5]);
    assert_cumulative(&server, &places);
    // The first may be written alone; whatever came meanwhile is one group.
    assert!(server.acknowledged().len() < places.len(), "{:?}", server.acknowledged());
}

#[test]
fn positions_are_followed_beyond_4_gib() {
    let all = groups("0-1-1,0-1-2,0-1-3,0-1-4", "text");
    let begins_at = (1 << 32) - 200;
    let places = places(begins_at, &all);
    let how = SemiSync { begins_at, ..SemiSync::default() };
    let server = acknowledging(all[..1].to_vec(), how);
    let capturing = Capturing::start_with(server.address(), semi_sync);
    for (index, group) in all.iter().enumerate() {
        if index > 0 {
            server.commit(vec![group.clone()]);
        }
        capturing.wait_acknowledged(&server, &places[index]);
    }
    assert!(all.iter().flat_map(|(_, events)| events).map(Vec::len).sum::<usize>() > 300);
}

#[test]
fn packet_numbers_may_start_again_or_go_on() {
    for numbers_go_on in [false, true] {
        let all = groups("0-1-1,0-1-2,0-1-3,0-1-4", "text");
        let places = places(300, &all);
        let how = SemiSync { numbers_go_on, ..SemiSync::default() };
        let server = acknowledging(all[..2].to_vec(), how);
        let capturing = Capturing::start_with(server.address(), semi_sync);
        capturing.wait_acknowledged(&server, &places[1]);
        server.commit(all[2..].to_vec());
        capturing.wait_acknowledged(&server, &places[3]);
        assert_eq!(server.sessions().len(), 1);
    }
}

#[test]
fn what_the_log_has_already_is_acknowledged_too() {
    let all = groups("0-1-1,0-1-2", "text");
    let server = acknowledging(all.clone(), SemiSync::default());
    let capturing = Capturing::start_with(server.address(), semi_sync);
    capturing.wait_acknowledged(&server, &places(300, &all)[1]);
    // The next session is sent the last transaction only, which begins where this server's file is entered.
    let capturing = capturing.restart();
    capturing.wait_acknowledged(&server, &places(300, &all[1..])[0]);
    assert_eq!(capturing.metric("spillway_source_transactions_total"), 0);
}

#[test]
fn transactions_of_other_domains_are_acknowledged_in_order() {
    let all = groups("0-1-1,9-1-1,0-1-2,9-1-2", "text");
    let places = places(300, &all);
    let server = acknowledging(all[..1].to_vec(), SemiSync::default());
    let capturing = Capturing::start_with(server.address(), |options| {
        options.semi_sync = true;
        options.domains = Domains::only([0]);
    });
    capturing.wait_acknowledged(&server, &places[0]);
    server.commit(all[1..].to_vec());
    capturing.wait_acknowledged(&server, &places[3]);
    assert_cumulative(&server, &places);
    assert_eq!(capturing.position(), "0-1-2");
}

#[test]
fn a_link_lost_before_an_acknowledgement_is_made_good_by_the_next_session() {
    let all = groups("0-1-1,0-1-2", "text");
    let server = acknowledging(all[..1].to_vec(), SemiSync::default());
    let disk = FaultyFileSystem::sound();
    let capturing = capturing_on(&disk, CommitLevel::One, &server);
    let _let_go = LetGo(disk.clone());
    capturing.wait_acknowledged(&server, &places(300, &all)[0]);
    server.quiet();
    disk.hold(Held::Syncs);
    server.commit(all[1..].to_vec());
    capturing.wait_received(2);
    server.disconnect();
    disk.hold(Held::Nothing);
    capturing.wait("acknowledged in a second session", |_| {
        let last = server.acknowledged().pop();
        server.sessions().len() == 2
            && last.is_some_and(|(_, place)| place == places(300, &all[1..])[0])
    });
    // And after it: nothing is recorded twice, nothing is lacking.
    server.disconnect();
    server.commit(groups("0-1-3", "text"));
    capturing.wait_position("0-1-3");
    assert_eq!(capturing.metric("spillway_source_transactions_total"), 3);
}

#[test]
fn an_upstream_whose_commits_do_not_wait_is_recorded_and_named() {
    for (setting, state) in [
        (Some("OFF"), SemiSyncState::OffAtUpstream),
        (Some("ON"), SemiSyncState::Active),
        (None, SemiSyncState::Unsupported),
    ] {
        let server = ScriptedServer::start(groups("0-1-1", "text"));
        if let Some(setting) = setting {
            server.semi_sync(SemiSync { setting, ..SemiSync::default() });
        }
        let capturing = Capturing::start_with(server.address(), semi_sync);
        capturing.wait_position("0-1-1");
        assert_eq!(capturing.upstream.capture_status().semi_sync, Some(state));
        assert_eq!(server.sessions()[0].semi_sync, setting.is_some());
    }
}

#[test]
fn the_upstreams_dump_is_killed_on_the_way_down() {
    let server = acknowledging(groups("0-1-1", "text"), SemiSync::default());
    let capturing = Capturing::start_with(server.address(), semi_sync);
    capturing.wait_position("0-1-1");
    capturing.stop_and_keep();
    assert!(server.heard("KILL 7"));
}
