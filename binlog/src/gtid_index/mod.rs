//! The sparse GTID index of a log file: a side file (`binlog.000001.idx`) of points, each a position between two transactions
//! and what the file held up to there. With it a GTID, a time, or the state at a position is found by reading about
//! [`SPACING`] bytes of the log instead of all of them.
//!
//! The log is the truth. A side file that is missing, damaged, or of another file than the log file beside it counts for nothing
//! and is made anew. It is never synced.

mod build;
mod format;

use std::io;
use std::path::{Path, PathBuf};

pub use build::Draft;
pub(crate) use build::IndexWriter;

use crate::event::{EventHeader, MAGIC};
use crate::fs::{FileSystem, LogFile, read_exact_at};
use crate::gtid::mariadb::Gtid;

/// Bytes of the log between two points, unless one transaction is larger.
pub const SPACING: u64 = 1 << 20;
/// Bytes before a point that are remembered by their CRC32, so that a point of other bytes is noticed.
const MARKED_LEN: u64 = 64;
/// A side file larger than this is none of ours: a point of ten thousand servers for each MiB of a file of 300 GiB.
const MAX_LEN: u64 = 1 << 30;

/// What happened of one server of one domain between two points.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Replication domain.
    pub domain: u32,
    /// The server.
    pub server: u32,
    /// The lowest sequence number.
    pub min: u64,
    /// The highest: numbers may go back, so neither need be the first or last.
    pub max: u64,
}

impl Span {
    /// Whether this GTID may be among them.
    pub fn may_hold(&self, gtid: Gtid) -> bool {
        (self.domain, self.server) == (gtid.domain, gtid.server)
            && (self.min..=self.max).contains(&gtid.sequence)
    }
}

/// A position between two transactions, and what the file holds before it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Point {
    /// Where the next event starts.
    pub position: u64,
    /// Transactions before it.
    pub transactions: u64,
    /// The latest time of a transaction before it, Unix seconds.
    pub latest: u32,
    /// The last transaction before it, and its time.
    pub last: Option<(Gtid, u32)>,
    /// The GTID state here, as a Gtid_list has it.
    pub state: Vec<Gtid>,
    /// What came between the point before this one, or the file's beginning, and here.
    pub spans: Vec<Span>,
    /// CRC32 of the bytes just before it.
    mark: u32,
}

/// The points of a log file, those that can be trusted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GtidIndex {
    /// In the order of the file.
    pub points: Vec<Point>,
    /// Whether the last point is the file's end, which no longer moves.
    pub complete: bool,
    /// Bytes of the side file up to the end of each point.
    ends: Vec<u64>,
}

/// Where the side file of a log file is: `binlog.000001.idx` beside `binlog.000001`.
pub fn path_of(log_file: &Path) -> PathBuf {
    let mut path = log_file.as_os_str().to_owned();
    path.push(".idx");
    path.into()
}

/// Opens the side file of a log file; `None` where there is none that fits the log file as it is now.
pub fn load(fs: &dyn FileSystem, log_file: &Path) -> Option<GtidIndex> {
    match read(fs, log_file) {
        Ok(index) => index,
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => {
            tracing::debug!(file = %log_file.display(), %error, "the GTID index of a log file is of no use");
            None
        }
    }
}

fn read(fs: &dyn FileSystem, log_file: &Path) -> io::Result<Option<GtidIndex>> {
    let side = fs.open_read(&path_of(log_file))?;
    let len = side.size()?;
    if len > MAX_LEN {
        return Ok(None);
    }
    let mut bytes = vec![0; usize::try_from(len).map_err(io::Error::other)?];
    read_exact_at(side.as_ref(), &mut bytes, 0)?;
    let log = fs.open_read(log_file)?;
    let Some(index) = format::decode(&bytes, head_sum(log.as_ref())?) else { return Ok(None) };
    let fits = index.fits(log.as_ref())?;
    Ok(fits.then_some(index))
}

impl GtidIndex {
    /// Whether the last point is of this log file: where the bytes before it are the same, so is all before.
    fn fits(&self, log: &dyn LogFile) -> io::Result<bool> {
        let Some(last) = self.points.last() else { return Ok(!self.complete) };
        let len = log.size()?;
        let ends_right = if self.complete { last.position == len } else { last.position <= len };
        Ok(ends_right && mark(log, last.position)? == last.mark)
    }

    /// The last point at or before a position.
    pub fn before(&self, position: u64) -> Option<&Point> {
        let behind = self.points.partition_point(|point| point.position <= position);
        self.points.get(behind.checked_sub(1)?)
    }

    /// The last point from which a replica with `state` (one GTID a domain) misses nothing that a dump from the file's beginning
    /// would send it. `head` is the Gtid_list of the file. `None`: its beginning.
    pub fn seek(&self, head: &[Gtid], state: &[Gtid]) -> Option<&Point> {
        let (mut before, mut found) = (head, None);
        for point in &self.points {
            // From the first point that something missing lies before, all are too late.
            if !point.spans.iter().all(|span| has_all(span, before, &point.state, state)) {
                break;
            }
            (before, found) = (&point.state, Some(point));
        }
        found
    }
}

/// Whether a replica has all of a span between two points' states. A dump passes over a domain's transactions up to the first
/// of the wanted server with the wanted number or a later one, and sends all after it.
fn has_all(span: &Span, before: &[Gtid], behind: &[Gtid], replica: &[Gtid]) -> bool {
    let Some(wanted) = replica.iter().find(|gtid| gtid.domain == span.domain) else { return false };
    if before.contains(wanted) {
        return false;
    }
    if span.server != wanted.server || span.max < wanted.sequence {
        return true;
    }
    let mut of_domain = behind.iter().filter(|gtid| gtid.domain == wanted.domain);
    span.max == wanted.sequence && of_domain.next_back() == Some(wanted)
}

/// CRC32 of the header events a log file opens with: magic, format description and Gtid_list.
fn head_sum(log: &dyn LogFile) -> io::Result<u32> {
    let mut end = MAGIC.len() as u64;
    for _ in 0..2 {
        let mut header = [0; EventHeader::LEN];
        read_exact_at(log, &mut header, end)?;
        let header = EventHeader::parse(&header).map_err(io::Error::other)?;
        end += u64::from(header.event_size);
    }
    sum(log, 0, end)
}

fn mark(log: &dyn LogFile, position: u64) -> io::Result<u32> {
    sum(log, position.saturating_sub(MARKED_LEN), position)
}

fn sum(log: &dyn LogFile, mut from: u64, to: u64) -> io::Result<u32> {
    let mut hasher = crc32fast::Hasher::new();
    let mut buffer = [0; 4096];
    while from < to {
        let len = usize::try_from(to - from).unwrap_or(usize::MAX).min(buffer.len());
        let piece = buffer.get_mut(..len).unwrap_or_default();
        read_exact_at(log, piece, from)?;
        hasher.update(piece);
        from += len as u64;
    }
    Ok(hasher.finalize())
}

/// Whether the bytes before a point are those it was made for.
pub(crate) fn is_of(point: &Point, log: &dyn LogFile) -> bool {
    mark(log, point.position).is_ok_and(|found| found == point.mark)
}

#[cfg(test)]
mod tests;
