//! The binlog cache of one transaction: its events as they will stand in a file. In memory up to a limit, then in a cache file.
//!
//! In memory, end positions and checksums are still to be filled in: the commit knows them. In a cache file they are those the
//! events will have if the file becomes a log file: the body begins at the reserved head's end.

use std::io::{self, IoSlice};
use std::sync::Arc;

use super::space::{CacheFile, CacheSpace};
use crate::event::checksum::CHECKSUM_LEN;
use crate::event::{ChecksumAlgorithm, EventHeader};
use crate::log::low;
use crate::rows::{EventSink, RowsEnd};

/// Where the event size is in an event header.
const SIZE_AT: usize = 9;
/// Where the end position is in an event header.
const END_AT: usize = 13;
/// Bytes written to a cache file between two requests to have them written back.
const WRITE_BACK_EVERY: u64 = 16 << 20;

/// What caches of a log have in common.
#[derive(Clone, Debug)]
pub(crate) struct CacheOptions {
    /// `binlog_cache_size`, bytes.
    pub(crate) memory: usize,
    pub(crate) checksum: ChecksumAlgorithm,
    /// Where cache files are.
    pub(crate) space: Arc<CacheSpace>,
}

/// Events one after another, each with room for its checksum.
#[derive(Debug)]
pub(crate) struct Cache {
    /// Those in memory; behind those in the file where there is one.
    events: Vec<u8>,
    /// The first bytes of `events` belong into the head of a cache file: all up to the Gtid event, once that is there.
    lead_len: Option<usize>,
    /// Where the event starts that the packer has open.
    open_at: usize,
    file: Option<Spilled>,
    options: CacheOptions,
}

/// The part of a cache that is in a file.
#[derive(Debug)]
pub(crate) struct Spilled {
    pub(crate) file: CacheFile,
    /// What belongs into the head: positions and checksums still to be filled in.
    pub(crate) lead: Vec<u8>,
    /// Bytes of events behind the head.
    pub(crate) body_len: u64,
    written_back: u64,
}

impl Cache {
    pub(super) fn new(capacity: usize, options: CacheOptions) -> Self {
        let events = Vec::with_capacity(capacity);
        Self { events, lead_len: None, open_at: 0, file: None, options }
    }

    pub(super) fn len(&self) -> u64 {
        let spilled = self.file.as_ref().map_or(0, |file| file.lead.len() as u64 + file.body_len);
        spilled + self.events.len() as u64
    }

    pub(super) fn checksum(&self) -> ChecksumAlgorithm {
        self.options.checksum
    }

    /// What is there so far belongs into the head of a cache file.
    pub(super) fn end_lead(&mut self) {
        self.lead_len = Some(self.events.len());
    }

    /// The events in memory.
    pub(super) fn into_memory(self) -> Vec<u8> {
        self.events
    }

    /// The whole cache in its file, where it has one.
    ///
    /// # Errors
    /// What the file system said.
    pub(super) fn finish(&mut self) -> io::Result<Option<Spilled>> {
        if self.file.is_some() {
            self.spill()?;
        }
        Ok(self.file.take())
    }

    /// Adds the room for a checksum and sets the size of the event that starts at `at`.
    fn end_event(&mut self, at: usize) -> io::Result<()> {
        const NO_CHECKSUM: [u8; CHECKSUM_LEN] = [0; CHECKSUM_LEN];
        let trailer = self.options.checksum.trailer_len();
        self.events.extend_from_slice(NO_CHECKSUM.get(..trailer).unwrap_or_default());
        let size = event_size(self.events.len() - at);
        if let Some(field) = self.events.get_mut(at + SIZE_AT..at + SIZE_AT + 4) {
            field.copy_from_slice(&size);
        }
        if self.is_too_large(self.events.len()) { self.spill() } else { Ok(()) }
    }

    /// Whether so many bytes belong into the file. The lead always has room in memory.
    fn is_too_large(&self, bytes: usize) -> bool {
        self.lead_len.is_some() && bytes > self.options.memory
    }

    /// Moves what is in memory to the file.
    fn spill(&mut self) -> io::Result<()> {
        let mut spilled = self.spilled()?;
        seal(&mut self.events, spilled.end(), self.options.checksum);
        let written = spilled.write(&mut [IoSlice::new(&self.events)], self.events.len());
        self.file = Some(spilled);
        written?;
        self.events.clear();
        Ok(())
    }

    /// The file, made where there is none yet: the lead then leaves `events`.
    fn spilled(&mut self) -> io::Result<Spilled> {
        if let Some(spilled) = self.file.take() {
            return Ok(spilled);
        }
        let lead_len = self.lead_len.unwrap_or_default();
        let file = self.options.space.create(lead_len as u64)?;
        let lead = self.events.drain(..lead_len).collect();
        self.lead_len = Some(0);
        Ok(Spilled { file, lead, body_len: 0, written_back: 0 })
    }

    /// An event too large for memory goes to the file as it is.
    fn write_through(&mut self, head: &[u8], rest: &[u8]) -> io::Result<()> {
        self.spill()?;
        let Some(spilled) = &mut self.file else { return Ok(()) };
        let trailer = self.options.checksum.trailer_len();
        let size = head.len() + rest.len() + trailer;
        let mut head = head.to_vec();
        let end = low(spilled.end() + size as u64).to_le_bytes();
        set(&mut head, SIZE_AT, &event_size(size));
        set(&mut head, END_AT, &end);
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(&head);
        hasher.update(rest);
        let checksum = hasher.finalize().to_le_bytes();
        let checksum = checksum.get(..trailer).unwrap_or_default();
        let mut parts = [&head, rest, checksum].map(IoSlice::new);
        spilled.write(&mut parts, size)
    }
}

impl Spilled {
    /// Where the next event begins in the file.
    pub(crate) fn end(&self) -> u64 {
        self.file.head + self.body_len
    }

    fn write(&mut self, parts: &mut [IoSlice<'_>], len: usize) -> io::Result<()> {
        self.file.file.write_all_at(parts, self.end())?;
        self.body_len += len as u64;
        if self.body_len - self.written_back >= WRITE_BACK_EVERY {
            self.written_back = self.body_len;
            self.file.write_back();
        }
        Ok(())
    }
}

fn event_size(size: usize) -> [u8; 4] {
    u32::try_from(size).unwrap_or(u32::MAX).to_le_bytes()
}

fn set(bytes: &mut [u8], at: usize, value: &[u8]) {
    if let Some(field) = bytes.get_mut(at..at + value.len()) {
        field.copy_from_slice(value);
    }
}

impl EventSink for Cache {
    type Error = io::Error;

    fn event(&mut self, head: &[u8], rest: &[u8]) -> io::Result<()> {
        if self.is_too_large(head.len() + rest.len()) {
            return self.write_through(head, rest);
        }
        let at = self.events.len();
        self.events.reserve(head.len() + rest.len() + CHECKSUM_LEN);
        self.events.extend_from_slice(head);
        self.events.extend_from_slice(rest);
        self.end_event(at)
    }

    fn open(&mut self, head: &[u8], rows: &[u8]) -> io::Result<()> {
        self.open_at = self.events.len();
        self.events.extend_from_slice(head);
        self.append(rows)
    }

    fn append(&mut self, rows: &[u8]) -> io::Result<()> {
        self.events.extend_from_slice(rows);
        Ok(())
    }

    fn close(&mut self, end: RowsEnd) -> io::Result<()> {
        let at = self.open_at;
        if let Some(event) = self.events.get_mut(at..) {
            end.patch(event);
        }
        self.end_event(at)
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
        set(event, END_AT, &low(position).to_le_bytes());
        checksum.write(event);
        rest = others;
    }
}
