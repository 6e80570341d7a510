//! Transactions beyond `max_binlog_cache_size`.

use std::sync::atomic::{AtomicBool, Ordering};

use super::scripted::{Group, ScriptedServer, groups};
use super::*;

fn three(large: &str) -> Vec<Group> {
    let content = "x".repeat(3 << 20);
    [groups("0-1-1", "a"), groups(large, &content), groups("0-1-9", "b")].concat()
}

/// One state, which stays what it is however often it is tried.
#[test]
fn a_transaction_over_the_limit_is_one_state_until_the_limit_is_raised() {
    let all = three("0-1-2");
    let server = ScriptedServer::start(all.clone());
    let capturing = Capturing::start_at(server.address());
    capturing.wait_state(CaptureState::Refused);
    let since = capturing.upstream.capture_status().since;
    let reason = capturing.reason();
    for part in ["max_binlog_cache_size (1048576 bytes)", "in transaction 0-1-2:", "raise it"] {
        assert!(reason.contains(part), "{reason}");
    }
    capturing.retry(&server, 3);
    let status = capturing.upstream.capture_status();
    assert_eq!((status.state, status.since), (CaptureState::Refused, since));
    assert_eq!(capturing.position(), "0-1-1");
    assert_eq!(capturing.metric("spillway_source_up"), 0);
    let dir = capturing.stop_and_keep();
    let options = LogOptions { max_cache_size: Some(8 << 20), ..LogOptions::new(dir.path(), 4307) };
    let capturing = Capturing::open_log(dir, options, server.address(), |_| {});
    capturing.wait_position("0-1-9");
    capturing.wait_state(CaptureState::Streaming);
    capturing.ends_with(&all);
}

#[test]
fn what_comes_before_a_transaction_over_the_limit_is_no_sign_that_all_is_well() {
    let mut large = xid_transaction(2);
    large.insert(1, upstream::event(160, &vec![b'x'; 2 << 20]));
    let gate = Arc::new(AtomicBool::new(false));
    let before = events(&[&xid_transaction(1)]);
    let bytes = before.iter().map(|event| event.len() as u64).sum::<u64>();
    let script = Script::oldest(before).then_gated(&gate, large);
    let fake = FakeUpstream::start(vec![script]);
    let capturing = Capturing::start(&fake);
    capturing.wait_state(CaptureState::Streaming);
    gate.store(true, Ordering::Release);
    capturing.wait_state(CaptureState::Refused);
    let (since, received) = (
        capturing.upstream.capture_status().since,
        capturing.metric("spillway_source_bytes_total"),
    );
    gate.store(false, Ordering::Release);
    capturing.upstream.retry_now();
    capturing.wait("received again", |this| {
        this.metric("spillway_source_bytes_total") >= received + bytes
    });
    let status = capturing.upstream.capture_status();
    assert_eq!((status.state, status.since), (CaptureState::Refused, since));
    assert_eq!(capturing.metric("spillway_source_up"), 0);
    // Else the upstream's thread waits for ever.
    gate.store(true, Ordering::Release);
}

#[test]
fn a_transaction_over_the_limit_in_a_domain_that_is_not_recorded_is_passed_over() {
    let all = three("1-1-5");
    let server = ScriptedServer::start(all.clone());
    let capturing =
        Capturing::start_with(server.address(), |options| options.domains = Domains::only([0]));
    capturing.wait_position("0-1-9");
    capturing.wait_state(CaptureState::Streaming);
    assert!(capturing.reconnects("too_large"));
    // Also while it streams.
    server.commit(groups("1-1-6", &"x".repeat(3 << 20)));
    server.commit(groups("0-1-10", "c"));
    capturing.wait_position("0-1-10");
    assert!(!capturing.reconnects("refused"));
    capturing
        .ends_with(&[groups("0-1-1", "a"), groups("0-1-9", "b"), groups("0-1-10", "c")].concat());
}
