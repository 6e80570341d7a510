//! Whether a transaction is the one that stands in the log at a place: the same events, but for their end positions, their
//! checksums, and the padding of the Gtid event of a renamed file.

use std::io;
use std::sync::Arc;

use super::AlignError;
use super::groups::Group;
use crate::event::{EventHeader, EventType};
use crate::log::Log;
use crate::reader::{Run, View};
use crate::transaction::{Assembled, Events, Transaction};

/// Whether `transaction` is what the log has as `group`. Rows may have been packed into events of another size since.
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
    match packed_anew(log, group)? {
        Some(recorded) => Ok(are_equal(transaction, &recorded)?),
        None => Ok(false),
    }
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

/// Calls `look` with the events of a group, without their checksums, until it answers false.
fn for_each_event(
    log: &Log,
    group: &Group,
    mut look: impl FnMut(&[u8]) -> Result<bool, AlignError>,
) -> Result<(), AlignError> {
    const STEP: usize = 1 << 20;
    let mut cursor = log.cursor(group.file, group.start)?;
    let trailer = cursor.format().checksum.trailer_len();
    loop {
        let Run::Events(run) = cursor.next_run(STEP)? else { return Ok(()) };
        for (at, _, event) in run.events() {
            let event = event.get(..event.len().saturating_sub(trailer)).unwrap_or_default();
            if at >= group.end || !look(event)? {
                return Ok(());
            }
        }
    }
}

/// The log's transaction with its rows packed as they are packed today.
fn packed_anew(log: &Log, group: &Group) -> Result<Option<Transaction>, AlignError> {
    let format = log.cursor(group.file, group.start)?.format().as_ref().clone();
    let mut assembler = log.shared.assembler(Arc::new(format));
    let mut made = None;
    for_each_event(log, group, |event| {
        if let Assembled::Complete(transaction) = assembler.push(event)? {
            made = Some(transaction);
        }
        Ok(true)
    })?;
    Ok(made)
}

fn are_equal(one: &Transaction, other: &Transaction) -> io::Result<bool> {
    let (mut one, mut other) = (SentEvents::new(one), SentEvents::new(other));
    loop {
        match (one.next()?, other.next()?) {
            (None, None) => return Ok(true),
            (Some(one), Some(other)) if is_same_event(one, other) => {}
            _ => return Ok(false),
        }
    }
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
    let body = |event: &[u8]| event.get(EventHeader::LEN..).map(<[u8]>::to_vec);
    if head.event_type != EventType::GTID {
        return one.get(EventHeader::LEN..) == other.get(EventHeader::LEN..);
    }
    let trim = |mut body: Vec<u8>| {
        body.truncate(body.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1));
        body
    };
    body(one).map(trim) == body(other).map(trim)
}

/// The events of a transaction that is not in the log, one by one, without their checksums.
struct SentEvents<'a> {
    memory: &'a [u8],
    file: Option<(View, u64, u64)>,
    trailer: usize,
}

impl<'a> SentEvents<'a> {
    fn new(transaction: &'a Transaction) -> Self {
        let trailer = transaction.checksum().trailer_len();
        match transaction.events() {
            Events::Memory(events) => Self { memory: events, file: None, trailer },
            Events::File(spilled) => {
                let view = View::new(Arc::clone(&spilled.file.file), true);
                let file = Some((view, spilled.file.head, spilled.end()));
                Self { memory: &spilled.lead, file, trailer }
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

fn split(events: &[u8]) -> io::Result<(&[u8], &[u8])> {
    let size = EventHeader::parse(events).map_err(io::Error::other)?.event_size as usize;
    let cut = events.split_at_checked(size.max(EventHeader::LEN));
    cut.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
}
