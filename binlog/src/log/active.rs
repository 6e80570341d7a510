//! The file that transactions are appended to, and how the next one comes to be.

use std::io::{self, IoSlice};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{SystemTime, UNIX_EPOCH};

use super::files::{FileEntry, file_name};
use super::timeline::Timeline;
use crate::event::{EventHeader, EventType, FormatDescription, MAGIC, control, gtid_list};
use crate::fs::{FileSystem, LogFile};
use crate::gtid::mariadb::{Gtid, GtidState};
use crate::gtid_index::IndexWriter;

#[derive(Debug)]
pub(crate) struct ActiveFile {
    pub(crate) entry: Arc<FileEntry>,
    pub(crate) file: Arc<dyn LogFile>,
    /// Where the next byte goes.
    pub(crate) position: u64,
    /// Up to here it is durable, as far as the commit thread knows.
    pub(crate) synced: u64,
    /// Up to here the sync thread makes it durable, or has.
    pub(crate) handed: u64,
    /// Its side file.
    pub(crate) index: IndexWriter,
}

/// Where the log is and who writes it.
#[derive(Debug)]
pub(crate) struct Place<'a> {
    pub(crate) fs: &'a dyn FileSystem,
    pub(crate) dir: &'a Path,
    pub(crate) basename: &'a str,
    pub(crate) server_id: u32,
}

impl Place<'_> {
    /// The entry of a file whose bytes this process has made.
    pub(crate) fn entry(
        &self,
        number: u64,
        format: FormatDescription,
        gtid_list: Vec<Gtid>,
    ) -> FileEntry {
        let name = file_name(self.basename, number);
        FileEntry {
            number,
            path: self.dir.join(&name),
            name,
            format: Arc::new(format),
            gtid_list,
            timeline: None,
            closed_len: AtomicU64::new(0),
            verified_to: AtomicU64::new(u64::MAX),
            known_from: u64::MAX,
            closed_at: OnceLock::new(),
        }
    }
}

impl ActiveFile {
    /// Creates file `number` with its header events, durable, directory entry included. A file of that name left by a crash is
    /// overwritten: nothing in it was ever published.
    pub(crate) fn create(
        place: &Place<'_>,
        number: u64,
        format: FormatDescription,
        list: Vec<Gtid>,
        timeline: Option<Timeline>,
    ) -> io::Result<Self> {
        let path = place.dir.join(file_name(place.basename, number));
        let file: Arc<dyn LogFile> = Arc::from(place.fs.open(&path, true)?);
        let begins = timeline.as_ref().map(|timeline| timeline.domains.as_slice());
        let head = head(&format, &list, begins, place.server_id);
        file.write_all_at(&mut [IoSlice::new(&head)], 0)?;
        file.sync_data()?;
        place.fs.sync_dir(place.dir)?;
        let entry = FileEntry { timeline, ..place.entry(number, format, list) };
        Ok(Self::new(Arc::new(entry), file, head.len() as u64))
    }

    /// A file that is durable up to `position`, its end.
    pub(crate) fn new(entry: Arc<FileEntry>, file: Arc<dyn LogFile>, position: u64) -> Self {
        let index = IndexWriter::new(&entry.path);
        Self { entry, file, position, synced: position, handed: position, index }
    }

    pub(crate) fn is_synced(&self) -> bool {
        self.synced == self.position
    }

    /// Makes durable what was appended; answers whether there was anything.
    pub(crate) fn sync(&mut self) -> io::Result<bool> {
        if self.is_synced() {
            return Ok(false);
        }
        self.file.sync_data()?;
        (self.synced, self.handed) = (self.position, self.position);
        Ok(true)
    }

    /// Takes back what was appended from `position` on. Where the file cannot be cut, the next attempt writes over it.
    pub(crate) fn cut_back(&mut self, position: u64) -> io::Result<()> {
        self.position = position;
        self.file.set_len(position)
    }

    /// Appends `parts`. After an error the file is cut back to what it was; where that fails too, so does everything.
    pub(crate) fn append(&mut self, parts: &mut [IoSlice<'_>]) -> io::Result<()> {
        let len: usize = parts.iter().map(|part| part.len()).sum();
        if let Err(error) = self.file.write_all_at(parts, self.position) {
            self.cut_back(self.position)?;
            return Err(error);
        }
        self.position += len as u64;
        Ok(())
    }

    /// Appends the Rotate event to the next file.
    pub(crate) fn append_rotate(&mut self, next: &str, server_id: u32) -> io::Result<()> {
        let body = control::rotate_body(MAGIC.len() as u64, next);
        let size = EventHeader::LEN + body.len() + self.entry.format.checksum.trailer_len();
        let header = EventHeader {
            timestamp: now(),
            event_type: EventType::ROTATE,
            server_id,
            event_size: 0,
            end_position: low(self.position + size as u64),
            flags: 0,
        };
        let event = control::event(header, &body, self.entry.format.checksum);
        self.append(&mut [IoSlice::new(&event)])
    }

    /// From now on the file does not change.
    pub(crate) fn set_closed(&self) {
        self.entry.closed_len.store(self.position, Ordering::Release);
    }

    /// Adds a point to the GTID index where one is due; `state` is that of the file's end.
    pub(crate) fn index_end(&mut self, fs: &dyn FileSystem, state: &GtidState) {
        self.index.reach(self.file.as_ref(), self.position, state);
        self.index.flush(fs, self.file.as_ref());
    }

    /// Completes the GTID index of a file that is closed.
    pub(crate) fn finish_index(&mut self, fs: &dyn FileSystem, state: &GtidState) {
        self.index.finish(self.file.as_ref(), self.position, state);
        self.index.flush(fs, self.file.as_ref());
    }
}

/// Magic, format description and Gtid_list of a file, which may begin a timeline of some domains.
pub(crate) fn head(
    format: &FormatDescription,
    list: &[Gtid],
    begins: Option<&[u32]>,
    server_id: u32,
) -> Vec<u8> {
    let timestamp = now();
    let len = format.to_event(timestamp, server_id, 0).len() + MAGIC.len();
    let mut head = MAGIC.to_vec();
    head.extend_from_slice(&format.to_event(timestamp, server_id, low(len as u64)));
    let body = match begins {
        Some(domains) => gtid_list::timeline_body(list, domains),
        None => gtid_list::body(list, 0),
    };
    let size = EventHeader::LEN + body.len() + format.checksum.trailer_len();
    let header = EventHeader {
        timestamp,
        event_type: EventType::GTID_LIST,
        server_id,
        event_size: 0,
        end_position: low((len + size) as u64),
        flags: 0,
    };
    head.extend_from_slice(&control::event(header, &body, format.checksum));
    head
}

/// A position as an event's header holds it: modulo 2³².
pub(crate) fn low(position: u64) -> u32 {
    let [a, b, c, d, ..] = position.to_le_bytes();
    u32::from_le_bytes([a, b, c, d])
}

fn now() -> u32 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u32::try_from(since.as_secs()).unwrap_or(u32::MAX)
}
