//! Bytes of a side file ⇄ points. See docs/FORMAT.md for the drawing.

use super::{GtidIndex, Point, Span};
use crate::event::EventError;
use crate::event::read::Fields;
use crate::gtid::mariadb::Gtid;

const MAGIC: [u8; 4] = [0xfe, b'i', b'd', b'x'];
const VERSION: u32 = 1;
pub(super) const HEAD_LEN: usize = 16;
/// A point.
const POINT: u8 = 1;
/// The point at the end of a closed file.
const END: u8 = 2;
const FIXED_LEN: usize = 64;
const GTID_LEN: usize = 16;
const SPAN_LEN: usize = 24;
const SUM_LEN: usize = 4;

/// What a side file opens with; `head` is the CRC32 of the log file's header events.
pub(super) fn head(head: u32) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend_from_slice(&VERSION.to_le_bytes());
    bytes.extend_from_slice(&head.to_le_bytes());
    let sum = crc32fast::hash(&bytes);
    bytes.extend_from_slice(&sum.to_le_bytes());
    bytes
}

pub(super) fn encode(point: &Point, is_end: bool) -> Vec<u8> {
    let (state, spans) = (point.state.len(), point.spans.len());
    let size = FIXED_LEN + state * GTID_LEN + spans * SPAN_LEN + SUM_LEN;
    let mut bytes = Vec::with_capacity(size);
    let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX).to_le_bytes();
    bytes.extend_from_slice(&count(size));
    bytes.extend_from_slice(&[if is_end { END } else { POINT }, 0, 0, 0]);
    bytes.extend_from_slice(&point.position.to_le_bytes());
    bytes.extend_from_slice(&point.transactions.to_le_bytes());
    bytes.extend_from_slice(&point.latest.to_le_bytes());
    let (gtid, time) = point.last.unwrap_or((Gtid { domain: 0, server: 0, sequence: 0 }, 0));
    bytes.extend_from_slice(&time.to_le_bytes());
    put_gtid(&mut bytes, gtid);
    bytes.extend_from_slice(&point.mark.to_le_bytes());
    bytes.extend_from_slice(&count(state));
    bytes.extend_from_slice(&count(spans));
    bytes.extend_from_slice(&[0; 4]);
    point.state.iter().for_each(|gtid| put_gtid(&mut bytes, *gtid));
    for span in &point.spans {
        bytes.extend_from_slice(&span.domain.to_le_bytes());
        bytes.extend_from_slice(&span.server.to_le_bytes());
        bytes.extend_from_slice(&span.min.to_le_bytes());
        bytes.extend_from_slice(&span.max.to_le_bytes());
    }
    let sum = crc32fast::hash(&bytes);
    bytes.extend_from_slice(&sum.to_le_bytes());
    bytes
}

fn put_gtid(bytes: &mut Vec<u8>, gtid: Gtid) {
    bytes.extend_from_slice(&gtid.domain.to_le_bytes());
    bytes.extend_from_slice(&gtid.server.to_le_bytes());
    bytes.extend_from_slice(&gtid.sequence.to_le_bytes());
}

/// The points up to the first that is not whole: the last may just be being written. `None` where the side file is of another
/// log file, or none at all.
pub(super) fn decode(bytes: &[u8], log_head: u32) -> Option<GtidIndex> {
    let mut rest = bytes.strip_prefix(head(log_head).as_slice())?;
    let mut index = GtidIndex::default();
    let mut at = HEAD_LEN as u64;
    while let Some((record, others)) = record(rest) {
        let (point, is_end) = point(record).ok()?;
        if index.points.last().is_some_and(|before| before.position >= point.position) {
            return None;
        }
        at += (record.len() + SUM_LEN) as u64;
        index.points.push(point);
        index.ends.push(at);
        index.complete = is_end;
        if is_end {
            break;
        }
        rest = others;
    }
    Some(index)
}

/// The next record without its CRC32, which is right, and what follows it.
fn record(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let size = u32::from_le_bytes(*bytes.first_chunk()?);
    let (record, others) = bytes.split_at_checked(usize::try_from(size).ok()?)?;
    let (record, sum) = record.split_last_chunk::<SUM_LEN>()?;
    (crc32fast::hash(record) == u32::from_le_bytes(*sum)).then_some((record, others))
}

fn point(record: &[u8]) -> Result<(Point, bool), EventError> {
    let mut fields = Fields::new(record);
    fields.u32("size")?;
    let kind = fields.u8("kind")?;
    if !matches!(kind, POINT | END) {
        return Err(EventError::Invalid { what: "kind of a point", value: u64::from(kind) });
    }
    fields.take(3, "zeros")?;
    let (position, transactions) = (fields.u64("position")?, fields.u64("transactions")?);
    let (latest, time) = (fields.u32("latest time")?, fields.u32("last time")?);
    let last = (transactions > 0).then_some((gtid(&mut fields)?, time));
    let mark = fields.u32("mark")?;
    let (states, spans) = (fields.u32("GTIDs")?, fields.u32("spans")?);
    fields.take(4, "zeros")?;
    // Both fail at the end of the record before they can grow beyond it.
    let state = (0..states).map(|_| gtid(&mut fields)).collect::<Result<_, _>>()?;
    let spans = (0..spans).map(|_| span(&mut fields)).collect::<Result<_, _>>()?;
    Ok((Point { position, transactions, latest, last, state, spans, mark }, kind == END))
}

fn gtid(fields: &mut Fields<'_>) -> Result<Gtid, EventError> {
    let (domain, server) = (fields.u32("domain id")?, fields.u32("server id")?);
    Ok(Gtid { domain, server, sequence: fields.u64("sequence number")? })
}

fn span(fields: &mut Fields<'_>) -> Result<Span, EventError> {
    let (domain, server) = (fields.u32("domain id")?, fields.u32("server id")?);
    Ok(Span { domain, server, min: fields.u64("lowest")?, max: fields.u64("highest")? })
}
