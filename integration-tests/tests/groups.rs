//! Every kind of group a MariaDB writes, recorded exactly; and as the log's last one over a SIGKILL of Spillway with the upstream
//! down: it stays, is served, and is not there twice when the upstream is back.

use spillway_integration_tests::client::Client;
use spillway_integration_tests::dump::{Dump, Request};
use spillway_integration_tests::release::Release;
use spillway_integration_tests::replica::{self, REPLICA_USER};
use spillway_integration_tests::servers::{APP_USER, Server};
use spillway_integration_tests::spillway::Spillway;
use spillway_integration_tests::stack::{Stack, assert_log_equal};
use spillway_integration_tests::{checksum, wait};

const QUERY_COMPRESSED: u8 = 165;
const INCIDENT: u8 = 26;

const TABLES: &str = "CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY, t TEXT);
    CREATE TABLE d.m (id INT PRIMARY KEY, t TEXT) ENGINE=MyISAM; INSERT INTO d.t VALUES (1, 'one')";

/// The types of the events a port sends after a GTID position.
fn types_after(port: u16, login: (&str, &str), gtid: &str) -> Vec<u8> {
    let dump = Dump::start(port, login, &Request::from_gtid(gtid)).unwrap();
    dump.map(|event| event.unwrap().kind).collect()
}

/// An upstream with `options` runs `last`, whose last group is then the last of the log. See the module's description.
/// `stays` is told a replica that was attached meanwhile; `later` is run on the upstream when it is back.
fn stays_and_is_served(
    release: &Release,
    options: &[&str],
    last: &str,
    stays: impl Fn(&Spillway, &Server),
    later: &str,
) {
    let mut upstream = Server::upstream_of(release, options);
    upstream.run(TABLES);
    let mut spillway = Spillway::started(&upstream);
    upstream.run(last);
    let position = upstream.gtid_binlog_pos();
    spillway.wait_recorded(&position);
    upstream.stop();
    spillway.kill();
    spillway.launch();
    let server = Server::replica_of(release, &[]);
    wait::until("the replica port answers", || spillway.replica_client().ok());
    replica::attach(&server, spillway.replica_port(), REPLICA_USER);
    replica::wait_applied(&server, &position);
    stays(&spillway, &server);
    upstream.start();
    upstream.run(later);
    Stack { upstream, spillway, replica: server }.assert_equal();
}

fn myisam_commit_stays(release: &Release) {
    stays_and_is_served(
        release,
        &[],
        "INSERT INTO d.m VALUES (1, 'one'), (2, 'two')",
        |_, replica| assert_eq!(replica.query("SELECT COUNT(*) FROM d.m").scalar(), "2"),
        "INSERT INTO d.m VALUES (3, 'three')",
    );
}

fn compressed_ddl_stays(release: &Release) {
    stays_and_is_served(
        release,
        &["--log-bin-compress=1", "--log-bin-compress-min-len=10"],
        "ALTER TABLE d.t ADD COLUMN added VARCHAR(100) DEFAULT 'compresses, compresses, compresses, compresses'",
        |spillway, replica| {
            let types = types_after(spillway.replica_port(), REPLICA_USER, "");
            assert_eq!(types.last(), Some(&QUERY_COMPRESSED));
            let added =
                "SELECT COUNT(*) FROM information_schema.columns WHERE column_name = 'added'";
            assert_eq!(replica.query(added).scalar(), "1");
        },
        "INSERT INTO d.t (id) VALUES (2)",
    );
}

fn xa_prepare_stays(release: &Release) {
    stays_and_is_served(
        release,
        &[],
        "XA START 'x'; INSERT INTO d.t VALUES (2, 'two'); XA END 'x'; XA PREPARE 'x'",
        |_, replica| {
            assert_eq!(replica.query("XA RECOVER").rows.len(), 1);
            assert_eq!(replica.query("SELECT COUNT(*) FROM d.t").scalar(), "1");
        },
        "XA COMMIT 'x'",
    );
}

#[test]
fn a_myisam_commit_as_the_last_group_stays_over_a_kill_with_the_upstream_down() {
    myisam_commit_stays(&Release::installed());
}

#[test]
fn a_compressed_ddl_as_the_last_group_stays_over_a_kill_with_the_upstream_down() {
    compressed_ddl_stays(&Release::installed());
}

#[test]
fn an_xa_prepare_as_the_last_group_stays_over_a_kill_with_the_upstream_down() {
    xa_prepare_stays(&Release::installed());
}

#[test]
fn a_newer_servers_last_group_stays_over_a_kill_with_the_upstream_down() {
    let Some(newer) = Release::newer() else { return };
    myisam_commit_stays(&newer);
    compressed_ddl_stays(&newer);
    xa_prepare_stays(&newer);
}

/// Statements that make every kind of group.
const KINDS: &[&str] = &[
    "CREATE TABLE d.a (id INT AUTO_INCREMENT PRIMARY KEY, t TEXT)",
    "INSERT INTO d.a (t) VALUES ('a'), ('b'); UPDATE d.a SET t = 'c' WHERE id = 1; DELETE FROM d.a WHERE id = 2",
    "INSERT INTO d.m VALUES (10, 'ten'); UPDATE d.m SET t = 'eleven'; DELETE FROM d.m",
    "BEGIN; INSERT INTO d.m VALUES (11, 'stays'); INSERT INTO d.t VALUES (11, 'goes'); ROLLBACK",
    "BEGIN; INSERT INTO d.t VALUES (12, 'x'); SAVEPOINT s; INSERT INTO d.m VALUES (12, 'x'); ROLLBACK TO s; COMMIT",
    "CREATE TABLE d.selected SELECT * FROM d.t; CREATE TABLE d.selected_m ENGINE=MyISAM SELECT * FROM d.t",
    "CREATE OR REPLACE TABLE d.selected (PRIMARY KEY (id)) SELECT * FROM d.t; DROP TABLE d.selected_m",
    "XA START 'c'; INSERT INTO d.t VALUES (20, 'committed'); XA END 'c'; XA PREPARE 'c'; XA COMMIT 'c'",
    "XA START 'r'; INSERT INTO d.t VALUES (21, 'rolled back'); XA END 'r'; XA PREPARE 'r'; XA ROLLBACK 'r'",
    "XA START 'o'; INSERT INTO d.t VALUES (22, 'one phase'); XA END 'o'; XA COMMIT 'o' ONE PHASE",
    "CREATE SEQUENCE d.s; SELECT NEXTVAL(d.s); DO SETVAL(d.s, 100); INSERT INTO d.t VALUES (NEXTVAL(d.s), 'seq')",
    "ALTER TABLE d.t ADD COLUMN n INT DEFAULT 7, ALGORITHM=COPY; ALTER TABLE d.t ADD INDEX (n), ALGORITHM=INPLACE",
    "ALTER TABLE d.m ADD COLUMN n INT DEFAULT 7; ANALYZE TABLE d.t; OPTIMIZE TABLE d.m; TRUNCATE d.m",
    "CREATE TEMPORARY TABLE d.tmp (a INT); INSERT INTO d.tmp VALUES (1); INSERT INTO d.t SELECT a + 30, 'tmp', 1 FROM d.tmp",
    "CREATE TABLE d.l (l LONGTEXT); INSERT INTO d.l VALUES (REPEAT('compressible ', 20000))",
    "SET binlog_format = STATEMENT; SET @a = 'variable'; INSERT INTO d.a (t) VALUES (@a), (RAND()), (LAST_INSERT_ID())",
    "SET binlog_format = STATEMENT; INSERT INTO d.m (id, t) VALUES (50, UUID_SHORT() * 0 + 1); UPDATE d.m SET t = CONCAT(t, @b)",
    "USE d; SELECT 70, 'loaded', 1 INTO OUTFILE 'loaded'; SET binlog_format = STATEMENT; LOAD DATA INFILE 'loaded' INTO TABLE t",
    "SET binlog_format = STATEMENT; CREATE TEMPORARY TABLE d.tmp SELECT * FROM d.a; DELETE FROM d.a WHERE id IN (SELECT id FROM d.tmp); DROP TEMPORARY TABLE d.tmp",
    "SET gtid_domain_id = 3; SET server_id = 9; INSERT INTO d.t VALUES (40, 'elsewhere', 1)",
];

fn every_kind_is_recorded(release: &Release, options: &[&str], replica_release: &Release) {
    let upstream = Server::upstream_of(release, options);
    let mut spillway = Spillway::started(&upstream);
    let server = Server::replica_of(replica_release, &[]);
    replica::attach(&server, spillway.replica_port(), REPLICA_USER);
    upstream.run(TABLES);
    for (number, sql) in KINDS.iter().enumerate() {
        if number % 3 == 2 {
            // The group before is the log's last; what follows arrives after it.
            spillway.wait_recorded(&upstream.gtid_binlog_pos());
            spillway.kill();
            spillway.start();
        }
        upstream.run(sql);
    }
    let stack = Stack { upstream, spillway, replica: server };
    let compared = stack.assert_equal();
    assert!(compared.transactions > 35, "{compared:?}");
}

#[test]
fn every_kind_of_group_is_recorded_exactly_with_kills_in_between() {
    every_kind_is_recorded(&Release::installed(), &[], &Release::installed());
    let image = ["--binlog-row-image=MINIMAL"];
    every_kind_is_recorded(&Release::installed(), &image, &Release::installed());
}

#[test]
fn every_kind_of_compressed_group_is_recorded_exactly_with_kills_in_between() {
    let options =
        ["--log-bin-compress=1", "--log-bin-compress-min-len=10", "--binlog-alter-two-phase=1"];
    every_kind_is_recorded(&Release::installed(), &options, &Release::installed());
}

#[test]
fn every_kind_of_group_of_a_newer_server_is_recorded_exactly_with_kills_in_between() {
    let Some(newer) = Release::newer() else { return };
    let options =
        ["--log-bin-compress=1", "--log-bin-compress-min-len=10", "--binlog-alter-two-phase=1"];
    every_kind_is_recorded(&newer, &options, &newer);
    every_kind_is_recorded(&newer, &["--binlog-row-image=FULL_NODUP"], &newer);
}

/// START ALTER is in the binlog, and the statement waits for a reader of the table.
fn wait_between_phases(upstream: &Server, before: &str) {
    wait::until("the ALTER is between its phases", || {
        let waits = "SELECT COUNT(*) FROM information_schema.processlist
            WHERE info LIKE 'ALTER%' AND state = 'Waiting for table metadata lock'";
        let is_between =
            upstream.gtid_binlog_pos() != before && upstream.query(waits).scalar() == "1";
        is_between.then_some(())
    });
}

/// START ALTER is in the log, and Spillway is killed, before the upstream has the COMMIT.
fn an_alter_in_two_phases(release: &Release) {
    let upstream = Server::upstream_of(release, &["--binlog-alter-two-phase=1"]);
    upstream.run(TABLES);
    let mut spillway = Spillway::started(&upstream);
    let server = Server::replica_of(release, &["--slave-parallel-threads=4"]);
    replica::attach(&server, spillway.replica_port(), REPLICA_USER);
    let before = upstream.gtid_binlog_pos();
    let mut reader = upstream.root();
    reader.query_all("BEGIN; SELECT * FROM d.t").unwrap();
    let mut altering = Client::connect(upstream.port(), APP_USER.0, APP_USER.1).unwrap();
    altering.command(3, b"ALTER TABLE d.t ADD COLUMN n INT DEFAULT 5, ALGORITHM=COPY").unwrap();
    wait_between_phases(&upstream, &before);
    spillway.wait_recorded(&upstream.gtid_binlog_pos());
    spillway.kill();
    spillway.start();
    upstream.run("INSERT INTO d.m VALUES (1, 'between start and commit')");
    spillway.wait_recorded(&upstream.gtid_binlog_pos());
    spillway.kill();
    spillway.start();
    reader.query("COMMIT").unwrap();
    altering.read_replies().unwrap();
    drop(altering);
    upstream.run("INSERT INTO d.t VALUES (2, 'two', 2)");
    Stack { upstream, spillway, replica: server }.assert_equal();
}

#[test]
fn an_alter_in_two_phases_is_whole_over_kills_between_them() {
    an_alter_in_two_phases(&Release::installed());
}

#[test]
fn an_alter_in_two_phases_of_a_newer_server_is_whole_over_kills_between_them() {
    let Some(newer) = Release::newer() else { return };
    an_alter_in_two_phases(&newer);
}

/// The upstream dies between START ALTER and COMMIT ALTER; its recovery writes the whole ALTER once more. A replica of the upstream
/// itself waits for ever then (observed on MariaDB 10.11), so it is the log that is compared.
#[test]
fn an_alter_in_two_phases_that_its_upstream_did_not_survive_is_recorded_as_it_is() {
    let mut upstream = Server::upstream_with(&["--binlog-alter-two-phase=1"]);
    upstream.run(TABLES);
    let spillway = Spillway::started(&upstream);
    let before = upstream.gtid_binlog_pos();
    let mut reader = upstream.root();
    reader.query_all("BEGIN; SELECT * FROM d.t").unwrap();
    let mut altering = Client::connect(upstream.port(), APP_USER.0, APP_USER.1).unwrap();
    altering.command(3, b"ALTER TABLE d.t ADD COLUMN n INT DEFAULT 5, ALGORITHM=COPY").unwrap();
    wait_between_phases(&upstream, &before);
    spillway.wait_recorded(&upstream.gtid_binlog_pos());
    upstream.kill();
    upstream.start();
    upstream.run("INSERT INTO d.t (id, t) VALUES (2, 'after the crash')");
    assert_log_equal(&upstream, &spillway);
}

#[test]
fn what_is_left_prepared_over_a_restart_of_spillway_is_ended_on_the_replica() {
    let mut stack = Stack::start();
    stack.upstream.run(TABLES);
    for (xid, id) in [("c", 2), ("r", 3)] {
        stack.upstream.run(&format!(
            "XA START '{xid}'; INSERT INTO d.t VALUES ({id}, 'x'); XA END '{xid}'; XA PREPARE '{xid}'"
        ));
    }
    stack.spillway.wait_recorded(&stack.upstream.gtid_binlog_pos());
    stack.spillway.stop();
    stack.spillway.start();
    replica::wait_applied(&stack.replica, &stack.upstream.gtid_binlog_pos());
    assert_eq!(stack.replica.query("XA RECOVER").rows.len(), 2);
    stack.spillway.kill();
    stack.spillway.start();
    stack.upstream.run("XA COMMIT 'c'; XA ROLLBACK 'r'");
    stack.assert_equal();
    assert!(stack.replica.query("XA RECOVER").rows.is_empty());
}

/// The upstream's binlog gets an Incident event: a statement too large for the cache, whose rows are in the table already.
fn lose_events(upstream: &Server) {
    let lost = "USE d; TRUNCATE m; INSERT INTO m SELECT seq, REPEAT('x', 1000) FROM seq_1_to_100";
    let error = upstream.root().query_all(lost).unwrap_err().to_string();
    assert!(error.contains("max_binlog_stmt_cache_size"), "{error}");
}

/// Of an incident, then `next`, there is one in the log, restarts of Spillway in between or not.
fn incident_rides_once(next: &[&str]) {
    let options = ["--max-binlog-stmt-cache-size=4096", "--binlog-stmt-cache-size=4096"];
    let upstream = Server::upstream_with(&options);
    upstream.run(TABLES);
    let mut spillway = Spillway::started(&upstream);
    let incidents = |types: Vec<u8>| types.into_iter().filter(|kind| *kind == INCIDENT).count();
    for (round, restarts) in [false, true].into_iter().enumerate() {
        lose_events(&upstream);
        for (step, sql) in next.iter().enumerate() {
            if restarts {
                spillway.stop();
                spillway.start();
            }
            let id = 10 + 10 * round + step;
            upstream.run(&sql.replace("{id}", &id.to_string()));
            spillway.wait_recorded(&upstream.gtid_binlog_pos());
        }
        assert_eq!(incidents(types_after(upstream.port(), APP_USER, "")), round + 1);
        assert_log_equal(&upstream, &spillway);
        let recorded = incidents(types_after(spillway.replica_port(), REPLICA_USER, ""));
        assert_eq!(recorded, round + 1, "restarts: {restarts}");
    }
    let server = Server::replica();
    replica::attach(&server, spillway.replica_port(), REPLICA_USER);
    wait::until("the replica stops at the incident", || {
        let status = server.query("SHOW SLAVE STATUS");
        (status.named("Last_SQL_Errno").as_deref() == Some("1590")).then_some(())
    });
}

#[test]
fn an_incident_rides_with_the_next_group_once() {
    let insert = "INSERT INTO d.t VALUES ({id}, 'after the incident')";
    incident_rides_once(&[insert, insert, insert]);
}

#[test]
fn an_incident_at_a_files_end_rides_with_the_first_group_of_the_next_file_once() {
    let insert = "INSERT INTO d.t VALUES ({id}, 'after the incident')";
    incident_rides_once(&["FLUSH BINARY LOGS", insert, insert, "FLUSH BINARY LOGS", insert]);
}

fn open_temporary_tables(server: &Server) -> String {
    server.query("SHOW GLOBAL STATUS LIKE 'Slave_open_temp_tables'").rows[0][1].clone().unwrap()
}

/// In MIXED format a temporary table lives on the replica, until the source says with `created` that it was started anew.
#[test]
fn a_restart_of_spillway_drops_no_temporary_table_of_a_replica() {
    let mut upstream = Server::upstream_with(&["--binlog-format=MIXED"]);
    let mut spillway = Spillway::started(&upstream);
    let server = Server::replica();
    replica::attach(&server, spillway.replica_port(), REPLICA_USER);
    upstream.run(TABLES);
    let mut session = upstream.root();
    session.query_all("USE d; CREATE TEMPORARY TABLE tmp (a INT)").unwrap();
    for round in 0..6 {
        session.query_all(&format!("INSERT INTO tmp VALUES ({})", 100 + round)).unwrap();
        let copy = "INSERT IGNORE INTO t SELECT a, 'from a temporary table' FROM tmp";
        session.query_all(copy).unwrap();
        spillway.wait_recorded(&upstream.gtid_binlog_pos());
        replica::wait_applied(&server, &upstream.gtid_binlog_pos());
        assert_eq!(open_temporary_tables(&server), "1", "round {round}");
        match round {
            0 => {
                spillway.stop();
                spillway.start();
            }
            1 | 4 => {
                spillway.kill();
                spillway.start();
            }
            2 => upstream.run("FLUSH BINARY LOGS"),
            3 => server.run("STOP SLAVE IO_THREAD; START SLAVE"),
            _ => {}
        }
    }
    checksum::assert_equal(&upstream, &server);
    drop(session);
    upstream.stop();
    upstream.start();
    upstream.run("INSERT INTO d.t VALUES (2, 'after the start')");
    let stack = Stack { upstream, spillway, replica: server };
    stack.assert_equal();
    assert_eq!(open_temporary_tables(&stack.replica), "0");
}
