//! Old files are removed: by command, by size, never from under a replica but where the log grows beyond its limit.

use std::fs;

use spillway_integration_tests::client::{Client, Error};
use spillway_integration_tests::replica::{self, REPLICA_USER};
use spillway_integration_tests::servers::Server;
use spillway_integration_tests::spillway::Spillway;
use spillway_integration_tests::wait;

const PURGED: &str = "Could not find GTID state requested by slave in any binlog files";
/// More than both ends of a connection on this machine hold unread.
const ROWS: usize = 40;

fn insert_rows(upstream: &Server) {
    for _ in 0..ROWS {
        upstream.run("INSERT INTO d.t (t) VALUES (REPEAT('x', 1000000))");
    }
}

/// Reads nothing more from its source than a little, until its SQL thread runs.
fn stuck_replica(spillway: &Spillway) -> Server {
    let replica = Server::replica_with(&["--relay-log-space-limit=1048576"]);
    let (user, password) = REPLICA_USER;
    replica.run(&format!(
        "CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = {}, MASTER_USER = '{user}',
           MASTER_PASSWORD = '{password}', MASTER_CONNECT_RETRY = 1, MASTER_USE_GTID = slave_pos;
         START SLAVE IO_THREAD",
        spillway.replica_port()
    ));
    wait_stuck(&replica);
    replica
}

fn wait_stuck(replica: &Server) {
    let mut client = replica.root();
    wait::until("the replica waits for its SQL thread", || {
        let status = client.query("SHOW SLAVE STATUS").unwrap();
        status.named("Slave_IO_State")?.contains("relay log space").then_some(())
    });
}

fn newest(spillway: &Spillway) -> String {
    let newest = spillway.binlog_files().pop().unwrap();
    newest.file_name().unwrap().to_str().unwrap().to_owned()
}

fn admin(spillway: &Spillway) -> Client {
    spillway.replica_client().unwrap()
}

fn size_on_disk(spillway: &Spillway) -> u64 {
    spillway.binlog_files().iter().filter_map(|file| fs::metadata(file).ok()).map(|m| m.len()).sum()
}

/// Removed files of the log that the process still has open or mapped, which so keep their room.
fn held_removed_files(spillway: &Spillway) -> usize {
    let id = spillway.process().id();
    let maps = fs::read_to_string(format!("/proc/{id}/maps")).unwrap();
    let is_removed = |line: &str| line.contains("binlog.0") && line.ends_with("(deleted)");
    let mapped = maps.lines().filter(|line| is_removed(line)).count();
    let open = fs::read_dir(format!("/proc/{id}/fd")).unwrap().flatten();
    let targets = open.filter_map(|entry| fs::read_link(entry.path()).ok());
    mapped + targets.filter(|target| is_removed(&target.to_string_lossy())).count()
}

fn with_privileges(upstream: &Server) -> Spillway {
    let privileges = "[\"REPLICATION SLAVE\", \"BINLOG MONITOR\", \"BINLOG ADMIN\"]";
    let mut spillway = Spillway::prepared(upstream)
        .with("[[replicas.user]]", "privileges", privileges)
        .with("[binlog]", "max_binlog_size", "\"1MiB\"");
    spillway.start();
    spillway
}

#[test]
fn a_replica_keeps_its_file_until_the_log_is_over_its_limit() {
    let upstream = Server::upstream();
    upstream
        .run("CREATE DATABASE d; CREATE TABLE d.t (id INT AUTO_INCREMENT PRIMARY KEY, t LONGTEXT)");
    insert_rows(&upstream);
    let mut spillway = with_privileges(&upstream);
    spillway.wait_recorded(&upstream.gtid_binlog_pos());
    let files = spillway.binlog_files().len();
    assert!(files > ROWS / 4, "{files} files");

    // The file it is in stays, and those behind it.
    let replica = stuck_replica(&spillway);
    let mut client = admin(&spillway);
    let purge = format!("PURGE BINARY LOGS TO '{}'", newest(&spillway));
    client.query(&purge).unwrap();
    let warning = client.query("SHOW WARNINGS").unwrap();
    assert_eq!(warning.named("Code").as_deref(), Some("1867"));
    let text = warning.named("Message").unwrap();
    assert!(text.contains("was not purged because it was being read by 1 thread(s)"), "{text}");
    assert!(spillway.binlog_files().len() > 2, "{text}");
    assert_eq!(spillway.metric("spillway_binlog_purge_refused_total"), Some(1.0));

    // Once it is through, they go; it has missed nothing.
    replica.run("START SLAVE SQL_THREAD");
    replica::wait_applied(&replica, &upstream.gtid_binlog_pos());
    client.query(&purge).unwrap();
    assert!(client.query("SHOW WARNINGS").unwrap().rows.is_empty());
    wait::until_equal("files on the disk", &1, || spillway.binlog_files().len());
    assert_eq!(
        upstream.query("CHECKSUM TABLE d.t").named("Checksum"),
        replica.query("CHECKSUM TABLE d.t").named("Checksum")
    );
    match client.query("PURGE BINARY LOGS TO 'binlog.000001'") {
        Err(Error::Server { code: 1373, .. }) => {}
        other => panic!("{other:?}"),
    }

    // Stuck again, while the log grows beyond a limit: it is put off, and the room is there.
    replica.run("STOP SLAVE SQL_THREAD");
    insert_rows(&upstream);
    spillway.wait_recorded(&upstream.gtid_binlog_pos());
    wait_stuck(&replica);
    spillway.config().set("[binlog]", "max_binlog_total_size", "\"4MiB\"");
    spillway.reload();
    wait::until("the log is within its limit", || {
        (size_on_disk(&spillway) <= 4 << 20 && held_removed_files(&spillway) == 0).then_some(())
    });
    replica.run("START SLAVE SQL_THREAD");
    let error = replica::wait_io_error(&replica, PURGED);
    assert!(error.starts_with("1236"), "{error}");
    let metrics = spillway.metrics();
    let by_size = "spillway_binlog_purged_files_total{reason=\"total_size\"} ";
    let line = metrics.lines().find_map(|line| line.strip_prefix(by_size));
    assert!(line.is_some_and(|count| count != "0"), "{metrics}");

    // Nor does one come in that is older than the log.
    let late = Server::replica();
    replica::attach(&late, spillway.replica_port(), REPLICA_USER);
    let error = replica::wait_io_error(&late, PURGED);
    assert!(error.starts_with("1236"), "{error}");
}
