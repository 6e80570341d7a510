//! The real file system, with the calls of the commit thread counted and timed: what everybody waits for.

use std::any::Any;
use std::io::{self, IoSlice};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use spillway_binlog::fs::{FileSystem, LogFile, Metadata, OsFileSystem};

/// The thread whose calls count.
const COMMIT_THREAD: &str = "binlog-commit";

/// Calls of one kind.
#[derive(Clone, Copy, Debug, Default)]
pub struct Calls {
    pub count: u64,
    pub longest: Duration,
    pub total: Duration,
}

/// Kinds of calls.
#[derive(Clone, Copy, Debug, Default)]
pub struct Slot {
    pub sync_data: Calls,
    pub sync_dir: Calls,
    pub write: Calls,
    pub other: Calls,
}

impl Slot {
    pub fn syncs(&self) -> u64 {
        self.sync_data.count + self.sync_dir.count
    }
}

/// Counts, and makes syncs slower by a given time.
#[derive(Clone, Debug, Default)]
pub struct CountedFs {
    slot: Arc<Mutex<Slot>>,
    sync_delay: Duration,
}

impl CountedFs {
    pub fn with_sync_delay(sync_delay: Duration) -> Self {
        Self { sync_delay, ..Self::default() }
    }

    /// What the commit thread called since the last time this was asked.
    pub fn take(&self) -> Slot {
        std::mem::take(&mut self.slot.lock().expect("nobody panics while counting"))
    }

    /// The same without beginning anew.
    pub fn peek(&self) -> Slot {
        *self.slot.lock().expect("nobody panics while counting")
    }

    fn timed<T>(&self, of: fn(&mut Slot) -> &mut Calls, call: impl FnOnce() -> T) -> T {
        if std::thread::current().name() != Some(COMMIT_THREAD) {
            return call();
        }
        let start = Instant::now();
        let result = call();
        let took = start.elapsed();
        let mut slot = self.slot.lock().expect("nobody panics while counting");
        let calls = of(&mut slot);
        calls.count += 1;
        calls.total += took;
        calls.longest = calls.longest.max(took);
        result
    }

    fn wrap(&self, file: io::Result<Box<dyn LogFile>>) -> io::Result<Box<dyn LogFile>> {
        Ok(Box::new(CountedFile { file: file?, fs: self.clone() }))
    }
}

fn other(slot: &mut Slot) -> &mut Calls {
    &mut slot.other
}

impl FileSystem for CountedFs {
    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.timed(other, || OsFileSystem.create_dir_all(dir))
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn Any + Send + Sync>> {
        OsFileSystem.lock(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.timed(other, || OsFileSystem.list(dir))
    }

    fn metadata(&self, path: &Path) -> io::Result<Metadata> {
        self.timed(other, || OsFileSystem.metadata(path))
    }

    fn open(&self, path: &Path, create: bool) -> io::Result<Box<dyn LogFile>> {
        self.wrap(self.timed(other, || OsFileSystem.open(path, create)))
    }

    fn open_read(&self, path: &Path) -> io::Result<Box<dyn LogFile>> {
        self.wrap(OsFileSystem.open_read(path))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.timed(other, || OsFileSystem.rename(from, to))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.timed(other, || OsFileSystem.remove(path))
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.timed(|slot| &mut slot.sync_dir, || OsFileSystem.sync_dir(dir))
    }
}

#[derive(Debug)]
struct CountedFile {
    file: Box<dyn LogFile>,
    fs: CountedFs,
}

impl LogFile for CountedFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(buf, offset)
    }

    fn write_all_at(&self, parts: &mut [IoSlice<'_>], offset: u64) -> io::Result<()> {
        self.fs.timed(|slot| &mut slot.write, || self.file.write_all_at(parts, offset))
    }

    fn sync_data(&self) -> io::Result<()> {
        let sync = || {
            std::thread::sleep(self.fs.sync_delay);
            self.file.sync_data()
        };
        self.fs.timed(|slot| &mut slot.sync_data, sync)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.fs.timed(other, || self.file.set_len(len))
    }

    fn size(&self) -> io::Result<u64> {
        self.file.size()
    }

    fn mappable(&self) -> Option<&std::fs::File> {
        self.file.mappable()
    }
}
