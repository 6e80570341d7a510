//! `mariadb-binlog` as a client of the replica port.

use std::process::Command;

use spillway_integration_tests::process::Process;
use spillway_integration_tests::replica::REPLICA_USER;
use spillway_integration_tests::run_dir::temp_dir;
use spillway_integration_tests::servers::Server;
use spillway_integration_tests::spillway::Spillway;
use spillway_integration_tests::{tool, wait};

fn recorded() -> (Server, Spillway) {
    let upstream = Server::upstream();
    upstream.run("CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY, t VARCHAR(20))");
    for id in 3..10 {
        upstream.run(&format!("INSERT INTO d.t VALUES ({id}, 'row {id}')"));
    }
    let spillway = Spillway::started(&upstream);
    spillway.wait_recorded(&upstream.gtid_binlog_pos());
    (upstream, spillway)
}

fn arguments(spillway: &Spillway, more: &[&str]) -> Vec<String> {
    let mut list = vec![
        "--no-defaults".to_owned(),
        "--host=127.0.0.1".to_owned(),
        format!("--port={}", spillway.replica_port()),
        format!("--user={}", REPLICA_USER.0),
        format!("--password={}", REPLICA_USER.1),
        "--read-from-remote-server".to_owned(),
    ];
    list.extend(more.iter().map(|&argument| argument.to_owned()));
    list
}

fn mariadb_binlog(spillway: &Spillway, more: &[&str]) -> String {
    let list = arguments(spillway, more);
    let list: Vec<&str> = list.iter().map(String::as_str).collect();
    tool::run("mariadb-binlog", &list).expect_code(0).stdout
}

#[test]
fn it_reads_the_log_as_statements() {
    let (_upstream, spillway) = recorded();
    let text = mariadb_binlog(&spillway, &["-v", "binlog.000001"]);
    assert!(text.contains("GTID 0-1-3") && text.contains("@2='row 9'"), "{text}");
}

#[test]
fn it_starts_at_a_gtid() {
    let (_upstream, spillway) = recorded();
    let text = mariadb_binlog(&spillway, &["-v", "--start-position=0-1-5", "binlog.000001"]);
    assert!(text.contains("GTID 0-1-6") && !text.contains("GTID 0-1-5"), "{text}");
    assert!(text.contains("@2='row 6'") && !text.contains("@2='row 5'"), "{text}");
}

#[test]
fn its_raw_copy_of_a_closed_file_has_the_same_bytes() {
    let upstream = Server::upstream();
    upstream.run("CREATE DATABASE d; CREATE TABLE d.t (id INT AUTO_INCREMENT PRIMARY KEY, t TEXT)");
    for _ in 0..8 {
        upstream.run("INSERT INTO d.t (t) VALUES (REPEAT('x', 60000))");
    }
    let mut spillway =
        Spillway::prepared(&upstream).with("[binlog]", "max_binlog_size", "\"128KiB\"");
    spillway.start();
    spillway.wait_recorded(&upstream.gtid_binlog_pos());
    let files = spillway.binlog_files();
    assert!(files.len() > 2, "{files:?}");
    let dir = temp_dir("raw");
    let to = format!("--result-file={}/", dir.path().display());
    mariadb_binlog(&spillway, &["--raw", "--to-last-log", &to, "binlog.000001"]);
    for file in &files[..files.len() - 1] {
        let copy = std::fs::read(dir.path().join(file.file_name().unwrap())).unwrap();
        assert!(copy == std::fs::read(file).unwrap(), "{} differs", file.display());
    }
}

#[test]
fn it_follows_the_log_for_ever() {
    let (upstream, spillway) = recorded();
    let dir = temp_dir("follow");
    let mut command = Command::new("mariadb-binlog");
    command.args(arguments(&spillway, &["-v", "--stop-never", "binlog.000001"]));
    let log = dir.path().join("log");
    let follower = Process::start("mariadb-binlog", &command, &log);
    wait::until("it shows the rows there are", || {
        follower.log_text().contains("row 9").then_some(())
    });
    upstream.run("INSERT INTO d.t VALUES (77, 'late row')");
    wait::until("it shows the new row", || follower.log_text().contains("late row").then_some(()));
}
