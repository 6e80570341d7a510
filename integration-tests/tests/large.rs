//! Large transactions, the levels of `flush_log_at_trx_commit`, and a full disk, with the real process.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use spillway_integration_tests::dump::{
    ANNOTATE, Dump, FORMAT_DESCRIPTION, GTID, GTID_LIST, Request,
};
use spillway_integration_tests::fake_upstream::{FakeUpstream, ROWS_HEAD, WRITE_ROWS};
use spillway_integration_tests::proxy::Proxy;
use spillway_integration_tests::replica::{self, REPLICA_USER};
use spillway_integration_tests::run_dir::temp_dir;
use spillway_integration_tests::servers::Server;
use spillway_integration_tests::spillway::Spillway;
use spillway_integration_tests::stack::{Stack, assert_files_valid};
use spillway_integration_tests::{checksum, tool, wait};

use crate::interruptions::assert_survives_kills;
use crate::setting;

const NONE: [PathBuf; 0] = [];
const BINLOG: &str = "[binlog]";
const THRESHOLD: &str = "binlog_large_commit_threshold";
const TABLE: &str =
    "CREATE DATABASE d; CREATE TABLE d.t (id BIGINT AUTO_INCREMENT PRIMARY KEY, t LONGTEXT)";

/// One statement, one transaction, of about `megabytes` · 10⁶ bytes.
fn insert(server: &Server, megabytes: u64) {
    let rows = megabytes * 25;
    server.run(&format!("USE d; INSERT INTO t (t) SELECT REPEAT('x', 40000) FROM seq_1_to_{rows}"));
}

/// Type, start and end of every event in a file; each must say modulo 2³² where it ends.
fn events(path: &Path) -> Vec<(u8, u64, u64)> {
    let file = File::open(path).unwrap();
    let len = file.metadata().unwrap().len();
    let (mut at, mut events) = (4, Vec::new());
    while at < len {
        let mut header = [0; 19];
        file.read_exact_at(&mut header, at).unwrap();
        let u32_at = |at: usize| u32::from_le_bytes(header[at..at + 4].try_into().unwrap());
        let end = at + u64::from(u32_at(9));
        assert_eq!(u64::from(u32_at(13)), end % (1 << 32), "the event at {at} of {path:?}");
        events.push((header[4], at, end));
        at = end;
    }
    events
}

fn caches(spillway: &Spillway) -> Vec<PathBuf> {
    let entries = fs::read_dir(spillway.binlog_dir().join("#binlog_cache_files"));
    entries.into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

fn is_large(path: &PathBuf) -> bool {
    fs::metadata(path).is_ok_and(|metadata| metadata.len() > 30_000_000)
}

#[test]
fn a_transaction_over_the_threshold_becomes_a_file_of_its_own() {
    let stack = Stack::start_with(|spillway| spillway.with(BINLOG, THRESHOLD, "\"16MiB\""));
    stack.upstream.run(TABLE);
    insert(&stack.upstream, 1);
    insert(&stack.upstream, 40);
    insert(&stack.upstream, 1);
    stack.assert_equal();
    let files: Vec<_> = stack.spillway.binlog_files().into_iter().filter(is_large).collect();
    assert_eq!(files.len(), 1, "{files:?}");
    let events = events(&files[0]);
    let kinds: Vec<u8> = events.iter().take(3).map(|event| event.0).collect();
    assert_eq!(kinds, [FORMAT_DESCRIPTION, GTID_LIST, GTID]);
    assert!(
        events[3].1.is_multiple_of(4096) && events[3].1 > 0,
        "the body begins at {}",
        events[3].1
    );
    assert_eq!(caches(&stack.spillway), NONE);
}

#[test]
fn a_spilled_transaction_below_the_threshold_has_valid_positions() {
    let stack = Stack::start_with(|spillway| spillway.with(BINLOG, THRESHOLD, "\"64MiB\""));
    stack.upstream.run(TABLE);
    insert(&stack.upstream, 20);
    insert(&stack.upstream, 1);
    stack.assert_equal();
    let files = stack.spillway.binlog_files();
    assert_eq!(files.len(), 1, "{files:?}");
    assert!(events(&files[0]).last().unwrap().2 > 21_000_000);
    assert_eq!(caches(&stack.spillway), NONE);
}

/// Waits until a cache file is there and growing. Tighter than the usual wait: it is there for a moment only.
fn catch_arriving(spillway: &Spillway) {
    let arriving = |path: &PathBuf| fs::metadata(path).is_ok_and(|cache| cache.len() > 2 << 20);
    let begin = Instant::now();
    while !caches(spillway).iter().any(arriving) {
        assert!(begin.elapsed() < wait::deadline(), "never seen arriving");
        sleep(Duration::from_micros(200));
    }
}

#[test]
fn a_kill_while_a_large_transaction_arrives_leaves_nothing_of_it() {
    let upstream = Server::upstream();
    let proxy = Proxy::start(upstream.port());
    let mut spillway =
        Spillway::prepared_for_port(proxy.port()).with(BINLOG, THRESHOLD, "\"16MiB\"");
    spillway.start();
    let server = Server::replica();
    replica::attach(&server, spillway.replica_port(), REPLICA_USER);
    upstream.run(TABLE);
    insert(&upstream, 1);
    spillway.wait_recorded(&upstream.gtid_binlog_pos());
    let before = upstream.gtid_binlog_pos();
    for round in 0..setting("SPILLWAY_LARGE_KILLS", 2) {
        let (upstream, proxy, spillway_too) = (&upstream, &proxy, &spillway);
        std::thread::scope(|scope| {
            // Later rounds see the same transaction again.
            scope.spawn(move || {
                if round == 0 {
                    insert(upstream, 60);
                }
            });
            catch_arriving(spillway_too);
            proxy.stall(true);
        });
        spillway.kill();
        assert_ne!(caches(&spillway), NONE, "the kill leaves the cache");
        // Nothing arrives yet: what is there after the start is what the start has left.
        spillway.launch();
        wait::until("the caches are removed", || caches(&spillway).is_empty().then_some(()));
        spillway.wait_recorded(&before);
        proxy.cut_now();
        proxy.stall(false);
    }
    let position = upstream.gtid_binlog_pos();
    spillway.wait_recorded(&position);
    replica::wait_applied(&server, &position);
    checksum::assert_equal(&upstream, &server);
    assert_files_valid(&spillway);
    assert_eq!(caches(&spillway), NONE);
}

fn killed_again_and_again(level: &str, seed: u64) {
    let stack = Stack::start_with(|spillway| {
        let spillway = spillway.with(BINLOG, "flush_log_at_trx_commit", level);
        spillway.with(BINLOG, "max_binlog_size", "\"1MiB\"").with(BINLOG, THRESHOLD, "\"10MiB\"")
    });
    stack.upstream.run(TABLE);
    assert_survives_kills(stack, seed, |upstream, round| {
        if round % 5 == 1 {
            insert(upstream, 12);
        }
    });
}

#[test]
fn spillway_killed_again_and_again_at_level_2_loses_and_repeats_nothing() {
    killed_again_and_again("2", 21);
}

#[test]
fn spillway_killed_again_and_again_at_level_0_loses_and_repeats_nothing() {
    killed_again_and_again("0", 22);
}

/// A file system of its own in memory; unmounted when dropped.
struct SmallDisk {
    dir: tempfile::TempDir,
}

impl SmallDisk {
    /// `None`, loudly, where this process may not mount.
    fn mounted(megabytes: u64) -> Option<Self> {
        let dir = temp_dir("small-disk");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={megabytes}m"), "tmpfs"]).arg(dir.path());
        if tool::run_command(&mut mount).code != 0 {
            eprintln!("NOT TESTED: a full disk needs the right to mount a tmpfs (run as root)");
            return None;
        }
        Some(Self { dir })
    }

    fn ballast(&self) -> PathBuf {
        self.dir.path().join("ballast")
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        tool::run_command(Command::new("umount").arg("-l").arg(self.dir.path()));
    }
}

/// Inserts while the disk is too small for it, frees the disk, and expects everything to arrive without help.
fn disk_full_during(fill: impl FnOnce(&Server)) {
    let Some(disk) = SmallDisk::mounted(128) else { return };
    fs::write(disk.ballast(), vec![1; 100 << 20]).unwrap();
    let dir = format!("\"{}\"", disk.dir.path().join("binlog").display());
    let mut stack = Stack::start_with(|spillway| {
        spillway.with(BINLOG, "dir", &dir).with(BINLOG, THRESHOLD, "\"16MiB\"")
    });
    stack.upstream.run(TABLE);
    insert(&stack.upstream, 1);
    let before = stack.upstream.gtid_binlog_pos();
    replica::wait_applied(&stack.replica, &before);
    fill(&stack.upstream);
    wait::until("spillway says that the disk is full", || {
        let log = stack.spillway.log();
        (log.contains("full") || log.contains("No space left")).then_some(())
    });
    // Readers go on with what there is, one that comes now included.
    let mut dump =
        Dump::start(stack.spillway.replica_port(), REPLICA_USER, &Request::everything()).unwrap();
    let mut transactions = 0;
    while let Some(event) = dump.next_event().unwrap() {
        transactions += u64::from(event.kind == GTID);
    }
    assert!(transactions >= 3, "{transactions}");
    fs::remove_file(disk.ballast()).unwrap();
    let position = stack.upstream.gtid_binlog_pos();
    stack.spillway.wait_recorded(&position);
    replica::wait_applied(&stack.replica, &position);
    checksum::assert_equal(&stack.upstream, &stack.replica);
    // Before the disk goes.
    assert_eq!(stack.spillway.stop().code(), Some(0));
}

#[test]
fn a_full_disk_pauses_recording_until_there_is_room() {
    disk_full_during(|upstream| {
        (0..60).for_each(|_| upstream.run("INSERT INTO d.t (t) VALUES (REPEAT('y', 900000))"));
    });
}

#[test]
fn a_disk_too_full_for_a_large_transaction_is_waited_for() {
    disk_full_during(|upstream| insert(upstream, 50));
}

#[test]
fn on_a_disk_that_is_full_at_start_apps_and_people_are_served_until_there_is_room() {
    let Some(disk) = SmallDisk::mounted(16) else { return };
    let dir = format!("\"{}\"", disk.dir.path().join("binlog").display());
    let mut stack = Stack::start_with(|spillway| spillway.with(BINLOG, "dir", &dir));
    stack.upstream.run(TABLE);
    insert(&stack.upstream, 1);
    stack.spillway.wait_recorded(&stack.upstream.gtid_binlog_pos());
    stack.spillway.kill();
    fill_up(&disk.ballast());
    stack.spillway.launch();
    stack.spillway.wait_says("waiting for room on the disk");
    let (livez, readyz) = (stack.spillway.http("/livez"), stack.spillway.http("/readyz"));
    assert_eq!(livez.unwrap().0, 200);
    let (code, text) = readyz.unwrap();
    assert!(code == 503 && text.contains("waiting for room on the disk"), "{code} {text}");
    assert_eq!(stack.spillway.http("/readyz/relay").unwrap().0, 200);
    assert_eq!(stack.spillway.metric("spillway_binlog_disk_full"), Some(1.0));
    let status = stack.spillway.status();
    assert_eq!(status["binlog"]["state"], "waiting_for_room", "{status}");
    stack
        .spillway
        .app()
        .unwrap()
        .query("INSERT INTO d.t (t) VALUES ('through the relay')")
        .unwrap();
    fs::remove_file(disk.ballast()).unwrap();
    wait::until("spillway is ready", || (stack.spillway.http("/readyz")?.0 == 200).then_some(()));
    let position = stack.upstream.gtid_binlog_pos();
    stack.spillway.wait_recorded(&position);
    replica::wait_applied(&stack.replica, &position);
    checksum::assert_equal(&stack.upstream, &stack.replica);
    let status = stack.spillway.status();
    assert_eq!(status["binlog"]["state"], "running", "{status}");
    assert_eq!(stack.spillway.metric("spillway_binlog_disk_full"), Some(0.0));
    // Before the disk goes.
    assert_eq!(stack.spillway.stop().code(), Some(0));
}

/// Writes until there is no room for another byte.
fn fill_up(ballast: &Path) {
    let mut file = File::create(ballast).unwrap();
    for size in [1 << 20, 4096, 1] {
        while file.write_all(&vec![1; size]).is_ok() {}
    }
}

const FLAT: u64 = 256 << 20;

/// Rows of transaction 0-1-2 as a reader sees them: their bytes, and a checksum over the events.
fn large_rows(dump: &mut Dump) -> (u64, u32) {
    let (mut within, mut bytes, mut hasher) = (false, 0, crc32fast::Hasher::new());
    while let Some(event) = dump.next_event().unwrap() {
        if let Some(gtid) = event.gtid() {
            within = gtid == "0-1-2";
            if gtid == "0-1-3" {
                break;
            }
        }
        if within && event.kind == WRITE_ROWS {
            bytes += (event.body.len() - ROWS_HEAD) as u64;
            hasher.update(&event.body);
        }
    }
    (bytes, hasher.finalize())
}

#[test]
fn a_transaction_larger_than_memory_is_recorded_and_read_in_flat_memory() {
    let fake = FakeUpstream::start(setting("SPILLWAY_LARGE_MIB", 256) << 20);
    let mut spillway = Spillway::prepared_for_port(fake.port());
    spillway.start();
    let port = spillway.replica_port();
    let flat = || assert!(spillway.process().anonymous_bytes() < FLAT);
    let waiting = Request { flags: ANNOTATE, ..Request::everything() };
    let mut stopped = Dump::start(port, REPLICA_USER, &waiting).unwrap();
    stopped.set_read_timeout(wait::deadline() * 10);
    // This reader waits for the commit, then goes away within the transaction.
    let mut seen = 0;
    while seen < fake.row_bytes() / 2 {
        let event = stopped.next_event().unwrap().unwrap();
        seen += if event.kind == WRITE_ROWS { event.body.len() as u64 } else { 0 };
    }
    flat();
    drop(stopped);
    let read = |from: &str| {
        let mut dump = Dump::start(port, REPLICA_USER, &Request::from_gtid(from)).unwrap();
        large_rows(&mut dump)
    };
    let restarted = read("0-1-1");
    flat();
    assert_eq!(restarted.0, fake.row_bytes());
    assert_eq!(read(""), restarted, "one that attaches afterwards");
    flat();
    assert_files_valid(&spillway);
}
