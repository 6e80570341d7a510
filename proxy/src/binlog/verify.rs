//! `binlog verify`: every check there is on files at rest.
//!
//! Checksums and positions are the scan's; here it is checked that events form transactions, that no GTID follows itself, and
//! of a whole log that each file goes on where the one before it ended.

use std::io::Write;
use std::time::Duration;

use spillway_binlog::event::header::FLAG_IN_USE;
use spillway_binlog::event::{EventType, control, gtid_list};
use spillway_binlog::gtid::mariadb::{Gtid, GtidState, print_list};
use spillway_binlog::reader::{FileScan, ScannedEvent};
use spillway_binlog::transaction::group::{GroupTracker, Step};

use super::files::{BinlogFile, Target};
use super::progress::Progress;
use super::{Out, Stop};
use crate::exit::Failure;

/// How long an end inside a transaction is given to grow: a log that is being written looks cut for a moment.
const GROWTH_STEPS: u32 = 20;
const GROWTH_STEP: Duration = Duration::from_millis(50);

/// Prints a line a file, or ends with the first fault.
pub(super) fn verify<W: Write>(target: &Target, out: &mut Out<W>) -> Result<(), Stop> {
    let mut before: Option<(&BinlogFile, Checked)> = None;
    let mut progress = Progress::new(target.files.iter().map(BinlogFile::size).sum());
    for (index, file) in target.files.iter().enumerate() {
        let last = target.whole && index + 1 == target.files.len();
        let checked = check(file, last, &mut progress)?;
        progress.file_done(checked.end);
        if let Some((previous, end)) = &before {
            follows(previous, end, file, &checked)?;
        }
        let state = print_list(&checked.state.position());
        out.line(&format!(
            "ok {} {} bytes, {} transactions, GTID {state}{}{}",
            file.name,
            checked.end,
            checked.transactions,
            if checked.timeline.is_some() { ", begins a new timeline" } else { "" },
            if checked.growing { ", being written" } else { "" }
        ))?;
        if progress.is_shown() {
            out.flush()?;
        }
        before = Some((file, checked));
    }
    if target.files.is_empty() {
        out.line("the log has no files")?;
    }
    Ok(())
}

/// What the checks of one file have seen.
#[derive(Debug, Default)]
struct Checked {
    end: u64,
    transactions: u64,
    /// The Gtid_list at its beginning.
    begin: Vec<Gtid>,
    /// The domains that begin a new timeline: in these its Gtid_list need not be what the file before ended with.
    timeline: Option<Vec<u32>>,
    state: GtidState,
    /// The file its Rotate event names.
    next: Option<String>,
    /// It ends with a Stop event, or was left open by a server that crashed: then no Rotate event is due.
    no_next: bool,
    growing: bool,
    groups: GroupTracker,
    open: Option<Gtid>,
}

fn check(file: &BinlogFile, last: bool, progress: &mut Progress) -> Result<Checked, Stop> {
    let mut scan = file.scan()?;
    let mut checked = Checked::default();
    let cut = loop {
        match scan.next_event() {
            Ok(Some(event)) => {
                checked.step(&event).map_err(|r| file.fault_at(event.position, r))?;
                progress.at(&file.name, event.position);
            }
            Ok(None) if !checked.groups.in_group() => return Ok(checked),
            Ok(None) => break file.fault_at(scan.position(), "the file ends within a transaction"),
            Err(error) if error.kind.is_truncation() => break file.fault(&error),
            Err(error) => return Err(file.fault(&error)),
        }
    };
    checked.growing = last && grows(file, &scan);
    if checked.growing { Ok(checked) } else { Err(cut) }
}

fn grows(file: &BinlogFile, scan: &FileScan) -> bool {
    (0..GROWTH_STEPS).any(|_| {
        std::thread::sleep(GROWTH_STEP);
        file.size() > scan.file_len()
    })
}

impl Checked {
    /// The next event, whose own bytes are sound. The error says what does not fit.
    fn step(&mut self, event: &ScannedEvent<'_>) -> Result<(), String> {
        if let Some(next) = &self.next {
            return Err(format!(
                "a {} event stands behind the Rotate event to {next}",
                event.header.event_type
            ));
        }
        let end = event.position + event.raw.len() as u64;
        match self.groups.step(event.event).map_err(|error| error.to_string())? {
            Step::Begin(begin) => self.begin(begin.gtid)?,
            Step::Inside | Step::Rider => {}
            Step::End => {
                self.transactions += 1;
                self.open.take().into_iter().for_each(|gtid| self.state.update(gtid));
                self.end = end;
            }
            Step::Outside => {
                self.outside(event)?;
                self.end = end;
            }
        }
        Ok(())
    }

    fn begin(&mut self, gtid: Gtid) -> Result<(), String> {
        if self.state.last_of(gtid.domain, gtid.server) == Some(gtid) {
            return Err(format!("GTID {gtid} is there twice"));
        }
        self.open = Some(gtid);
        Ok(())
    }

    fn outside(&mut self, event: &ScannedEvent<'_>) -> Result<(), String> {
        let text = |error: spillway_binlog::event::EventError| error.to_string();
        match event.header.event_type {
            EventType::GTID_LIST => {
                (self.begin, _) = gtid_list::parse(event.event).map_err(text)?;
                self.timeline = gtid_list::timeline_domains(event.event).map_err(text)?;
                self.state = GtidState::from_list(&self.begin);
            }
            EventType::STOP => self.no_next = true,
            EventType::FORMAT_DESCRIPTION => self.no_next = event.header.flags & FLAG_IN_USE != 0,
            EventType::ROTATE => {
                let (_, name) = control::parse_rotate(event.event).map_err(text)?;
                self.next = Some(String::from_utf8_lossy(name).into_owned());
            }
            _ => {}
        }
        Ok(())
    }
}

/// A file goes on where the one before it ended.
fn follows(
    previous: &BinlogFile,
    end: &Checked,
    file: &BinlogFile,
    checked: &Checked,
) -> Result<(), Stop> {
    if file.number != previous.number + 1 {
        let missing = format!(
            "{} does not follow {}: files between them are missing",
            file.name, previous.name
        );
        return Err(Failure::fault(missing).into());
    }
    if let Some(next) = end.next.as_ref().filter(|next| **next != file.name) {
        return Err(
            previous.fault_at(end.end, format!("its Rotate event names {next}, not {}", file.name))
        );
    }
    if end.next.is_none() && !end.no_next {
        let missing = format!("no Rotate event to {} ends it", file.name);
        return Err(previous.fault_at(end.end, missing));
    }
    let new = checked.timeline.as_deref().unwrap_or_default();
    let (wanted, found) = (sorted(&end.state.list(), new), sorted(&checked.begin, new));
    if wanted != found {
        return Err(file.fault_at(
            0,
            format!(
                "its Gtid_list is [{}], but {} ends with [{}]",
                print_list(&found),
                previous.name,
                print_list(&wanted)
            ),
        ));
    }
    Ok(())
}

/// The order within a list is the server's business. Without the domains that begin `new` there.
fn sorted(list: &[Gtid], new: &[u32]) -> Vec<Gtid> {
    let mut list: Vec<_> =
        list.iter().filter(|gtid| !new.contains(&gtid.domain)).copied().collect();
    list.sort_unstable_by_key(|gtid| (gtid.domain, gtid.server, gtid.sequence));
    list
}

#[cfg(test)]
mod tests;
