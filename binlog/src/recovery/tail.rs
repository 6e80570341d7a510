//! How far a file of the log is sound: the end of its last complete transaction, and what follows it.

use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};

use super::OpenError;
use crate::event::{EventType, control, gtid_list};
use crate::fs::{LogFile, read_exact_at};
use crate::gtid::mariadb::{Gtid, GtidState};
use crate::gtid_index::{self, IndexWriter};
use crate::log::Place;
use crate::reader::{FileScan, ScanError, ScannedEvent};
use crate::transaction::group::{GroupTracker, Step};

/// What a scan of a file found.
#[derive(Debug)]
pub(super) struct Tail {
    /// Where the scan began: what lies before was not looked at, but for the header events.
    pub(super) from: u64,
    /// Behind the last complete transaction, or the header events.
    pub(super) end: u64,
    /// Length of the file.
    len: u64,
    /// The GTID state at `end`.
    pub(super) state: GtidState,
    /// Of the GTID index: what was found, and what is to be written.
    pub(super) index: IndexWriter,
    /// It ends with a Rotate event.
    pub(super) rotated: bool,
    /// The file named there.
    next: Vec<u8>,
    /// Why the scan ended before the file's end.
    fault: Option<Fault>,
}

#[derive(Debug)]
enum Fault {
    Scan(ScanError),
    /// At this position, events that form no transactions.
    Group(u64, String),
}

impl Tail {
    /// Reads the file, every check applied: all of it, or what follows the last point of its GTID index at or before `settled`.
    pub(super) fn scan(
        place: &Place<'_>,
        path: &Path,
        settled: Option<u64>,
    ) -> Result<Self, OpenError> {
        let damaged = |fault| OpenError::Damaged { path: path.to_owned(), fault };
        let mut scan = FileScan::open(place.fs, path).map_err(damaged)?;
        let mut tail = settled
            .and_then(|settled| Self::at_point(place, path, settled, &mut scan))
            .unwrap_or_else(|| Self::at_start(path));
        tail.len = scan.file_len();
        tail.walk(&mut scan);
        Ok(tail)
    }

    fn at_start(path: &Path) -> Self {
        Self {
            from: 0,
            end: 0,
            len: 0,
            state: GtidState::default(),
            index: IndexWriter::new(path),
            rotated: false,
            next: Vec::new(),
            fault: None,
        }
    }

    fn at_point(place: &Place<'_>, path: &Path, settled: u64, scan: &mut FileScan) -> Option<Self> {
        let index = gtid_index::load(place.fs, path)?;
        let at = index.points.partition_point(|point| point.position <= settled).checked_sub(1)?;
        let point = index.points.get(at)?;
        if index.complete || !gtid_index::is_of(point, scan.file().as_ref()) {
            return None;
        }
        scan.skip_to(point.position).ok()?;
        let (from, end) = (point.position, point.position);
        let state = GtidState::from_list(&point.state);
        let mut writer = IndexWriter::after(path, &index, at)?;
        writer.trim(place.fs);
        Some(Self { from, end, state, index: writer, ..Self::at_start(path) })
    }

    fn walk(&mut self, scan: &mut FileScan) {
        let (mut walk, file) = (Walk::default(), scan.file());
        loop {
            match scan.next_event() {
                Ok(Some(event)) => {
                    if let Err(reason) = walk.step(self, &event, file.as_ref()) {
                        self.fault = Some(Fault::Group(event.position, reason));
                        return;
                    }
                }
                Ok(None) => return,
                Err(fault) => {
                    self.fault = Some(Fault::Scan(fault));
                    return;
                }
            }
        }
    }

    /// Completes the GTID index of a closed file that was read to its end.
    pub(super) fn finish_index(&mut self, place: &Place<'_>, file: &dyn LogFile) {
        self.index.finish(file, self.len, &self.state);
        self.index.flush(place.fs, file);
    }

    /// A file that another follows must be whole and say so.
    pub(super) fn check_closed(&self, path: &Path, next: &str) -> Result<(), OpenError> {
        let unfit = |reason| OpenError::Unfit { path: path.to_owned(), reason };
        match &self.fault {
            Some(Fault::Scan(fault)) => return Err(damaged(path, fault)),
            Some(Fault::Group(position, reason)) => {
                return Err(unfit(format!("position {position}: {reason}")));
            }
            None => {}
        }
        if self.end != self.len {
            return Err(unfit("it ends within a transaction".into()));
        }
        if !self.rotated || self.next != next.as_bytes() {
            return Err(unfit(format!("it does not end with a Rotate event to {next}")));
        }
        Ok(())
    }

    /// Whether the file was read to its end, between transactions.
    pub(super) fn is_whole(&self) -> bool {
        self.fault.is_none() && self.end == self.len
    }

    /// A file that ends within an event or a transaction was cut short by a crash. Anything else wrong before what was known to
    /// be durable is damage; without that knowledge, anywhere. An event before it that seems to reach beyond the file's end has a
    /// damaged size.
    pub(super) fn check_damage(&self, path: &Path, durable: Option<u64>) -> Result<(), OpenError> {
        let durable = durable.unwrap_or(u64::MAX);
        match &self.fault {
            Some(Fault::Scan(fault))
                if fault.position < durable
                    && (!fault.kind.is_truncation() || self.len >= durable) =>
            {
                Err(damaged(path, fault))
            }
            Some(Fault::Group(position, reason)) if *position < durable => {
                let reason = format!("position {position}: {reason}");
                Err(OpenError::Unfit { path: path.to_owned(), reason })
            }
            _ => Ok(()),
        }
    }

    /// Cuts what follows the last complete transaction, after a copy of it is durable beside the file. The caller syncs the file.
    pub(super) fn cut(&self, place: &Place<'_>, file: &dyn LogFile, path: &Path) -> io::Result<()> {
        if self.end == self.len {
            return Ok(());
        }
        let aside = self.copy_aside(place, file, path)?;
        file.set_len(self.end)?;
        tracing::warn!(
            file = %path.display(), position = self.end, bytes = self.len - self.end, copy = %aside.display(),
            "cut an incomplete transaction from the log's end; it is fetched again from the source"
        );
        Ok(())
    }

    /// A copy that fails half way is removed: whoever starts again and again on a full disk must not fill it with copies.
    fn copy_aside(
        &self,
        place: &Place<'_>,
        file: &dyn LogFile,
        path: &Path,
    ) -> io::Result<PathBuf> {
        let aside = free_name(place, path, self.end);
        if let Err(error) = self.write_copy(place, file, &aside) {
            // It may not even be there.
            let _ = place.fs.remove(&aside);
            return Err(error);
        }
        place.fs.sync_dir(place.dir)?;
        Ok(aside)
    }

    fn write_copy(&self, place: &Place<'_>, file: &dyn LogFile, aside: &Path) -> io::Result<()> {
        const STEP: u64 = 1 << 20;
        let copy = place.fs.open(aside, true)?;
        let mut from = self.end;
        let mut buffer = Vec::new();
        while from < self.len {
            buffer.resize(usize::try_from(STEP.min(self.len - from)).unwrap_or(0), 0);
            read_exact_at(file, &mut buffer, from)?;
            copy.write_all_at(&mut [IoSlice::new(&buffer)], from - self.end)?;
            from += buffer.len() as u64;
        }
        copy.sync_data()
    }
}

fn damaged(path: &Path, fault: &ScanError) -> OpenError {
    let kind = io::Error::other(fault.kind.to_string()).into();
    OpenError::Damaged {
        path: path.to_owned(),
        fault: ScanError { position: fault.position, kind },
    }
}

/// `binlog.000007.cut-1234`, with a number behind it where the same place was cut before: that copy stays too.
pub(super) fn free_name(place: &Place<'_>, path: &Path, position: u64) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".cut-{position}"));
    let mut aside = PathBuf::from(&name);
    let mut number = 2_u32;
    while place.fs.metadata(&aside).is_ok() {
        let mut numbered = name.clone();
        numbered.push(format!(".{number}"));
        aside = numbered.into();
        number += 1;
    }
    aside
}

/// The groups of the file, as far as they are read.
#[derive(Default)]
struct Walk {
    groups: GroupTracker,
    open: Option<(Gtid, u32)>,
}

impl Walk {
    fn step(
        &mut self,
        tail: &mut Tail,
        event: &ScannedEvent<'_>,
        file: &dyn LogFile,
    ) -> Result<(), String> {
        if tail.rotated {
            return Err(format!("a {} event stands behind Rotate", event.header.event_type));
        }
        let end = event.position + event.raw.len() as u64;
        match self.groups.step(event.event).map_err(|error| error.to_string())? {
            Step::Begin(gtid) => self.open = Some((gtid.gtid, event.header.timestamp)),
            Step::Inside | Step::Rider => {}
            Step::End => {
                if let Some((gtid, time)) = self.open.take() {
                    tail.state.update(gtid);
                    tail.index.pass(gtid, time);
                }
                tail.end = end;
                tail.index.reach(file, end, &tail.state);
            }
            Step::Outside => {
                outside(tail, event).map_err(|error| error.to_string())?;
                tail.end = end;
            }
        }
        Ok(())
    }
}

fn outside(tail: &mut Tail, event: &ScannedEvent<'_>) -> Result<(), crate::event::EventError> {
    match event.header.event_type {
        EventType::GTID_LIST => {
            tail.state = GtidState::from_list(&gtid_list::parse(event.event)?.0);
        }
        EventType::ROTATE => {
            tail.rotated = true;
            control::parse_rotate(event.event)?.1.clone_into(&mut tail.next);
        }
        _ => {}
    }
    Ok(())
}
