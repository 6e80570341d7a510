//! Commit by copy: a transaction that spilled but is not large is appended in slices, its end positions and checksums made anew.

use std::io::{self, IoSlice};
use std::sync::Arc;

use super::active::{ActiveFile, low};
use crate::event::{ChecksumAlgorithm, EventHeader};
use crate::reader::View;
use crate::transaction::{Spilled, seal};

/// Bytes written at once.
const SLICE: usize = 1 << 20;

/// Appends the transaction; after an error the file is what it was before.
pub(crate) fn append(active: &mut ActiveFile, spilled: &mut Spilled) -> io::Result<()> {
    spilled.file.check_written_back()?;
    let start = active.position;
    let checksum = active.entry.format.checksum;
    let result = append_events(active, spilled, checksum);
    if result.is_err() {
        active.cut_back(start)?;
    }
    result
}

fn append_events(
    active: &mut ActiveFile,
    spilled: &mut Spilled,
    checksum: ChecksumAlgorithm,
) -> io::Result<()> {
    seal(&mut spilled.lead, active.position, checksum);
    active.append(&mut [IoSlice::new(&spilled.lead)])?;
    let mut view = View::new(Arc::clone(&spilled.file.file), true);
    let (mut at, end) = (spilled.file.head, spilled.end());
    let mut slice = Slice { active, bytes: Vec::with_capacity(SLICE) };
    while at < end {
        let header = view.bytes(at, at + EventHeader::LEN as u64)?;
        let header = EventHeader::parse(header).map_err(io::Error::other)?;
        let next = at + u64::from(header.event_size);
        slice.event(header, &mut view, at, next, checksum)?;
        at = next;
    }
    slice.write()
}

/// What is put together for the next write.
struct Slice<'a> {
    active: &'a mut ActiveFile,
    bytes: Vec<u8>,
}

impl Slice<'_> {
    fn event(
        &mut self,
        mut header: EventHeader,
        view: &mut View,
        at: u64,
        next: u64,
        checksum: ChecksumAlgorithm,
    ) -> io::Result<()> {
        let start = self.active.position + self.bytes.len() as u64;
        header.end_position = low(start + (next - at));
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(&header.to_bytes());
        self.add(&header.to_bytes())?;
        let trailer = checksum.trailer_len();
        let (mut from, end) = (at + EventHeader::LEN as u64, next - trailer as u64);
        while from < end {
            let to = end.min(from + SLICE as u64);
            let piece = view.bytes(from, to)?;
            hasher.update(piece);
            self.add(piece)?;
            from = to;
        }
        let sum = hasher.finalize().to_le_bytes();
        self.add(sum.get(..trailer).unwrap_or_default())
    }

    fn add(&mut self, piece: &[u8]) -> io::Result<()> {
        if self.bytes.len() + piece.len() > SLICE {
            self.write()?;
        }
        self.bytes.extend_from_slice(piece);
        Ok(())
    }

    fn write(&mut self) -> io::Result<()> {
        self.active.append(&mut [IoSlice::new(&self.bytes)])?;
        self.bytes.clear();
        Ok(())
    }
}
