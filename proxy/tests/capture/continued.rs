//! ALTER SOURCE CONTINUE: a server that holds the log's last transaction in another form, as a promoted replica may.

use std::path::{Path, PathBuf};

use super::scripted::{Group, ScriptedServer, groups};
use super::*;

fn note(capturing: &Capturing) -> PathBuf {
    path(capturing.dir.as_ref().unwrap().path())
}

fn path(dir: &Path) -> PathBuf {
    dir.join("binlog.main.alter")
}

/// `0-1-1` to `0-1-3`, the last in another form, and more.
fn promoted(more: &str) -> Vec<Group> {
    let mut all = groups("0-1-1,0-1-2", "old");
    all.extend(groups("0-1-3", "in another form"));
    all.extend(groups(more, "new"));
    all
}

fn recorded(more: &str) -> Vec<Group> {
    let mut all = groups("0-1-1,0-1-2,0-1-3", "old");
    all.extend(groups(more, "new"));
    all
}

/// A log, and the server it is pointed at after a fail-over.
fn failed_over() -> (ScriptedServer, Capturing) {
    let server = ScriptedServer::start(groups("0-1-1,0-1-2,0-1-3", "old"));
    let capturing = Capturing::start_at(server.address());
    capturing.wait_position("0-1-3");
    assert!(matches!(capturing.continue_behind_last(), Err(AlterError::NotDiverged(_))));
    server.replace("", promoted(""));
    capturing.wait_state(CaptureState::Diverged);
    (server, capturing)
}

#[test]
fn recording_goes_on_behind_what_an_operator_vouches_for() {
    let (server, capturing) = failed_over();
    assert_eq!(capturing.continue_behind_last().unwrap(), "0-1-3".parse().unwrap());
    assert!(note(&capturing).exists());
    capturing.wait_state(CaptureState::Streaming);
    // As long as there is nothing newer, it holds over connects and restarts.
    let sessions = server.sessions().len();
    server.disconnect();
    capturing.wait("connected anew", |_| server.sessions().len() > sessions);
    capturing.wait_state(CaptureState::Streaming);
    let capturing = capturing.restart();
    capturing.wait_state(CaptureState::Streaming);
    assert!(note(&capturing).exists());
    server.commit(groups("0-2-4", "new"));
    capturing.wait_position("0-2-4");
    // From now on it is proven again, and replicas went on in one timeline.
    let capturing = capturing.restart();
    capturing.wait_state(CaptureState::Streaming);
    assert!(!note(&capturing).exists());
    assert_eq!(server.sessions().last().unwrap().connect_state.as_deref(), Some("0-1-3"));
    let attached = capturing.log.find_attach(&["0-1-3".parse().unwrap()]);
    assert_eq!(attached, Ok(1));
    server.commit(groups("0-2-5", "new"));
    capturing.wait_position("0-2-5");
    capturing.ends_with(&recorded("0-2-4,0-2-5"));
}

#[test]
fn what_is_vouched_for_holds_in_each_domain_until_that_has_something_newer() {
    let old = groups("1-1-1,1-1-2,0-1-1,0-1-2", "old");
    let server = ScriptedServer::start(old.clone());
    let capturing = Capturing::start_at(server.address());
    capturing.wait_position("1-1-2,0-1-2");
    let mut promoted = groups("1-1-1", "old");
    promoted.extend(groups("1-1-2", "in another form"));
    promoted.extend(groups("0-1-1", "old"));
    promoted.extend(groups("0-1-2", "in another form"));
    server.replace("", promoted);
    capturing.wait_state(CaptureState::Diverged);
    capturing.continue_behind_last().unwrap();
    capturing.wait_state(CaptureState::Streaming);
    server.commit(groups("0-1-3", "new"));
    capturing.wait_position("1-1-2,0-1-3");
    let capturing = capturing.restart();
    capturing.wait_state(CaptureState::Streaming);
    assert!(note(&capturing).exists());
    server.commit(groups("1-1-3", "new"));
    capturing.wait_position("1-1-3,0-1-3");
    let capturing = capturing.restart();
    capturing.wait_state(CaptureState::Streaming);
    assert!(!note(&capturing).exists());
    capturing.ends_with(&[old, groups("0-1-3,1-1-3", "new")].concat());
}

#[test]
fn what_was_vouched_for_goes_on_in_the_next_life() {
    let (server, capturing) = failed_over();
    server.freeze(true);
    server.disconnect();
    capturing.continue_behind_last().unwrap();
    let dir = capturing.stop_and_keep();
    let capturing = Capturing::open(dir, server.address(), |_| {});
    assert!(capturing.reason().contains("0-1-3"), "{}", capturing.reason());
    server.freeze(false);
    capturing.wait_state(CaptureState::Streaming);
    server.commit(groups("0-1-4", "new"));
    capturing.wait_position("0-1-4");
    capturing.ends_with(&recorded("0-1-4"));
}

/// One word for one transaction: the next divergence wants the next.
#[test]
fn a_note_about_another_place_than_the_last_transaction_vouches_for_nothing() {
    let (server, capturing) = failed_over();
    capturing.continue_behind_last().unwrap();
    capturing.wait_state(CaptureState::Streaming);
    server.commit(groups("0-1-4", "new"));
    capturing.wait_position("0-1-4");
    let dir = capturing.stop_and_keep();
    assert!(path(dir.path()).exists());
    let mut other = promoted("");
    other.extend(groups("0-1-4,0-1-5", "yet another"));
    server.replace("", other);
    let capturing = Capturing::open(dir, server.address(), |_| {});
    capturing.wait_state(CaptureState::Diverged);
    assert!(!note(&capturing).exists());
    capturing.ends_with(&recorded("0-1-4"));
}

#[test]
fn a_server_that_refuses_the_last_gtid_stays_diverged_whoever_vouches_for_it() {
    let (server, capturing) = failed_over();
    server.replace("", groups("0-1-1", "old"));
    capturing.continue_behind_last().unwrap();
    capturing.wait("void", |this| !note(this).exists());
    assert_eq!(capturing.upstream.capture_status().state, CaptureState::Diverged);
    // Nor does that word hold for what the server writes under these numbers later.
    server.replace("", promoted("0-1-4"));
    let sessions = server.sessions().len();
    capturing.wait("looked at again", |this| {
        this.upstream.retry_now();
        server.sessions().len() > sessions + 1
    });
    assert_eq!(capturing.upstream.capture_status().state, CaptureState::Diverged);
    capturing.continue_behind_last().unwrap();
    capturing.wait_position("0-1-4");
    capturing.ends_with(&recorded("0-1-4"));
}

#[test]
fn what_is_vouched_for_of_one_server_is_not_of_the_next() {
    let (server, capturing) = failed_over();
    server.set_id(2);
    capturing.continue_behind_last().unwrap();
    capturing.wait_state(CaptureState::Streaming);
    let text = std::fs::read_to_string(note(&capturing)).unwrap();
    assert!(text.contains("server 2\n"), "{text}");
    let mut wrong = groups("0-1-1,0-1-2", "old");
    wrong.extend(groups("0-1-3", "of another history"));
    server.set_id(3);
    server.replace("", wrong);
    capturing.wait_state(CaptureState::Diverged);
    // Of the first it is still true.
    server.set_id(2);
    server.replace("", promoted("0-2-4"));
    capturing.wait_position("0-2-4");
    capturing.ends_with(&recorded("0-2-4"));
}

#[test]
fn a_new_timeline_and_going_on_replace_each_other() {
    let (server, capturing) = failed_over();
    server.freeze(true);
    server.disconnect();
    capturing.begin_anew(StartPosition::Current).unwrap();
    capturing.continue_behind_last().unwrap();
    server.freeze(false);
    capturing.wait_state(CaptureState::Streaming);
    assert_eq!(capturing.log.files().len(), 1);
    server.replace("", groups("0-1-1,0-1-2", "old"));
    capturing.wait_state(CaptureState::Diverged);
    capturing.continue_behind_last().unwrap();
    capturing.begin_anew(StartPosition::Current).unwrap();
    capturing.wait_state(CaptureState::Streaming);
    assert_eq!(capturing.log.files().len(), 2);
    capturing.wait("done", |this| !note(this).exists());
    server.commit(groups("0-1-3", "new"));
    capturing.wait("recorded", |this| this.transactions() == 4);
    capturing.ends_with(&recorded("0-1-3"));
}

#[test]
fn a_source_without_a_transaction_of_its_timeline_has_nothing_to_go_on_behind() {
    let server = ScriptedServer::start(groups("0-1-1,0-1-2", "old"));
    let capturing = Capturing::start_with(server.address(), |options| {
        options.start = StartPosition::Current;
    });
    capturing.wait_state(CaptureState::Streaming);
    server.replace("", groups("0-1-1", "old"));
    capturing.wait_state(CaptureState::Diverged);
    assert!(matches!(capturing.continue_behind_last(), Err(AlterError::NothingRecorded)));
}
