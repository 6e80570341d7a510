//! How a side file comes to be: transactions are counted as they pass, points are made between them and appended to the file.

use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};

use super::{GtidIndex, Point, SPACING, Span, format, head_sum, mark, path_of};
use crate::fs::{FileSystem, LogFile};
use crate::gtid::mariadb::{Gtid, GtidState};

/// What was seen of a log file since its last point.
#[derive(Clone, Debug, Default)]
pub struct Draft {
    transactions: u64,
    latest: u32,
    last: Option<(Gtid, u32)>,
    spans: Vec<Span>,
    point_at: u64,
}

impl Draft {
    /// Goes on behind a point.
    pub fn after(point: &Point) -> Self {
        let Point { position, transactions, latest, last, .. } = *point;
        Self { transactions, latest, last, spans: Vec::new(), point_at: position }
    }

    /// A whole transaction passed; its time is that of its Gtid event.
    pub fn pass(&mut self, gtid: Gtid, time: u32) {
        self.transactions += 1;
        self.latest = self.latest.max(time);
        self.last = Some((gtid, time));
        let of_server = |span: &&mut Span| (span.domain, span.server) == (gtid.domain, gtid.server);
        match self.spans.iter_mut().find(of_server) {
            Some(span) => {
                span.min = span.min.min(gtid.sequence);
                span.max = span.max.max(gtid.sequence);
            }
            None => {
                let Gtid { domain, server, sequence } = gtid;
                self.spans.push(Span { domain, server, min: sequence, max: sequence });
            }
        }
    }

    /// Whether a point is due at this position.
    fn is_due(&self, position: u64) -> bool {
        position.saturating_sub(self.point_at) >= SPACING
    }

    /// The point at a position, as far as the draft knows it: without its state.
    pub fn point(&self, position: u64) -> Point {
        let Self { transactions, latest, last, ref spans, .. } = *self;
        let spans = spans.clone();
        Point { position, transactions, latest, last, spans, ..Point::default() }
    }
}

/// Writes the side file of a log file as that grows. After an error it writes no more: the index is made anew when it is wanted.
#[derive(Debug)]
pub(crate) struct IndexWriter {
    log_path: PathBuf,
    draft: Draft,
    side: Option<Box<dyn LogFile>>,
    /// Bytes of the side file that hold; 0 where it is to be made anew.
    len: u64,
    pending: Vec<u8>,
    failed: bool,
}

impl IndexWriter {
    /// Of a log file from its beginning. Nothing is created before the first point.
    pub(crate) fn new(log_path: &Path) -> Self {
        let (log_path, draft) = (log_path.to_owned(), Draft::default());
        Self { log_path, draft, side: None, len: 0, pending: Vec::new(), failed: false }
    }

    /// Goes on behind the point number `at` of an index; later ones are forgotten.
    pub(crate) fn after(log_path: &Path, index: &GtidIndex, at: usize) -> Option<Self> {
        let (point, len) = (index.points.get(at)?, index.ends.get(at)?);
        Some(Self { draft: Draft::after(point), len: *len, ..Self::new(log_path) })
    }

    /// Cuts from the side file what is behind the point this goes on from.
    pub(crate) fn trim(&mut self, fs: &dyn FileSystem) {
        match self.open(fs) {
            Ok(side) => self.side = Some(side),
            Err(_) => self.failed = true,
        }
    }

    /// See [`Draft::pass`].
    pub(crate) fn pass(&mut self, gtid: Gtid, time: u32) {
        self.draft.pass(gtid, time);
    }

    /// The log file's transactions end here, with this state: makes a point where one is due.
    pub(crate) fn reach(&mut self, log: &dyn LogFile, position: u64, state: &GtidState) {
        if self.draft.is_due(position) {
            self.add(log, position, state, false);
        }
    }

    /// The log file ends here for good.
    pub(crate) fn finish(&mut self, log: &dyn LogFile, position: u64, state: &GtidState) {
        self.add(log, position, state, true);
    }

    fn add(&mut self, log: &dyn LogFile, position: u64, state: &GtidState, is_end: bool) {
        let Ok(mark) = mark(log, position) else { return };
        let point = Point { state: state.list(), mark, ..self.draft.point(position) };
        self.pending.extend(format::encode(&point, is_end));
        self.draft = Draft::after(&point);
    }

    /// Writes what was added.
    pub(crate) fn flush(&mut self, fs: &dyn FileSystem, log: &dyn LogFile) {
        if self.failed || self.pending.is_empty() {
            return;
        }
        if let Err(error) = self.write(fs, log) {
            tracing::debug!(file = %self.log_path.display(), %error, "cannot write the GTID index of a log file");
            self.failed = true;
        }
    }

    fn write(&mut self, fs: &dyn FileSystem, log: &dyn LogFile) -> io::Result<()> {
        let side = match self.side.take() {
            Some(side) => side,
            None => self.open(fs)?,
        };
        if self.len == 0 {
            self.pending.splice(..0, format::head(head_sum(log)?));
        }
        side.write_all_at(&mut [IoSlice::new(&self.pending)], self.len)?;
        self.len += self.pending.len() as u64;
        self.pending.clear();
        self.side = Some(side);
        Ok(())
    }

    fn open(&self, fs: &dyn FileSystem) -> io::Result<Box<dyn LogFile>> {
        let side = fs.open(&path_of(&self.log_path), self.len == 0)?;
        if side.size()? != self.len {
            side.set_len(self.len)?;
        }
        Ok(side)
    }
}
