//! A file system in memory that keeps what was written and what was synced apart, and hands out what a power cut at any operation
//! may leave: its hostile twin for durability.
//!
//! What is durable: bytes and length by `sync_data` of the file, names by `sync_dir` of their directory. Of the rest a seed says what
//! is there after the cut: all, nothing, all up to some effect, or any subset, writes torn at blocks of 512 or 4,096 bytes and lengths
//! that grew without their bytes included. A rename is durable where its target's directory was synced; until the directory it came
//! from was synced too, the old name may be there as well. It never loses both names. Directories themselves are durable at once.

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

use super::faulty::Fault;
use super::{FileSystem, LogFile, Metadata};

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

    fn image(&self, random: &mut Random) -> Self {
        let mut names = self.durable.clone();
        let keep = Keep::new(random, self.unsynced.len());
        for (index, Rename { inode, from, to }) in self.unsynced.iter().enumerate() {
            if keep.keeps(random, index) {
                // The old name goes after the new one came.
                let from = from.as_deref().filter(|_| to.is_none() || !random.one_in(4));
                apply(&mut names, *inode, from, to.as_deref());
            }
        }
        let inodes = self.inodes.iter().map(|inode| inode.image(random)).collect();
        let (dirs, clock) = (self.dirs.clone(), self.clock);
        Self { durable: names.clone(), names, inodes, dirs, clock, ..Self::default() }
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

    /// What is left of it after a power cut.
    fn image(&self, random: &mut Random) -> Self {
        let mut content = self.synced.clone();
        let keep = Keep::new(random, self.unsynced.len());
        let block = if random.one_in(2) { 512 } else { 4096 };
        for (index, effect) in self.unsynced.iter().enumerate() {
            if keep.keeps(random, index) {
                effect.apply(&mut content);
            } else if keep.tears(index) {
                effect.apply_torn(&mut content, block, random);
            }
        }
        let modified = if content == self.content { self.modified } else { self.synced_modified };
        let (synced, unsynced) = (content.clone(), Vec::new());
        Self { content, synced, unsynced, modified, synced_modified: modified }
    }
}

impl Effect {
    fn apply(&self, content: &mut Vec<u8>) {
        match self {
            Self::Length(len) => content.resize(*len, 0),
            Self::Write { at, bytes } => write(content, *at, bytes),
        }
    }

    /// Writes some of the blocks; the length may have grown to that of the whole, or not.
    fn apply_torn(&self, content: &mut Vec<u8>, block: usize, random: &mut Random) {
        let Self::Write { at, bytes } = self else { return };
        if random.one_in(2) {
            content.resize(content.len().max(at + bytes.len()), 0);
        }
        let in_order = random.one_in(2).then(|| random.below(bytes.len()));
        let mut from = 0;
        while from < bytes.len() {
            let to = (((at + from) / block + 1) * block - at).min(bytes.len());
            if in_order.map_or_else(|| random.one_in(2), |end| to <= end) {
                write(content, at + from, bytes.get(from..to).unwrap_or_default());
            }
            from = to;
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

/// Which of a number of unsynced effects are kept.
enum Keep {
    Nothing,
    /// Those before this one, which is torn.
    Before(usize),
    Some,
}

impl Keep {
    fn new(random: &mut Random, count: usize) -> Self {
        match random.below(4) {
            0 => Self::Nothing,
            1 => Self::Before(usize::MAX),
            2 => Self::Before(random.below(count + 1)),
            _ => Self::Some,
        }
    }

    fn keeps(&self, random: &mut Random, index: usize) -> bool {
        match self {
            Self::Nothing => false,
            Self::Before(end) => index < *end,
            Self::Some => random.one_in(2),
        }
    }

    fn tears(&self, index: usize) -> bool {
        match self {
            Self::Nothing => false,
            Self::Before(end) => index == *end,
            Self::Some => true,
        }
    }
}

/// `SplitMix64`: what a seed stands for must not change with a library's version.
#[derive(Clone, Debug)]
pub struct Random(pub u64);

impl Random {
    /// Any number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`, which is not 0.
    pub fn below(&mut self, bound: usize) -> usize {
        let bound = bound.max(1) as u64;
        usize::try_from(self.number() % bound).unwrap_or_default()
    }

    /// True once in `times`.
    pub fn one_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }
}

impl FileSystem for CrashFileSystem {
    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.lock_disk().dirs.extend(dir.ancestors().map(Path::to_owned));
        Ok(())
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn Any + Send + Sync>> {
        if !self.lock_disk().locks.insert(path.to_owned()) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok(Box::new(Lock { disk: self.clone(), path: path.to_owned() }))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let disk = self.lock_disk();
        if !disk.dirs.contains(dir) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let paths = disk.names.keys().chain(&disk.dirs).filter(|path| is_in(path, dir));
        let names = paths.filter_map(|path| path.file_name()?.to_str());
        Ok(names.map(str::to_owned).collect())
    }

    fn metadata(&self, path: &Path) -> io::Result<Metadata> {
        let mut disk = self.lock_disk();
        let number = *disk.names.get(path).ok_or(io::ErrorKind::NotFound)?;
        let inode = disk.inode(number)?;
        let modified = UNIX_EPOCH + Duration::from_nanos(inode.modified);
        Ok(Metadata { len: inode.content.len() as u64, modified })
    }

    fn open(&self, path: &Path, create: bool) -> io::Result<Box<dyn LogFile>> {
        let mut disk = self.lock_disk();
        match disk.names.get(path).copied() {
            Some(inode) if create => {
                let step = disk.step()?;
                if let Step::Failed(error) = step {
                    return Err(error);
                }
                disk.change(inode, Effect::Length(0))?;
                end(step).map(|()| self.file(inode))
            }
            Some(inode) => Ok(self.file(inode)),
            None if create => {
                disk.inodes.push(Inode::default());
                let inode = disk.inodes.len() - 1;
                disk.rename(inode, None, Some(path)).map(|()| self.file(inode))
            }
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn open_read(&self, path: &Path) -> io::Result<Box<dyn LogFile>> {
        self.open(path, false)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut disk = self.lock_disk();
        let inode = *disk.names.get(from).ok_or(io::ErrorKind::NotFound)?;
        disk.rename(inode, Some(from), Some(to))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut disk = self.lock_disk();
        let inode = *disk.names.get(path).ok_or(io::ErrorKind::NotFound)?;
        disk.rename(inode, Some(path), None)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.lock_disk().sync_dir(dir)
    }
}

struct Lock {
    disk: CrashFileSystem,
    path: PathBuf,
}

impl Drop for Lock {
    fn drop(&mut self) {
        self.disk.lock_disk().locks.remove(&self.path);
    }
}

#[derive(Debug)]
struct CrashFile {
    disk: CrashFileSystem,
    inode: usize,
}

impl LogFile for CrashFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut disk = self.disk.lock_disk();
        let content = &disk.inode(self.inode)?.content;
        let rest = content.get(index(offset)?..).unwrap_or_default();
        let len = rest.len().min(buf.len());
        let (to, from) = (buf.get_mut(..len), rest.get(..len));
        to.zip(from).into_iter().for_each(|(to, from)| to.copy_from_slice(from));
        Ok(len)
    }

    fn write_all_at(&self, parts: &mut [IoSlice<'_>], offset: u64) -> io::Result<()> {
        let mut disk = self.disk.lock_disk();
        let step = disk.step()?;
        let mut bytes: Vec<u8> = parts.iter().flat_map(|part| part.iter().copied()).collect();
        if let Step::Failed(_) = step {
            bytes.truncate(bytes.len() / 2);
        }
        disk.change(self.inode, Effect::Write { at: index(offset)?, bytes })?;
        end(step)
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut disk = self.disk.lock_disk();
        let step = disk.step()?;
        if matches!(step, Step::Done) {
            disk.inode(self.inode)?.sync();
        }
        end(step)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut disk = self.disk.lock_disk();
        let step = disk.step()?;
        if let Step::Failed(error) = step {
            return Err(error);
        }
        disk.change(self.inode, Effect::Length(index(len)?))?;
        end(step)
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.disk.lock_disk().inode(self.inode)?.content.len() as u64)
    }

    fn mappable(&self) -> Option<&std::fs::File> {
        None
    }
}

fn index(position: u64) -> io::Result<usize> {
    usize::try_from(position).map_err(io::Error::other)
}

#[cfg(test)]
mod tests;
