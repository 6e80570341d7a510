//! The files of a log: their names, what each begins with, and which there are.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use super::timeline::Timeline;
use crate::event::FormatDescription;
use crate::gtid::mariadb::Gtid;

/// One file of the log.
#[derive(Debug)]
pub(crate) struct FileEntry {
    pub(crate) number: u64,
    pub(crate) name: String,
    pub(crate) path: PathBuf,
    pub(crate) format: Arc<FormatDescription>,
    /// The GTID state at its beginning.
    pub(crate) gtid_list: Vec<Gtid>,
    /// Where its Gtid_list is not the state that the file before ended with.
    pub(crate) timeline: Option<Timeline>,
    /// Its length once closed; 0 while it is the active file.
    pub(crate) closed_len: AtomicU64,
    /// Up to here its checksums were verified, or computed, by this process.
    pub(crate) verified_to: AtomicU64,
    /// From here on too (`u64::MAX`: no such part). What lies before it was durable and whole when that was noted; readers verify it as they pass.
    pub(crate) known_from: u64,
    /// Its time of change once closed, as `binlog.verified` has it.
    pub(crate) closed_at: OnceLock<String>,
}

impl FileEntry {
    /// Its length where it is closed.
    pub(crate) fn closed_len(&self) -> Option<u64> {
        Some(self.closed_len.load(Ordering::Acquire)).filter(|len| *len != 0)
    }
}

/// A file as [`crate::Log::files`] tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileInfo {
    /// Its number, from 1.
    pub number: u64,
    /// Its name, e.g. `binlog.000001`.
    pub name: String,
    /// Readable bytes.
    pub size: u64,
}

/// `basename.000001`; more digits from a million on.
pub fn file_name(basename: &str, number: u64) -> String {
    format!("{basename}.{number:06}")
}

/// The number in a file's name.
pub fn file_number(basename: &str, name: &str) -> Option<u64> {
    let digits = name.strip_prefix(basename)?.strip_prefix('.')?;
    let number = digits.parse().ok().filter(|number| *number != 0)?;
    (file_name(basename, number) == name).then_some(number)
}

/// The files there are, oldest first.
#[derive(Debug)]
pub(crate) struct Files {
    entries: RwLock<Vec<Arc<FileEntry>>>,
}

impl Files {
    pub(crate) fn new(entries: Vec<Arc<FileEntry>>) -> Self {
        Self { entries: RwLock::new(entries) }
    }

    pub(crate) fn push(&self, entry: Arc<FileEntry>) {
        self.entries.write().unwrap_or_else(PoisonError::into_inner).push(entry);
    }

    pub(crate) fn all(&self) -> Vec<Arc<FileEntry>> {
        self.entries.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn get(&self, number: u64) -> Option<Arc<FileEntry>> {
        let entries = self.entries.read().unwrap_or_else(PoisonError::into_inner);
        let index = entries.binary_search_by_key(&number, |entry| entry.number).ok()?;
        entries.get(index).cloned()
    }

    pub(crate) fn by_name(&self, name: &str) -> Option<Arc<FileEntry>> {
        let entries = self.entries.read().unwrap_or_else(PoisonError::into_inner);
        entries.iter().find(|entry| entry.name == name).cloned()
    }

    pub(crate) fn first(&self) -> Option<Arc<FileEntry>> {
        self.entries.read().unwrap_or_else(PoisonError::into_inner).first().cloned()
    }

    /// Takes out the files before this one, oldest first.
    pub(crate) fn take_before(&self, number: u64) -> Vec<Arc<FileEntry>> {
        let mut entries = self.entries.write().unwrap_or_else(PoisonError::into_inner);
        let first = entries.partition_point(|entry| entry.number < number);
        entries.drain(..first).collect()
    }

    pub(crate) fn newest(&self) -> Option<Arc<FileEntry>> {
        self.entries.read().unwrap_or_else(PoisonError::into_inner).last().cloned()
    }
}

/// Where the index of a log is.
pub fn index_path(dir: &Path, basename: &str) -> PathBuf {
    dir.join(format!("{basename}.index"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_belong_together() {
        for number in [1, 999_999, 1_000_000] {
            assert_eq!(file_number("binlog", &file_name("binlog", number)), Some(number));
        }
        for name in ["binlog.000000", "binlog.1", "binlog.index", "other.000001", "binlog.0000001"]
        {
            assert_eq!(file_number("binlog", name), None, "{name}");
        }
    }
}
