//! Spillway as a semi-synchronous replica of a real server: its commits wait for the log, and for nothing else.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};

use rustix::process::Signal;
use spillway_integration_tests::client::Client;
use spillway_integration_tests::release::Release;
use spillway_integration_tests::replica::{self, REPLICA_USER};
use spillway_integration_tests::servers::{APP_USER, Server};
use spillway_integration_tests::spillway::Spillway;
use spillway_integration_tests::stack::assert_log_equal;
use spillway_integration_tests::wait;

/// A commit that is not acknowledged waits for longer than any test.
const WAITS: &[&str] =
    &["--rpl-semi-sync-master-enabled=ON", "--rpl-semi-sync-master-timeout=3600000"];

fn upstream(wait_point: &str) -> Server {
    let wait_point = format!("--rpl-semi-sync-master-wait-point={wait_point}");
    Server::upstream_with(&[WAITS, &[&wait_point]].concat())
}

fn semi_sync(upstream: &Server) -> Spillway {
    Spillway::prepared(upstream).with("[[source]]", "semi_sync", "true")
}

/// Running, and known to the upstream as a replica that acknowledges.
fn started(spillway: &mut Spillway, upstream: &Server) {
    spillway.start();
    wait_clients(upstream, 1);
}

fn status(upstream: &Server, name: &str) -> u64 {
    let rows = upstream.query(&format!("SHOW STATUS LIKE 'Rpl_semi_sync_master_{name}'")).rows;
    rows[0][1].as_deref().unwrap().parse().unwrap()
}

fn wait_clients(upstream: &Server, clients: u64) {
    let what = "the upstream counts its semi-synchronous replicas";
    wait::until_equal(what, &clients, || status(upstream, "clients"));
}

/// Every commit was acknowledged, and none gave up waiting.
fn assert_all_acknowledged(upstream: &Server) {
    assert_eq!(status(upstream, "no_tx"), 0);
    assert_eq!(status(upstream, "no_times"), 0);
    assert_eq!(status(upstream, "clients"), 1);
}

fn connect(upstream: &Server) -> Client {
    Client::connect(upstream.port(), APP_USER.0, APP_USER.1).unwrap()
}

/// Runs a statement on a connection of its own.
fn in_background(upstream: &Server, sql: &'static str) -> JoinHandle<()> {
    let mut client = connect(upstream);
    thread::spawn(move || drop(client.query(sql).unwrap()))
}

/// Waits until a commit at the upstream waits for an acknowledgement.
fn wait_waiting(upstream: &Server) {
    let sql = "SELECT COUNT(*) FROM information_schema.processlist WHERE state LIKE 'Waiting for semi-sync ACK%'";
    wait::until_equal("a commit waits", &"1".to_owned(), || upstream.query(sql).scalar());
}

#[test]
fn a_commit_returns_once_the_log_has_it_at_every_level() {
    for (level, wait_point) in [("1", "AFTER_SYNC"), ("2", "AFTER_COMMIT"), ("0", "AFTER_SYNC")] {
        let upstream = upstream(wait_point);
        let mut spillway = semi_sync(&upstream).with("[binlog]", "flush_log_at_trx_commit", level);
        started(&mut spillway, &upstream);
        let (mut app, mut replica) = (connect(&upstream), spillway.replica_client().unwrap());
        app.query_all(
            "CREATE DATABASE test; CREATE TABLE test.t (id INT PRIMARY KEY) ENGINE=InnoDB",
        )
        .unwrap();
        for id in 0..30 {
            app.query(&format!("INSERT INTO test.t VALUES ({id})")).unwrap();
            let recorded = replica.query("SELECT @@GLOBAL.gtid_binlog_pos").unwrap().scalar();
            assert_eq!(recorded, upstream.gtid_binlog_pos(), "level {level}, {wait_point}");
        }
        assert!(status(&upstream, "yes_tx") >= 30);
        assert_all_acknowledged(&upstream);
        let acknowledged = spillway.metric("spillway_source_acknowledgements_total").unwrap();
        assert!(acknowledged >= 30.0, "{acknowledged}");
        assert_eq!(spillway.status()["sources"][0]["capture"]["semi_sync"], "active");
        assert_log_equal(&upstream, &spillway);
    }
}

#[test]
fn while_spillway_is_held_the_upstreams_commit_waits() {
    let upstream = upstream("AFTER_SYNC");
    let mut spillway = semi_sync(&upstream);
    started(&mut spillway, &upstream);
    upstream.run("CREATE DATABASE test; CREATE TABLE test.t (id INT PRIMARY KEY) ENGINE=InnoDB");
    spillway.process().signal(Signal::STOP);
    let commit = in_background(&upstream, "INSERT INTO test.t VALUES (1)");
    wait_waiting(&upstream);
    assert!(!commit.is_finished());
    // Nobody else sees what is not acknowledged.
    assert_eq!(upstream.query("SELECT COUNT(*) FROM test.t").scalar(), "0");
    spillway.process().signal(Signal::CONT);
    commit.join().unwrap();
    assert_all_acknowledged(&upstream);
    assert_log_equal(&upstream, &spillway);
}

#[test]
fn one_large_and_eight_small_writers_do_not_wait_for_each_other_for_ever() {
    for wait_point in ["AFTER_SYNC", "AFTER_COMMIT"] {
        let upstream = upstream(wait_point);
        let mut spillway = semi_sync(&upstream);
        started(&mut spillway, &upstream);
        upstream.run(
            "CREATE DATABASE test;
             CREATE TABLE test.t (id INT AUTO_INCREMENT PRIMARY KEY, text TEXT) ENGINE=InnoDB;
             CREATE TABLE test.large (id INT PRIMARY KEY, text LONGTEXT) ENGINE=InnoDB",
        );
        let large =
            "INSERT INTO test.large SELECT seq, REPEAT(MD5(seq), 2000) FROM test.seq_1_to_800";
        let mut writers = vec![in_background(&upstream, large)];
        for _ in 0..8 {
            let mut client = connect(&upstream);
            writers.push(thread::spawn(move || {
                for _ in 0..60 {
                    client.query("INSERT INTO test.t (text) VALUES (UUID())").unwrap();
                }
            }));
        }
        wait::until("all writers are done", || {
            writers.iter().all(JoinHandle::is_finished).then_some(())
        });
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        assert_all_acknowledged(&upstream);
        assert_eq!(spillway.metric("spillway_source_reconnects_total").unwrap_or(0.0), 0.0);
        assert_log_equal(&upstream, &spillway);
    }
}

#[test]
fn a_commit_that_waits_while_spillway_is_away_returns_when_it_is_back() {
    for killed in [false, true] {
        let upstream = upstream("AFTER_SYNC");
        let mut spillway = semi_sync(&upstream);
        started(&mut spillway, &upstream);
        upstream
            .run("CREATE DATABASE test; CREATE TABLE test.t (id INT PRIMARY KEY) ENGINE=InnoDB");
        if killed {
            spillway.kill();
        } else {
            spillway.stop();
            // The upstream was told so.
            wait_clients(&upstream, 0);
        }
        let commit = in_background(&upstream, "INSERT INTO test.t VALUES (1)");
        wait_waiting(&upstream);
        started(&mut spillway, &upstream);
        wait::until("the commit returns", || commit.is_finished().then_some(()));
        commit.join().unwrap();
        assert_eq!(status(&upstream, "no_tx"), 0);
        assert_log_equal(&upstream, &spillway);
    }
}

#[test]
fn an_upstream_that_does_not_wait_is_named_and_waits_once_it_is_switched_on() {
    let upstream = Server::upstream_with(&["--rpl-semi-sync-master-timeout=3600000"]);
    let mut spillway = semi_sync(&upstream);
    let check = spillway.check();
    assert!(check.stdout.contains("rpl_semi_sync_master_enabled = ON"), "{}", check.stdout);
    spillway.start();
    spillway.wait_says("the upstream's commits do not wait");
    upstream.run("CREATE DATABASE test; CREATE TABLE test.t (id INT PRIMARY KEY) ENGINE=InnoDB");
    spillway.wait_recorded(&upstream.gtid_binlog_pos());
    upstream.run("SET GLOBAL rpl_semi_sync_master_enabled = ON");
    let check = spillway.check();
    assert!(check.stdout.contains("it may be Spillway's alone"), "{}", check.stdout);
    let commit = in_background(&upstream, "INSERT INTO test.t VALUES (1)");
    wait::until("the commit returns", || commit.is_finished().then_some(()));
    commit.join().unwrap();
    assert_eq!(status(&upstream, "yes_tx"), 1);
    assert_log_equal(&upstream, &spillway);
}

/// Inserts rows until the upstream is gone; answers the ids of those it was told are committed.
fn insert_while_it_lasts(mut client: Client, writer: u64, told: &AtomicU64) -> Vec<u64> {
    let mut committed = Vec::new();
    for number in 0.. {
        let id = writer * 1_000_000 + number;
        if client.query(&format!("INSERT INTO test.t VALUES ({id})")).is_err() {
            break;
        }
        committed.push(id);
        told.fetch_add(1, Ordering::Relaxed);
    }
    committed
}

#[test]
fn what_clients_were_told_is_committed_is_in_the_log_when_the_upstream_is_lost_for_good() {
    for (level, spillway_dies_too) in [("1", true), ("2", true), ("0", true), ("0", false)] {
        let mut upstream = upstream("AFTER_SYNC");
        let mut spillway = semi_sync(&upstream).with("[binlog]", "flush_log_at_trx_commit", level);
        started(&mut spillway, &upstream);
        upstream
            .run("CREATE DATABASE test; CREATE TABLE test.t (id INT PRIMARY KEY) ENGINE=InnoDB");
        let told = Arc::new(AtomicU64::new(0));
        let writers = (0..8).map(|writer| {
            let (client, told) = (connect(&upstream), Arc::clone(&told));
            thread::spawn(move || insert_while_it_lasts(client, writer, &told))
        });
        let writers: Vec<_> = writers.collect();
        wait::until("there are commits", || (told.load(Ordering::Relaxed) >= 200).then_some(()));
        upstream.kill();
        if spillway_dies_too {
            spillway.kill();
            spillway.start();
        }
        let committed: Vec<u64> =
            writers.into_iter().flat_map(|writer| writer.join().unwrap()).collect();
        let replica = Server::replica();
        replica::attach(&replica, spillway.replica_port(), REPLICA_USER);
        let mut port = spillway.replica_client().unwrap();
        let end = port.query("SELECT @@GLOBAL.gtid_binlog_pos").unwrap().scalar();
        replica::wait_applied(&replica, &end);
        let rows = replica.query("SELECT id FROM test.t").rows;
        let has: HashSet<u64> =
            rows.iter().map(|row| row[0].as_deref().unwrap().parse().unwrap()).collect();
        let lost: Vec<_> = committed.iter().filter(|id| !has.contains(id)).collect();
        assert!(lost.is_empty(), "level {level}: {} of {}", lost.len(), committed.len());
    }
}

/// It enters a file by its index, and its TLS is on by itself.
#[test]
fn mariadb_11_8_waits_too_under_tls() {
    let Some(newer) = Release::newer() else { return };
    let upstream = Server::upstream_of(&newer, &[]);
    upstream.run(
        "SET GLOBAL rpl_semi_sync_master_timeout = 3600000;
         SET GLOBAL rpl_semi_sync_master_enabled = ON",
    );
    let mut spillway = semi_sync(&upstream).with("[[source]]", "ssl_mode", "\"REQUIRED\"");
    started(&mut spillway, &upstream);
    let mut app = connect(&upstream);
    app.query_all("CREATE DATABASE test; CREATE TABLE test.t (id INT PRIMARY KEY) ENGINE=InnoDB")
        .unwrap();
    for round in 0..2 {
        let mut replica = spillway.replica_client().unwrap();
        for id in 0..20 {
            app.query(&format!("INSERT INTO test.t VALUES ({})", round * 100 + id)).unwrap();
            let recorded = replica.query("SELECT @@GLOBAL.gtid_binlog_pos").unwrap().scalar();
            assert_eq!(recorded, upstream.gtid_binlog_pos());
        }
        upstream.run("FLUSH BINARY LOGS");
        spillway.stop();
        wait_clients(&upstream, 0);
        let sql = ["INSERT INTO test.t VALUES (1000)", "INSERT INTO test.t VALUES (1001)"][round];
        let commit = in_background(&upstream, sql);
        wait_waiting(&upstream);
        started(&mut spillway, &upstream);
        wait::until("the commit returns", || commit.is_finished().then_some(()));
        commit.join().unwrap();
    }
    assert_all_acknowledged(&upstream);
    assert_log_equal(&upstream, &spillway);
}
