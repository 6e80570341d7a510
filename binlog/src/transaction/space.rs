//! Where the caches of large transactions are: `#binlog_cache_files` in the log's directory, on its file system, so that a cache
//! file can become a log file by its name alone.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::fs::{FileSystem, LogFile};

/// The directory's name, as MariaDB 11.8 has it.
pub(crate) const DIRECTORY: &str = "#binlog_cache_files";
const PREFIX: &str = "cache-";

/// Bytes between the header events and the room that is kept for what may be added to them until the commit: GTIDs of new servers
/// and domains, 16 bytes each.
const SPARE: u64 = 60 * 1024;
/// A head ends at a multiple of this.
const HEAD_STEP: u64 = 4096;

/// Makes cache files.
#[derive(Debug)]
pub(crate) struct CacheSpace {
    fs: Arc<dyn FileSystem>,
    dir: PathBuf,
    next: AtomicU64,
    /// Bytes of magic and header events of a file that would be created now.
    header_len: AtomicU64,
    write_back: SyncSender<Arc<WriteBack>>,
}

/// The writing back of one cache file in the background. A failed sync is told once, to whoever syncs first: so it is kept here for
/// the sync before the commit, and once that has been done nobody else syncs the file.
#[derive(Debug)]
struct WriteBack {
    file: Arc<dyn LogFile>,
    state: Mutex<WriteBackState>,
}

#[derive(Debug, Default)]
struct WriteBackState {
    failed: Option<String>,
    finished: bool,
}

impl WriteBack {
    fn run(&self) {
        let mut state = self.lock();
        if state.finished || state.failed.is_some() {
            return;
        }
        state.failed = self.file.sync_data().err().map(|error| error.to_string());
    }

    /// The last sync: tells also what an earlier one met.
    fn finish(&self) -> io::Result<()> {
        let mut state = self.lock();
        state.finished = true;
        self.file.sync_data()?;
        state.failed.take().map_or(Ok(()), |error| Err(io::Error::other(error)))
    }

    fn check(&self) -> io::Result<()> {
        let mut state = self.lock();
        state.finished = true;
        state.failed.take().map_or(Ok(()), |error| Err(io::Error::other(error)))
    }

    fn lock(&self) -> MutexGuard<'_, WriteBackState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CacheSpace {
    /// Opens the directory: creates it where it is missing, and removes cache files that a crash has left. Files of other names are
    /// left alone and named in a warning.
    pub(crate) fn open(fs: Arc<dyn FileSystem>, log_dir: &Path) -> io::Result<Arc<Self>> {
        let dir = log_dir.join(DIRECTORY);
        fs.create_dir_all(&dir)?;
        for name in fs.list(&dir)? {
            let path = dir.join(&name);
            if is_cache_name(&name) {
                fs.remove(&path)?;
                tracing::info!(file = %path.display(), "removed a transaction's cache that a crash has left");
            } else {
                tracing::warn!(file = %path.display(), "unknown file among the transaction caches: left alone");
            }
        }
        let (write_back, requests) = sync_channel::<Arc<WriteBack>>(1);
        std::thread::Builder::new().name("binlog-write-back".into()).spawn(move || {
            requests.iter().for_each(|request| request.run());
        })?;
        let (next, header_len) = (AtomicU64::new(1), AtomicU64::new(0));
        Ok(Arc::new(Self { fs, dir, next, header_len, write_back }))
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Tells how long the header events of the next file would be.
    pub(crate) fn set_header_len(&self, len: u64) {
        self.header_len.store(len, Ordering::Relaxed);
    }

    /// A new cache file whose events begin at [`CacheFile::head`]; `lead` bytes of them will stand in the head.
    pub(super) fn create(self: &Arc<Self>, lead: u64) -> io::Result<CacheFile> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let path = self.dir.join(format!("{PREFIX}{number}"));
        let file: Arc<dyn LogFile> = Arc::from(self.fs.open(&path, true)?);
        let needed = self.header_len.load(Ordering::Relaxed) + lead + SPARE;
        let head = needed.next_multiple_of(HEAD_STEP);
        let state = Mutex::default();
        let write_back = Arc::new(WriteBack { file: Arc::clone(&file), state });
        Ok(CacheFile { space: Arc::clone(self), file, write_back, path, head, named: false })
    }
}

fn is_cache_name(name: &str) -> bool {
    let digits = name.strip_prefix(PREFIX);
    digits.is_some_and(|digits| {
        !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
    })
}

/// A file that holds the events of one transaction; removed when dropped, unless it has become a log file.
#[derive(Debug)]
pub(crate) struct CacheFile {
    space: Arc<CacheSpace>,
    pub(crate) file: Arc<dyn LogFile>,
    write_back: Arc<WriteBack>,
    pub(crate) path: PathBuf,
    /// Where the events begin: what comes before is kept for header events and the Gtid event.
    pub(crate) head: u64,
    named: bool,
}

impl CacheFile {
    /// Has the file's dirty pages written, in the background, and waits while what was asked before is still being written: so that
    /// no sync ever meets more than a few slices of it. Who writes faster than the disk would otherwise leave the rest of it to the
    /// one sync before the commit, and every other source's sync would wait behind that.
    pub(super) fn write_back(&self) {
        // The thread lives as long as this sender.
        drop(self.space.write_back.send(Arc::clone(&self.write_back)));
    }

    /// Makes all that was written durable. From now on only its new owner syncs the file.
    ///
    /// # Errors
    /// What this sync, or one in the background before it, met.
    pub(crate) fn finish_sync(&self) -> io::Result<()> {
        self.write_back.finish()
    }

    /// Whether all that was written back so far reached the disk. Nothing is written back any more.
    ///
    /// # Errors
    /// What a sync in the background met: the bytes cannot be trusted.
    pub(crate) fn check_written_back(&self) -> io::Result<()> {
        self.write_back.check()
    }

    /// The file has become a log file.
    pub(crate) fn keep(&mut self) {
        self.named = true;
    }
}

impl Drop for CacheFile {
    fn drop(&mut self) {
        if self.named {
            return;
        }
        if let Err(error) = self.space.fs.remove(&self.path) {
            tracing::warn!(file = %self.path.display(), %error, "cannot remove a transaction's cache");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::OsFileSystem;

    #[test]
    fn left_caches_are_removed_and_other_files_left_alone() {
        let dir = tempfile::TempDir::new().unwrap();
        let caches = dir.path().join(DIRECTORY);
        std::fs::create_dir(&caches).unwrap();
        for name in ["cache-1", "cache-77", "cache-", "cache-x1", "notes"] {
            std::fs::write(caches.join(name), b"x").unwrap();
        }
        let space = CacheSpace::open(Arc::new(OsFileSystem), dir.path()).unwrap();
        let mut left = space.fs.list(&caches).unwrap();
        left.sort();
        assert_eq!(left, ["cache-", "cache-x1", "notes"]);
        let path = space.create(42).unwrap().path.clone();
        assert!(!path.exists(), "dropped with its transaction");
    }

    #[test]
    fn a_failure_in_the_background_is_told_at_the_sync_before_the_commit() {
        use crate::fs::faulty::{Fault, FaultyFileSystem};
        let dir = tempfile::TempDir::new().unwrap();
        // Operations: the directory is real, then create, write, and the sync that fails once.
        let fs = Arc::new(FaultyFileSystem::new(Fault::Full { times: 1 }, 1));
        let space = CacheSpace::open(fs, dir.path()).unwrap();
        let cache = space.create(42).unwrap();
        cache.write_back.run();
        assert!(cache.finish_sync().is_err(), "the second sync alone would have succeeded");
        let again = space.create(42).unwrap();
        again.write_back.run();
        assert!(again.finish_sync().is_ok());
    }
}
