//! A file system in memory that keeps what was written and what was synced apart, and hands out what a power cut at any operation
//! may leave: its hostile twin for durability.
//!
//! What is durable: bytes and length by `sync_data` of the file, names by `sync_dir` of their directory. Of the rest a seed says what
//! is there after the cut: all, nothing, all up to some effect, or any subset, writes torn at blocks of 512 or 4,096 bytes and lengths
//! that grew without their bytes included. A rename is durable where its target's directory was synced; until the directory it came
//! from was synced too, the old name may be there as well. It never loses both names. Directories themselves are durable at once.

mod files;
mod image;
mod random;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub use random::Random;

use super::LogFile;
use super::faulty::Fault;
use files::CrashFile;

/// See the module's description. Clones share the disk.
#[derive(Clone, Debug, Default)]
pub struct CrashFileSystem {
    disk: Arc<Mutex<Disk>>,
}

#[derive(Clone, Debug, Default)]
struct Disk {
    /// Names as the process sees them, and as they would be after a power cut if nothing of `unsynced` were kept.
    names: BTreeMap<PathBuf, usize>,
    durable: BTreeMap<PathBuf, usize>,
    unsynced: Vec<Rename>,
    dirs: BTreeSet<PathBuf>,
    inodes: Vec<Inode>,
    locks: BTreeSet<PathBuf>,
    /// Counts changes: the time of the last one.
    clock: u64,
    operations: u64,
    fault: Option<(Fault, u64)>,
    cut_at: Option<u64>,
    off: bool,
}

/// A change of names. A creation has no `from`, a removal no `to`.
#[derive(Clone, Debug)]
struct Rename {
    inode: usize,
    from: Option<PathBuf>,
    to: Option<PathBuf>,
}

#[derive(Clone, Debug, Default)]
struct Inode {
    content: Vec<u8>,
    synced: Vec<u8>,
    unsynced: Vec<Effect>,
    modified: u64,
    synced_modified: u64,
}

#[derive(Clone, Debug)]
enum Effect {
    Write { at: usize, bytes: Vec<u8> },
    Length(usize),
}

impl CrashFileSystem {
    /// An empty disk.
    pub fn new() -> Self {
        Self::default()
    }

    /// Changing operations so far.
    pub fn operations(&self) -> u64 {
        self.lock_disk().operations
    }

    /// Fails with `fault` at the changing operation number `at`, counted from 0. A failing write leaves half of its bytes.
    pub fn fail_at(&self, fault: Fault, at: u64) {
        self.lock_disk().fault = Some((fault, at));
    }

    /// Cuts the power within the changing operation number `at`: it may have happened in part, and nothing happens afterwards.
    pub fn cut_power_at(&self, at: u64) {
        self.lock_disk().cut_at = Some(at);
    }

    /// Cuts the power, or ends the process, now: nothing changes any more.
    pub fn stop(&self) {
        self.lock_disk().off = true;
    }

    /// Whether the power was cut.
    pub fn is_off(&self) -> bool {
        self.lock_disk().off
    }

    /// The disk as the next process finds it where only the process ended: all that was written, synced or not.
    pub fn after_kill(&self) -> Self {
        let disk = Disk { locks: BTreeSet::new(), ..self.lock_disk().clone() };
        let disk = Disk { operations: 0, fault: None, cut_at: None, off: false, ..disk };
        Self { disk: Arc::new(Mutex::new(disk)) }
    }

    /// The disk after a power cut; `seed` says what is left of what was not synced.
    pub fn after_power_cut(&self, seed: u64) -> Self {
        Self { disk: Arc::new(Mutex::new(self.lock_disk().image(&mut Random(seed)))) }
    }

    /// Puts a file there, durable.
    pub fn put(&self, path: &Path, bytes: &[u8]) {
        let mut disk = self.lock_disk();
        let (content, synced) = (bytes.to_vec(), bytes.to_vec());
        disk.inodes.push(Inode { content, synced, ..Inode::default() });
        let inode = disk.inodes.len() - 1;
        disk.names.insert(path.to_owned(), inode);
        disk.durable.insert(path.to_owned(), inode);
    }

    /// A file's bytes as a process sees them.
    pub fn get(&self, path: &Path) -> Option<Vec<u8>> {
        let disk = self.lock_disk();
        let inode = disk.names.get(path)?;
        disk.inodes.get(*inode).map(|inode| inode.content.clone())
    }

    fn lock_disk(&self) -> MutexGuard<'_, Disk> {
        self.disk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn file(&self, inode: usize) -> Box<dyn LogFile> {
        Box::new(CrashFile { disk: self.clone(), inode })
    }
}

/// What becomes of an operation.
enum Step {
    Done,
    /// It may have happened in part.
    Cut,
    Failed(io::Error),
}

impl Disk {
    fn step(&mut self) -> io::Result<Step> {
        if self.off {
            return Err(power_is_off());
        }
        let number = self.operations;
        self.operations += 1;
        self.clock += 1;
        if self.cut_at.is_some_and(|at| number >= at) {
            self.off = true;
            return Ok(Step::Cut);
        }
        Ok(match self.fault {
            Some((Fault::Broken, at)) if number >= at => {
                Step::Failed(io::Error::from_raw_os_error(5))
            }
            Some((Fault::Full { times }, at)) if number >= at && number - at < times => {
                Step::Failed(io::ErrorKind::StorageFull.into())
            }
            _ => Step::Done,
        })
    }

    /// Changes names; where the power is cut within, the change stays unsynced as any other.
    fn rename(&mut self, inode: usize, from: Option<&Path>, to: Option<&Path>) -> io::Result<()> {
        let step = self.step()?;
        if let Step::Failed(error) = step {
            return Err(error);
        }
        apply(&mut self.names, inode, from, to);
        let own = |path: Option<&Path>| path.map(Path::to_owned);
        self.unsynced.push(Rename { inode, from: own(from), to: own(to) });
        end(step)
    }

    fn sync_dir(&mut self, dir: &Path) -> io::Result<()> {
        let step = self.step()?;
        if matches!(step, Step::Done) {
            let unsynced = std::mem::take(&mut self.unsynced);
            self.unsynced =
                unsynced.into_iter().filter_map(|change| self.sync_rename(dir, change)).collect();
        }
        end(step)
    }

    /// Makes the change durable as far as it is one of `dir`; answers what is left of it.
    fn sync_rename(&mut self, dir: &Path, change: Rename) -> Option<Rename> {
        let within = |path: &Option<PathBuf>| path.as_deref().is_some_and(|path| is_in(path, dir));
        let Rename { inode, from, to } = &change;
        if within(from) {
            // A file system's journal has both names or none: the new one is there too.
            apply(&mut self.durable, *inode, from.as_deref(), to.as_deref());
            return None;
        }
        if !within(to) {
            return Some(change);
        }
        apply(&mut self.durable, *inode, None, to.as_deref());
        from.is_some().then(|| Rename { to: None, ..change.clone() })
    }

    fn inode(&mut self, inode: usize) -> io::Result<&mut Inode> {
        self.inodes.get_mut(inode).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn change(&mut self, inode: usize, effect: Effect) -> io::Result<()> {
        let clock = self.clock;
        let inode = self.inode(inode)?;
        effect.apply(&mut inode.content);
        inode.unsynced.push(effect);
        inode.modified = clock;
        Ok(())
    }
}

fn apply(
    names: &mut BTreeMap<PathBuf, usize>,
    inode: usize,
    from: Option<&Path>,
    to: Option<&Path>,
) {
    if let Some(from) = from
        && names.get(from) == Some(&inode)
    {
        names.remove(from);
    }
    if let Some(to) = to {
        names.insert(to.to_owned(), inode);
    }
}

fn end(step: Step) -> io::Result<()> {
    match step {
        Step::Done => Ok(()),
        Step::Cut => Err(power_is_off()),
        Step::Failed(error) => Err(error),
    }
}

fn power_is_off() -> io::Error {
    io::Error::other("the power is off")
}

fn is_in(path: &Path, dir: &Path) -> bool {
    path.parent() == Some(dir)
}

impl Inode {
    fn sync(&mut self) {
        for effect in self.unsynced.drain(..) {
            effect.apply(&mut self.synced);
        }
        self.synced_modified = self.modified;
    }
}

impl Effect {
    fn apply(&self, content: &mut Vec<u8>) {
        match self {
            Self::Length(len) => content.resize(*len, 0),
            Self::Write { at, bytes } => write(content, *at, bytes),
        }
    }
}

fn write(content: &mut Vec<u8>, at: usize, bytes: &[u8]) {
    if content.len() < at + bytes.len() {
        content.resize(at + bytes.len(), 0);
    }
    if let Some(place) = content.get_mut(at..at + bytes.len()) {
        place.copy_from_slice(bytes);
    }
}

#[cfg(test)]
mod tests;
