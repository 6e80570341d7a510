//! The log's directory and files: two masters, damage in the middle, a torn end.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use spillway_integration_tests::servers::Server;
use spillway_integration_tests::spillway::{self, Spillway};
use spillway_integration_tests::stack::assert_log_equal;

/// A log of several files, complete, Spillway stopped.
fn stopped_with_files() -> (Server, Spillway) {
    let upstream = Server::upstream();
    upstream.run("CREATE DATABASE d; CREATE TABLE d.t (id INT AUTO_INCREMENT PRIMARY KEY, t TEXT)");
    // Five in a file, so that the last one has two.
    for _ in 0..12 {
        upstream.run("INSERT INTO d.t (t) VALUES (REPEAT('x', 50000))");
    }
    let mut spillway =
        Spillway::prepared(&upstream).with("[binlog]", "max_binlog_size", "\"200KiB\"");
    spillway.start();
    spillway.wait_recorded(&upstream.gtid_binlog_pos());
    assert_eq!(spillway.stop().code(), Some(0));
    assert!(spillway.binlog_files().len() > 2);
    (upstream, spillway)
}

fn name(file: &Path) -> &str {
    file.file_name().unwrap().to_str().unwrap()
}

#[test]
fn a_directory_in_use_is_refused() {
    let upstream = Server::upstream();
    let first = Spillway::started(&upstream);
    let dir = first.binlog_dir().display().to_string();
    let mut second = Spillway::prepared(&upstream).with("[binlog]", "dir", &format!("\"{dir}\""));
    let status = second.launch_and_wait();
    assert!(!status.success(), "two processes on one log");
    assert!(second.log().contains(&dir) && second.log().contains("in use"), "{}", second.log());
    assert_eq!(first.http("/readyz").unwrap().0, 200);
}

#[test]
fn a_byte_flipped_in_a_closed_file_is_named_by_verify_and_refused_at_open() {
    let (_upstream, mut spillway) = stopped_with_files();
    let dir = spillway.binlog_dir();
    let damaged = spillway.binlog_files()[1].clone();
    let file = File::options().read(true).write(true).open(&damaged).unwrap();
    let at = file.metadata().unwrap().len() / 2;
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 0x10], at).unwrap();

    for target in [dir.to_str().unwrap(), damaged.to_str().unwrap()] {
        let output = spillway::run(&["binlog", "verify", target]).expect_code(1);
        let text = output.stdout + &output.stderr;
        assert!(text.contains(name(&damaged)), "the file is not named: {text}");
        let near = text.split(|c: char| !c.is_ascii_digit()).filter_map(|n| n.parse::<u64>().ok());
        let near = near.filter(|position| (at.saturating_sub(60_000)..=at).contains(position));
        assert!(near.count() > 0, "no position at or before {at}: {text}");
    }
    let status = spillway.launch_and_wait();
    assert!(!status.success(), "it started on a corrupt file");
    assert!(spillway.log().contains(name(&damaged)), "{}", spillway.log());
}

#[test]
fn a_missing_file_in_the_middle_is_refused() {
    let (_upstream, mut spillway) = stopped_with_files();
    let missing = spillway.binlog_files()[1].clone();
    fs::remove_file(&missing).unwrap();
    let status = spillway.launch_and_wait();
    assert!(!status.success(), "it started with a file missing");
    assert!(spillway.log().contains(name(&missing)), "{}", spillway.log());
}

#[test]
fn a_torn_end_is_kept_aside_cut_and_recorded_again() {
    let (upstream, mut spillway) = stopped_with_files();
    // Into the checksum, the last event, the rows, the Gtid event of the last transaction; into its file's header events.
    for cut in [1, 20, 5_000, 50_080, 10] {
        let last = spillway.binlog_files().pop().unwrap();
        let file = File::options().write(true).open(&last).unwrap();
        let length = file.metadata().unwrap().len();
        file.set_len(length.saturating_sub(cut).max(4)).unwrap();
        let before = fs::read_dir(spillway.binlog_dir()).unwrap().count();
        spillway.start();
        assert_log_equal(&upstream, &spillway);
        upstream.run("INSERT INTO d.t (t) VALUES ('after the cut')");
        assert_log_equal(&upstream, &spillway);
        let after = fs::read_dir(spillway.binlog_dir()).unwrap().count();
        assert!(after > before, "no copy of what was cut is kept (cut {cut})");
        assert_eq!(spillway.stop().code(), Some(0));
    }
}

#[test]
fn garbage_after_the_last_transaction_is_cut() {
    let (upstream, mut spillway) = stopped_with_files();
    let last = spillway.binlog_files().pop().unwrap();
    let file = File::options().write(true).open(&last).unwrap();
    let end = file.metadata().unwrap().len();
    file.write_all_at(&[0; 8192], end).unwrap();
    spillway.start();
    assert_log_equal(&upstream, &spillway);
}

#[test]
fn sigterm_leaves_a_log_that_opens_again_without_repair() {
    let (upstream, mut spillway) = stopped_with_files();
    let files = |spillway: &Spillway| -> Vec<(PathBuf, u64)> {
        let files = spillway.binlog_files().into_iter();
        files.map(|file| (file.clone(), fs::metadata(&file).unwrap().len())).collect()
    };
    let before = files(&spillway);
    spillway.start();
    assert_eq!(spillway.stop().code(), Some(0));
    let after = files(&spillway);
    let same = before.iter().zip(&after).take(before.len() - 1).all(|(old, new)| old == new);
    assert!(same, "closed files changed: {before:?} {after:?}");
    spillway.start();
    assert_log_equal(&upstream, &spillway);
}

#[test]
fn a_log_that_a_changed_log_bin_leaves_behind_is_told_of() {
    let (upstream, mut spillway) = stopped_with_files();
    let last = upstream.gtid_binlog_pos();
    let told = format!("last GTID {last}");
    spillway.config().set("[binlog]", "log_bin", "\"other\"");
    let checked = spillway.check().expect_code(0);
    assert!(checked.stdout.contains(&told), "{}", checked.stdout);
    spillway.launch();
    spillway.wait_says("another log, binlog, lies in");
    let attention = spillway.status()["attention"].to_string();
    assert!(attention.contains(&told) && attention.contains("log_bin"), "{attention}");
    spillway.wait_recorded(&last);
    assert_eq!(spillway.stop().code(), Some(0));
    let dir = spillway.binlog_dir().display().to_string();
    let verified = spillway::run(&["binlog", "verify", &dir]).expect_code(0).stdout;
    let listed = spillway::run(&["binlog", "list", &dir]).expect_code(0).stdout;
    for name in ["binlog", "other"] {
        assert!(verified.contains(&format!("ok {name}.000001")), "{verified}");
        assert!(listed.contains(&format!("log {name}:\n")), "{listed}");
    }
    spillway::run(&["binlog", "find", &dir, "--gtid", &last]).expect_code(0);
}
