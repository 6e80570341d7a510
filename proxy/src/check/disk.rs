//! What the disk of `binlog.dir` looks like.

use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access, statvfs};

use crate::config::Binlog;

/// What matters of the disk.
#[derive(Clone, Debug)]
pub(super) struct Disk {
    /// The directory, or the nearest one above it that exists.
    pub(super) existing: PathBuf,
    /// Bytes an ordinary user may still write.
    pub(super) free: u64,
    /// Whether this user may write there.
    pub(super) writable: bool,
    /// Whether there is a log already, so that `start` is not looked at.
    pub(super) has_log: bool,
}

/// Looks without changing anything.
pub(super) fn look(binlog: &Binlog) -> io::Result<Disk> {
    let dir = std::path::absolute(&binlog.dir)?;
    let existing = dir.ancestors().find(|path| path.is_dir()).unwrap_or(Path::new("/"));
    let stat = statvfs(existing)?;
    Ok(Disk {
        existing: existing.to_owned(),
        free: stat.f_bavail.saturating_mul(stat.f_frsize),
        writable: access(existing, Access::WRITE_OK | Access::EXEC_OK).is_ok(),
        has_log: spillway_binlog::index_path(&dir, &binlog.log_bin).is_file(),
    })
}
