//! Real upstreams whose history becomes another, and an operator's way on.

use spillway_integration_tests::replica::{self, REPLICA_USER};
use spillway_integration_tests::servers::{CAPTURE_USER, Server};
use spillway_integration_tests::spillway::{self, Spillway};
use spillway_integration_tests::stack::{
    Stack, assert_files_valid, assert_streams_equal, wait_idle,
};
use spillway_integration_tests::{checksum, tool, wait};

const ADMIN: &str =
    "[\"REPLICATION SLAVE\", \"BINLOG MONITOR\", \"BINLOG ADMIN\", \"REPLICATION SLAVE ADMIN\"]";

fn started() -> Stack {
    let stack = Stack::start_with(|s| s.with("[[replicas.user]]", "privileges", ADMIN));
    stack.upstream.run("CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY, t TEXT)");
    stack.upstream.run("INSERT INTO d.t VALUES (1, 'one'); INSERT INTO d.t VALUES (2, 'two')");
    stack.assert_equal();
    stack
}

fn wait_capture(spillway: &Spillway, state: &str) {
    wait::until(&format!("capture is {state}"), || {
        let body = spillway.http("/status")?.1;
        let status: serde_json::Value = serde_json::from_str(&body).ok()?;
        let found = status["sources"][0]["capture"]["state"].as_str()?.to_owned();
        (found == state).then_some(())
    });
}

fn alter(spillway: &Spillway, start: &str) {
    alter_source(spillway, &format!("START = '{start}'"));
}

fn alter_source(spillway: &Spillway, way: &str) {
    let mut client = spillway.replica_client().unwrap();
    client.query(&format!("ALTER SOURCE main {way}")).expect("ALTER SOURCE");
}

/// A replica of a copy of the upstream as it is now.
fn rebuilt(stack: &Stack) -> Server {
    let replica = Server::replica();
    let dump = "CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY, t TEXT)";
    replica.run(&format!("SET sql_log_bin = 0; {dump}"));
    for row in stack.upstream.query("SELECT id, t FROM d.t").rows {
        let [id, text] = [&row[0], &row[1]].map(|cell| cell.clone().unwrap());
        replica.run(&format!("SET sql_log_bin = 0; INSERT INTO d.t VALUES ({id}, '{text}')"));
    }
    replica
}

#[test]
fn after_reset_master_the_source_diverges_and_an_operator_begins_a_new_timeline() {
    let mut stack = started();
    let recorded = stack.upstream.gtid_binlog_pos();
    stack.upstream.run("RESET MASTER");
    wait_capture(&stack.spillway, "diverged");
    let url = format!("http://127.0.0.1:{}", stack.spillway.status_port());
    let status = spillway::run(&["status", "--url", &url]).expect_code(1);
    assert!(status.stdout.contains("another history"), "{}", status.stdout);
    // The same numbers again, and more.
    for id in 3..12 {
        stack.upstream.run(&format!("INSERT INTO d.t VALUES ({id}, 'after the reset')"));
    }
    stack.spillway.restart();
    wait_capture(&stack.spillway, "diverged");
    let mut client = stack.spillway.replica_client().unwrap();
    assert_eq!(client.query("SELECT @@GLOBAL.gtid_binlog_pos").unwrap().scalar(), recorded);
    assert_eq!(stack.replica.query("SELECT COUNT(*) FROM d.t").scalar(), "2");

    let fresh = rebuilt(&stack);
    let begins = stack.upstream.gtid_binlog_pos();
    alter(&stack.spillway, "current");
    wait_capture(&stack.spillway, "streaming");
    replica::wait_io_error(&stack.replica, "1236");
    replica::attach_at(&fresh, stack.spillway.replica_port(), REPLICA_USER, &begins);
    stack.upstream.run("INSERT INTO d.t VALUES (20, 'new')");
    wait_idle(&stack.upstream);
    let position = stack.upstream.gtid_binlog_pos();
    stack.spillway.wait_recorded(&position);
    replica::wait_applied(&fresh, &position);
    checksum::assert_equal(&stack.upstream, &fresh);
    // Who stands in the old timeline stays there.
    replica::stop(&stack.replica);
    replica::start(&stack.replica);
    replica::wait_io_error(&stack.replica, "1236");
    assert_eq!(stack.replica.query("SELECT COUNT(*) FROM d.t").scalar(), "2");
    // A tool that reads the last file of the old timeline has all of it.
    let file = stack.spillway.binlog_files().remove(0);
    let port = format!("--port={}", stack.spillway.replica_port());
    let (user, password) = REPLICA_USER;
    let (user, password) = (format!("--user={user}"), format!("--password={password}"));
    let arguments =
        ["--no-defaults", "--read-from-remote-server", "--host=127.0.0.1", &port, &user, &password];
    let name = file.file_name().unwrap().to_str().unwrap();
    let read = tool::run("mariadb-binlog", &[&arguments[..], &[name]].concat()).expect_code(0);
    assert!(read.stdout.contains("Rotate to"), "{}", read.stdout);
    // The mark of the new timeline is nothing to stock tools.
    assert_files_valid(&stack.spillway);
}

/// Both at the same GTID when the operator decides: only the log's file tells the two apart.
#[test]
fn a_history_that_has_come_to_the_same_gtid_is_a_timeline_of_its_own() {
    let mut stack = started();
    stack.upstream.stop();
    let copy = stack.upstream.copy_data();
    stack.upstream.start();
    stack.upstream.run("INSERT INTO d.t VALUES (3, 'old history')");
    stack.assert_equal();
    let position = stack.upstream.gtid_binlog_pos();
    stack.upstream.stop();
    stack.upstream.swap_data(&copy);
    stack.upstream.start();
    stack.upstream.run("INSERT INTO d.t VALUES (3, 'new history')");
    assert_eq!(stack.upstream.gtid_binlog_pos(), position);
    wait_capture(&stack.spillway, "diverged");
    let fresh = rebuilt(&stack);
    alter(&stack.spillway, "current");
    wait_capture(&stack.spillway, "streaming");
    replica::wait_io_error(&stack.replica, "1236");
    // Nothing was recorded of it yet.
    stack.spillway.kill();
    stack.spillway.launch();
    wait_capture(&stack.spillway, "streaming");
    stack.upstream.stop();
    stack.upstream.start();
    stack.upstream.run("INSERT INTO d.t VALUES (4, 'next')");
    stack.spillway.wait_recorded(&stack.upstream.gtid_binlog_pos());
    replica::stop(&stack.replica);
    replica::start(&stack.replica);
    replica::wait_io_error(&stack.replica, "not in the master's binlog");
    assert_eq!(stack.replica.query("SELECT t FROM d.t WHERE id = 3").scalar(), "old history");
    assert_eq!(stack.replica.query("SELECT COUNT(*) FROM d.t").scalar(), "3");
    // Once the old timeline is purged its GTID is the new one's, and the rebuilt replica goes on from it.
    assert_files_valid(&stack.spillway);
    let dir = stack.spillway.binlog_dir();
    let files = spillway::run(&["binlog", "verify", dir.to_str().unwrap()]).expect_code(0).stdout;
    let mut timelines = files.lines().filter(|line| line.contains("begins a new timeline"));
    let begins = timelines.next().and_then(|line| line.split_whitespace().nth(1)).unwrap();
    assert_eq!(timelines.next(), None);
    let mut client = stack.spillway.replica_client().unwrap();
    client.query(&format!("PURGE BINARY LOGS TO '{begins}'")).expect("PURGE");
    replica::stop(&stack.replica);
    replica::attach_at(&fresh, stack.spillway.replica_port(), REPLICA_USER, &position);
    replica::wait_applied(&fresh, &stack.upstream.gtid_binlog_pos());
    checksum::assert_equal(&stack.upstream, &fresh);
}

/// What the primary logged as a statement is rows in the binlog of the replica that takes its place.
#[test]
fn a_promoted_replica_with_the_last_transaction_in_another_form_is_continued() {
    let mut stack = started();
    let promoted = Server::replica_with(&["--server-id=102", "--binlog-format=ROW"]);
    replica::attach(&promoted, stack.upstream.port(), CAPTURE_USER);
    let statement = "UPDATE d.t SET t = 'by a statement' WHERE id = 2";
    stack.upstream.run(&format!("SET SESSION binlog_format = 'STATEMENT'; {statement}"));
    stack.assert_equal();
    let last = stack.upstream.gtid_binlog_pos();
    replica::wait_applied(&promoted, &last);
    replica::stop(&promoted);
    promoted.run("RESET SLAVE ALL");
    stack.upstream.stop();
    let servers = format!("[\"127.0.0.1:{}\"]", promoted.port());
    stack.spillway.config().set("[[source]]", "servers", &servers);
    stack.spillway.restart();
    wait_capture(&stack.spillway, "diverged");
    alter_source(&stack.spillway, "CONTINUE");
    wait_capture(&stack.spillway, "streaming");
    // Before there is anything new.
    stack.spillway.kill();
    stack.spillway.launch();
    wait_capture(&stack.spillway, "streaming");
    let note = stack.spillway.binlog_dir().join("binlog.main.alter");
    assert!(std::fs::read_to_string(&note).unwrap().contains(&format!("continue {last}\n")));
    promoted.run("INSERT INTO d.t VALUES (3, 'of the new primary')");
    let position = promoted.gtid_binlog_pos();
    stack.spillway.wait_recorded(&position);
    replica::wait_applied(&stack.replica, &position);
    checksum::assert_equal(&promoted, &stack.replica);
    // From here on it is compared again.
    stack.spillway.restart();
    wait_capture(&stack.spillway, "streaming");
    assert!(!note.exists());
    promoted.run("INSERT INTO d.t VALUES (4, 'more')");
    stack.spillway.wait_recorded(&promoted.gtid_binlog_pos());
    replica::wait_applied(&stack.replica, &promoted.gtid_binlog_pos());
    checksum::assert_equal(&promoted, &stack.replica);
    assert_files_valid(&stack.spillway);
}

#[test]
fn a_new_timeline_that_was_asked_for_survives_a_killed_spillway() {
    let mut stack = started();
    stack.upstream.run("RESET MASTER; INSERT INTO d.t VALUES (3, 'after the reset')");
    wait_capture(&stack.spillway, "diverged");
    stack.upstream.stop();
    alter(&stack.spillway, "current");
    stack.spillway.kill();
    let note = stack.spillway.binlog_dir().join("binlog.main.alter");
    assert!(std::fs::read_to_string(&note).unwrap().contains("start current\n"));
    stack.spillway.launch();
    stack.upstream.start();
    wait_capture(&stack.spillway, "streaming");
    stack.upstream.run("INSERT INTO d.t VALUES (4, 'recorded')");
    stack.spillway.wait_recorded(&stack.upstream.gtid_binlog_pos());
    assert!(!note.exists());
    let files = stack.spillway.binlog_files().len();
    stack.spillway.kill();
    stack.spillway.launch();
    wait_capture(&stack.spillway, "streaming");
    assert_eq!((files, stack.spillway.binlog_files().len()), (2, 2));
    assert_files_valid(&stack.spillway);
}

#[test]
fn an_upstream_restored_from_an_older_copy_diverges_and_the_right_one_goes_on() {
    let mut stack = started();
    stack.upstream.stop();
    let copy = stack.upstream.copy_data();
    stack.upstream.start();
    stack.upstream.run("INSERT INTO d.t VALUES (3, 'not in the copy')");
    stack.spillway.wait_recorded(&stack.upstream.gtid_binlog_pos());
    stack.upstream.stop();
    let right = stack.upstream.swap_data(&copy);
    stack.upstream.start();
    wait_capture(&stack.spillway, "diverged");
    stack.upstream.run("INSERT INTO d.t VALUES (3, 'another'); INSERT INTO d.t VALUES (4, 'four')");
    stack.spillway.restart();
    wait_capture(&stack.spillway, "diverged");
    stack.upstream.stop();
    stack.upstream.swap_data(&right);
    stack.upstream.start();
    wait_capture(&stack.spillway, "streaming");
    stack.upstream.run("INSERT INTO d.t VALUES (5, 'five')");
    stack.assert_equal();
}

#[test]
fn numbers_that_go_back_on_a_real_server_are_recorded_once_over_restarts() {
    let mut stack = Stack::start_with(|s| s);
    stack
        .upstream
        .run("CREATE DATABASE d; CREATE TABLE d.t (id INT AUTO_INCREMENT PRIMARY KEY, n INT)");
    for (round, numbers) in [[30, 31, 5], [6, 4, 50], [9, 8, 3], [51, 2, 60]].iter().enumerate() {
        for number in numbers {
            let domain = (number + round) % 2;
            stack.upstream.run(&format!(
                "SET SESSION gtid_domain_id = {domain}; SET SESSION gtid_seq_no = {number};
                 INSERT INTO d.t (n) VALUES ({number})"
            ));
        }
        stack.spillway.restart();
        wait_capture(&stack.spillway, "streaming");
        stack.upstream.run("SET SESSION gtid_domain_id = 1; INSERT INTO d.t (n) VALUES (1000)");
        stack.spillway.stop();
        let number = 20 - 2 * round;
        stack.upstream.run(&format!("SET SESSION gtid_domain_id = 0; SET SESSION gtid_seq_no = {number}; INSERT INTO d.t (n) VALUES (1)"));
        stack.spillway.launch();
        wait_capture(&stack.spillway, "streaming");
    }
    let count = |server: &Server| server.query("SELECT COUNT(*), SUM(n) FROM d.t").rows[0].clone();
    // Not the files: mariadb-binlog refuses such a history, also in the upstream's own.
    assert_streams_equal(&stack.upstream, &stack.spillway);
    assert_eq!(count(&stack.upstream)[0].as_deref(), Some("20"));
}
