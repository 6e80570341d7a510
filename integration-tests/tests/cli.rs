//! The command line: exit codes and one-sentence errors.

use spillway_integration_tests::run_dir::temp_dir;
use spillway_integration_tests::servers::Server;
use spillway_integration_tests::spillway::{self, Spillway};
use spillway_integration_tests::wait;

#[test]
fn wrong_usage_ends_with_2() {
    for arguments in [&["nonsense"][..], &["run", "--nonsense"], &["binlog", "verify"], &[]] {
        let output = spillway::run(arguments).expect_code(2);
        assert!(!output.stderr.is_empty(), "{arguments:?} says nothing");
    }
    spillway::run(&["--help"]).expect_code(0);
    spillway::run(&["--version"]).expect_code(0);
}

#[test]
fn a_configuration_that_is_not_there_ends_with_2_and_names_it() {
    let output = spillway::run(&["run", "-c", "/does/not/exist.toml"]).expect_code(2);
    assert!(output.stderr.contains("/does/not/exist.toml"), "{}", output.stderr);
}

#[test]
fn faulty_keys_are_refused_by_name_with_2() {
    let cases: [(&'static str, &str, &str, &[&str]); 5] = [
        ("[binlog]", "colour", "\"blue\"", &["colour"]),
        ("[binlog]", "sync_binlog", "1", &["sync_binlog", "flush_log_at_trx_commit"]),
        ("[binlog]", "binlog_row_event_max_size", "\"1\"", &["binlog_row_event_max_size", "256"]),
        ("[binlog]", "flush_log_at_trx_commit", "7", &["flush_log_at_trx_commit", "7"]),
        ("[[source]]", "start", "\"yesterday\"", &["start", "yesterday"]),
    ];
    for (section, key, value, words) in cases {
        let mut spillway = Spillway::prepared_for_port(1).with(section, key, value);
        let status = spillway.launch_and_wait();
        assert_eq!(status.code(), Some(2), "{key}: {}", spillway.log());
        let log = spillway.log();
        assert!(words.iter().all(|word| log.contains(word)), "{key}: {words:?} in: {log}");
        spillway.check().expect_code(2);
    }
    let mut spillway = Spillway::prepared_for_port(1);
    spillway.config().unset("", "server_id");
    assert_eq!(spillway.launch_and_wait().code(), Some(2));
    assert!(spillway.log().contains("server_id"), "{}", spillway.log());
}

#[test]
fn check_ends_with_0_for_a_good_upstream_and_1_for_one_that_is_down() {
    let mut upstream = Server::upstream();
    let spillway = Spillway::prepared(&upstream);
    let output = spillway.check().expect_code(0);
    assert!(output.stdout.contains("10.11"), "the version is a finding: {output:?}");
    upstream.stop();
    let output = spillway.check().expect_code(1);
    let text = output.stdout + &output.stderr;
    assert!(text.contains(&upstream.port().to_string()), "{text}");
}

#[test]
fn a_port_in_use_is_refused_by_name() {
    let upstream = Server::upstream();
    let taken = format!("\"127.0.0.1:{}\"", upstream.port());
    let mut spillway = Spillway::prepared(&upstream).with("[replicas]", "listen", &taken);
    let status = spillway.launch_and_wait();
    assert!(!status.success());
    assert!(spillway.log().contains(&upstream.port().to_string()), "{}", spillway.log());
}

#[test]
fn the_demo_shows_a_row_on_the_replica_and_ends_with_0() {
    let dir = temp_dir("demo");
    let output = spillway::run(&["demo", "--once", "--dir", dir.path().to_str().unwrap()]);
    output.expect_code(0);
}

#[test]
fn status_shows_a_healthy_spillway_with_0_and_a_source_that_is_down_with_1() {
    let mut upstream = Server::upstream();
    let mut spillway = Spillway::started(&upstream);
    let port = spillway.status_port();
    let url = format!("http://127.0.0.1:{port}");
    let output = spillway::run(&["status", "--url", &url, "--json"]).expect_code(0);
    serde_json::from_str::<serde_json::Value>(&output.stdout).expect("JSON");
    spillway::run(&["status", "--url", &url]).expect_code(0);
    upstream.stop();
    wait::until("status says that a person is needed", || {
        (spillway::run(&["status", "--url", &url]).code == 1).then_some(())
    });
    spillway.stop();
    let output = spillway::run(&["status", "--url", &url]);
    assert_ne!(output.code, 0);
    assert!(output.stderr.contains(&port.to_string()), "{}", output.stderr);
}

#[test]
fn the_binlog_commands_list_events_and_agree_on_the_gtids() {
    let upstream = Server::upstream();
    upstream.run(
        "CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY); INSERT INTO d.t VALUES (1)",
    );
    let spillway = Spillway::started(&upstream);
    spillway.wait_recorded(&upstream.gtid_binlog_pos());
    let dir = spillway.binlog_dir();
    let dir = dir.to_str().unwrap();
    let list = spillway::run(&["binlog", "list", dir]).expect_code(0).stdout;
    assert!(list.contains("binlog.000001") && list.contains("0-1-3"), "{list}");
    let events = spillway::run(&["binlog", "events", dir]).expect_code(0).stdout;
    assert!(events.contains("0-1-1") && events.contains("0-1-3"), "{events}");
    let json = spillway::run(&["binlog", "events", dir, "--json"]).expect_code(0).stdout;
    for line in json.lines() {
        serde_json::from_str::<serde_json::Value>(line).unwrap_or_else(|e| panic!("{line}: {e}"));
    }
    spillway::run(&["binlog", "verify", "/does/not/exist"]).expect_code(1);
}

#[test]
fn metrics_and_health_pages_answer() {
    let upstream = Server::upstream();
    let spillway = Spillway::started(&upstream);
    upstream.run("CREATE DATABASE d");
    spillway.wait_recorded(&upstream.gtid_binlog_pos());
    for path in ["/livez", "/readyz", "/readyz/relay", "/readyz/serve", "/status"] {
        assert_eq!(spillway.http(path).unwrap().0, 200, "{path}");
    }
    assert_eq!(spillway.http("/nonsense").unwrap().0, 404);
    assert_eq!(spillway.metric("spillway_source_up"), Some(1.0));
    assert_eq!(spillway.metric("spillway_source_transactions_total"), Some(1.0));
    assert!(spillway.metric("spillway_binlog_size_bytes").unwrap() > 256.0);
    assert!(spillway.status().is_object());
}
