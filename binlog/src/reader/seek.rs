//! Finding a place within a file by its GTID index, so that a file of any size is entered without reading up to there.

use std::sync::{Arc, Mutex, PoisonError};

use super::{Cursor, ReadError};
use crate::event::{ChecksumAlgorithm, EventHeader};
use crate::gtid::mariadb::{Gtid, GtidState};
use crate::gtid_index::{self, GtidIndex, Point, SPACING, Span};
use crate::log::{FileEntry, Log, low, place, remove_file};
use crate::recovery;

/// One index is made anew at a time: many replicas may want the same.
static REBUILDING: Mutex<()> = Mutex::new(());

/// A place within a file, between two transactions.
#[derive(Debug)]
pub struct Sought {
    /// Stands there.
    pub cursor: Cursor,
    /// The GTID state there.
    pub state: GtidState,
}

impl Log {
    /// The furthest known place in a file from which a replica with `state` (one GTID a domain) misses nothing; the file is one
    /// where it attaches ([`Log::find_attach`]). `None`: no better place is known than the file's beginning.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn seek_gtid(&self, file: u64, state: &[Gtid]) -> Result<Option<Sought>, ReadError> {
        let mut cursor = Cursor::open(&self.shared, file)?;
        let entry = Arc::clone(&cursor.entry);
        let Some(mut index) = self.index_of(&entry) else { return Ok(None) };
        if index.complete {
            // At a closed file's end nothing of it is left to send.
            index.points.pop();
        }
        let Some(point) = index.seek(&entry.gtid_list, state) else { return Ok(None) };
        let state = GtidState::from_list(&point.state);
        Ok(cursor.enter(point).then_some(Sought { cursor, state }))
    }

    /// The last indexed place at or before a position, or the file's beginning.
    pub(super) fn seek_before(&self, file: u64, position: u64) -> Result<Sought, ReadError> {
        let mut cursor = Cursor::open(&self.shared, file)?;
        let entry = Arc::clone(&cursor.entry);
        let index = if position < SPACING { None } else { self.index_of(&entry) };
        let point = index.as_ref().and_then(|index| index.before(position));
        let list = match point.filter(|point| cursor.enter(point)) {
            Some(point) => &point.state,
            None => &entry.gtid_list,
        };
        Ok(Sought { cursor, state: GtidState::from_list(list) })
    }

    /// The last indexed place in a file with a GTID state that `fits`, or the file's beginning.
    ///
    /// # Errors
    /// [`ReadError`].
    pub(crate) fn seek_last(
        &self,
        file: u64,
        fits: impl Fn(&[Gtid]) -> bool,
    ) -> Result<Sought, ReadError> {
        let mut cursor = Cursor::open(&self.shared, file)?;
        let entry = Arc::clone(&cursor.entry);
        let index = self.index_of(&entry);
        let mut points = index.iter().flat_map(|index| index.points.iter().rev());
        let point = points.find(|point| fits(&point.state) && cursor.enter(point));
        let list = point.map_or(&entry.gtid_list, |point| &point.state);
        Ok(Sought { cursor, state: GtidState::from_list(list) })
    }

    /// Whether a file may have a stretch of transactions that `fits`, as far as its index tells.
    pub(crate) fn may_hold(&self, entry: &FileEntry, fits: impl Fn(&Span) -> bool) -> bool {
        match self.index_of(entry) {
            Some(index) if index.complete => {
                index.points.iter().flat_map(|point| &point.spans).any(fits)
            }
            _ => true,
        }
    }

    /// The index of a file. That of a closed file is made anew where it is missing or of no use; that of the active file is the
    /// commit thread's.
    fn index_of(&self, entry: &FileEntry) -> Option<GtidIndex> {
        let fs = self.shared.options.fs.as_ref();
        let wanted = |index: &GtidIndex| index.complete || entry.closed_len().is_none();
        let found = gtid_index::load(fs, &entry.path);
        if found.as_ref().is_some_and(wanted) || entry.closed_len().is_none_or(|l| l < SPACING) {
            return found;
        }
        let _one = REBUILDING.lock().unwrap_or_else(PoisonError::into_inner);
        let again = gtid_index::load(fs, &entry.path);
        if again.as_ref().is_some_and(wanted) {
            return again;
        }
        tracing::info!(file = entry.name, "making the GTID index of a log file anew");
        recovery::index_closed(&place(&self.shared.options), &entry.path);
        if self.shared.files.get(entry.number).is_none() {
            // Purged meanwhile for the log's size: what was beside it then is removed, this would stay.
            let _ = remove_file(&place(&self.shared.options), &entry.name);
        }
        gtid_index::load(fs, &entry.path)
    }
}

impl Cursor {
    /// Moves to a point, where the log bears it out: the bytes before it are those it was made for, and an event starts there.
    fn enter(&mut self, point: &Point) -> bool {
        let Ok(limit) = self.limit() else { return false };
        let sound = point.position <= limit
            && gtid_index::is_of(point, self.view.file().as_ref())
            && (point.position == limit || self.is_event(point.position, limit));
        if sound {
            self.position = point.position;
        }
        sound
    }

    fn is_event(&mut self, position: u64, limit: u64) -> bool {
        let header_end = position + EventHeader::LEN as u64;
        if header_end > limit {
            return false;
        }
        let header = self.view.bytes(position, header_end).ok();
        let Some(header) = header.and_then(|bytes| EventHeader::parse(bytes).ok()) else {
            return false;
        };
        let end = position + u64::from(header.event_size);
        if end > limit || header.end_position != low(end) {
            return false;
        }
        let checksum: ChecksumAlgorithm = self.format().checksum;
        self.view.bytes(position, end).is_ok_and(|event| checksum.verify(event).is_ok())
    }
}

#[cfg(test)]
mod tests;
