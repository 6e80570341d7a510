//! Another server of the same history behind the source's name: what a replica logs anew is the same, whatever its bytes.

use spillway_integration_tests::checksum;
use spillway_integration_tests::proxy::Proxy;
use spillway_integration_tests::release::Release;
use spillway_integration_tests::replica::{self, REPLICA_USER};
use spillway_integration_tests::servers::{CAPTURE_USER, Server};
use spillway_integration_tests::spillway::Spillway;
use spillway_integration_tests::stack::assert_files_valid;
use spillway_integration_tests::wait;

/// Each is the log's last transaction when the other server takes over.
const LAST: &[&str] = &[
    "CREATE DATABASE d; CREATE TABLE d.t (id INT AUTO_INCREMENT PRIMARY KEY, n INT, t LONGTEXT)",
    "INSERT INTO d.t (n, t) VALUES (1, 'one'), (2, 'two'), (3, NULL)",
    "BEGIN; UPDATE d.t SET n = n + 10; DELETE FROM d.t WHERE id = 2; COMMIT",
    "CREATE TABLE d.m (id INT, t VARCHAR(50)) ENGINE=MyISAM",
    "INSERT INTO d.m VALUES (1, 'not transactional'), (1, 'nor with a key')",
    "DELETE FROM d.m LIMIT 1",
    "BEGIN; INSERT INTO d.m VALUES (2, 'both'); INSERT INTO d.t (n) VALUES (4); COMMIT",
    "CREATE TABLE d.parent (id INT PRIMARY KEY);
     CREATE TABLE d.child (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES d.parent (id) ON DELETE CASCADE)",
    "INSERT INTO d.parent VALUES (1), (2); INSERT INTO d.child VALUES (1, 1), (2, 1), (3, 2)",
    "DELETE FROM d.parent WHERE id = 1",
    "CREATE TRIGGER d.fires AFTER INSERT ON d.parent FOR EACH ROW INSERT INTO d.m VALUES (NEW.id, 'fired')",
    "INSERT INTO d.parent VALUES (7), (8)",
    "USE d; CREATE TABLE copy SELECT * FROM t",
    "USE d; CREATE OR REPLACE TABLE copy ENGINE=InnoDB SELECT id, t FROM t",
    "USE d; ALTER TABLE t ADD COLUMN c VARCHAR(20) CHARACTER SET latin1 DEFAULT 'x', ADD INDEX (n)",
    "USE d; CREATE VIEW v AS SELECT id FROM t; CREATE PROCEDURE p() INSERT INTO t (n) VALUES (99); CALL p()",
    "CREATE USER u@localhost IDENTIFIED BY 'secret'; GRANT SELECT ON d.* TO u@localhost",
    "XA START 'x'; INSERT INTO d.t (n) VALUES (5); XA END 'x'; XA PREPARE 'x'; XA COMMIT 'x'",
    "XA START 'y'; INSERT INTO d.t (n) VALUES (6); XA END 'y'; XA PREPARE 'y'; XA ROLLBACK 'y'",
    "XA START 'z'; INSERT INTO d.t (n) VALUES (7); XA END 'z'; XA COMMIT 'z' ONE PHASE",
    "USE d; INSERT INTO t (n, t) SELECT seq, REPEAT('wide', 1000) FROM seq_1_to_1500",
    "INSERT INTO d.t (t) VALUES (REPEAT('x', 3000000))",
    "CREATE SEQUENCE d.s; SELECT NEXTVAL(d.s)",
    "DROP SEQUENCE d.s",
    "BEGIN; INSERT INTO d.t (n) VALUES (8); SAVEPOINT a; INSERT INTO d.t (n) VALUES (9); ROLLBACK TO a; COMMIT",
    "BEGIN; INSERT INTO d.m VALUES (9, 'stays'); INSERT INTO d.t (n) VALUES (10); ROLLBACK",
    "USE d; CREATE TEMPORARY TABLE tmp (id INT); INSERT INTO tmp VALUES (1), (2); INSERT INTO t (n) SELECT id FROM tmp",
    "TRUNCATE TABLE d.child",
    "DROP TABLE d.copy, d.child",
    "FLUSH TABLES",
];

/// The proxy in front of the first of two servers, the second a replica of it.
struct Pair {
    first: Server,
    second: Server,
    name: Proxy,
    spillway: Spillway,
    replica: Server,
}

impl Pair {
    fn start(first: Server, second: Server) -> Self {
        replica::attach(&second, first.port(), CAPTURE_USER);
        let name = Proxy::start(first.port());
        let mut spillway = Spillway::prepared_for_port(name.port());
        spillway.start();
        let replica = Server::replica_with(&["--server-id=102"]);
        replica::attach(&replica, spillway.replica_port(), REPLICA_USER);
        Self { first, second, name, spillway, replica }
    }

    /// Both servers and the log have all that the first was told.
    fn settle(&self) {
        let position = self.first.gtid_binlog_pos();
        replica::wait_applied(&self.second, &position);
        self.spillway.wait_recorded(&position);
    }

    /// The other server takes over; waits until it is recorded.
    fn fail_over_to(&self, server: &Server, what: &str) {
        let before = self.spillway.metric("spillway_source_reconnects_total");
        self.name.lead_to(server.port());
        wait::until(&format!("a reconnect behind {what}"), || {
            (self.spillway.metric("spillway_source_reconnects_total") > before).then_some(())
        });
        let capture = wait::until(&format!("capture knows its mind behind {what}"), || {
            let capture = self.spillway.status()["sources"][0]["capture"].clone();
            (capture["state"] != "connecting").then_some(capture)
        });
        assert_eq!(capture["state"], "streaming", "behind {what}: {}", capture["reason"]);
    }

    fn assert_replica_equal(&self, to: &Server) {
        let position = to.gtid_binlog_pos();
        self.spillway.wait_recorded(&position);
        replica::wait_applied(&self.replica, &position);
        checksum::assert_equal(to, &self.replica);
        assert_files_valid(&self.spillway);
    }
}

#[test]
fn each_kind_of_transaction_is_known_again_in_the_form_that_a_replica_logs() {
    let second = Server::replica_with(&["--binlog-row-event-max-size=1024"]);
    let pair = Pair::start(Server::upstream(), second);
    for (round, last) in LAST.iter().enumerate() {
        pair.first.run(last);
        pair.settle();
        // There and back: the log has one half in the form of either.
        let server = if round % 2 == 0 { &pair.second } else { &pair.first };
        pair.fail_over_to(server, last);
    }
    pair.assert_replica_equal(&pair.first);
}

#[test]
fn a_newer_server_takes_over() {
    let Some(newer) = Release::newer() else { return };
    let pair = Pair::start(Server::upstream(), Server::replica_of(&newer, &[]));
    pair.first.run(LAST[0]);
    pair.first.run(LAST[1]);
    pair.settle();
    pair.fail_over_to(&pair.second, LAST[1]);
    replica::stop(&pair.second);
    pair.second.run("SET GLOBAL gtid_strict_mode = 0; INSERT INTO d.t (n) VALUES (20)");
    pair.assert_replica_equal(&pair.second);
}

#[test]
fn a_replica_that_lacks_the_last_transaction_takes_over_once_it_has_it() {
    let pair = Pair::start(Server::upstream(), Server::replica());
    pair.first.run(LAST[0]);
    pair.settle();
    replica::stop(&pair.second);
    pair.first.run("INSERT INTO d.t (n) VALUES (1)");
    pair.spillway.wait_recorded(&pair.first.gtid_binlog_pos());
    pair.name.lead_to(pair.second.port());
    pair.spillway.wait_says("another history");
    replica::start(&pair.second);
    pair.settle();
    wait::until("it is recorded again", || {
        let state = pair.spillway.status()["sources"][0]["capture"]["state"].clone();
        (state == "streaming").then_some(())
    });
    pair.assert_replica_equal(&pair.first);
}

/// Its binlog is empty: that it has the log's last transaction tells its replication position alone.
#[test]
fn a_server_restored_from_a_backup_as_a_replica_takes_over() {
    let mut pair = Pair::start(Server::upstream(), Server::replica());
    pair.first.run(LAST[0]);
    pair.first.run(LAST[1]);
    pair.settle();
    replica::stop(&pair.second);
    pair.second.run("RESET MASTER");
    let position = pair.first.gtid_binlog_pos();
    pair.second.run(&format!("SET GLOBAL gtid_slave_pos = '{position}'"));
    pair.first.stop();
    pair.fail_over_to(&pair.second, "a backup");
    // Before it has written anything, and after.
    pair.spillway.restart();
    pair.second.run("INSERT INTO d.t (n) VALUES (11)");
    pair.assert_replica_equal(&pair.second);
    pair.second.run("INSERT INTO d.t (n) VALUES (12)");
    pair.spillway.restart();
    pair.assert_replica_equal(&pair.second);
}
