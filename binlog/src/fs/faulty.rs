//! A file system that fails at an operation of the test's choice: its hostile twin to [`OsFileSystem`].

use std::any::Any;
use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

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
    /// EMFILE, from the nth changing operation on: where a file or a directory is to be opened.
    OutOfFiles,
}

/// What begins and does not end, until it is let.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Held {
    /// Nothing.
    #[default]
    Nothing,
    /// Syncs of files.
    Syncs,
    /// Writes to files.
    Writes,
}

/// An operation that changes something. A file that was renamed while it was open keeps its old path here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// A file was created, or cut to nothing.
    Create(PathBuf),
    /// Bytes were written to a file, at this offset.
    Write(PathBuf, u64),
    /// A file's length was set.
    SetLen(PathBuf),
    /// A file was synced.
    Sync(PathBuf),
    /// A file was renamed, to this path.
    Rename(PathBuf),
    /// A file was removed.
    Remove(PathBuf),
    /// A directory was synced.
    SyncDir(PathBuf),
}

/// Works on real files; keeps a list of the operations that change something and fails as told. A failing write leaves half of its bytes.
#[derive(Clone, Debug)]
pub struct FaultyFileSystem {
    plan: Arc<Plan>,
}

#[derive(Debug)]
struct Plan {
    fault: Fault,
    at: At,
    inner: Mutex<Inner>,
    changed: Condvar,
}

/// Which operation is the first to fail.
#[derive(Debug)]
enum At {
    Number(usize),
    First(fn(&Operation) -> bool),
}

#[derive(Debug, Default)]
struct Inner {
    done: Vec<Operation>,
    failing: Option<usize>,
    repaired: bool,
    held: Held,
}

impl FaultyFileSystem {
    /// Fails at nothing.
    pub fn sound() -> Self {
        Self::at_first(Fault::Broken, |_| false)
    }

    /// Fails with `fault` at the changing operation number `at`, counted from 0.
    pub fn new(fault: Fault, at: u64) -> Self {
        Self::failing(fault, At::Number(usize::try_from(at).unwrap_or(usize::MAX)))
    }

    /// Fails with `fault` at the first changing operation that is one of these.
    pub fn at_first(fault: Fault, of: fn(&Operation) -> bool) -> Self {
        Self::failing(fault, At::First(of))
    }

    fn failing(fault: Fault, at: At) -> Self {
        Self {
            plan: Arc::new(Plan { fault, at, inner: Mutex::default(), changed: Condvar::new() }),
        }
    }

    /// From now on nothing fails.
    pub fn repair(&self) {
        self.plan.lock().repaired = true;
    }

    /// From now on these do not end, and no others.
    pub fn hold(&self, held: Held) {
        self.plan.lock().held = held;
        self.plan.changed.notify_all();
    }

    /// How many changing operations there were so far.
    pub fn operations(&self) -> u64 {
        self.plan.lock().done.len() as u64
    }

    /// The changing operations so far, those that failed included.
    pub fn journal(&self) -> Vec<Operation> {
        self.plan.lock().done.clone()
    }
}

impl Plan {
    fn step(&self, operation: Operation) -> io::Result<()> {
        let mut inner = self.lock();
        let number = inner.done.len();
        let opens = matches!(operation, Operation::Create(_) | Operation::SyncDir(_));
        let is_first = match self.at {
            At::Number(at) => number >= at,
            At::First(of) => of(&operation),
        };
        inner.done.push(operation);
        if is_first {
            inner.failing.get_or_insert(number);
        }
        let Some(first) = inner.failing.filter(|_| !inner.repaired) else { return Ok(()) };
        match self.fault {
            Fault::Broken => Err(io::Error::from_raw_os_error(5)),
            Fault::Full { times } if ((number - first) as u64) < times => {
                Err(io::ErrorKind::StorageFull.into())
            }
            Fault::OutOfFiles if opens => Err(rustix::io::Errno::MFILE.into()),
            Fault::Full { .. } | Fault::OutOfFiles => Ok(()),
        }
    }

    fn wait_while(&self, held: Held) {
        let waited = self.changed.wait_while(self.lock(), |inner| inner.held == held);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
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
            self.plan.step(Operation::Create(path.to_owned()))?;
        }
        let file = OsFileSystem.open(path, create)?;
        let (path, plan) = (path.to_owned(), Arc::clone(&self.plan));
        Ok(Box::new(FaultyFile { file, path, plan }))
    }

    fn open_read(&self, path: &Path) -> io::Result<Box<dyn LogFile>> {
        OsFileSystem.open_read(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.plan.step(Operation::Rename(to.to_owned()))?;
        OsFileSystem.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.plan.step(Operation::Remove(path.to_owned()))?;
        OsFileSystem.remove(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.plan.step(Operation::SyncDir(dir.to_owned()))?;
        OsFileSystem.sync_dir(dir)
    }
}

#[derive(Debug)]
struct FaultyFile {
    file: Box<dyn LogFile>,
    path: PathBuf,
    plan: Arc<Plan>,
}

impl LogFile for FaultyFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(buf, offset)
    }

    fn write_all_at(&self, parts: &mut [IoSlice<'_>], offset: u64) -> io::Result<()> {
        let step = self.plan.step(Operation::Write(self.path.clone(), offset));
        self.plan.wait_while(Held::Writes);
        let Err(error) = step else {
            return self.file.write_all_at(parts, offset);
        };
        let bytes: Vec<u8> = parts.iter().flat_map(|part| part.iter().copied()).collect();
        let half = bytes.get(..bytes.len() / 2).unwrap_or_default();
        self.file.write_all_at(&mut [IoSlice::new(half)], offset)?;
        Err(error)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.plan.step(Operation::Sync(self.path.clone()))?;
        self.plan.wait_while(Held::Syncs);
        self.file.sync_data()
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.plan.step(Operation::SetLen(self.path.clone()))?;
        self.file.set_len(len)
    }

    fn size(&self) -> io::Result<u64> {
        self.file.size()
    }

    fn mappable(&self) -> Option<&std::fs::File> {
        self.file.mappable()
    }
}
