//! Removing the log's oldest files: by name, by time, by age, by total size.
//!
//! Order: `binlog.purge` names the files that are to go, durably; the index is replaced without them, durably; readers left in them
//! are told; the housekeeping thread removes them, then `binlog.purge`. A crash in between leaves files before the index's
//! first, which the next open removes where `binlog.purge` names them. Files are removed whole, never cut: readers may have them
//! mapped. Nothing of it is done by the commit thread, and no lock that it takes is held while a file is removed.

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::active::Place;
use super::files::FileEntry;
use super::readers::Readers;
use super::{Log, Shared, index};
use crate::event::{EventHeader, EventType, MAGIC};
use crate::fs::{self, read_exact_at};

/// How often age and size are looked at.
const EVERY: Duration = Duration::from_secs(1);
/// What may lie beside a log file and goes with it: `NAME.idx`.
const SIDE_FILES: [&str; 1] = ["idx"];

/// What the log keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retention {
    /// `binlog_expire_logs_seconds`: files closed longer ago than this are removed, unless a reader needs them. `None`: kept.
    pub expire_after: Option<Duration>,
    /// `max_binlog_total_size`: the oldest files are removed while all of them have more bytes, whoever reads them. `None`: no limit.
    pub max_total_size: Option<u64>,
}

/// Why files are removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PurgeReason {
    /// Somebody asked for it.
    Command,
    /// They are older than [`Retention::expire_after`].
    Age,
    /// The log is larger than [`Retention::max_total_size`].
    TotalSize,
}

impl PurgeReason {
    /// The name in the metric.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Command => "command",
            Self::Age => "age",
            Self::TotalSize => "total_size",
        }
    }
}

/// Why a file that should be removed stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PurgeRefusal {
    /// A connected reader is in it, or in one before it.
    Reader,
    /// It is the active file.
    Active,
    /// The index could not be written, or the file could not be read or removed.
    Io,
}

impl PurgeRefusal {
    /// The name in the metric.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Reader => "reader",
            Self::Active => "active",
            Self::Io => "io",
        }
    }
}

/// What a purge did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Purge {
    /// Names of the files that are out of the log, oldest first. They leave the disk a little later.
    pub files: Vec<String>,
    /// How many there should have been.
    pub wanted: usize,
    /// The file that the purge stopped at, if any.
    pub held: Option<Held>,
}

/// A file that should have been removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// Its name.
    pub file: String,
    /// Why it stays.
    pub by: PurgeRefusal,
    /// How many readers are in it.
    pub readers: usize,
}

/// Why nothing could be purged.
#[derive(Debug, thiserror::Error)]
pub enum PurgeError {
    /// There is no such file in the log.
    #[error("there is no such file in the log")]
    NoSuchFile,
    /// The log is closed.
    #[error("the log is closed")]
    Closed,
    /// The system said no.
    #[error("cannot purge the log: {0}")]
    Io(#[from] io::Error),
}

/// Why, which file, and a sentence.
type Refused = (PurgeRefusal, String, String);

/// What purges, the commit thread and the housekeeping thread share.
#[derive(Debug, Default)]
pub(crate) struct Purging {
    pub(crate) readers: Readers,
    /// Held while the index is written: by the commit thread for a new file, by a purge for those that go.
    index: Mutex<()>,
    /// One purge at a time.
    turn: Mutex<()>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    retention: Retention,
    /// Out of the index, still to be removed. One that could not be stays, and is tried again with the next.
    pending: Vec<Arc<FileEntry>>,
    /// `pending` has grown.
    fresh: bool,
    /// What the housekeeping thread was refused last: told once.
    refused: Option<(PurgeRefusal, String)>,
    /// Look now, the second is not over.
    due: bool,
    closing: bool,
}

impl Log {
    /// Removes the files before the one of this name, up to one that a reader needs.
    ///
    /// # Errors
    /// [`PurgeError`].
    pub fn purge_to(&self, name: &str) -> Result<Purge, PurgeError> {
        let file = self.file_by_name(name).ok_or(PurgeError::NoSuchFile)?;
        self.command(file.number)
    }

    /// Removes the files whose last event was written before `time`, up to one that a reader needs or the active one. That event
    /// is the Rotate with which the file was closed, by this machine's clock: as servers, which take the file's time of change.
    ///
    /// # Errors
    /// [`PurgeError`].
    pub fn purge_before(&self, time: SystemTime) -> Result<Purge, PurgeError> {
        let (below, unread) = self.shared.closed_before(time);
        if let Some((file, error)) = unread {
            self.shared.refused(PurgeRefusal::Io, &file, &error.to_string());
        }
        self.command(below)
    }

    fn command(&self, below: u64) -> Result<Purge, PurgeError> {
        let purge = self.shared.purge_below(below, PurgeReason::Command)?;
        if let Some(held) = &purge.held {
            self.shared.refused(held.by, &held.file, "a reader needs it");
        }
        Ok(purge)
    }

    /// Changes what is kept from now on.
    pub fn set_retention(&self, retention: Retention) {
        self.shared.purge.set_retention(retention);
    }

    /// When the oldest file was begun: how far the log goes back. `None` while there is no file, or it cannot be read.
    pub fn oldest_event_time(&self) -> Option<SystemTime> {
        let first = self.shared.files.first()?;
        let file = self.shared.options.fs.open_read(&first.path).ok()?;
        let mut seconds = [0; 4];
        read_exact_at(file.as_ref(), &mut seconds, MAGIC.len() as u64).ok()?;
        Some(UNIX_EPOCH + Duration::from_secs(u32::from_le_bytes(seconds).into()))
    }
}

impl Purging {
    pub(crate) fn new(retention: Retention) -> Self {
        Self { state: Mutex::new(State { retention, ..State::default() }), ..Self::default() }
    }

    fn set_retention(&self, retention: Retention) {
        let mut state = lock(&self.state);
        (state.retention, state.due) = (retention, true);
        self.changed.notify_all();
    }

    /// A file was added: the log may be too large.
    pub(crate) fn look(&self) {
        lock(&self.state).due = true;
        self.changed.notify_all();
    }

    /// Lets the housekeeping thread remove what is out of the index, and end. Nothing more is purged.
    pub(crate) fn close(&self) {
        // A purge that has begun is finished first.
        let _turn = lock(&self.turn);
        lock(&self.state).closing = true;
        self.changed.notify_all();
    }

    /// Waits until there is something to remove or to look at; `None` when closed.
    fn next(&self) -> Option<(Retention, Vec<Arc<FileEntry>>)> {
        let started = Instant::now();
        let mut state = lock(&self.state);
        loop {
            if std::mem::take(&mut state.fresh) {
                return Some((state.retention, state.pending.clone()));
            }
            if state.closing {
                return None;
            }
            let left = EVERY.saturating_sub(started.elapsed());
            let idle = state.retention == Retention::default();
            if std::mem::take(&mut state.due) || (!idle && left.is_zero()) {
                return Some((state.retention, Vec::new()));
            }
            state = if idle {
                self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
            } else {
                let waited = self.changed.wait_timeout(state, left);
                waited.unwrap_or_else(PoisonError::into_inner).0
            };
        }
    }
}

impl Shared {
    /// The housekeeping thread.
    pub(crate) fn keep_house(&self) {
        while let Some((retention, gone)) = self.purge.next() {
            self.remove(&gone);
            self.expire(retention);
        }
    }

    /// Replaces the index by the names of the files there are.
    pub(crate) fn write_index(&self) -> io::Result<()> {
        let _index = lock(&self.purge.index);
        index::write(&self.place(), &self.files.all())
    }

    fn expire(&self, retention: Retention) {
        let mut refused = None;
        if let Some(max) = retention.max_total_size {
            refused = self.expire_size(max);
        }
        if let Some(age) = retention.expire_after {
            let time = SystemTime::now().checked_sub(age).unwrap_or(UNIX_EPOCH);
            refused = refused.or(self.expire_age(time));
        }
        let told = lock(&self.purge.state).refused.clone();
        let now = refused.as_ref().map(|(by, file, _)| (*by, file.clone()));
        if told != now {
            if let Some((by, file, why)) = refused {
                self.refused(by, &file, &why);
            }
            lock(&self.purge.state).refused = now;
        }
    }

    /// Files go until the rest has no more than `max` bytes, whoever reads them.
    fn expire_size(&self, max: u64) -> Option<Refused> {
        let end = self.published.end();
        let files = self.files.all();
        let size = |entry: &FileEntry| entry.closed_len().unwrap_or(end.position);
        let mut total: u64 = files.iter().map(|entry| size(entry)).sum();
        let mut stays = files.iter();
        let first = loop {
            let entry = stays.next()?;
            if total <= max {
                break entry;
            }
            if entry.number >= end.file {
                let why = format!("it alone is larger than max_binlog_total_size, {max} bytes");
                let refused = self.purge_or_refuse(entry.number, PurgeReason::TotalSize);
                return refused.or(Some((PurgeRefusal::Active, entry.name.clone(), why)));
            }
            total -= size(entry);
        };
        self.purge_or_refuse(first.number, PurgeReason::TotalSize)
    }

    fn expire_age(&self, time: SystemTime) -> Option<Refused> {
        let (below, unread) = self.closed_before(time);
        let refused = self.purge_or_refuse(below, PurgeReason::Age);
        refused.or(unread.map(|(file, error)| (PurgeRefusal::Io, file, error.to_string())))
    }

    fn purge_or_refuse(&self, below: u64, reason: PurgeReason) -> Option<Refused> {
        match self.purge_below(below, reason) {
            Ok(purge) => purge.held.map(|held| {
                let why = format!("{} readers are in it", held.readers);
                (held.by, held.file, why)
            }),
            Err(PurgeError::Closed) => None,
            Err(error) => Some((PurgeRefusal::Io, String::new(), error.to_string())),
        }
    }

    /// Number of the first file that was not closed before `time`; and what could not be read, which stays.
    fn closed_before(&self, time: SystemTime) -> (u64, Option<(String, io::Error)>) {
        let end = self.published.end().file;
        for entry in self.files.all() {
            if entry.number >= end {
                break;
            }
            match self.closed_at(&entry) {
                Ok(closed) if closed < time => {}
                Ok(_) => return (entry.number, None),
                Err(error) => return (entry.number, Some((entry.name.clone(), error))),
            }
        }
        (end, None)
    }

    /// The time in the Rotate at the end of a closed file.
    fn closed_at(&self, entry: &FileEntry) -> io::Result<SystemTime> {
        let next = super::file_name(&self.options.basename, entry.number + 1);
        let size = EventHeader::LEN + 8 + next.len() + entry.format.checksum.trailer_len();
        let len = entry.closed_len().ok_or(io::ErrorKind::UnexpectedEof)?;
        let at = len.checked_sub(size as u64).ok_or(io::ErrorKind::UnexpectedEof)?;
        let file = self.options.fs.open_read(&entry.path)?;
        let mut bytes = [0; EventHeader::LEN];
        read_exact_at(file.as_ref(), &mut bytes, at)?;
        let header = EventHeader::parse(&bytes).map_err(io::Error::other)?;
        if header.event_type != EventType::ROTATE || header.event_size as usize != size {
            return Err(io::Error::other("it does not end with Rotate"));
        }
        Ok(UNIX_EPOCH + Duration::from_secs(header.timestamp.into()))
    }

    /// Takes the files before `below` out of the log, but not the active one, and, unless the size is the reason, none that a reader
    /// needs.
    fn purge_below(&self, below: u64, reason: PurgeReason) -> Result<Purge, PurgeError> {
        let _turn = lock(&self.purge.turn);
        if lock(&self.purge.state).closing {
            return Err(PurgeError::Closed);
        }
        let below = below.min(self.published.end().file);
        let files = self.files.all();
        let wanted: Vec<_> = files.iter().filter(|entry| entry.number < below).collect();
        let hard = reason == PurgeReason::TotalSize;
        let free =
            |(file, _): (u64, usize)| hard || wanted.first().is_some_and(|f| f.number < file);
        if wanted.is_empty() || !self.purge.readers.oldest().is_none_or(free) {
            return Ok(self.outcome(&[], &wanted, reason));
        }
        self.announce(&wanted)?;
        let gone = self.take_out(below, hard)?;
        let outcome = self.outcome(&gone, &wanted, reason);
        let mut state = lock(&self.purge.state);
        state.pending.extend(gone);
        state.fresh = true;
        self.purge.changed.notify_all();
        Ok(outcome)
    }

    /// Names in `binlog.purge` what is to be removed. Where there is no room for it, the purge that makes room goes on without: a
    /// crash then leaves files that nothing removes.
    fn announce(&self, wanted: &[&Arc<FileEntry>]) -> io::Result<()> {
        let mut text = String::new();
        for entry in lock(&self.purge.state).pending.iter().chain(wanted.iter().copied()) {
            text.push_str(&entry.name);
            text.push('\n');
        }
        let place = self.place();
        match index::replace(&place, &purge_path(&place), text.as_bytes(), true) {
            Err(error) if fs::is_full(&error) => Ok(()),
            other => other,
        }
    }

    fn take_out(&self, below: u64, hard: bool) -> io::Result<Vec<Arc<FileEntry>>> {
        let place = self.place();
        let _index = lock(&self.purge.index);
        let readers = self.purge.readers.lock();
        let needed = readers.oldest().filter(|_| !hard).map_or(below, |(file, _)| file.min(below));
        let mut rest = self.files.all();
        rest.retain(|entry| entry.number >= needed);
        match index::write(&place, &rest) {
            Err(error) if fs::is_full(&error) => index::shorten_in_place(&place, &rest)?,
            other => other?,
        }
        let expelled = readers.expel_before(needed);
        if expelled > 0 {
            tracing::warn!(
                readers = expelled,
                "the log is larger than max_binlog_total_size: readers of its oldest files are disconnected"
            );
        }
        Ok(self.files.take_before(needed))
    }

    fn outcome(
        &self,
        gone: &[Arc<FileEntry>],
        wanted: &[&Arc<FileEntry>],
        reason: PurgeReason,
    ) -> Purge {
        let files: Vec<_> = gone.iter().map(|entry| entry.name.clone()).collect();
        if let (Some(first), Some(last)) = (files.first(), files.last()) {
            let reason = reason.as_str();
            tracing::info!(reason, files = files.len(), first, last, "purged files of the log");
            self.options.observer.purged(reason, files.len() as u64);
        }
        let held = wanted.get(gone.len()).map(|entry| {
            let readers = self.purge.readers.oldest().map_or(0, |(_, count)| count);
            Held { file: entry.name.clone(), by: PurgeRefusal::Reader, readers }
        });
        Purge { files, wanted: wanted.len(), held }
    }

    fn refused(&self, by: PurgeRefusal, file: &str, why: &str) {
        tracing::warn!(file, reason = by.as_str(), "a file of the log is not purged: {why}");
        self.options.observer.purge_refused(by.as_str());
    }

    /// Removes files that are out of the index, and what lies beside them.
    fn remove(&self, gone: &[Arc<FileEntry>]) {
        if gone.is_empty() {
            return;
        }
        for entry in gone {
            match remove_file(&self.place(), &entry.name) {
                Ok(()) => {
                    let mut state = lock(&self.purge.state);
                    state.pending.retain(|other| other.number != entry.number);
                }
                Err(error) => self.refused(PurgeRefusal::Io, &entry.name, &error.to_string()),
            }
        }
        let _turn = lock(&self.purge.turn);
        if lock(&self.purge.state).pending.is_empty() {
            let place = self.place();
            let forgotten = place.fs.sync_dir(place.dir).and_then(|()| forget(&place));
            if let Err(error) = forgotten {
                tracing::debug!(%error, "cannot remove the list of purged files");
            }
        }
    }
}

/// Removes a log file and what lies beside it; what is not there is no error.
pub(crate) fn remove_file(place: &Place<'_>, name: &str) -> io::Result<()> {
    for side in SIDE_FILES {
        remove_if_there(place, &format!("{name}.{side}"))?;
    }
    remove_if_there(place, name)
}

/// Removes `binlog.purge`: all it names are gone.
pub(crate) fn forget(place: &Place<'_>) -> io::Result<()> {
    remove_if_there(place, &format!("{}.purge", place.basename))
}

fn remove_if_there(place: &Place<'_>, name: &str) -> io::Result<()> {
    match place.fs.remove(&place.dir.join(name)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// Where a purge names what it removes.
pub(crate) fn purge_path(place: &Place<'_>) -> PathBuf {
    place.dir.join(format!("{}.purge", place.basename))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
