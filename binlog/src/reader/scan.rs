//! Walking a whole file event by event with every check there is: recovery, `verify` and `events` use it.

use super::view::View;
use crate::event::{
    ChecksumAlgorithm, EventError, EventHeader, EventType, FormatDescription, MAGIC,
};
use crate::fs::{FileSystem, LogFile};
use std::io;
use std::path::Path;
use std::sync::Arc;

/// A fault in a file.
#[derive(Debug, thiserror::Error)]
#[error("position {position}: {kind}")]
pub struct ScanError {
    /// Where the event starts that is at fault.
    pub position: u64,
    /// What it is.
    pub kind: ScanErrorKind,
}

/// What is at fault.
#[derive(Debug, thiserror::Error)]
pub enum ScanErrorKind {
    /// The file does not start as a binlog does.
    #[error("the file does not start with the binlog magic bytes fe 62 69 6e")]
    Magic,
    /// The file ends within an event.
    #[error("the file ends within an event")]
    Truncated,
    /// The event's bytes are wrong.
    #[error(transparent)]
    Event(#[from] EventError),
    /// The event says that it ends elsewhere.
    #[error("a {event_type} event says that it ends at {found}, it ends at {expected}")]
    EndPosition {
        /// The event's type.
        event_type: EventType,
        /// What it says.
        found: u32,
        /// Where it ends, modulo 2³².
        expected: u32,
    },
    /// The first event is not a format description.
    #[error("a {0} event stands before the format description")]
    NoFormat(EventType),
    /// The system said no.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl ScanErrorKind {
    /// Whether more bytes behind the end would mend it: a write that was cut short looks like this.
    pub fn is_truncation(&self) -> bool {
        matches!(self, Self::Truncated)
    }
}

/// One event of a file.
#[derive(Clone, Copy, Debug)]
pub struct ScannedEvent<'a> {
    /// Where it starts.
    pub position: u64,
    /// Its header.
    pub header: EventHeader,
    /// Its bytes, without the checksum.
    pub event: &'a [u8],
    /// Its bytes as they stand in the file.
    pub raw: &'a [u8],
}

/// Walks the events of one file.
#[derive(Debug)]
pub struct FileScan {
    view: View,
    len: u64,
    position: u64,
    checksum: Option<ChecksumAlgorithm>,
}

impl FileScan {
    /// Opens a file of any binlog, a server's too.
    ///
    /// # Errors
    /// [`ScanError`] where it cannot be opened or does not start as a binlog does.
    pub fn open(fs: &dyn FileSystem, path: &Path) -> Result<Self, ScanError> {
        let at_start = |kind| ScanError { position: 0, kind };
        let view = fs
            .open_read(path)
            .map(|file| View::new(file.into(), true))
            .map_err(|error| at_start(error.into()))?;
        let len = view.file_len().map_err(|error| at_start(error.into()))?;
        let mut scan = Self { view, len, position: MAGIC.len() as u64, checksum: None };
        let magic_len = len.min(scan.position);
        let magic = scan.view.bytes(0, magic_len).map_err(|error| at_start(error.into()))?;
        if magic == MAGIC {
            return Ok(scan);
        }
        let short = MAGIC.starts_with(magic);
        Err(at_start(if short { ScanErrorKind::Truncated } else { ScanErrorKind::Magic }))
    }

    /// Length of the file when it was opened.
    pub fn file_len(&self) -> u64 {
        self.len
    }

    /// Where the next event starts.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// The file that is walked.
    pub(crate) fn file(&self) -> Arc<dyn LogFile> {
        self.view.file()
    }

    /// Reads the format description, if it is not read yet, then goes on at a position where an event starts.
    ///
    /// # Errors
    /// [`ScanError`] where the file does not open with a format description, or ends before the position.
    pub fn skip_to(&mut self, position: u64) -> Result<(), ScanError> {
        if self.checksum.is_none() {
            self.next_event()?;
        }
        if position > self.len {
            return Err(ScanError { position, kind: ScanErrorKind::Truncated });
        }
        self.position = position;
        Ok(())
    }

    /// The next event, checked; `None` at the file's end.
    ///
    /// # Errors
    /// [`ScanError`]; the scan stays where it is.
    pub fn next_event(&mut self) -> Result<Option<ScannedEvent<'_>>, ScanError> {
        if self.position == self.len {
            return Ok(None);
        }
        let position = self.position;
        let at = |kind| ScanError { position, kind };
        let end = self.event_end().map_err(at)?;
        self.take(end).map(Some).map_err(at)
    }

    /// Where the event at the position ends, within the file.
    fn event_end(&mut self) -> Result<u64, ScanErrorKind> {
        let header_end = self.position + EventHeader::LEN as u64;
        if header_end > self.len {
            return Err(ScanErrorKind::Truncated);
        }
        let header = EventHeader::parse(self.view.bytes(self.position, header_end)?)?;
        let end = self.position + u64::from(header.event_size);
        if end > self.len { Err(ScanErrorKind::Truncated) } else { Ok(end) }
    }

    /// The event from the position to `end`, verified; then moves on.
    fn take(&mut self, end: u64) -> Result<ScannedEvent<'_>, ScanErrorKind> {
        let position = self.position;
        let raw = self.view.bytes(position, end)?;
        let header = EventHeader::parse(raw)?;
        let algorithm = match self.checksum {
            Some(algorithm) => algorithm,
            None if header.event_type == EventType::FORMAT_DESCRIPTION => ChecksumAlgorithm::Crc32,
            None => return Err(ScanErrorKind::NoFormat(header.event_type)),
        };
        let event = verify(raw, algorithm, header)?;
        check_end(header, end)?;
        if header.event_type == EventType::FORMAT_DESCRIPTION {
            self.checksum = Some(FormatDescription::parse_checked(event)?.checksum);
        }
        self.position = end;
        Ok(ScannedEvent { position, header, event, raw })
    }
}

/// Checks an event's checksum. A server clears the in-use flag of a closed file's format description without computing it anew,
/// so there the flag does not count (observed on MariaDB 10.11 and MySQL 9.7: the CRC is that of the event without the flag).
fn verify(
    raw: &[u8],
    algorithm: ChecksumAlgorithm,
    header: EventHeader,
) -> Result<&[u8], ScanErrorKind> {
    Ok(algorithm.verify(raw).or_else(|error| {
        let in_use = header.flags & crate::event::header::FLAG_IN_USE != 0;
        if header.event_type != EventType::FORMAT_DESCRIPTION || !in_use {
            return Err(error);
        }
        let mut closed = raw.to_vec();
        let cleared = EventHeader { flags: header.flags & !1, ..header }.to_bytes();
        closed[..EventHeader::LEN].copy_from_slice(&cleared);
        algorithm.verify(&closed)?;
        Ok(&raw[..raw.len() - algorithm.trailer_len()])
    })?)
}

/// MariaDB 11.8 leaves end positions inside transactions 0; any other value must be right.
fn check_end(header: EventHeader, end: u64) -> Result<(), ScanErrorKind> {
    let expected = crate::log::low(end);
    if header.end_position == 0 || header.end_position == expected {
        return Ok(());
    }
    let (event_type, found) = (header.event_type, header.end_position);
    Err(ScanErrorKind::EndPosition { event_type, found, expected })
}
