//! The operating system's files.

use std::any::Any;
use std::fs::{self, File, OpenOptions};
use std::io::{self, IoSlice};
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::fs::{FlockOperation, flock};

use super::{FileSystem, LogFile, Metadata};

/// Parts one `pwritev` takes (Linux: `IOV_MAX`).
const MAX_PARTS: usize = 1024;

/// The real file system.
#[derive(Clone, Copy, Debug, Default)]
pub struct OsFileSystem;

impl FileSystem for OsFileSystem {
    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        fs::create_dir_all(dir)
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn Any + Send + Sync>> {
        let file = OpenOptions::new().create(true).truncate(false).write(true).open(path)?;
        flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        Ok(Box::new(file))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let names = fs::read_dir(dir)?.map(|entry| Ok(entry?.file_name()));
        let names: io::Result<Vec<_>> = names.collect();
        Ok(names?.into_iter().filter_map(|name| name.into_string().ok()).collect())
    }

    fn metadata(&self, path: &Path) -> io::Result<Metadata> {
        let metadata = fs::metadata(path)?;
        Ok(Metadata { len: metadata.len(), modified: metadata.modified()? })
    }

    fn open(&self, path: &Path, create: bool) -> io::Result<Box<dyn LogFile>> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(create).truncate(create);
        Ok(Box::new(OsFile(options.open(path)?)))
    }

    fn open_read(&self, path: &Path) -> io::Result<Box<dyn LogFile>> {
        Ok(Box::new(OsFile(File::open(path)?)))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        File::open(dir)?.sync_all()
    }
}

#[derive(Debug)]
struct OsFile(File);

impl LogFile for OsFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.0.read_at(buf, offset)
    }

    fn write_all_at(&self, mut parts: &mut [IoSlice<'_>], mut offset: u64) -> io::Result<()> {
        IoSlice::advance_slices(&mut parts, 0);
        while !parts.is_empty() {
            let now = parts.get(..MAX_PARTS).unwrap_or(parts);
            match rustix::io::pwritev(&self.0, now, offset) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => {
                    IoSlice::advance_slices(&mut parts, written);
                    offset += written as u64;
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn mappable(&self) -> Option<&File> {
        Some(&self.0)
    }
}
