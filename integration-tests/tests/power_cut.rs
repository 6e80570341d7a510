//! A power cut at level 2 takes the log's end, which a replica may have already: the replica is held, and goes on by itself.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use spillway_integration_tests::client::Client;
use spillway_integration_tests::proxy::Proxy;
use spillway_integration_tests::replica::{self, REPLICA_USER};
use spillway_integration_tests::servers::Server;
use spillway_integration_tests::spillway::Spillway;
use spillway_integration_tests::stack::Stack;
use spillway_integration_tests::wait;

const INSERT: &str = "INSERT INTO d.t (t) VALUES (REPEAT('x', 500))";

/// What the log itself knew to be on disk at some moment: a power cut until its next sync may leave no more.
struct Synced {
    hint: Vec<u8>,
    file: PathBuf,
    position: u64,
}

impl Synced {
    /// Waits until the log's hint tells at least the end it has now.
    fn wait(stack: &Stack) -> Self {
        let file = stack.spillway.binlog_files().pop().unwrap();
        let end = fs::metadata(&file).unwrap().len();
        wait::until("the hint tells a sync", || {
            // It is written after a sync, so there must be something to sync.
            stack.upstream.run(INSERT);
            Self::read(&stack.spillway, &file).filter(|synced| synced.position >= end)
        })
    }

    fn read(spillway: &Spillway, file: &Path) -> Option<Self> {
        let hint = fs::read(hint(spillway)).ok()?;
        let text = String::from_utf8(hint.clone()).unwrap();
        let name = file.file_name()?.to_str()?;
        let line = text.lines().find_map(|line| line.strip_prefix(&format!("durable {name} ")))?;
        let position = line.split(' ').next()?.parse().unwrap();
        Some(Self { hint, file: file.to_owned(), position })
    }

    /// Of what was not synced, leaves the beginning of a transaction and a length whose bytes never reached the disk. The GTID index
    /// beside the file is not synced with it: it stays as it is, and knows more than the file.
    fn cut_power(self, spillway: &Spillway) {
        const TORN: u64 = 150;
        assert_eq!(spillway.binlog_files().pop().as_ref(), Some(&self.file), "still the last file");
        let file = File::options().write(true).open(&self.file).unwrap();
        let before = file.metadata().unwrap().len();
        assert!(self.position + 4096 < before, "{} is to be lost of {before}", self.position);
        file.set_len(self.position + TORN).unwrap();
        file.write_all_at(&[0; 512], self.position + TORN).unwrap();
        fs::write(hint(spillway), self.hint).unwrap();
    }
}

fn hint(spillway: &Spillway) -> PathBuf {
    spillway.binlog_dir().join("binlog.verified")
}

/// The replica has applied transactions that a power cut has taken from the log. Spillway is down.
fn replica_ahead(stack: &mut Stack) {
    stack
        .upstream
        .run("CREATE DATABASE d; CREATE TABLE d.t (id INT AUTO_INCREMENT PRIMARY KEY, t TEXT)");
    stack.spillway.wait_recorded(&stack.upstream.gtid_binlog_pos());
    let synced = Synced::wait(stack);
    (0..40).for_each(|_| stack.upstream.run(INSERT));
    replica::wait_applied(&stack.replica, &stack.upstream.gtid_binlog_pos());
    stack.spillway.kill();
    synced.cut_power(&stack.spillway);
}

fn sequence(client: &mut Client, variable: &str) -> u64 {
    let position = client.query(&format!("SELECT @@GLOBAL.{variable}")).unwrap().scalar();
    position.rsplit('-').next().unwrap().parse().unwrap()
}

/// Waits until Spillway holds the replica, and sees that it is ahead of the log; answers the connection's number.
fn wait_held(stack: &Stack) -> u64 {
    let held = wait::until("the replica is held", || {
        let mut client = stack.spillway.replica_client().ok()?;
        let rows = client.query("SHOW PROCESSLIST").ok()?.rows;
        let is_held = |cell: &String| cell.contains("Waiting for the log to catch up");
        let held = rows.into_iter().find(|row| row.iter().flatten().any(is_held))?;
        held.first()?.as_ref()?.parse().ok()
    });
    let log = sequence(&mut stack.spillway.replica_client().unwrap(), "gtid_binlog_pos");
    let applied = sequence(&mut stack.replica.root(), "gtid_slave_pos");
    assert!(log + 30 < applied, "the log ends at {log}, the replica is at {applied}");
    held
}

/// From here on the replica is asked, not told.
fn assert_goes_on(stack: &Stack) {
    (0..5).for_each(|_| stack.upstream.run(INSERT));
    stack.assert_equal();
    let position = stack.upstream.gtid_binlog_pos();
    for variable in ["gtid_slave_pos", "gtid_binlog_pos"] {
        let reached = stack.replica.query(&format!("SELECT @@GLOBAL.{variable}")).scalar();
        assert_eq!(reached, position, "{variable}");
    }
}

#[test]
fn a_replica_ahead_after_a_power_cut_goes_on_once_capture_has_caught_up() {
    let upstream = Server::upstream();
    let proxy = Proxy::start(upstream.port());
    let mut spillway =
        Spillway::prepared_for_port(proxy.port()).with("[binlog]", "flush_log_at_trx_commit", "2");
    spillway.start();
    let replica = Server::replica();
    replica::attach(&replica, spillway.replica_port(), REPLICA_USER);
    let mut stack = Stack { upstream, spillway, replica };
    replica_ahead(&mut stack);
    // Capture gets nothing for a while: else it may be faster than the replica's next attempt.
    proxy.stall(true);
    stack.spillway.launch();
    wait_held(&stack);
    proxy.stall(false);
    assert_goes_on(&stack);
}

#[test]
fn a_replica_ahead_after_a_power_cut_is_held_while_the_upstream_is_down() {
    let upstream = Server::upstream();
    let mut spillway =
        Spillway::prepared(&upstream).with("[binlog]", "flush_log_at_trx_commit", "2");
    spillway.start();
    // Impatient, so that it comes again and again meanwhile.
    let replica = Server::replica_with(&["--slave-net-timeout=3"]);
    replica::attach(&replica, spillway.replica_port(), REPLICA_USER);
    let mut stack = Stack { upstream, spillway, replica };
    replica_ahead(&mut stack);
    stack.upstream.stop();
    stack.spillway.launch();
    let first = wait_held(&stack);
    wait::until("the replica has come again", || (wait_held(&stack) != first).then_some(()));
    stack.upstream.start();
    assert_goes_on(&stack);
}
