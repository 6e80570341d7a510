//! Which files a command looks at.

use std::path::{Path, PathBuf};

use spillway_binlog::file_number;
use spillway_binlog::fs::OsFileSystem;
use spillway_binlog::reader::{FileScan, ScanError};

use super::Stop;
use crate::exit::Failure;

/// Files in order.
#[derive(Debug)]
pub(super) struct Target {
    /// The log's name, which is `log_bin`; of a file given by itself the file's.
    pub(super) name: String,
    pub(super) files: Vec<BinlogFile>,
    /// Whether they are all of a log, so that they must follow each other.
    pub(super) whole: bool,
}

/// One file.
#[derive(Debug)]
pub(super) struct BinlogFile {
    pub(super) path: PathBuf,
    pub(super) name: String,
    /// Its number in the log; 0 of a file given by itself.
    pub(super) number: u64,
}

impl Target {
    /// A file, or the files of each log in a directory: one log an index, by name.
    pub(super) fn open(path: &Path) -> Result<Vec<Self>, Stop> {
        let metadata = std::fs::metadata(path).map_err(|error| cannot_read(path, &error))?;
        if metadata.is_dir() {
            return indexes_of(path)?.iter().map(|index| Self::of_log(path, index)).collect();
        }
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let files = vec![BinlogFile { path: path.to_owned(), name: name.clone(), number: 0 }];
        Ok(vec![Self { name, files, whole: false }])
    }

    /// Those the index names, and those beyond it that a crash may have left.
    fn of_log(dir: &Path, index: &Path) -> Result<Self, Stop> {
        let basename = index.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let mut numbers = numbers_in(dir, &basename)?;
        numbers.extend(indexed(index, &basename)?);
        numbers.sort_unstable();
        numbers.dedup();
        let file = |number| {
            let name = spillway_binlog::file_name(&basename, number);
            BinlogFile { path: dir.join(&name), name, number }
        };
        let files = numbers.into_iter().map(file).collect();
        Ok(Self { name: basename, files, whole: true })
    }
}

impl BinlogFile {
    /// Opens it for a walk over its events.
    pub(super) fn scan(&self) -> Result<FileScan, Stop> {
        FileScan::open(&OsFileSystem, &self.path).map_err(|error| self.fault(&error))
    }

    /// A fault in this file, as one sentence.
    pub(super) fn fault(&self, error: &ScanError) -> Stop {
        Failure::fault(format!("{} at {error}", self.path.display())).into()
    }

    /// A fault at a position of this file.
    pub(super) fn fault_at(&self, position: u64, reason: impl std::fmt::Display) -> Stop {
        Failure::fault(format!("{} at position {position}: {reason}", self.path.display())).into()
    }

    /// Its size now.
    pub(super) fn size(&self) -> u64 {
        std::fs::metadata(&self.path).map(|metadata| metadata.len()).unwrap_or_default()
    }
}

fn indexes_of(dir: &Path) -> Result<Vec<PathBuf>, Stop> {
    let mut found: Vec<PathBuf> = entries(dir)?
        .into_iter()
        .filter(|path| path.extension().is_some_and(|e| e == "index"))
        .collect();
    // A server has an index of its relay log too.
    let is_relay_log = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.to_string_lossy().contains("relay"))
    };
    found.retain(|path| !is_relay_log(path));
    found.sort_unstable();
    if found.is_empty() {
        return Err(Failure::fault(format!(
            "{} has no index file, as a log has: name a log's directory, or one file",
            dir.display()
        ))
        .into());
    }
    Ok(found)
}

fn numbers_in(dir: &Path, basename: &str) -> Result<Vec<u64>, Stop> {
    let names = entries(dir)?;
    let number = |path: &PathBuf| file_number(basename, path.file_name()?.to_str()?);
    Ok(names.iter().filter_map(number).collect())
}

fn indexed(index: &Path, basename: &str) -> Result<Vec<u64>, Stop> {
    let text = std::fs::read_to_string(index).map_err(|error| cannot_read(index, &error))?;
    let number = |line: &str| file_number(basename, Path::new(line).file_name()?.to_str()?);
    Ok(text.lines().filter_map(number).collect())
}

fn entries(dir: &Path) -> Result<Vec<PathBuf>, Stop> {
    let listed = std::fs::read_dir(dir).and_then(|entries| {
        entries.map(|entry| entry.map(|entry| entry.path())).collect::<std::io::Result<Vec<_>>>()
    });
    listed.map_err(|error| cannot_read(dir, &error))
}

fn cannot_read(path: &Path, error: &std::io::Error) -> Stop {
    Failure::fault(format!("cannot read {}: {error}", path.display())).into()
}
