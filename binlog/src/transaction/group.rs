//! Where a transaction's events begin and end in MariaDB's binlog. One state machine for capture, recovery, verify and serve.
//!
//! A group opens with a GTID event. A *standalone* group (DDL) ends with the first event that is no preamble of a statement, and
//! not one that readers may ignore; any other ends with Xid, XA_prepare, or a Query (compressed or not) that is COMMIT or ROLLBACK.

use crate::event::gtid::GtidEvent;
use crate::event::header::FLAG_IGNORABLE;
use crate::event::{EventError, EventHeader, EventType};

/// What an event is to the groups of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Stands between groups: a file's or a dump's own event (Rotate, format description, Gtid_list …).
    Outside,
    /// Stands between groups but belongs to the history (an Incident, or a type not known here): it rides with the next group.
    Rider,
    /// Opens a group.
    Begin(GtidEvent),
    /// Inside a group.
    Inside,
    /// The last event of a group.
    End,
}

/// The events do not form groups.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GroupError {
    /// A group was still open.
    #[error("a {0} event stands inside a transaction")]
    Misplaced(EventType),
    /// An event of a transaction with no GTID event before it.
    #[error("a {0} event stands outside any transaction")]
    NoGtid(EventType),
    /// The event itself cannot be read.
    #[error(transparent)]
    Event(#[from] EventError),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Between,
    Standalone,
    Transaction,
}

/// Follows the groups of a stream of events.
#[derive(Clone, Debug, Default)]
pub struct GroupTracker {
    state: State,
}

impl GroupTracker {
    /// Whether a group is open.
    pub fn in_group(&self) -> bool {
        self.state != State::Between
    }

    /// Takes the next event, without its checksum.
    ///
    /// # Errors
    /// [`GroupError`] where it cannot stand here; the tracker is then of no further use.
    pub fn step(&mut self, event: &[u8]) -> Result<Step, GroupError> {
        let EventHeader { event_type, flags, .. } = EventHeader::parse(event)?;
        match self.state {
            State::Between => self.between(event_type, event),
            _ if event_type == EventType::HEARTBEAT => Ok(Step::Outside),
            _ if is_framing(event_type) => Err(GroupError::Misplaced(event_type)),
            State::Standalone => {
                let goes_before = is_preamble(event_type) || flags & FLAG_IGNORABLE != 0;
                Ok(self.end_if(!goes_before))
            }
            State::Transaction => Ok(self.end_if(ends_transaction(event_type, event))),
        }
    }

    fn between(&mut self, event_type: EventType, event: &[u8]) -> Result<Step, GroupError> {
        if event_type == EventType::GTID {
            let gtid = GtidEvent::parse(event)?;
            self.state = if gtid.is_standalone() { State::Standalone } else { State::Transaction };
            return Ok(Step::Begin(gtid));
        }
        if needs_group(event_type) {
            return Err(GroupError::NoGtid(event_type));
        }
        Ok(if is_framing(event_type) { Step::Outside } else { Step::Rider })
    }

    fn end_if(&mut self, ends: bool) -> Step {
        if !ends {
            return Step::Inside;
        }
        self.state = State::Between;
        Step::End
    }
}

/// Events that steer a file or a dump, or open the next group: never inside a group.
fn is_framing(event_type: EventType) -> bool {
    matches!(
        event_type,
        EventType::FORMAT_DESCRIPTION
            | EventType::ROTATE
            | EventType::STOP
            | EventType::HEARTBEAT
            | EventType::GTID
            | EventType::GTID_LIST
            | EventType::BINLOG_CHECKPOINT
            | EventType::START_ENCRYPTION
    )
}

/// Events that mean nothing without the GTID event before them.
fn needs_group(event_type: EventType) -> bool {
    is_preamble(event_type)
        || is_rows(event_type)
        || matches!(
            event_type,
            EventType::QUERY | EventType::QUERY_COMPRESSED | EventType::XID | EventType::XA_PREPARE
        )
}

/// Events that come before the one that a standalone group consists of.
fn is_preamble(event_type: EventType) -> bool {
    matches!(
        event_type,
        EventType::INTVAR
            | EventType::RAND
            | EventType::USER_VAR
            | EventType::TABLE_MAP
            | EventType::ANNOTATE_ROWS
            | EventType::BEGIN_LOAD_QUERY
            | EventType::APPEND_BLOCK
    )
}

/// Rows events of any kind, compressed or not.
pub fn is_rows(event_type: EventType) -> bool {
    matches!(event_type.0, 23..=25 | 30..=32 | 39 | 166..=171)
}

fn ends_transaction(event_type: EventType, event: &[u8]) -> bool {
    match event_type {
        EventType::XID | EventType::XA_PREPARE => true,
        // Never compressed: servers compress texts of ten bytes or more (`log_bin_compress_min_len`).
        EventType::QUERY => matches!(query_text(event), Some(b"COMMIT" | b"ROLLBACK")),
        _ => false,
    }
}

/// The statement of a Query event: behind 13 bytes of post-header, the status variables, the schema and a NUL.
///
/// ```text
///  thread id u32 | seconds u32 | schema length u8 | error code u16 | status length u16 | status | schema | NUL | text
/// ```
pub fn query_text(event: &[u8]) -> Option<&[u8]> {
    query_parts(event).map(|(_, text)| text)
}

/// The schema of a Query event, and its statement; see [`query_text`].
pub(crate) fn query_parts(event: &[u8]) -> Option<(&[u8], &[u8])> {
    const POST_HEADER_LEN: usize = 13;
    let body = event.get(EventHeader::LEN..)?;
    let schema_len = usize::from(*body.get(8)?);
    let status_len = usize::from(u16::from_le_bytes([*body.get(11)?, *body.get(12)?]));
    let schema_at = POST_HEADER_LEN + status_len;
    let schema = body.get(schema_at..schema_at + schema_len)?;
    Some((schema, body.get(schema_at + schema_len + 1..)?))
}

#[cfg(test)]
mod tests;
