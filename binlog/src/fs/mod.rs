//! The file system as a trait, so that every call the log makes can be made to fail in a test.

pub mod crash;
pub mod faulty;
pub mod os;

use std::any::Any;
use std::fmt::Debug;
use std::io::{self, IoSlice};
use std::path::Path;
use std::time::SystemTime;

pub use os::OsFileSystem;

/// What the log asks of a file system.
pub trait FileSystem: Debug + Send + Sync {
    /// Creates `dir` and its parents where they are missing.
    ///
    /// # Errors
    /// What the system said, as for all calls here.
    fn create_dir_all(&self, dir: &Path) -> io::Result<()>;

    /// Takes the lock that one process holds on the log; given back when the value is dropped or the process ends.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] while another process holds it.
    fn lock(&self, path: &Path) -> io::Result<Box<dyn Any + Send + Sync>>;

    /// Names of the files in `dir`.
    ///
    /// # Errors
    /// What the system said.
    fn list(&self, dir: &Path) -> io::Result<Vec<String>>;

    /// Length and time of the last change.
    ///
    /// # Errors
    /// What the system said.
    fn metadata(&self, path: &Path) -> io::Result<Metadata>;

    /// Opens a file for reading and writing; with `create`, empty and new or cut to nothing.
    ///
    /// # Errors
    /// What the system said.
    fn open(&self, path: &Path, create: bool) -> io::Result<Box<dyn LogFile>>;

    /// Opens a file for reading only.
    ///
    /// # Errors
    /// What the system said.
    fn open_read(&self, path: &Path) -> io::Result<Box<dyn LogFile>>;

    /// Renames within a file system, replacing.
    ///
    /// # Errors
    /// What the system said.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file.
    ///
    /// # Errors
    /// What the system said.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Makes creations and renames in `dir` durable.
    ///
    /// # Errors
    /// What the system said.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
}

/// A file of the log.
pub trait LogFile: Debug + Send + Sync {
    /// Reads up to `buf.len()` bytes.
    ///
    /// # Errors
    /// What the system said.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Writes all of `parts`, one after another. After an error any part of them may be written.
    ///
    /// # Errors
    /// What the system said.
    fn write_all_at(&self, parts: &mut [IoSlice<'_>], offset: u64) -> io::Result<()>;

    /// Makes content and length durable.
    ///
    /// # Errors
    /// What the system said. What was written since the last success may be lost: a second try proves nothing.
    fn sync_data(&self) -> io::Result<()>;

    /// Cuts or grows the file.
    ///
    /// # Errors
    /// What the system said.
    fn set_len(&self, len: u64) -> io::Result<()>;

    /// Its length now.
    ///
    /// # Errors
    /// What the system said.
    fn size(&self) -> io::Result<u64>;

    /// The file behind it where it can be mapped.
    fn mappable(&self) -> Option<&std::fs::File>;
}

/// What [`FileSystem::metadata`] answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metadata {
    /// Bytes.
    pub len: u64,
    /// Time of the last change.
    pub modified: SystemTime,
}

/// Whether an error says that the disk or a quota is full.
pub fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// Whether an error says that the process, or the system, has too many files open (EMFILE, ENFILE).
pub fn is_out_of_files(error: &io::Error) -> bool {
    let limits = [rustix::io::Errno::MFILE, rustix::io::Errno::NFILE];
    limits.iter().any(|limit| error.raw_os_error() == Some(limit.raw_os_error()))
}

/// Reads exactly `buf.len()` bytes.
///
/// # Errors
/// [`io::ErrorKind::UnexpectedEof`] where the file ends before; else what the system said.
pub fn read_exact_at(file: &dyn LogFile, mut buf: &mut [u8], mut offset: u64) -> io::Result<()> {
    while !buf.is_empty() {
        match file.read_at(buf, offset)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            read => {
                buf = buf.get_mut(read..).unwrap_or_default();
                offset += read as u64;
            }
        }
    }
    Ok(())
}
