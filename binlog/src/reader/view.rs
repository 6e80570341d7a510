//! The bytes of a log file for reading: mapped, or read into a buffer where the file cannot be mapped. All `unsafe` of the
//! crate is here.
//!
//! Contract of the map. Who may change a mapped file: only the commit thread, and only behind the published end, which no
//! view is asked for. A file is never cut below its published end; recovery cuts files before any view exists. A process
//! other than ours that cuts a file under the map makes reads of the lost pages raise SIGBUS, which ends the process; the
//! directory's lock keeps other Spillways out, and DURABILITY.md tells operators not to cut files. A map may be longer than
//! its file: the bytes beyond the file's end are never touched.

use std::io;
use std::sync::Arc;

use memmap2::{Mmap, MmapOptions};

use crate::fs::{LogFile, read_exact_at};

/// Address space a map takes at least: the active file grows under it without mapping anew.
const MIN_MAP_LEN: u64 = 64 << 20;

/// A file being read.
#[derive(Debug)]
pub(crate) struct View {
    file: Arc<dyn LogFile>,
    bytes: Bytes,
}

#[derive(Debug)]
enum Bytes {
    Mapped(Option<Mmap>),
    /// The bytes of the file from this position on.
    Buffered(u64, Vec<u8>),
}

impl View {
    /// With `mmap` the file is mapped where it can be.
    pub(crate) fn new(file: Arc<dyn LogFile>, mmap: bool) -> Self {
        let mapped = mmap && file.mappable().is_some();
        let bytes = if mapped { Bytes::Mapped(None) } else { Bytes::Buffered(0, Vec::new()) };
        Self { file, bytes }
    }

    /// The file.
    pub(crate) fn file(&self) -> Arc<dyn LogFile> {
        Arc::clone(&self.file)
    }

    /// Length of the file now.
    pub(crate) fn file_len(&self) -> io::Result<u64> {
        self.file.size()
    }

    /// The bytes from `from` to `to`, which the file must have. Where the file is not mapped they are read.
    pub(crate) fn bytes(&mut self, from: u64, to: u64) -> io::Result<&[u8]> {
        let (from_index, to_index) = (index(from)?, index(to)?);
        match &mut self.bytes {
            Bytes::Mapped(map) => {
                if map.as_ref().is_none_or(|map| map.len() < to_index) {
                    *map = Some(map_file(self.file.as_ref(), to)?);
                }
                let mapped = map.as_ref().and_then(|map| map.get(from_index..to_index));
                mapped.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
            }
            Bytes::Buffered(start, buffer) => {
                let len = to_index.checked_sub(from_index).ok_or(io::ErrorKind::InvalidInput)?;
                if from < *start || to > *start + buffer.len() as u64 {
                    *start = from;
                    buffer.resize(len, 0);
                    read_exact_at(self.file.as_ref(), buffer, from)?;
                }
                let from_index = index(from - *start)?;
                buffer
                    .get(from_index..from_index + len)
                    .ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
            }
        }
    }

    /// Whether [`View::bytes`] costs a copy, so that asking for less is cheaper.
    pub(crate) fn is_buffered(&self) -> bool {
        matches!(self.bytes, Bytes::Buffered(..))
    }
}

fn index(position: u64) -> io::Result<usize> {
    usize::try_from(position).map_err(io::Error::other)
}

/// Maps a file so that its bytes up to `to` can be read, with room for it to grow.
fn map_file(file: &dyn LogFile, to: u64) -> io::Result<Mmap> {
    if file.size()? < to {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let std_file = file.mappable().ok_or(io::ErrorKind::Unsupported)?;
    let len = to.max(MIN_MAP_LEN).next_power_of_two();
    let mut options = MmapOptions::new();
    options.len(index(len)?);
    #[allow(unsafe_code)]
    // SAFETY: the contract at the head of this file: bytes below `to` exist and never change, those above are not read.
    unsafe {
        options.map(std_file)
    }
}
