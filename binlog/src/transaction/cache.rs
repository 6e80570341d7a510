//! The binlog cache of one transaction: its events as they will stand in a file, positions and checksums still to be filled in.

use std::convert::Infallible;

use crate::event::checksum::CHECKSUM_LEN;
use crate::event::{ChecksumAlgorithm, EventHeader};
use crate::rows::{EventSink, RowsEnd};

/// Where the event size is in an event header.
const SIZE_AT: usize = 9;

/// Events one after another, each with room for its checksum.
#[derive(Debug)]
pub(super) struct Cache {
    events: Vec<u8>,
    checksum: ChecksumAlgorithm,
    /// Where the event starts that the packer has open.
    open_at: usize,
}

impl Cache {
    pub(super) fn with_capacity(capacity: usize, checksum: ChecksumAlgorithm) -> Self {
        Self { events: Vec::with_capacity(capacity), checksum, open_at: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.events.len()
    }

    pub(super) fn events_mut(&mut self) -> &mut [u8] {
        &mut self.events
    }

    /// Adds the room for a checksum and sets the size of the event that starts at `at`.
    fn finish(&mut self, at: usize) {
        const NO_CHECKSUM: [u8; CHECKSUM_LEN] = [0; CHECKSUM_LEN];
        self.events.extend_from_slice(&NO_CHECKSUM[..self.checksum.trailer_len()]);
        let size = u32::try_from(self.events.len() - at).unwrap_or(u32::MAX);
        if let Some(field) = self.events.get_mut(at + SIZE_AT..at + SIZE_AT + 4) {
            field.copy_from_slice(&size.to_le_bytes());
        }
    }
}

impl EventSink for Cache {
    type Error = Infallible;

    fn event(&mut self, head: &[u8], rest: &[u8]) -> Result<(), Infallible> {
        let at = self.events.len();
        self.events.reserve(head.len() + rest.len() + CHECKSUM_LEN);
        self.events.extend_from_slice(head);
        self.events.extend_from_slice(rest);
        self.finish(at);
        Ok(())
    }

    fn open(&mut self, head: &[u8], rows: &[u8]) -> Result<(), Infallible> {
        self.open_at = self.events.len();
        self.events.extend_from_slice(head);
        self.append(rows)
    }

    fn append(&mut self, rows: &[u8]) -> Result<(), Infallible> {
        self.events.extend_from_slice(rows);
        Ok(())
    }

    fn close(&mut self, end: RowsEnd) -> Result<(), Infallible> {
        let at = self.open_at;
        if let Some(event) = self.events.get_mut(at..) {
            end.patch(event);
        }
        self.finish(at);
        Ok(())
    }
}

/// Fills in the end position and the checksum of every event in `events`, the first of which starts at `position` of its file.
///
/// End positions are kept modulo 2³², as servers do. `events` must be what a [`Cache`] holds.
pub(crate) fn seal(events: &mut [u8], mut position: u64, checksum: ChecksumAlgorithm) {
    let mut rest = events;
    while let Some(size) = rest.get(SIZE_AT..SIZE_AT + 4) {
        let size = size.iter().rev().fold(0_usize, |size, byte| size << 8 | usize::from(*byte));
        let Some((event, others)) = rest.split_at_mut_checked(size.max(EventHeader::LEN)) else {
            return;
        };
        position += event.len() as u64;
        let [low @ .., _, _, _, _] = position.to_le_bytes();
        event[13..17].copy_from_slice(&low);
        checksum.write(event);
        rest = others;
    }
}
