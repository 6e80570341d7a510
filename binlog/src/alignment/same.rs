//! Whether a transaction is the one that stands in the log at a place: the same events, but for their end positions, their
//! checksums, and the padding of the Gtid event of a renamed file; or else the same [`content`](super::content).
//!
//! What rides with it is left out: a server that looks for a position sends the events outside of transactions (Incident) that it
//! passes, so they come again, and with another transaction than the first time (observed on MariaDB 10.11).

use std::io;
use std::sync::Arc;

use super::AlignError;
use super::content::{Content, ContentSum};
use super::groups::Group;
use crate::event::{EventHeader, EventType};
use crate::log::Log;
use crate::reader::{Run, View};
use crate::transaction::{Events, Transaction};

/// Whether `transaction` is what the log has as `group`. Its rows may be packed into events of another size, and it may come from
/// a replica that has logged it anew.
pub(super) fn is_same(
    log: &Arc<Log>,
    transaction: &Transaction,
    group: &Group,
) -> Result<bool, AlignError> {
    if transaction.gtid() != group.gtid || transaction.time() != group.time {
        return Ok(false);
    }
    if is_equal(log, transaction, group)? {
        return Ok(true);
    }
    Ok(sent_content(transaction)?.is_same(&recorded_content(log, group)?))
}

/// Compares with the log's bytes as they are.
fn is_equal(log: &Log, transaction: &Transaction, group: &Group) -> Result<bool, AlignError> {
    let mut sent = SentEvents::new(transaction);
    let mut equal = true;
    for_each_event(log, group, |recorded| {
        let next = sent.next()?;
        equal = next.is_some_and(|next| is_same_event(next, recorded));
        Ok(equal)
    })?;
    Ok(equal && sent.next()?.is_none())
}

/// Calls `look` with the events of a group, its Gtid event first, without their checksums, until it answers false.
fn for_each_event(
    log: &Log,
    group: &Group,
    mut look: impl FnMut(&[u8]) -> Result<bool, AlignError>,
) -> Result<(), AlignError> {
    const STEP: usize = 1 << 20;
    let mut cursor = log.cursor(group.file, group.start)?;
    let trailer = cursor.format().checksum.trailer_len();
    let mut begun = false;
    loop {
        let Run::Events(run) = cursor.next_run(STEP)? else { return Ok(()) };
        for (at, header, event) in run.events() {
            begun |= header.event_type == EventType::GTID;
            if !begun {
                continue;
            }
            let event = event.get(..event.len().saturating_sub(trailer)).unwrap_or_default();
            if at >= group.end || !look(event)? {
                return Ok(());
            }
        }
    }
}

fn recorded_content(log: &Log, group: &Group) -> Result<ContentSum, AlignError> {
    let format = log.cursor(group.file, group.start)?.format().rows_layout();
    let mut content = Content::new(format);
    for_each_event(log, group, |event| {
        content.add(event);
        Ok(true)
    })?;
    Ok(content.sum())
}

fn sent_content(transaction: &Transaction) -> io::Result<ContentSum> {
    let mut content = Content::new(transaction.format().rows_layout());
    let mut events = SentEvents::new(transaction);
    while let Some(event) = events.next()? {
        content.add(event);
    }
    Ok(content.sum())
}

/// Both without checksum.
fn is_same_event(one: &[u8], other: &[u8]) -> bool {
    let (Ok(head), Ok(other_head)) = (EventHeader::parse(one), EventHeader::parse(other)) else {
        return false;
    };
    let plain = |header: EventHeader| EventHeader { event_size: 0, end_position: 0, ..header };
    if plain(head) != plain(other_head) {
        return false;
    }
    let [one, other] = [one, other].map(|event| event.get(EventHeader::LEN..).unwrap_or_default());
    match head.event_type {
        EventType::GTID => unpadded(one) == unpadded(other),
        _ => one == other,
    }
}

/// Without the zeros at its end.
fn unpadded(body: &[u8]) -> &[u8] {
    let len = body.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    body.get(..len).unwrap_or_default()
}

/// The events of a transaction that is not in the log, its Gtid event first, one by one, without their checksums.
struct SentEvents<'a> {
    memory: &'a [u8],
    file: Option<(View, u64, u64)>,
    trailer: usize,
}

impl<'a> SentEvents<'a> {
    fn new(transaction: &'a Transaction) -> Self {
        let trailer = transaction.checksum().trailer_len();
        match transaction.events() {
            Events::Memory(events) => Self { memory: behind_riders(events), file: None, trailer },
            Events::File(spilled) => {
                let view = View::new(Arc::clone(&spilled.file.file), true);
                let file = Some((view, spilled.file.head, spilled.end()));
                Self { memory: behind_riders(&spilled.lead), file, trailer }
            }
        }
    }

    fn next(&mut self) -> io::Result<Option<&[u8]>> {
        if !self.memory.is_empty() {
            let (event, rest) = split(self.memory)?;
            self.memory = rest;
            return Ok(event.get(..event.len().saturating_sub(self.trailer)));
        }
        let Some((view, at, end)) = &mut self.file else { return Ok(None) };
        if at >= end {
            return Ok(None);
        }
        let header = EventHeader::parse(view.bytes(*at, *at + EventHeader::LEN as u64)?);
        let size = header.map_err(io::Error::other)?.event_size;
        let from = *at;
        *at += u64::from(size);
        let event = view.bytes(from, *at)?;
        Ok(event.get(..event.len().saturating_sub(self.trailer)))
    }
}

/// From the Gtid event on, which is in memory always.
fn behind_riders(mut events: &[u8]) -> &[u8] {
    while EventHeader::parse(events).is_ok_and(|header| header.event_type != EventType::GTID) {
        let Ok((_, rest)) = split(events) else { break };
        events = rest;
    }
    events
}

fn split(events: &[u8]) -> io::Result<(&[u8], &[u8])> {
    let size = EventHeader::parse(events).map_err(io::Error::other)?.event_size as usize;
    let cut = events.split_at_checked(size.max(EventHeader::LEN));
    cut.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{event, gtid_event};

    #[test]
    fn only_a_gtid_event_may_be_padded() {
        let gtid = gtid_event("0-1-7".parse().unwrap());
        let padded = [gtid.as_slice(), &[0; 9]].concat();
        assert!(is_same_event(&gtid, &padded) && is_same_event(&padded, &gtid));
        assert!(!is_same_event(&gtid, &[gtid.as_slice(), &[0, 1]].concat()));
        assert!(!is_same_event(&gtid, &gtid_event("0-1-8".parse().unwrap())));
        let [short, long] = [8, 9].map(|len| event(EventType::XID, &vec![0; len]));
        assert!(is_same_event(&short, &short) && !is_same_event(&short, &long));
        assert!(!is_same_event(&gtid, &gtid[..EventHeader::LEN]) && !is_same_event(&[], &[]));
    }
}
