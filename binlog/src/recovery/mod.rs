//! From what a directory holds to a log that can be appended to. Nothing is thrown away without a copy, and damage in what was
//! once durable is refused, not repaired.
//!
//! | found | done |
//! |---|---|
//! | no files | an empty log |
//! | index missing or behind | made anew from the files |
//! | files before the index's first | removed where a purge has named them (`binlog.purge`); else left alone |
//! | a file in the index is missing, or numbers have a gap | refused |
//! | a closed file changed since it was verified | verified whole; refused where damaged |
//! | last file: no complete header events | written anew after the state of the file before; the only file: an empty log |
//! | last file, not in the index yet: damaged header events | set aside, then the same |
//! | last file: ends within a transaction | the rest is copied aside and cut off |
//! | last file: damage behind the durable position | the same |
//! | last file: damage before the durable position | refused |
//! | last file: ends with Rotate | the next file is created |

mod file;
mod leftovers;
mod tail;

use std::any::Any;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use crate::event::{FormatDescription, MAGIC};
use crate::fs::is_full;
use crate::gtid::mariadb::GtidState;
use crate::gtid_index::{self, GtidIndex};
use crate::log::{
    ActiveFile, FileEntry, LogOptions, Place, Timeline, Verified, file_name, file_number, place,
    read_index, read_verified, stamp, write_index, write_verified,
};
use crate::reader::ScanError;
use file::{Head, HeadError, read_head};
use tail::Tail;

/// Why a log cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process holds the lock.
    #[error("the log in {0} is in use by another Spillway: stop it, or set another binlog.dir")]
    InUse(PathBuf),
    /// A file that must be there is not.
    #[error(
        "{0} is missing from the log: bring it back, or move the files before it and the index away"
    )]
    Missing(PathBuf),
    /// A file is damaged.
    #[error(
        "{path} is damaged at {fault}: bring back a good copy, or move the log away and record anew"
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where and how.
        fault: ScanError,
    },
    /// The file's events do not form transactions, or the file does not follow the one before it.
    #[error("{path} is no file of this log: {reason}")]
    Unfit {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// The system said no.
    #[error("cannot open the log in {path}: {error}")]
    Io {
        /// The directory.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// No thread could be started.
    #[error("cannot start the commit thread: {0}")]
    Thread(io::Error),
}

impl OpenError {
    /// Whether only room is missing: it opens once there is some.
    pub fn is_full_disk(&self) -> bool {
        matches!(self, Self::Io { error, .. } if is_full(error))
    }
}

/// A log brought to the end of its last complete transaction.
pub(crate) struct Recovered {
    pub(crate) lock: Box<dyn Any + Send + Sync>,
    pub(crate) files: Vec<Arc<FileEntry>>,
    pub(crate) active: Option<ActiveFile>,
    pub(crate) state: GtidState,
    pub(crate) last_created: u32,
}

/// See the module's description.
pub(crate) fn recover(options: &LogOptions) -> Result<Recovered, OpenError> {
    let place = place(options);
    let lock = take_lock(options)?;
    let Numbers { numbers, indexed } =
        file_numbers(&place).map_err(|error| io_error(&place, error))??;
    let verified = read_verified(&place);
    let mut recovery = Recovery { options, place: &place, verified, indexed, files: Vec::new() };
    let active = match numbers.split_last() {
        None => None,
        Some((last, closed)) => recovery.open_files(closed, *last)?,
    };
    let files = recovery.files;
    if let Some((active, _)) = &active {
        // First the hint: the index makes the names in the directory durable.
        let io = |error| io_error(&place, error);
        write_verified(&place, &files, active.position).map_err(io)?;
        write_index(&place, &files).map_err(io)?;
    }
    let created = files.iter().rev().map(|entry| entry.format.created).find(|time| *time != 0);
    let (active, state) = active.unzip();
    let (state, last_created) = (state.unwrap_or_default(), created.unwrap_or_default());
    Ok(Recovered { lock, files, active, state, last_created })
}

/// Makes the GTID index of a closed file, from the last point of what there is on. Where the file is damaged it stays as it is.
pub(crate) fn index_closed(place: &Place<'_>, path: &std::path::Path) {
    let Ok(mut tail) = Tail::scan(place, path, Some(u64::MAX)) else { return };
    if let Ok(file) = place.fs.open_read(path)
        && tail.is_whole()
    {
        tail.finish_index(place, file.as_ref());
    }
}

fn io_error(place: &Place<'_>, error: io::Error) -> OpenError {
    OpenError::Io { path: place.dir.to_owned(), error }
}

fn take_lock(options: &LogOptions) -> Result<Box<dyn Any + Send + Sync>, OpenError> {
    let place = place(options);
    place.fs.create_dir_all(place.dir).map_err(|error| io_error(&place, error))?;
    // Of the directory, whatever the log is called: caches are shared.
    let path = place.dir.join("binlog.lock");
    place.fs.lock(&path).map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => OpenError::InUse(place.dir.to_owned()),
        _ => io_error(&place, error),
    })
}

/// Which files there are.
struct Numbers {
    /// Of the log's files, oldest first and without a gap.
    numbers: Vec<u64>,
    /// Of the last file in the index, where there is one.
    indexed: Option<u64>,
}

/// Files before the index's first do not belong to the log: a purge was cut short. Files beyond its last do: a rotation was cut
/// short.
fn file_numbers(place: &Place<'_>) -> io::Result<Result<Numbers, OpenError>> {
    let names = place.fs.list(place.dir)?;
    let mut there: Vec<_> =
        names.iter().filter_map(|name| file_number(place.basename, name)).collect();
    there.sort_unstable();
    let indexed = read_index(place)?.unwrap_or_default();
    let indexed: Vec<_> =
        indexed.iter().filter_map(|name| file_number(place.basename, name)).collect();
    // Not its first line: an index out of order must not make a log with files an empty one.
    let first = indexed.iter().min().or(there.first()).copied().unwrap_or(1);
    leftovers::clean_up(place, &there, first);
    let indexed_last = indexed.iter().max().copied();
    let last = indexed_last.max(there.last().copied()).unwrap_or_default();
    there.retain(|number| *number >= first);
    // Compared one by one: a stray file may have any number.
    let pairs = (first..=last).zip(there.iter().map(Some).chain(std::iter::repeat(None)));
    let mut missing = pairs.filter(|(number, found)| Some(number) != *found);
    Ok(match missing.next() {
        Some((number, _)) => {
            Err(OpenError::Missing(place.dir.join(file_name(place.basename, number))))
        }
        None => Ok(Numbers { numbers: there, indexed: indexed_last }),
    })
}

struct Recovery<'a> {
    options: &'a LogOptions,
    place: &'a Place<'a>,
    verified: Verified,
    /// The last file in the index.
    indexed: Option<u64>,
    files: Vec<Arc<FileEntry>>,
}

impl Recovery<'_> {
    fn open_files(
        &mut self,
        closed: &[u64],
        last: u64,
    ) -> Result<Option<(ActiveFile, GtidState)>, OpenError> {
        for number in closed {
            let entry = self.closed_file(*number)?;
            self.files.push(Arc::new(entry));
        }
        match self.head(last) {
            Ok(head) => self.last_file(last, head).map(Some),
            Err(HeadError::Incomplete) => self.anew(last),
            Err(HeadError::Scan(fault)) if self.is_new(last) => {
                self.set_aside(last, &fault).map_err(|error| io_error(self.place, error))?;
                self.anew(last)
            }
            Err(HeadError::Scan(fault)) => Err(OpenError::Damaged { path: self.path(last), fault }),
        }
    }

    fn path(&self, number: u64) -> PathBuf {
        self.place.dir.join(file_name(self.place.basename, number))
    }

    fn head(&self, number: u64) -> Result<Head, HeadError> {
        read_head(self.place.fs, &self.path(number))
    }

    /// Whether a file's creation may have been cut short: the index names a file only once it is durable.
    fn is_new(&self, number: u64) -> bool {
        /// Without an index only a file this short is taken for the log's first: the index may have been lost, too.
        const NOT_MORE_THAN_A_HEAD: u64 = 4096;
        let len = self.place.fs.metadata(&self.path(number)).map(|metadata| metadata.len);
        let first = || number == 1 && len.is_ok_and(|len| len <= NOT_MORE_THAN_A_HEAD);
        self.indexed.map_or_else(first, |indexed| number > indexed)
    }

    fn set_aside(&self, number: u64, fault: &ScanError) -> io::Result<()> {
        let path = self.path(number);
        let aside = tail::free_name(self.place, &path, 0);
        tracing::warn!(
            file = %path.display(), %fault, copy = %aside.display(),
            "the header events of a new file were torn by a crash: set aside, the file is made anew"
        );
        self.place.fs.rename(&path, &aside)?;
        self.place.fs.sync_dir(self.place.dir)
    }

    /// A file that another follows: whole, and ending with Rotate to the next.
    fn closed_file(&self, number: u64) -> Result<FileEntry, OpenError> {
        let path = self.path(number);
        let head = self.head(number).map_err(|error| error.into_open_error(&path))?;
        let io = |error| io_error(self.place, error);
        let metadata = self.place.fs.metadata(&path).map_err(io)?;
        let name = file_name(self.place.basename, number);
        // Taken on trust, it is verified by the first reader that passes: bits rot without changing the time.
        let mut verified_to = MAGIC.len() as u64;
        if !self.verified.is_closed(&name, metadata) {
            verified_to = metadata.len;
            tracing::info!(file = name, bytes = metadata.len, "verifying a closed file of the log");
            let mut tail = Tail::scan(self.place, &path, None)?;
            tail.check_closed(&path, &file_name(self.place.basename, number + 1))?;
            let file = self.place.fs.open_read(&path).map_err(io)?;
            tail.finish_index(self.place, file.as_ref());
        }
        let entry = self.entry(number, head)?;
        // Nobody else sets it.
        let _ = entry.closed_at.set(stamp(metadata.modified));
        entry.closed_len.store(metadata.len, Ordering::Release);
        entry.verified_to.store(verified_to, Ordering::Release);
        Ok(entry)
    }

    fn entry(&self, number: u64, head: Head) -> Result<FileEntry, OpenError> {
        let timeline = head.begins.map(|domains| self.timeline(domains)).transpose()?;
        Ok(FileEntry {
            number,
            name: file_name(self.place.basename, number),
            path: self.path(number),
            format: Arc::new(head.format),
            gtid_list: head.gtid_list,
            timeline,
            closed_len: AtomicU64::new(0),
            verified_to: AtomicU64::new(u64::MAX),
            known_from: u64::MAX,
            closed_at: OnceLock::new(),
        })
    }

    /// What is new in the next file. Behind a purge nothing has ended: the file is the log's first.
    fn timeline(&self, domains: Vec<u32>) -> Result<Timeline, OpenError> {
        let before = self.files.last().map(|before| self.state_behind(before)).transpose()?;
        Ok(Timeline::of(domains, &before.unwrap_or_default()))
    }

    /// The GTID state at the end of a closed file.
    fn state_behind(&self, entry: &FileEntry) -> Result<GtidState, OpenError> {
        Ok(match gtid_index::load(self.place.fs, &entry.path) {
            Some(GtidIndex { points, complete: true, .. }) => {
                points.last().map(|end| GtidState::from_list(&end.state)).unwrap_or_default()
            }
            _ => Tail::scan(self.place, &entry.path, None)?.state,
        })
    }

    fn last_file(&mut self, number: u64, head: Head) -> Result<(ActiveFile, GtidState), OpenError> {
        let (path, name) = (self.path(number), file_name(self.place.basename, number));
        let io = |error| io_error(self.place, error);
        let metadata = self.place.fs.metadata(&path).map_err(io)?;
        let settled = self.verified.settled(&name, metadata);
        let mut tail = Tail::scan(self.place, &path, settled)?;
        tail.check_damage(&path, self.verified.durable(&name, number))?;
        let mut entry = self.entry(number, head)?;
        if tail.from > 0 {
            (entry.known_from, entry.verified_to) = (tail.from, AtomicU64::new(MAGIC.len() as u64));
        }
        let entry = Arc::new(entry);
        let file = self.place.fs.open(&path, false).map_err(io)?;
        tail.cut(self.place, file.as_ref(), &path).map_err(io)?;
        // A killed process may have left bytes that are written but not on disk: from now on they are published.
        file.sync_data().map_err(io)?;
        tail.index.flush(self.place.fs, file.as_ref());
        let mut active = ActiveFile {
            entry: Arc::clone(&entry),
            file: file.into(),
            position: tail.end,
            synced: tail.end,
            handed: tail.end,
            index: tail.index,
        };
        self.files.push(entry);
        if !tail.rotated {
            return Ok((active, tail.state));
        }
        active.set_closed();
        active.finish_index(self.place.fs, &tail.state);
        self.create(number + 1, &active.entry.format, tail.state)
    }

    /// The last file has no complete header events: nothing in it was ever published.
    fn anew(&mut self, number: u64) -> Result<Option<(ActiveFile, GtidState)>, OpenError> {
        let Some(before) = self.files.last().cloned() else {
            // `Log::begin` overwrites it.
            return Ok(None);
        };
        let state = self.state_behind(&before)?;
        self.create(number, &before.format, state).map(Some)
    }

    fn create(
        &mut self,
        number: u64,
        format: &FormatDescription,
        state: GtidState,
    ) -> Result<(ActiveFile, GtidState), OpenError> {
        let checksum = self.options.checksum;
        let format = FormatDescription { created: 0, checksum, ..format.clone() };
        let active = ActiveFile::create(self.place, number, format, state.list(), None)
            .map_err(|error| io_error(self.place, error))?;
        self.files.push(Arc::clone(&active.entry));
        Ok((active, state))
    }
}

#[cfg(test)]
mod cuts;
#[cfg(test)]
mod tests;
