//! What a power cut may leave and what it may not.

use std::collections::BTreeSet;
use std::io::IoSlice;

use super::*;
use crate::fs::FileSystem;

fn path(name: &str) -> PathBuf {
    Path::new("/log").join(name)
}

fn disk() -> CrashFileSystem {
    let disk = CrashFileSystem::new();
    disk.create_dir_all(Path::new("/log/caches")).unwrap();
    disk
}

fn append(file: &dyn LogFile, bytes: &[u8]) -> io::Result<()> {
    file.write_all_at(&mut [IoSlice::new(bytes)], file.size()?)
}

/// All that a power cut now may leave of a file.
fn images(disk: &CrashFileSystem, name: &str) -> BTreeSet<Option<Vec<u8>>> {
    (0..500).map(|seed| disk.after_power_cut(seed).get(&path(name))).collect()
}

#[test]
fn what_was_synced_stays_and_the_rest_may_be_there_in_part() {
    let disk = disk();
    let file = disk.open(&path("a"), true).unwrap();
    append(file.as_ref(), &[1; 600]).unwrap();
    file.sync_data().unwrap();
    assert!(images(&disk, "a").contains(&None), "its name was not synced");
    disk.sync_dir(Path::new("/log")).unwrap();
    assert_eq!(images(&disk, "a"), BTreeSet::from([Some(vec![1; 600])]));
    append(file.as_ref(), &[2; 2000]).unwrap();
    let images: Vec<_> = images(&disk, "a").into_iter().flatten().collect();
    assert!(images.iter().all(|image| image.starts_with(&[1; 600]) && image.len() <= 2600));
    let whole = |image: &&Vec<u8>| image[600..].iter().all(|byte| *byte == 2);
    assert!(images.iter().any(|image| image.len() == 600));
    assert!(images.iter().any(|image| image.len() == 2600 && whole(&image)));
    assert!(images.iter().any(|image| image.len() == 2600 && !whole(&image)), "torn");
    assert!(images.iter().any(|image| image.len() == 1024 && whole(&image)), "a prefix");
}

#[test]
fn a_length_that_was_not_synced_may_be_the_old_one() {
    let disk = disk();
    disk.put(&path("a"), &[1; 100]);
    disk.open(&path("a"), false).unwrap().set_len(10).unwrap();
    let found = images(&disk, "a");
    assert_eq!(found, BTreeSet::from([Some(vec![1; 100]), Some(vec![1; 10])]));
}

#[test]
fn a_rename_between_directories_never_loses_both_names() {
    let disk = disk();
    disk.put(&path("caches/c"), b"x");
    disk.put(&path("b"), b"old");
    disk.rename(&path("caches/c"), &path("b")).unwrap();
    let names = |disk: &CrashFileSystem| -> BTreeSet<_> {
        let of = |seed| {
            let image = disk.after_power_cut(seed);
            let (from, to) = (image.get(&path("caches/c")), image.get(&path("b")));
            (from.is_some(), to.as_deref() == Some(b"x"))
        };
        (0..500).map(of).collect()
    };
    assert_eq!(names(&disk), BTreeSet::from([(true, false), (false, true), (true, true)]));
    disk.sync_dir(Path::new("/log")).unwrap();
    assert_eq!(names(&disk), BTreeSet::from([(false, true), (true, true)]));
    disk.sync_dir(&path("caches")).unwrap();
    assert_eq!(names(&disk), BTreeSet::from([(false, true)]));
}

#[test]
fn a_removal_may_be_undone_until_its_directory_is_synced() {
    let disk = disk();
    disk.put(&path("a"), b"x");
    disk.remove(&path("a")).unwrap();
    assert_eq!(images(&disk, "a"), BTreeSet::from([None, Some(b"x".to_vec())]));
    disk.sync_dir(Path::new("/log")).unwrap();
    assert_eq!(images(&disk, "a"), BTreeSet::from([None]));
}

#[test]
fn nothing_happens_after_the_cut_and_a_kill_keeps_what_was_written() {
    let disk = disk();
    let file = disk.open(&path("a"), true).unwrap();
    append(file.as_ref(), b"one").unwrap();
    disk.cut_power_at(2);
    assert!(append(file.as_ref(), b"two").is_err());
    assert!(disk.is_off());
    assert!(append(file.as_ref(), b"three").is_err());
    assert!(file.sync_data().is_err() && disk.remove(&path("a")).is_err());
    let killed = disk.after_kill();
    assert_eq!(killed.get(&path("a")).unwrap(), b"onetwo");
    let again = killed.open(&path("a"), false).unwrap();
    append(again.as_ref(), b"!").unwrap();
    assert_eq!(disk.get(&path("a")).unwrap(), b"onetwo", "another disk");
}

#[test]
fn faults_come_when_told_and_the_lock_is_held_once() {
    let disk = disk();
    disk.fail_at(Fault::Full { times: 2 }, 1);
    let file = disk.open(&path("a"), true).unwrap();
    assert!(super::super::is_full(&append(file.as_ref(), &[7; 10]).unwrap_err()));
    assert_eq!(file.size().unwrap(), 5, "half of it");
    assert!(file.set_len(0).is_err());
    file.set_len(0).unwrap();
    let lock = disk.lock(&path("lock")).unwrap();
    assert_eq!(disk.lock(&path("lock")).err().unwrap().kind(), io::ErrorKind::WouldBlock);
    assert!(disk.after_kill().lock(&path("lock")).is_ok(), "of a dead process");
    drop(lock);
    assert!(disk.lock(&path("lock")).is_ok());
}
