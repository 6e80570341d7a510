//! The log, transaction by transaction, of some domains.

use std::collections::VecDeque;
use std::sync::Arc;

use super::AlignError;
use crate::event::{EventHeader, EventType};
use crate::gtid::Domains;
use crate::gtid::mariadb::{Gtid, GtidState};
use crate::gtid_index::Span;
use crate::log::{FileEntry, Log, LogEnd};
use crate::reader::{Cursor, Run};
use crate::transaction::group::{GroupTracker, Step};

/// Bytes of the log that are looked at at once.
const STEP: usize = 1 << 20;
/// How far before the log's last transaction one of another domain may stand to be asked for once more.
const NEAR: u64 = 64 << 20;
/// So many of these domains at most.
const MOST_DOMAINS: usize = 16;

/// Where one transaction stands in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Group {
    pub(super) gtid: Gtid,
    /// The time of its Gtid event, Unix seconds.
    pub(super) time: u32,
    pub(super) file: u64,
    /// Where its first event starts: what rides with it, or its Gtid event.
    pub(super) start: u64,
    /// Behind its last event.
    pub(super) end: u64,
}

impl Group {
    /// The name of its file.
    pub(super) fn name(&self, log: &Log) -> String {
        let entry = log.shared.files.get(self.file);
        entry.map(|entry| entry.name.clone()).unwrap_or_default()
    }
}

/// Walks the transactions of some domains, up to the log's end as it was when the walk began.
#[derive(Debug)]
pub(super) struct Groups {
    cursor: Cursor,
    end: LogEnd,
    domains: Domains,
    tracker: GroupTracker,
    /// Of the group that is open: where it starts, and its GTID and time once that is known.
    start: Option<u64>,
    gtid: Option<(Gtid, u32)>,
    /// The GTID state behind the last group that was read.
    state: GtidState,
    found: VecDeque<(Group, GtidState)>,
}

impl Groups {
    fn at(log: &Log, cursor: Cursor, domains: &Domains, state: GtidState) -> Self {
        Self {
            cursor,
            end: log.end(),
            domains: domains.clone(),
            tracker: GroupTracker::default(),
            start: None,
            gtid: None,
            state,
            found: VecDeque::new(),
        }
    }

    /// Looks for a transaction, oldest first, in the files that may hold it as far as their indexes tell. Answers what `look` does,
    /// and the walk behind that transaction.
    pub(super) fn find<T>(
        log: &Log,
        domains: &Domains,
        may_be: impl Fn(&Span) -> bool,
        mut look: impl FnMut(Group) -> Result<Option<T>, AlignError>,
    ) -> Result<Option<(T, Self)>, AlignError> {
        let (end, files) = (log.end(), log.shared.files.all());
        let first = files.iter().rposition(|entry| begins(entry, domains)).unwrap_or_default();
        for entry in files.iter().skip(first).filter(|entry| entry.number <= end.file) {
            if !log.may_hold(entry, &may_be) {
                continue;
            }
            let sought = log.seek_last(entry.number, |_| false)?;
            let mut groups = Self::at(log, sought.cursor, domains, sought.state);
            while let Some((group, _)) = groups.next_in(entry.number)? {
                if let Some(found) = look(group)? {
                    return Ok(Some((found, groups)));
                }
            }
        }
        Ok(None)
    }

    /// The next transaction of a file, and the GTID state before it; `None` behind its last.
    fn next_in(&mut self, file: u64) -> Result<Option<(Group, GtidState)>, AlignError> {
        while self.found.is_empty() && self.cursor.file() <= file {
            if !self.read()? {
                break;
            }
        }
        let is_in = self.found.front().is_some_and(|(group, _)| group.file == file);
        Ok(if is_in { self.found.pop_front() } else { None })
    }

    /// The next transaction, and the GTID state before it; `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<(Group, GtidState)>, AlignError> {
        while self.found.is_empty() {
            if !self.read()? {
                return Ok(None);
            }
        }
        Ok(self.found.pop_front())
    }

    /// Reads on; false at the end.
    fn read(&mut self) -> Result<bool, AlignError> {
        if (self.cursor.file(), self.cursor.position()) >= (self.end.file, self.end.position) {
            return Ok(false);
        }
        let (file, trailer) = (self.cursor.file(), self.cursor.format().checksum.trailer_len());
        let name = self.cursor.file_name().to_owned();
        let run = match self.cursor.next_run(STEP)? {
            Run::Events(run) => run,
            Run::NextFile => return Ok(true),
            Run::CaughtUp => return Ok(false),
        };
        for (at, header, event) in run.events() {
            let end = at + event.len() as u64;
            let has_trailer = header.event_type != EventType::FORMAT_DESCRIPTION;
            let len = event.len().saturating_sub(if has_trailer { trailer } else { 0 });
            let event = event.get(..len).unwrap_or_default();
            let step = self.tracker.step(event);
            let fault = |fault| AlignError::Group { file: name.clone(), position: at, fault };
            match step.map_err(fault)? {
                Step::Outside | Step::Inside => {}
                Step::Rider => {
                    self.start.get_or_insert(at);
                }
                Step::Begin(begin) => {
                    self.start.get_or_insert(at);
                    self.gtid = Some((begin.gtid, time(event)));
                }
                Step::End => {
                    let group = (self.start.take(), self.gtid.take());
                    let (Some(start), Some((gtid, time))) = group else { continue };
                    if self.domains.contains(gtid.domain) {
                        let group = Group { gtid, time, file, start, end };
                        self.found.push_back((group, self.state.clone()));
                    }
                    self.state.update(gtid);
                }
            }
        }
        Ok(true)
    }
}

fn time(event: &[u8]) -> u32 {
    EventHeader::parse(event).map(|header| header.timestamp).unwrap_or_default()
}

/// The last transaction of some domains, and the GTID state before it; `None` where the log has none.
pub(super) fn last(log: &Log, domains: &Domains) -> Result<Option<(Group, GtidState)>, AlignError> {
    let end = log.end();
    let mut after = domains.of_state(&log.gtid_state());
    for entry in log.shared.files.all().iter().rev().filter(|entry| entry.number <= end.file) {
        let before = domains.of_state(&GtidState::from_list(&entry.gtid_list));
        if before != after {
            return last_in(log, domains, entry.number, &after);
        }
        if begins(entry, domains) {
            // What lies before is another history.
            return Ok(None);
        }
        after = before;
    }
    Ok(None)
}

/// The last transaction of each other domain that has one shortly before `last`, which is the last of all, and the GTID state before
/// it.
pub(super) fn last_of_each(
    log: &Log,
    domains: &Domains,
    last: &Group,
) -> Result<Vec<(Group, GtidState)>, AlignError> {
    let files = log.shared.files.all();
    let far = |entry: &&Arc<FileEntry>| {
        entry.number <= last.file && bytes_between(&files, (entry.number, 0), last) >= NEAR
    };
    let oldest = files.iter().rev().find(far);
    let before = oldest.map(|entry| GtidState::from_list(&entry.gtid_list)).unwrap_or_default();
    let now = domains.of_state(&log.gtid_state());
    let changed = now.position().into_iter().map(|gtid| gtid.domain).filter(|domain| {
        let only = Domains::only([*domain]);
        *domain != last.gtid.domain && only.of_state(&now) != only.of_state(&before)
    });
    let mut found = Vec::new();
    for domain in changed.take(MOST_DOMAINS) {
        found.extend(self::last(log, &Domains::only([domain]))?);
    }
    found.retain(|(group, _)| bytes_between(&files, (group.file, group.start), last) < NEAR);
    Ok(found)
}

/// From a place in the log to a transaction behind it.
fn bytes_between(files: &[Arc<FileEntry>], (file, position): (u64, u64), last: &Group) -> u64 {
    let passed = files.iter().filter(|entry| (file..last.file).contains(&entry.number));
    let passed: u64 = passed.filter_map(|entry| entry.closed_len()).sum();
    (passed + last.start).saturating_sub(position)
}

impl Log {
    /// The last transaction of some domains that is of their timeline: its GTID, the number of its file, and where it starts there.
    ///
    /// # Errors
    /// [`AlignError`].
    pub fn last_transaction(
        &self,
        domains: &Domains,
    ) -> Result<Option<(Gtid, u64, u64)>, AlignError> {
        Ok(last(self, domains)?.map(|(last, _)| (last.gtid, last.file, last.start)))
    }
}

/// The last transaction that `fits`, in the files that may hold it as far as their indexes tell.
pub(super) fn find_last(
    log: &Log,
    domains: &Domains,
    may_be: impl Fn(&Span) -> bool,
    fits: impl Fn(&Group) -> bool,
) -> Result<Option<Gtid>, AlignError> {
    let (end, files) = (log.end(), log.shared.files.all());
    for entry in files.iter().rev().filter(|entry| entry.number <= end.file) {
        if log.may_hold(entry, &may_be) {
            let sought = log.seek_last(entry.number, |_| false)?;
            let mut groups = Groups::at(log, sought.cursor, domains, sought.state);
            let mut found = None;
            while let Some((group, _)) = groups.next_in(entry.number)? {
                found = Some(group.gtid).filter(|_| fits(&group)).or(found);
            }
            if found.is_some() {
                return Ok(found);
            }
        }
        if begins(entry, domains) {
            break;
        }
    }
    Ok(None)
}

/// Whether one of the domains begins a timeline with a file.
fn begins(entry: &FileEntry, domains: &Domains) -> bool {
    entry.timeline.as_ref().is_some_and(|new| new.begins(domains))
}

/// The last in a file at whose end the domains' state is `after`.
fn last_in(
    log: &Log,
    domains: &Domains,
    file: u64,
    after: &GtidState,
) -> Result<Option<(Group, GtidState)>, AlignError> {
    let differs = |list: &[Gtid]| domains.of_state(&GtidState::from_list(list)) != *after;
    let sought = log.seek_last(file, differs)?;
    let mut groups = Groups::at(log, sought.cursor, domains, sought.state);
    let mut last = None;
    while let Some(found) = groups.next_in(file)? {
        last = Some(found);
    }
    Ok(last)
}
