//! A reader's place in the log. It sees whole published transactions only, follows rotations, and never reads past damage.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::view::View;
use crate::event::{ChecksumAlgorithm, EventError, EventHeader, FormatDescription, MAGIC};
use crate::gtid::mariadb::Gtid;
use crate::log::{Expelled, FileEntry, Log, LogEnd, Reader, Shared, file_name};

/// Why reading cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// There is no such file in the log.
    #[error("there is no such file in the log")]
    NoSuchFile,
    /// The file was removed from the log.
    #[error("{file} was purged from the log")]
    Purged {
        /// The file's name.
        file: String,
    },
    /// The position lies behind the file's end.
    #[error("position {position} lies behind the end of {file}, which is {end}")]
    BeyondEnd {
        /// The file's name.
        file: String,
        /// The position asked for.
        position: u64,
        /// The file's readable end.
        end: u64,
    },
    /// No event starts at the position.
    #[error("no event starts at position {position} of {file}")]
    InsideEvent {
        /// The file's name.
        file: String,
        /// The position asked for.
        position: u64,
    },
    /// The file is damaged.
    #[error("{file} is damaged at position {position}: {fault}")]
    Damaged {
        /// The file's name.
        file: String,
        /// Where the event starts that is at fault.
        position: u64,
        /// What is wrong with it.
        fault: EventError,
    },
    /// The system said no.
    #[error("cannot read {file}: {error}")]
    Io {
        /// The file's name.
        file: String,
        /// What the system said.
        error: io::Error,
    },
}

/// What comes next.
#[derive(Debug)]
pub enum Run<'a> {
    /// Whole events of one file.
    Events(EventRun<'a>),
    /// The file is read to its end; the cursor stands behind the magic of the next.
    NextFile,
    /// Nothing more is published. Wait with [`Log::changed`].
    CaughtUp,
}

/// Consecutive whole events.
#[derive(Clone, Copy, Debug)]
pub struct EventRun<'a> {
    /// Where the first starts.
    pub position: u64,
    /// The events, as they stand in the file.
    pub bytes: &'a [u8],
}

impl<'a> EventRun<'a> {
    /// The events one by one, checksums included where the file has them.
    pub fn events(self) -> impl Iterator<Item = (u64, EventHeader, &'a [u8])> {
        let mut rest = self.bytes;
        let mut position = self.position;
        std::iter::from_fn(move || {
            let header = EventHeader::parse(rest).ok()?;
            let (event, others) = rest.split_at_checked(header.event_size as usize)?;
            let at = position;
            position += event.len() as u64;
            rest = others;
            Some((at, header, event))
        })
    }
}

/// See the module's description.
#[derive(Debug)]
pub struct Cursor {
    shared: Arc<Shared>,
    reader: Arc<Reader>,
    pub(super) entry: Arc<FileEntry>,
    pub(super) view: View,
    pub(super) position: u64,
}

impl Log {
    /// A cursor at a position of a file; position 4 is behind the magic. The position must be where an event starts, or the end.
    /// While the cursor is there, its file and those behind it are purged only where the log grows beyond `max_total_size`.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn cursor(&self, file: u64, position: u64) -> Result<Cursor, ReadError> {
        let mut cursor = self.seek_before(file, position)?.cursor;
        cursor.seek(position)?;
        Ok(cursor)
    }
}

impl Cursor {
    /// At the beginning of a file, which no purge takes from now on but for the log's size.
    pub(super) fn open(shared: &Arc<Shared>, file: u64) -> Result<Self, ReadError> {
        let shared = Arc::clone(shared);
        let reader = shared.purge.readers.register(file);
        let entry = shared.files.get(file).ok_or_else(|| missing(&shared, file))?;
        let view = open(&shared, &reader, &entry)?;
        Ok(Self { shared, reader, entry, view, position: MAGIC.len() as u64 })
    }

    /// Number of the file it is in.
    pub fn file(&self) -> u64 {
        self.entry.number
    }

    /// Name of the file it is in.
    pub fn file_name(&self) -> &str {
        &self.entry.name
    }

    /// Format description of the file it is in.
    pub fn format(&self) -> &Arc<FormatDescription> {
        &self.entry.format
    }

    /// The GTID state at the beginning of the file it is in, in the order of its Gtid_list.
    pub fn gtid_list(&self) -> &[Gtid] {
        &self.entry.gtid_list
    }

    /// Whether a reader with `replica` (its GTID in a domain) that has all of the file before can go on in this one: not where it
    /// begins a timeline in a domain that the reader does not have from elsewhere.
    pub fn can_enter(&self, replica: impl Fn(u32) -> Option<Gtid>) -> bool {
        let timeline = self.entry.timeline.as_ref();
        timeline.is_none_or(|timeline| timeline.can_enter(&self.entry.gtid_list, replica))
    }

    /// Where the next event starts.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// The log's end as [`Log::changed`] wants it, read before the cursor said [`Run::CaughtUp`].
    pub fn end(&self) -> LogEnd {
        self.shared.published.end()
    }

    /// Resolves when the file it is in was purged: whoever waits for something else meanwhile must not keep the cursor, or the
    /// file's room on the disk is not given back.
    pub fn expelled(&self) -> Expelled {
        Expelled { reader: Arc::clone(&self.reader) }
    }

    /// The next events: about `max_bytes` of them, at least one.
    ///
    /// # Errors
    /// [`ReadError`]; the cursor stays where it is.
    pub fn next_run(&mut self, max_bytes: usize) -> Result<Run<'_>, ReadError> {
        if self.reader.is_expelled() {
            return Err(ReadError::Purged { file: self.entry.name.clone() });
        }
        let end = self.shared.published.end();
        let limit = self.readable_end(end)?;
        if self.position < limit {
            return self.events(limit, max_bytes).map(Run::Events);
        }
        if end.file <= self.entry.number {
            return Ok(Run::CaughtUp);
        }
        let number = self.entry.number + 1;
        let next = self.shared.files.get(number).ok_or_else(|| missing(&self.shared, number))?;
        self.view = open(&self.shared, &self.reader, &next)?;
        (self.entry, self.position) = (next, MAGIC.len() as u64);
        self.reader.enter(number);
        Ok(Run::NextFile)
    }

    /// The readable end of its file now.
    pub(super) fn limit(&self) -> Result<u64, ReadError> {
        self.readable_end(self.shared.published.end())
    }

    fn readable_end(&self, end: LogEnd) -> Result<u64, ReadError> {
        if end.file == self.entry.number {
            return Ok(end.position);
        }
        match self.entry.closed_len() {
            Some(len) => Ok(len),
            None => self.view.file_len().map_err(|error| self.io(error)),
        }
    }

    fn events(&mut self, limit: u64, max_bytes: usize) -> Result<EventRun<'_>, ReadError> {
        let position = self.position;
        let end = self.run_end(limit, max_bytes as u64)?;
        self.position = end;
        let (entry, view) = (&self.entry, &mut self.view);
        let bytes = view
            .bytes(position, end)
            .map_err(|error| ReadError::Io { file: entry.name.clone(), error })?;
        Ok(EventRun { position, bytes })
    }

    /// Where the last whole event ends that starts within `max_bytes`; all up to there is verified, by this process, once.
    fn run_end(&mut self, limit: u64, max_bytes: u64) -> Result<u64, ReadError> {
        let start = self.position;
        let verified_to = self.entry.verified_to.load(Ordering::Acquire);
        let walk = Walk {
            limit,
            max_bytes,
            verified_to,
            known_from: self.entry.known_from,
            checksum: self.entry.format.checksum,
        };
        let mut window = limit;
        if self.view.is_buffered() {
            let wanted = start.saturating_add(max_bytes.max(EventHeader::LEN as u64));
            window = limit.min(wanted);
        }
        loop {
            let entry = &self.entry;
            let bytes = match self.view.bytes(start, window) {
                Ok(bytes) => bytes,
                Err(error) => return Err(ReadError::Io { file: entry.name.clone(), error }),
            };
            match walk.run(start, bytes) {
                Ok(Walked::To(end)) => {
                    if start <= verified_to && end > verified_to {
                        // At the known part all is verified.
                        let end = if end >= entry.known_from { u64::MAX } else { end };
                        entry.verified_to.fetch_max(end, Ordering::AcqRel);
                    }
                    return Ok(end);
                }
                Ok(Walked::Needs(end)) => window = end,
                Err((position, fault)) => {
                    return Err(ReadError::Damaged { file: entry.name.clone(), position, fault });
                }
            }
        }
    }

    /// Moves to a position of the file where an event starts.
    pub(super) fn seek(&mut self, position: u64) -> Result<(), ReadError> {
        const STEP: usize = 1 << 20;
        let end = self.readable_end(self.shared.published.end())?;
        let file = || self.entry.name.clone();
        if position > end {
            return Err(ReadError::BeyondEnd { file: file(), position, end });
        }
        let inside = ReadError::InsideEvent { file: file(), position };
        while self.position < position {
            let left = usize::try_from(position - self.position).unwrap_or(STEP);
            self.next_run(left.min(STEP))?;
        }
        if self.position == position { Ok(()) } else { Err(inside) }
    }

    fn io(&self, error: io::Error) -> ReadError {
        ReadError::Io { file: self.entry.name.clone(), error }
    }
}

/// Why there is no such file.
fn missing(shared: &Shared, number: u64) -> ReadError {
    match shared.files.first() {
        Some(first) if number < first.number => {
            ReadError::Purged { file: file_name(&shared.options.basename, number) }
        }
        _ => ReadError::NoSuchFile,
    }
}

fn open(shared: &Shared, reader: &Reader, entry: &FileEntry) -> Result<View, ReadError> {
    let file = entry.name.clone();
    match shared.options.fs.open_read(&entry.path) {
        Ok(opened) => Ok(View::new(Arc::from(opened), shared.options.mmap)),
        Err(_) if reader.is_expelled() => Err(ReadError::Purged { file }),
        Err(error) => Err(ReadError::Io { file, error }),
    }
}

/// A walk over the headers of a run.
struct Walk {
    /// The readable end of the file.
    limit: u64,
    max_bytes: u64,
    verified_to: u64,
    known_from: u64,
    checksum: ChecksumAlgorithm,
}

enum Walked {
    /// The run ends here.
    To(u64),
    /// Its first event needs the bytes up to here.
    Needs(u64),
}

impl Walk {
    /// Walks `bytes`, which start at `start`. The error is a position and what is wrong there; what is sound before it comes first.
    fn run(&self, start: u64, bytes: &[u8]) -> Result<Walked, (u64, EventError)> {
        match self.walk(start, bytes) {
            Err((position, _)) if position > start => Ok(Walked::To(position)),
            other => other,
        }
    }

    fn walk(&self, start: u64, bytes: &[u8]) -> Result<Walked, (u64, EventError)> {
        let available = start + bytes.len() as u64;
        let (mut position, mut rest) = (start, bytes);
        while position < self.limit && (position == start || position - start < self.max_bytes) {
            let end =
                self.event_end(position, rest, available).map_err(|fault| (position, fault))?;
            let event =
                usize::try_from(end - position).ok().and_then(|len| rest.split_at_checked(len));
            let Some((event, others)) = event else {
                return Ok(if position == start {
                    Walked::Needs(end)
                } else {
                    Walked::To(position)
                });
            };
            if end > self.verified_to && position < self.known_from {
                self.checksum.verify(event).map_err(|fault| (position, fault))?;
            }
            (position, rest) = (end, others);
        }
        Ok(Walked::To(position))
    }

    /// Where the event ends that starts at `position`; where not even its header is available, where that ends.
    fn event_end(&self, position: u64, rest: &[u8], available: u64) -> Result<u64, EventError> {
        let header_end = position + EventHeader::LEN as u64;
        if header_end > available && available < self.limit {
            return Ok(header_end.min(self.limit));
        }
        let size = EventHeader::parse(rest)?.event_size;
        let end = position + u64::from(size);
        if end <= self.limit {
            return Ok(end);
        }
        let found = usize::try_from(self.limit - position).unwrap_or(usize::MAX);
        Err(EventError::TooShort { what: "event", needed: size as usize, found })
    }
}
