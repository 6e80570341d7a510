//! The disk as a file system.

use std::any::Any;
use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use super::{CrashFileSystem, Effect, Inode, Step, end, is_in};
use crate::fs::{FileSystem, LogFile, Metadata};

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
pub(super) struct CrashFile {
    pub(super) disk: CrashFileSystem,
    pub(super) inode: usize,
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
