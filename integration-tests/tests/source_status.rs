//! What status and metrics tell of a source, by a real one.

use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;
use spillway_integration_tests::servers::{APP_USER, Server};
use spillway_integration_tests::spillway::Spillway;
use spillway_integration_tests::wait;

fn capture(spillway: &Spillway) -> Value {
    spillway.status()["sources"][0]["capture"].clone()
}

fn wait_state(spillway: &Spillway, state: &str) {
    let what = format!("capture is {state}");
    wait::until_equal(&what, &state.into(), || capture(spillway)["state"].clone());
}

#[test]
fn received_reconnects_and_time_to_the_purge_are_told() {
    let mut upstream = Server::upstream_with(&["--binlog-expire-logs-seconds=172800"]);
    let spillway = Spillway::started(&upstream);
    upstream.run("CREATE DATABASE test; CREATE TABLE test.t (id INT PRIMARY KEY); INSERT INTO test.t VALUES (1)");
    spillway.wait_recorded(&upstream.gtid_binlog_pos());
    wait::until("the time to the purge is known", || {
        let left = capture(&spillway)["purge_in_seconds"].as_u64()?;
        (172_000..=172_800).contains(&left).then_some(())
    });
    let metric = spillway.metric("spillway_source_purge_seconds").unwrap();
    assert!((172_000.0..=172_800.0).contains(&metric), "{metric}");
    let told = capture(&spillway);
    assert_eq!(told["transactions"], 3);
    assert!(told["bytes"].as_u64().unwrap() > 300, "{told}");
    assert!(told["last_event"].is_string(), "{told}");
    assert_eq!(told["semi_sync"], Value::Null);
    assert_eq!(told["reconnects"], serde_json::json!({}));
    upstream.stop();
    wait::until("reconnects are counted", || {
        let reconnects = capture(&spillway)["reconnects"].clone();
        reconnects["connect"].as_u64().filter(|count| *count >= 2)
    });
    // While the upstream is away the time runs on.
    assert!(capture(&spillway)["purge_in_seconds"].is_u64());
    upstream.add_option("--binlog-expire-logs-seconds=0");
    upstream.start();
    wait_state(&spillway, "streaming");
    wait::until("no purge is known", || {
        capture(&spillway)["purge_in_seconds"].is_null().then_some(())
    });
    assert_eq!(spillway.metric("spillway_source_purge_seconds"), None);
}

#[test]
fn a_frozen_upstream_is_noticed() {
    let upstream = Server::upstream();
    let spillway = Spillway::started(&upstream);
    upstream.run("CREATE DATABASE test; CREATE TABLE test.t (id INT PRIMARY KEY)");
    spillway.wait_recorded(&upstream.gtid_binlog_pos());
    upstream.signal(Signal::STOP);
    wait::until_within(Duration::from_secs(60), "the silence is noticed", || {
        capture(&spillway)["reconnects"]["silent"].as_u64()
    });
    upstream.signal(Signal::CONT);
    upstream.run("INSERT INTO test.t VALUES (1)");
    spillway.wait_recorded(&upstream.gtid_binlog_pos());
}

#[test]
fn another_replica_with_our_server_id_is_a_state_of_its_own() {
    let upstream = Server::upstream();
    let spillway = Spillway::started(&upstream);
    upstream.run("CREATE DATABASE test; CREATE TABLE test.t (id INT PRIMARY KEY)");
    spillway.wait_recorded(&upstream.gtid_binlog_pos());
    let file = upstream.binlog_files().remove(0);
    let port = upstream.port().to_string();
    let mut other = Command::new("mariadb-binlog")
        .args(["--no-defaults", "--read-from-remote-server", "--stop-never"])
        .args(["--stop-never-slave-server-id=4307", "--host=127.0.0.1", "--port", &port])
        .args(["--user", APP_USER.0, &format!("--password={}", APP_USER.1), &file])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    wait_state(&spillway, "duplicate_server_id");
    other.kill().unwrap();
    other.wait().unwrap();
    spillway.wait_says("a server_id of its own");
    // Tried again after a while; nothing is lost.
    upstream.run("INSERT INTO test.t VALUES (1)");
    spillway.wait_recorded(&upstream.gtid_binlog_pos());
    wait_state(&spillway, "streaming");
}
