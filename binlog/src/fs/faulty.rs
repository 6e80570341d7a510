//! A file system that fails at an operation of the test's choice: its hostile twin to [`OsFileSystem`].

use std::any::Any;
use std::io::{self, IoSlice};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{FileSystem, LogFile, Metadata, OsFileSystem};

/// What fails, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// EIO, from the nth changing operation on.
    Broken,
    /// ENOSPC at the nth changing operation, and then as often again as told.
    Full {
        /// Operations that find the disk full.
        times: u64,
    },
}

/// Works on real files; counts the operations that change something and fails as told. A failing write leaves half of its bytes.
#[derive(Clone, Debug)]
pub struct FaultyFileSystem {
    plan: Arc<Plan>,
}

#[derive(Debug)]
struct Plan {
    fault: Fault,
    at: u64,
    done: AtomicU64,
}

impl FaultyFileSystem {
    /// Fails with `fault` at the changing operation number `at`, counted from 0.
    pub fn new(fault: Fault, at: u64) -> Self {
        Self { plan: Arc::new(Plan { fault, at, done: AtomicU64::new(0) }) }
    }

    /// Changing operations so far.
    pub fn operations(&self) -> u64 {
        self.plan.done.load(Ordering::SeqCst)
    }
}

impl Plan {
    fn step(&self) -> io::Result<()> {
        let number = self.done.fetch_add(1, Ordering::SeqCst);
        match self.fault {
            Fault::Broken if number >= self.at => Err(io::Error::from_raw_os_error(5)),
            Fault::Full { times } if number >= self.at && number - self.at < times => {
                Err(io::ErrorKind::StorageFull.into())
            }
            _ => Ok(()),
        }
    }
}

impl FileSystem for FaultyFileSystem {
    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        OsFileSystem.create_dir_all(dir)
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn Any + Send + Sync>> {
        OsFileSystem.lock(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        OsFileSystem.list(dir)
    }

    fn metadata(&self, path: &Path) -> io::Result<Metadata> {
        OsFileSystem.metadata(path)
    }

    fn open(&self, path: &Path, create: bool) -> io::Result<Box<dyn LogFile>> {
        if create {
            self.plan.step()?;
        }
        let file = OsFileSystem.open(path, create)?;
        Ok(Box::new(FaultyFile { file, plan: Arc::clone(&self.plan) }))
    }

    fn open_read(&self, path: &Path) -> io::Result<Box<dyn LogFile>> {
        OsFileSystem.open_read(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.plan.step()?;
        OsFileSystem.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.plan.step()?;
        OsFileSystem.remove(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.plan.step()?;
        OsFileSystem.sync_dir(dir)
    }
}

#[derive(Debug)]
struct FaultyFile {
    file: Box<dyn LogFile>,
    plan: Arc<Plan>,
}

impl LogFile for FaultyFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(buf, offset)
    }

    fn write_all_at(&self, parts: &mut [IoSlice<'_>], offset: u64) -> io::Result<()> {
        let Err(error) = self.plan.step() else {
            return self.file.write_all_at(parts, offset);
        };
        let bytes: Vec<u8> = parts.iter().flat_map(|part| part.iter().copied()).collect();
        let half = bytes.get(..bytes.len() / 2).unwrap_or_default();
        self.file.write_all_at(&mut [IoSlice::new(half)], offset)?;
        Err(error)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.plan.step()?;
        self.file.sync_data()
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.plan.step()?;
        self.file.set_len(len)
    }

    fn size(&self) -> io::Result<u64> {
        self.file.size()
    }

    fn mappable(&self) -> Option<&std::fs::File> {
        self.file.mappable()
    }
}
