//! The differential oracle: what two event streams *say*, event by event, with packing and positions left out.
//!
//! Left out are header events, artificial events, end positions and checksums. Consecutive rows events that a packer may
//! join or split (same type, header, table map, flags, columns and extra data, within one statement) count as one run with
//! all their rows' bytes one after the other. Everything else must be the same to the byte.
//!
//! Half a transaction at the end of a file is what a server that was killed leaves behind. A replica rolls it back, so it says
//! nothing: it is left out and counted.

mod group;

use std::collections::VecDeque;

use crate::client::Error;
use crate::dump::{ARTIFICIAL, Dump, Event, FORMAT_DESCRIPTION, Request};
use group::Tracker;

/// Types that belong to a file or a stream, not to what was committed: Stop, Rotate, format description, heartbeat,
/// Binlog_checkpoint, Gtid_list.
const HEADER_EVENTS: &[u8] = &[3, 4, 15, 27, 161, 163];
const STATEMENT_END: u16 = 1;

/// An event, or a run of rows events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Logical {
    /// Type code.
    pub kind: u8,
    timestamp: u32,
    server_id: u32,
    flags: u16,
    /// Of rows: everything before the rows, with the statement-end flag cleared. Else the whole body.
    head: Vec<u8>,
    rows: Vec<u8>,
    ends_statement: bool,
    gtid: Option<String>,
}

/// How much was compared.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Compared {
    /// GTID events.
    pub transactions: u64,
    /// Events after merging.
    pub events: u64,
    /// Half transactions left out of the first stream; the second may have none.
    pub halves: u64,
}

/// Compares all that two sources have; panics with the first difference.
pub fn assert_same_stream(
    left: (u16, (&str, &str)),
    right: (u16, (&str, &str)),
    from: &str,
) -> Compared {
    compare_sources(left, right, from).unwrap_or_else(|difference| panic!("{difference}"))
}

/// Compares all that two sources (port and login) have after a GTID position.
///
/// # Errors
/// The first difference as text, with the GTID it is in.
pub fn compare_sources(
    left: (u16, (&str, &str)),
    right: (u16, (&str, &str)),
    from: &str,
) -> Result<Compared, String> {
    let open = |name: &str, (port, login): (u16, (&str, &str))| {
        let dump = Dump::start(port, login, &Request::from_gtid(from))
            .map_err(|error| format!("{name}: {error}"))?;
        Ok::<_, String>(Stream::new(dump))
    };
    compare(open("first source", left)?, open("second source", right)?)
}

/// Compares two streams.
///
/// # Errors
/// The first difference as text, with the GTID it is in.
pub fn compare<A, B>(mut left: Stream<A>, mut right: Stream<B>) -> Result<Compared, String>
where
    A: Iterator<Item = Result<Event, Error>>,
    B: Iterator<Item = Result<Event, Error>>,
{
    let mut compared = Compared::default();
    let mut gtid = "the start".to_owned();
    loop {
        let at = |name: &str, error: Error| format!("{name} stream, after {gtid}: {error}");
        let first = left.next_logical().map_err(|error| at("first", error))?;
        let second = right.next_logical().map_err(|error| at("second", error))?;
        let (first, second) = match (first, second) {
            (None, None) => break,
            (Some(first), Some(second)) => (first, second),
            (first, second) => return Err(one_ended(&gtid, first.as_ref(), second.as_ref())),
        };
        if let Some(new) = &first.gtid {
            gtid.clone_from(new);
            compared.transactions += 1;
        }
        compared.events += 1;
        if first != second {
            return Err(difference(&gtid, &first, &second));
        }
    }
    compared.halves = left.halves;
    match right.halves {
        0 => Ok(compared),
        halves => Err(format!("the second stream has {halves} half transactions")),
    }
}

/// Events merged into logical ones.
pub struct Stream<I: Iterator<Item = Result<Event, Error>>> {
    events: I,
    group: VecDeque<Event>,
    held_back: Option<Event>,
    halves: u64,
}

impl<I: Iterator<Item = Result<Event, Error>>> Stream<I> {
    /// Over any source of events.
    pub fn new(events: I) -> Self {
        Self { events, group: VecDeque::new(), held_back: None, halves: 0 }
    }

    /// The next event or whole run.
    ///
    /// # Errors
    /// Those of the events, and rows events that are malformed.
    pub fn next_logical(&mut self) -> Result<Option<Logical>, Error> {
        let Some(event) = self.next_relevant()? else { return Ok(None) };
        let mut run = logical(event)?;
        while is_rows(run.kind) && !run.ends_statement {
            let Some(event) = self.next_relevant()? else { break };
            let next = logical(event.clone())?;
            if !run.may_join(&next) {
                self.held_back = Some(event);
                break;
            }
            run.rows.extend_from_slice(&next.rows);
            run.ends_statement = next.ends_statement;
        }
        Ok(Some(run))
    }

    fn next_relevant(&mut self) -> Result<Option<Event>, Error> {
        if let Some(event) = self.held_back.take() {
            return Ok(Some(event));
        }
        if self.group.is_empty() {
            self.read_group()?;
        }
        Ok(self.group.pop_front())
    }

    /// Reads up to the end of a group, or of the stream.
    fn read_group(&mut self) -> Result<(), Error> {
        let mut tracker = Tracker::default();
        while let Some(event) = self.events.next().transpose()? {
            if event.kind == FORMAT_DESCRIPTION && !self.group.is_empty() {
                self.group.clear();
                self.halves += 1;
            }
            if is_header(&event) {
                continue;
            }
            let ends = tracker.ends_with(&event);
            self.group.push_back(event);
            if ends {
                break;
            }
        }
        Ok(())
    }
}

impl Logical {
    fn may_join(&self, next: &Self) -> bool {
        self.kind == next.kind
            && self.flags == next.flags
            && self.server_id == next.server_id
            && self.head == next.head
    }
}

fn is_header(event: &Event) -> bool {
    event.flags & ARTIFICIAL != 0 || HEADER_EVENTS.contains(&event.kind)
}

/// Write, update and delete, versions 1 and 2. Compressed ones (166–171) are not packed, so they count as they are.
fn is_rows(kind: u8) -> bool {
    matches!(kind, 23..=25 | 30..=32)
}

fn logical(event: Event) -> Result<Logical, Error> {
    let gtid = event.gtid();
    let mut logical = Logical {
        kind: event.kind,
        timestamp: event.timestamp,
        server_id: event.server_id,
        flags: event.flags,
        head: event.body,
        rows: Vec::new(),
        ends_statement: false,
        gtid,
    };
    if is_rows(logical.kind) {
        let begin = rows_begin(logical.kind, &logical.head)
            .ok_or_else(|| Error::Protocol(format!("short rows event, type {}", logical.kind)))?;
        logical.rows = logical.head.split_off(begin);
        logical.ends_statement = u16::from(logical.head[6]) & STATEMENT_END != 0;
        logical.head[6] &= !1;
    }
    Ok(logical)
}

/// Where the rows begin: after table id, flags, extra data (version 2), column count and the bitmaps of columns present.
fn rows_begin(kind: u8, body: &[u8]) -> Option<usize> {
    let mut at = 8;
    if kind >= 30 {
        at += usize::from(u16::from_le_bytes([*body.get(8)?, *body.get(9)?]));
    }
    let (columns, width) = match *body.get(at)? {
        0xfc => (usize::from(u16::from_le_bytes([*body.get(at + 1)?, *body.get(at + 2)?])), 3),
        small => (usize::from(small), 1),
    };
    let bitmaps = if matches!(kind, 24 | 31) { 2 } else { 1 };
    let begin = at + width + bitmaps * columns.div_ceil(8);
    (begin <= body.len()).then_some(begin)
}

fn one_ended(gtid: &str, first: Option<&Logical>, second: Option<&Logical>) -> String {
    let shown = |side: Option<&Logical>| side.map_or("its end".to_owned(), describe);
    format!("after {gtid}: the first stream has {}, the second {}", shown(first), shown(second))
}

fn difference(gtid: &str, first: &Logical, second: &Logical) -> String {
    let (at, what) = if first.head != second.head {
        (mismatch(&first.head, &second.head), "head")
    } else {
        (mismatch(&first.rows, &second.rows), "rows")
    };
    format!(
        "in {gtid} the streams differ ({what}, byte {at}):\n  first  {}\n  second {}",
        describe(first),
        describe(second)
    )
}

fn mismatch(first: &[u8], second: &[u8]) -> usize {
    let same = first.iter().zip(second).take_while(|(a, b)| a == b);
    same.count()
}

fn describe(event: &Logical) -> String {
    let head = &event.head[..event.head.len().min(80)];
    format!(
        "type {} timestamp {} server {} flags {:#06x}, {} + {} bytes, end of statement: {}, {}",
        event.kind,
        event.timestamp,
        event.server_id,
        event.flags,
        event.head.len(),
        event.rows.len(),
        event.ends_statement,
        head.escape_ascii()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(rows: &[u8], ends_statement: bool) -> Event {
        // Table id 7, flags, one column, present.
        let head = [7, 0, 0, 0, 0, 0, u8::from(ends_statement), 0, 1, 0xff];
        event(23, &[&head, rows].concat())
    }

    fn event(kind: u8, body: &[u8]) -> Event {
        Event {
            timestamp: 5,
            kind,
            server_id: 1,
            length: 0,
            end_position: 0,
            flags: 0,
            body: body.to_vec(),
            checksummed: true,
        }
    }

    fn compared(left: &[Event], right: &[Event]) -> Result<Compared, String> {
        let left = left.iter().cloned().map(Ok);
        let right = right.iter().cloned().map(Ok);
        compare(Stream::new(left), Stream::new(right))
    }

    #[test]
    fn packing_header_events_and_positions_do_not_matter() {
        let apart = [rows(b"a", false), rows(b"b", false), rows(b"c", true), event(16, b"x")];
        let mut xid = event(16, b"x");
        xid.end_position = 99;
        let together =
            [event(161, b"f"), rows(b"ab", false), event(4, b"r"), rows(b"c", true), xid];
        assert_eq!(compared(&apart, &together).unwrap().events, 2);
    }

    #[test]
    fn half_a_transaction_before_a_new_file_is_left_out_of_the_first_stream_only() {
        let gtid = event(162, &[0; 13]);
        let whole = [gtid.clone(), rows(b"a", true), event(16, b"x")];
        let mut torn = vec![gtid.clone(), rows(b"b", false), event(FORMAT_DESCRIPTION, b"f")];
        torn.extend_from_slice(&whole);
        let left_out = compared(&torn, &whole).unwrap();
        assert_eq!((left_out.transactions, left_out.halves), (1, 1));
        assert!(compared(&whole, &torn).unwrap_err().contains("half"));
        assert!(compared(&torn[..2], &torn[..1]).is_err());
        torn.remove(2);
        assert!(compared(&torn, &whole).is_err(), "within a file it is a difference");
    }

    #[test]
    fn anything_else_is_a_difference() {
        let stream = [rows(b"a", false), rows(b"b", true), event(16, b"x")];
        let others: [&[Event]; 6] = [
            &[rows(b"a", false), rows(b"c", true), event(16, b"x")],
            &[rows(b"a", true), rows(b"b", true), event(16, b"x")],
            &[rows(b"ab", false), event(16, b"x")],
            &[rows(b"ab", true), event(16, b"y")],
            &[rows(b"ab", true)],
            &[rows(b"ab", true), event(16, b"x"), event(16, b"x")],
        ];
        for (number, other) in others.into_iter().enumerate() {
            assert!(compared(&stream, other).is_err(), "case {number}");
        }
    }
}
