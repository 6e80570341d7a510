//! New timelines: ALTER SOURCE, also over the end of the process.

use std::path::{Path, PathBuf};

use spillway_binlog::fs::faulty::{Fault, FaultyFileSystem, Operation};

use super::alignment::{expected, recorded};
use super::scripted::{Group, ScriptedServer, groups};
use super::*;

#[test]
fn an_operator_begins_a_new_timeline() {
    for (start, begins) in [
        (StartPosition::Current, "0-1-2"),
        (StartPosition::Oldest, ""),
        (StartPosition::Gtid(vec!["0-1-1".parse().unwrap()]), "0-1-1"),
    ] {
        let server = ScriptedServer::start(groups("0-1-1,0-1-2,0-1-3", "old"));
        let capturing = Capturing::start_at(server.address());
        capturing.wait_position("0-1-3");
        assert!(capturing.begin_anew(start.clone()).is_err());
        server.replace("", groups("0-1-1,0-1-2", "new"));
        capturing.wait_state(CaptureState::Diverged);
        capturing.begin_anew(start).unwrap();
        capturing.wait_state(CaptureState::Streaming);
        // Whether it is where the timeline begins or was sent since, 0-1-3 is no more.
        capturing.wait("told", |this| this.upstream.capture_status().last_gtid == "0-1-2");
        server.commit(groups("0-1-3,0-1-4", "new"));
        capturing.wait_position("0-1-4");
        let newest = capturing.log.files().pop().unwrap();
        let state = capturing.log.gtid_state_at(newest.number, 4).unwrap();
        assert_eq!(spillway_binlog::gtid::mariadb::print_list(&state.position()), begins);
        let attach = |text: &str| capturing.log.find_attach(&[text.parse().unwrap()]);
        // The last of the old timeline, though the new one has its name by now.
        assert!(attach("0-1-3").is_err());
        assert_eq!(attach("0-1-4"), Ok(newest.number));
        let capturing = capturing.restart();
        capturing.wait_state(CaptureState::Streaming);
        server.commit(groups("0-1-5", "new"));
        capturing.wait_position("0-1-5");
        let since = begins.rsplit('-').next().and_then(|text| text.parse().ok()).unwrap_or(0_usize);
        let mut whole = groups("0-1-1,0-1-2,0-1-3", "old");
        whole.extend(groups("0-1-1,0-1-2,0-1-3,0-1-4,0-1-5", "new").split_off(since));
        capturing.ends_with(&whole);
    }
}

/// Where both histories have come to the same state: `0-1-3`, and `1-1-1` in a domain that has not changed.
#[test]
fn a_new_timeline_begins_also_at_the_state_that_the_log_has() {
    let history = |content: &str| {
        let mut all = groups("1-1-1", "as ever");
        all.extend(groups("0-1-1,0-1-2", "old"));
        all.extend(groups("0-1-3", content));
        all
    };
    let server = ScriptedServer::start(history("old"));
    let capturing = Capturing::start_at(server.address());
    capturing.wait_position("1-1-1,0-1-3");
    server.replace("", history("new"));
    capturing.wait_state(CaptureState::Diverged);
    capturing.begin_anew(StartPosition::Current).unwrap();
    capturing.wait_state(CaptureState::Streaming);
    assert_eq!(capturing.log.files().len(), 2);
    let attach = |this: &Capturing, text: &str| {
        this.log.find_attach(&spillway_binlog::gtid::mariadb::parse_list(text).unwrap())
    };
    assert!(attach(&capturing, "0-1-3,1-1-1").is_err());
    // Before the source has sent a transaction of it, it is not forgotten: by no connect, and no restart.
    let sessions = server.sessions().len();
    server.disconnect();
    capturing.wait("connected anew", |_| server.sessions().len() > sessions);
    capturing.wait_state(CaptureState::Streaming);
    let capturing = capturing.restart();
    capturing.wait_state(CaptureState::Streaming);
    assert!(attach(&capturing, "0-1-3,1-1-1").is_err());
    server.commit(groups("0-1-4,1-1-2", "new"));
    capturing.wait("recorded", |this| this.transactions() == 6);
    assert_eq!(attach(&capturing, "0-1-4,1-1-2"), Ok(2));
    let mut whole = history("old");
    whole.extend(groups("0-1-4,1-1-2", "new"));
    capturing.ends_with(&whole);
}

/// A log and its upstream, which has another history now.
fn diverged() -> (ScriptedServer, Capturing) {
    let server = ScriptedServer::start(groups("0-1-1,0-1-2,0-1-3", "old"));
    let capturing = Capturing::start_at(server.address());
    capturing.wait_position("0-1-3");
    server.replace("", groups("0-1-1,0-1-2", "new"));
    capturing.wait_state(CaptureState::Diverged);
    (server, capturing)
}

/// What a log has that began anew behind 0-1-2.
fn both_timelines(new: &str) -> Vec<Group> {
    let mut whole = groups("0-1-1,0-1-2,0-1-3", "old");
    whole.extend(groups(new, "new"));
    whole
}

fn note(dir: &Path) -> PathBuf {
    dir.join("binlog.main.alter")
}

#[test]
fn a_new_timeline_that_was_asked_for_begins_in_the_next_life() {
    let (server, capturing) = diverged();
    // Nobody there who could begin it.
    server.freeze(true);
    server.disconnect();
    capturing.begin_anew(StartPosition::Oldest).unwrap();
    // Another word of the operator's.
    capturing.begin_anew(StartPosition::Current).unwrap();
    let dir = capturing.stop_and_keep();
    assert!(note(dir.path()).exists());
    let capturing = Capturing::open(dir, server.address(), |_| {});
    assert!(capturing.reason().contains("START = 'current'"), "{}", capturing.reason());
    server.freeze(false);
    capturing.wait_state(CaptureState::Streaming);
    server.commit(groups("0-1-3", "new"));
    capturing.wait("recorded", |this| this.transactions() == 4);
    let dir = capturing.stop_and_keep();
    assert!(!note(dir.path()).exists());
    assert_eq!(recorded(dir.path()), expected(&both_timelines("0-1-3")));
}

/// The process ends, or all writes fail, at the first operation of this kind once a new timeline was asked for.
fn is_begun_once(fails_at: fn(&Operation) -> bool, upstream: &str, new: &str, files: usize) {
    let server = ScriptedServer::start(groups("0-1-1,0-1-2,0-1-3", "old"));
    let dir = TempDir::new().unwrap();
    let faulty = FaultyFileSystem::at_first(Fault::Broken, fails_at);
    let options = LogOptions { fs: Arc::new(faulty.clone()), ..LogOptions::new(dir.path(), 4307) };
    let capturing = Capturing::open_log(dir, options, server.address(), |_| {});
    capturing.wait_position("0-1-3");
    server.replace("", groups(upstream, "new"));
    capturing.wait_state(CaptureState::Diverged);
    capturing.begin_anew(StartPosition::Current).unwrap();
    capturing.wait("failed", |_| faulty.journal().iter().any(fails_at));
    let dir = capturing.stop_and_keep();
    assert!(note(dir.path()).exists());
    // Where it is begun a second time, this is missing.
    server.commit(groups("0-1-4", "new"));
    let capturing = Capturing::open(dir, server.address(), |_| {});
    capturing.wait_state(CaptureState::Streaming);
    server.commit(groups("0-1-5", "new"));
    capturing.wait_position("0-1-5");
    assert_eq!(capturing.log.files().len(), files);
    let dir = capturing.stop_and_keep();
    assert!(!note(dir.path()).exists());
    assert_eq!(recorded(dir.path()), expected(&both_timelines(new)));
}

#[test]
fn a_crash_while_a_new_timeline_begins_leaves_one() {
    let removed = |operation: &Operation| matches!(operation, Operation::Remove(path) if path.ends_with("binlog.main.alter"));
    let synced = |operation: &Operation| matches!(operation, Operation::Sync(path) if path.ends_with("binlog.000002"));
    let created = |operation: &Operation| matches!(operation, Operation::Create(path) if path.ends_with("binlog.000002"));
    // Behind the log's state, and at it.
    for upstream in ["0-1-1,0-1-2", "0-1-1,0-1-2,0-1-3"] {
        is_begun_once(removed, upstream, "0-1-4,0-1-5", 2);
        is_begun_once(synced, upstream, "0-1-4,0-1-5", 2);
        // Nothing is begun, but a file: "current" is where the upstream is when something is.
        is_begun_once(created, upstream, "0-1-5", 3);
    }
}

/// That the log's state is the one to begin with does not say that it has begun.
#[test]
fn a_crash_between_the_note_and_the_log_loses_no_timeline_that_begins_at_the_same_state() {
    let (server, capturing) = diverged();
    let path = note(capturing.dir.as_ref().unwrap().path());
    server.freeze(true);
    server.disconnect();
    capturing.begin_anew(StartPosition::Current).unwrap();
    // As a crash leaves it that comes before the log is told.
    let begun = "source main\nstart current\nfile 1\nbegins 0-1-3\n";
    let sum = crc32fast::hash(begun.as_bytes());
    let dir = capturing.stop_and_keep();
    std::fs::write(&path, format!("{begun}crc32 {sum:08x}\n")).unwrap();
    server.replace("", groups("0-1-1,0-1-2,0-1-3", "new"));
    server.freeze(false);
    let capturing = Capturing::open(dir, server.address(), |_| {});
    capturing.wait_state(CaptureState::Streaming);
    server.commit(groups("0-1-4", "new"));
    capturing.wait_position("0-1-4");
    assert_eq!(capturing.log.files().len(), 2);
    assert!(!path.exists());
    capturing.ends_with(&both_timelines("0-1-4"));
}

#[test]
fn a_note_that_is_damaged_or_of_another_log_or_source_is_passed_over() {
    let stale = "source main\nstart current\nfile 9\n";
    let stale = format!("{stale}crc32 {:08x}\n", crc32fast::hash(stale.as_bytes()));
    for text in ["", "source main\nstart current\n", "\u{fffd}", &stale] {
        let (server, capturing) = diverged();
        let dir = capturing.stop_and_keep();
        std::fs::write(note(dir.path()), text).unwrap();
        std::fs::write(dir.path().join("binlog.gone.alter"), text).unwrap();
        let capturing = Capturing::open(dir, server.address(), |_| {});
        capturing.wait_state(CaptureState::Diverged);
        let kept = capturing.dir.as_ref().unwrap().path().to_owned();
        assert!(note(&kept).exists() && !kept.join("binlog.gone.alter").exists());
        capturing.begin_anew(StartPosition::Current).unwrap();
        capturing.wait_state(CaptureState::Streaming);
        assert!(!note(&kept).exists());
        capturing.ends_with(&both_timelines(""));
    }
}

#[test]
fn a_session_that_was_on_its_way_without_it_does_not_keep_it_waiting() {
    let all = groups("0-1-1,0-1-2", "a");
    let server = ScriptedServer::start(all.clone());
    let capturing = Capturing::start_at(server.address());
    capturing.wait_position("0-1-2");
    // As the source is seen from outside when its right server is just back.
    capturing.wait("asked for", |this| {
        this.upstream.set_capture_state(CaptureState::Refused, "as before");
        this.begin_anew(StartPosition::Oldest).is_ok()
    });
    // With the next heartbeat.
    capturing.wait("begun", |this| this.transactions() == 4);
    assert!(capturing.reconnects("new_timeline"));
    capturing.wait_state(CaptureState::Streaming);
    capturing.ends_with(&[all.clone(), all].concat());
}
