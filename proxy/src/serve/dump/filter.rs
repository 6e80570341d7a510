//! Which events of the log a dump sends, by MariaDB's rules. A pure state machine: events in, decisions out.

use std::collections::HashMap;

use spillway_binlog::event::gtid::GtidEvent;
use spillway_binlog::event::{ChecksumAlgorithm, EventError, EventHeader, EventType, gtid_list};
use spillway_binlog::gtid::mariadb::{Gtid, GtidState};
use spillway_binlog::transaction::group::{GroupError, GroupTracker, Step};

use super::request::{Capability, DumpRequest, GtidStart, Start};
use super::substitute;

/// What to do with an event.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// Send its bytes as they are.
    Send,
    Skip,
    /// Send these in its place.
    Replace(Vec<u8>),
}

/// What to send behind an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Notice {
    /// An artificial Gtid_list with this body: the replica's position was reached in a domain.
    Reached(Vec<u8>),
    /// The same with the flag that the UNTIL position was reached; then the dump ends.
    UntilReached(Vec<u8>),
}

/// Why no decision can be made.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum FilterError {
    Group(GroupError),
    /// The replica named this GTID of a domain that was empty then; the domain has begun, without it.
    Ahead(Gtid),
    /// In strict mode: this GTID is missing though a later one of its server is there.
    Hole(Gtid),
    /// An event has no room for its substitute.
    TooSmall,
}

impl From<GroupError> for FilterError {
    fn from(error: GroupError) -> Self {
        Self::Group(error)
    }
}

impl From<EventError> for FilterError {
    fn from(error: EventError) -> Self {
        Self::Group(error.into())
    }
}

/// What a replica has in a domain, until the stream has passed it.
#[derive(Clone, Copy, Debug)]
struct Position {
    gtid: Gtid,
    /// The log had nothing of the domain when the dump started.
    empty_domain: bool,
}

/// See the module's description.
#[derive(Debug)]
pub(super) struct Filter {
    by_gtid: bool,
    positions: HashMap<u32, Position>,
    strict: bool,
    until: Option<Until>,
    /// The GTIDs behind the last event, sent or not.
    state: GtidState,
    /// A group that is not sent, being followed to its end.
    skipping: Option<GroupTracker>,
    /// A position was reached; the replica is told at the end of the group.
    reached: bool,
    annotate: bool,
    capability: Capability,
}

#[derive(Debug)]
struct Until {
    left: HashMap<u32, Gtid>,
    before: bool,
    /// The last group, being followed to its end.
    last: Option<GroupTracker>,
    over: bool,
}

impl Filter {
    /// For a request. `log` is what the log holds now, `head` the Gtid_list of the file the dump starts in.
    pub fn new(request: &DumpRequest, log: &GtidState, head: &[Gtid]) -> Self {
        let gtid = match &request.start {
            Start::Gtid(start) => Some(start),
            Start::Position { .. } => None,
        };
        Self {
            by_gtid: gtid.is_some(),
            positions: gtid.map(|start| positions(start, log, head)).unwrap_or_default(),
            strict: gtid.is_some_and(|start| start.strict),
            until: gtid.and_then(|start| until(start, log, head)),
            state: GtidState::from_list(head),
            skipping: None,
            reached: false,
            annotate: request.annotate,
            capability: request.capability,
        }
    }

    /// For a dump that starts within a file, at a place where the GTID state is `known`: a position reached there is told before
    /// the first event, by [`Filter::notice`].
    pub fn resuming(request: &DumpRequest, log: &GtidState, known: &[Gtid]) -> Self {
        let mut filter = Self::new(request, log, known);
        if let Start::Gtid(start) = &request.start {
            filter.reached = filter.positions.len() < start.state.len();
        }
        filter
    }

    /// Whether the replica has everything before the first event, so that a server's restart there is news to it.
    pub fn is_at_start(&self) -> bool {
        self.positions.values().all(|position| position.empty_domain)
    }

    /// What the replica has in a domain that the stream has not passed yet.
    pub fn ahead_in(&self, domain: u32) -> Option<Gtid> {
        self.positions.get(&domain).map(|position| position.gtid)
    }

    /// Whether the UNTIL position lies before the first event.
    pub fn is_over_at_start(&self) -> Option<Notice> {
        let over = self.until.as_ref().is_some_and(|until| until.left.is_empty());
        over.then(|| self.until_reached())
    }

    /// Whether every event would be sent as it is, so that a run need not be looked at.
    pub fn passes_all(&self) -> bool {
        let quiet = self.positions.is_empty() && self.skipping.is_none() && !self.reached;
        quiet && self.until.is_none() && self.annotate && self.capability >= Capability::GTID
    }

    /// Decides on the next event, checksum included. `log` is asked what the log holds now, only if that matters.
    pub fn decide(
        &mut self,
        header: &EventHeader,
        event: &[u8],
        checksum: ChecksumAlgorithm,
        log: impl FnOnce() -> GtidState,
    ) -> Result<Decision, FilterError> {
        let end = event.len().saturating_sub(checksum.trailer_len());
        let bytes = event.get(..end).unwrap_or_default();
        if self.by_gtid {
            match header.event_type {
                EventType::GTID_LIST => {
                    self.state = GtidState::from_list(&gtid_list::parse(bytes)?.0);
                }
                EventType::GTID => self.begin_group(&GtidEvent::parse(bytes)?, log)?,
                _ => {}
            }
        }
        if let Some(until) = &mut self.until {
            until.follow(bytes)?;
        }
        if let Some(tracker) = &mut self.skipping {
            if tracker.step(bytes)? == Step::End {
                self.skipping = None;
            }
            return Ok(Decision::Skip);
        }
        self.translate(header.event_type, event, checksum)
    }

    /// What has to follow the event just decided on.
    pub fn notice(&mut self) -> Option<Notice> {
        if self.until.as_ref().is_some_and(|until| until.over) {
            return Some(self.until_reached());
        }
        if !self.reached || self.skipping.is_some() {
            return None;
        }
        self.reached = false;
        Some(Notice::Reached(gtid_list::body(&self.state.list(), 0)))
    }

    fn until_reached(&self) -> Notice {
        let flags = gtid_list::FLAG_UNTIL_REACHED;
        Notice::UntilReached(gtid_list::body(&self.state.list(), flags))
    }

    fn begin_group(
        &mut self,
        event: &GtidEvent,
        log: impl FnOnce() -> GtidState,
    ) -> Result<(), FilterError> {
        if self.positions.is_empty() && self.until.is_none() {
            return Ok(());
        }
        let mut skip = self.is_before_position(event.gtid, log)?;
        skip |= self.is_beyond_until(event.gtid);
        if skip {
            self.skipping = Some(GroupTracker::default());
        }
        let stopped = self.until.as_ref().is_some_and(|until| until.last.is_some());
        if !(skip && stopped) {
            self.state.update(event.gtid);
        }
        Ok(())
    }

    /// Whether the replica has this group. Forgets a domain's position once it is passed.
    fn is_before_position(
        &mut self,
        gtid: Gtid,
        log: impl FnOnce() -> GtidState,
    ) -> Result<bool, FilterError> {
        let Some(position) = self.positions.get_mut(&gtid.domain) else { return Ok(false) };
        let wanted = position.gtid;
        if position.empty_domain {
            if !holds(&log(), wanted) {
                return Err(FilterError::Ahead(wanted));
            }
            position.empty_domain = false;
        }
        if gtid.server != wanted.server || gtid.sequence < wanted.sequence {
            return Ok(true);
        }
        if self.strict && gtid.sequence > wanted.sequence {
            return Err(FilterError::Hole(wanted));
        }
        self.positions.remove(&gtid.domain);
        self.reached = true;
        Ok(gtid.sequence == wanted.sequence)
    }

    /// Whether the group lies behind where the replica wants to stop.
    fn is_beyond_until(&mut self, gtid: Gtid) -> bool {
        let Some(until) = &mut self.until else { return false };
        let Some(wanted) = until.left.get(&gtid.domain).copied() else { return true };
        if gtid.server != wanted.server || gtid.sequence < wanted.sequence {
            return false;
        }
        until.left.remove(&gtid.domain);
        if until.left.is_empty() {
            until.last = Some(GroupTracker::default());
        }
        until.before || gtid.sequence > wanted.sequence
    }

    /// Events that a client did not ask for, or does not know.
    fn translate(
        &self,
        event_type: EventType,
        event: &[u8],
        checksum: ChecksumAlgorithm,
    ) -> Result<Decision, FilterError> {
        let known = match event_type {
            EventType::ANNOTATE_ROWS if self.annotate => return Ok(Decision::Send),
            EventType::ANNOTATE_ROWS if self.capability >= Capability::TOLERATE_HOLES => {
                return Ok(Decision::Skip);
            }
            EventType::ANNOTATE_ROWS => Capability::ANNOTATE,
            EventType::BINLOG_CHECKPOINT => Capability::BINLOG_CHECKPOINT,
            EventType::GTID | EventType::GTID_LIST => Capability::GTID,
            _ => return Ok(Decision::Send),
        };
        if self.capability >= known {
            return Ok(Decision::Send);
        }
        let tolerates_holes = self.capability >= Capability::TOLERATE_HOLES;
        let begins = event_type == EventType::GTID && !GtidEvent::parse(event)?.is_standalone();
        let made = match (begins, tolerates_holes) {
            (true, _) => substitute::begin(event, checksum),
            (false, true) => return Ok(Decision::Skip),
            (false, false) => substitute::dummy(event, checksum),
        };
        made.map(Decision::Replace).ok_or(FilterError::TooSmall)
    }
}

impl Until {
    fn follow(&mut self, event: &[u8]) -> Result<(), GroupError> {
        if let Some(tracker) = &mut self.last {
            self.over |= tracker.step(event)? == Step::End;
        }
        Ok(())
    }
}

/// What has to be passed over in each domain. Not the GTIDs that are the last before the file: nothing of theirs is in it.
fn positions(start: &GtidStart, log: &GtidState, head: &[Gtid]) -> HashMap<u32, Position> {
    let before_file = |gtid: &&Gtid| !head.contains(gtid);
    let position =
        |gtid: &Gtid| Position { gtid: *gtid, empty_domain: log.latest(gtid.domain).is_none() };
    let wanted = start.state.iter().filter(before_file);
    wanted.map(|gtid| (gtid.domain, position(gtid))).collect()
}

/// Without the domains whose UNTIL lies before the file, or before a position that the log has not reached.
fn until(start: &GtidStart, log: &GtidState, head: &[Gtid]) -> Option<Until> {
    let head = GtidState::from_list(head);
    let ahead = |domain| {
        let position = start.state.iter().find(|gtid| gtid.domain == domain);
        position.is_some_and(|gtid| log.latest(domain).is_some() && !holds(log, *gtid))
    };
    let passed = |gtid: &Gtid| holds(&head, *gtid) || (ahead(gtid.domain) && holds(log, *gtid));
    let left = start.until.as_ref()?.iter().filter(|gtid| !passed(gtid));
    let left = left.map(|gtid| (gtid.domain, *gtid)).collect();
    Some(Until { left, before: start.until_before, last: None, over: false })
}

/// Whether the server of this GTID wrote it, or a later one, before this state.
pub(super) fn holds(state: &GtidState, gtid: Gtid) -> bool {
    let known = state.last_of(gtid.domain, gtid.server);
    known.is_some_and(|known| known.sequence >= gtid.sequence)
}

#[cfg(test)]
mod tests;
