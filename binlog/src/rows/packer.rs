//! The packer: events of a transaction in, the same with repacked rows events out.

use super::event_type::TABLE_MAP;
use super::head::{RowsHead, RunKey};
use super::image::Room;
use super::layout::{RowsFields, RowsLayout};
use super::notice::{Notices, PackCounters, Unpacked, UnpackedReason};
use super::sink::{EventSink, RowsEnd, overwrite};
use super::table_map::TableMaps;
use super::{HEADER_LEN, STMT_END};

/// The smallest limit.
pub const MIN_EVENT_SIZE: usize = 256;
/// The largest limit: what a replica takes in one packet at most.
pub const MAX_EVENT_SIZE: usize = 1 << 30;

/// Where the end position is in an event header.
const LOG_POS_AT: usize = 13;

/// Repacks the rows events of one transaction after the other.
///
/// Rows events are packed together while they follow each other directly and agree in everything
/// but timestamp, size and statement-end flag: type, server id, header flags, table map, rows
/// flags, extra data, column count and column bitmaps. Each output event takes as many rows as fit
/// into the limit; an input event larger than the limit is split. A row larger than the limit stays
/// alone in its event. The statement-end flag goes to the last event and nothing is packed past it.
/// All other events, and rows that cannot be taken apart exactly, keep their bytes but for size and
/// `log_pos`, which is 0 in every event put out.
///
/// **The limit** is counted as MariaDB counts `binlog_row_event_max_size`: everything behind the
/// common header (post-header, column count, bitmaps, rows), without header and checksum. Seen on
/// 10.11.19 at its default of 8,192: two rows that make a body of 8,192 bytes share an event, at
/// 8,193 they do not. So a server with the same setting writes the same events.
///
/// **Timestamps.** A server gives all rows events of a statement the time the statement started.
/// Where they differ all the same, an output event has the timestamp of the input event its first
/// row came in: the clock a replica shows never runs ahead of the rows it applies.
///
/// Work is done only where it can change something: a table map is read, and rows are walked, when
/// an event is larger than the limit or does not end its statement. A small statement of one rows
/// event is passed on after a look at its header.
pub struct RowsPacker {
    limit: usize,
    layout: RowsLayout,
    tables: TableMaps,
    /// The start of the rows events of the run at hand, up to their rows, without statement end.
    head: Vec<u8>,
    key: RunKey,
    flags_at: usize,
    /// The place of the run's table map.
    table: usize,
    /// Bytes of the event that is open in the sink. A run is at hand exactly while there is one.
    open: Option<usize>,
    cuts: Vec<usize>,
    notices: Notices,
}

/// Why an event could not be taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PackError<E> {
    /// Shorter than an event header.
    #[error("an event of {0} bytes is shorter than its header")]
    TooShort(usize),
    /// Larger than an event's size field can say.
    #[error("an event of {0} bytes is larger than 4 GiB")]
    TooLong(usize),
    /// The sink failed.
    #[error(transparent)]
    Sink(#[from] E),
}

impl RowsPacker {
    /// A packer for events of one format description. The limit is brought into
    /// [`MIN_EVENT_SIZE`]`..=`[`MAX_EVENT_SIZE`].
    pub fn new(max_event_size: usize, layout: RowsLayout) -> Self {
        Self {
            limit: max_event_size.clamp(MIN_EVENT_SIZE, MAX_EVENT_SIZE),
            layout,
            tables: TableMaps::default(),
            head: Vec::new(),
            key: RunKey::default(),
            flags_at: 0,
            table: 0,
            open: None,
            cuts: Vec::new(),
            notices: Notices::default(),
        }
    }

    /// Takes events of another format description from here on. What is open of a transaction is forgotten.
    pub fn set_layout(&mut self, layout: RowsLayout) {
        self.reset();
        self.layout = layout;
    }

    /// Takes the next event of the transaction, without checksum, and writes what can be written.
    /// The size in its header is not trusted, `event` is: the header may still count the checksum.
    ///
    /// # Errors
    /// The event is no event (shorter than a header, or over 4 GiB), or the sink failed. The
    /// transaction is then to be dropped with what the sink has of it, and the packer
    /// [`reset`](Self::reset).
    pub fn push<S: EventSink>(
        &mut self,
        event: &[u8],
        out: &mut S,
    ) -> Result<(), PackError<S::Error>> {
        let &[_, _, _, _, event_type, ..] =
            event.first_chunk::<HEADER_LEN>().ok_or(PackError::TooShort(event.len()))?;
        match self.layout.rows(event_type) {
            Some(fields) => self.push_rows(event, fields, out),
            None => self.push_other(event, event_type, out),
        }
    }

    /// Ends the transaction: writes what is held, forgets its table maps.
    ///
    /// # Errors
    /// The sink failed; see [`push`](Self::push).
    pub fn flush<S: EventSink>(&mut self, out: &mut S) -> Result<(), PackError<S::Error>> {
        self.close(0, out)?;
        self.tables.clear();
        Ok(())
    }

    /// Forgets the transaction at hand, of which the sink may have an open event.
    pub fn reset(&mut self) {
        self.open = None;
        self.tables.clear();
    }

    /// Whether the sink has an event open, which the next [`push`](Self::push) may grow.
    pub fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// What was counted since the packer was made.
    pub fn counters(&self) -> PackCounters {
        self.notices.counters
    }

    /// Tables whose rows were left as they came, each once per reason; to be logged. Cheap when
    /// empty.
    ///
    /// A table nobody asked to repack is not reported: small statements of one event pass as they
    /// are.
    pub fn take_unpacked(&mut self) -> Vec<Unpacked> {
        self.notices.take()
    }

    fn push_other<S: EventSink>(
        &mut self,
        event: &[u8],
        event_type: u8,
        out: &mut S,
    ) -> Result<(), PackError<S::Error>> {
        self.close(0, out)?;
        if event_type == TABLE_MAP {
            if let Some(id_len) = self.layout.table_map_id_len() {
                self.tables.add(event, id_len);
            }
        } else if let Some(id_len) = RowsLayout::unpacked_rows_id_len(event_type)
            && rows_flags(event, HEADER_LEN + id_len).is_some_and(|flags| flags & STMT_END != 0)
        {
            self.tables.clear();
        }
        pass(event, out)
    }

    fn push_rows<S: EventSink>(
        &mut self,
        event: &[u8],
        fields: RowsFields,
        out: &mut S,
    ) -> Result<(), PackError<S::Error>> {
        self.notices.counters.rows_events_in += 1;
        let end_flag = rows_flags(event, HEADER_LEN + fields.id_len).unwrap_or(0) & STMT_END;
        let fits = event.len() - HEADER_LEN <= self.limit;
        if self.open.is_none() && end_flag != 0 && fits {
            self.pass_rows(event, out)?;
        } else {
            self.repack(event, fields, end_flag, out)?;
        }
        if end_flag != 0 {
            self.tables.clear();
        }
        Ok(())
    }

    fn repack<S: EventSink>(
        &mut self,
        event: &[u8],
        fields: RowsFields,
        end_flag: u16,
        out: &mut S,
    ) -> Result<(), PackError<S::Error>> {
        if !self.continues_run(event, fields) {
            self.close(0, out)?;
            if let Err(reason) = self.start_run(event, fields) {
                self.note_unpacked(event, fields, reason);
                return self.pass_rows(event, out);
            }
        }
        let rows = event.get(self.head.len()..).unwrap_or_default();
        if rows.is_empty() {
            // Nothing to pack, or rows of no bytes, whose number only the events tell.
            self.close(0, out)?;
            return self.pass_rows(event, out);
        }
        if self.find_cuts(rows).is_none() {
            self.close(0, out)?;
            self.note_unpacked(event, fields, UnpackedReason::MalformedRows);
            return self.pass_rows(event, out);
        }
        self.write_rows(event, rows, end_flag, out)
    }

    /// Whether the event's rows may be appended to the open event's.
    fn continues_run(&self, event: &[u8], fields: RowsFields) -> bool {
        let behind_flags = self.flags_at + 2..self.head.len();
        self.open.is_some()
            && RunKey::of(event, fields.id_len) == Some(self.key)
            && event.get(behind_flags.clone()) == self.head.get(behind_flags)
    }

    fn start_run(&mut self, event: &[u8], fields: RowsFields) -> Result<(), UnpackedReason> {
        let malformed = UnpackedReason::MalformedRows;
        let head = RowsHead::parse(event, fields).ok_or(malformed)?;
        self.key = RunKey::of(event, fields.id_len).ok_or(malformed)?;
        let no_map = UnpackedReason::NoTableMap;
        self.table = self.tables.find(self.key.table_id).ok_or(no_map)?;
        let table = self.tables.get_mut(self.table).ok_or(no_map)?;
        table.shape_for(&head, self.layout.old_temporals_are_fixed())?;
        self.flags_at = HEADER_LEN + fields.id_len;
        self.head.clear();
        self.head.extend_from_slice(event.get(..head.rows_at).unwrap_or_default());
        overwrite(&mut self.head, LOG_POS_AT, &[0; 4]);
        Ok(())
    }

    /// Counts an event that is left as it came, and reports its table unless that was done before.
    fn note_unpacked(&mut self, event: &[u8], fields: RowsFields, reason: UnpackedReason) {
        let id = RunKey::of(event, fields.id_len).map_or(0, |key| key.table_id);
        let place = self.tables.find(id);
        let Some(table) = place.and_then(|place| self.tables.get_mut(place)) else {
            return self.notices.report(format!("#{id}"), reason);
        };
        if table.was_reported(reason) {
            self.notices.count(reason);
        } else {
            self.notices.report(table.name(), reason);
        }
    }

    fn find_cuts(&mut self, rows: &[u8]) -> Option<()> {
        let empty = self.head.len() - HEADER_LEN;
        let used = self.open.map_or(empty, |size| size - HEADER_LEN);
        let room = Room { empty, used, limit: self.limit };
        self.tables.get_mut(self.table)?.shape().cuts(rows, room, &mut self.cuts)
    }

    fn write_rows<S: EventSink>(
        &mut self,
        event: &[u8],
        rows: &[u8],
        end_flag: u16,
        out: &mut S,
    ) -> Result<(), PackError<S::Error>> {
        let cuts = std::mem::take(&mut self.cuts);
        let (mut rest, mut done) = (rows, 0);
        for &cut in &cuts {
            let (piece, after) = rest.split_at(cut - done);
            self.write_last(event, piece, 0, out)?;
            (rest, done) = (after, cut);
        }
        self.cuts = cuts;
        let size = self.open.unwrap_or(self.head.len()) + rest.len();
        if end_flag != 0 || size - HEADER_LEN >= self.limit {
            return self.write_last(event, rest, end_flag, out);
        }
        self.write_open(event, rest, out)
    }

    /// Writes rows that end their event.
    fn write_last<S: EventSink>(
        &mut self,
        event: &[u8],
        rows: &[u8],
        end_flag: u16,
        out: &mut S,
    ) -> Result<(), PackError<S::Error>> {
        if self.open.is_some() {
            self.write_open(event, rows, out)?;
            return self.close(end_flag, out);
        }
        let end = self.start_event(event, self.head.len() + rows.len(), end_flag)?;
        end.patch(&mut self.head);
        self.notices.counters.rows_events_out += 1;
        Ok(out.event(&self.head, rows)?)
    }

    /// Writes rows to an event that stays open.
    fn write_open<S: EventSink>(
        &mut self,
        event: &[u8],
        rows: &[u8],
        out: &mut S,
    ) -> Result<(), PackError<S::Error>> {
        let Some(size) = self.open else {
            let end = self.start_event(event, self.head.len() + rows.len(), 0)?;
            end.patch(&mut self.head);
            out.open(&self.head, rows)?;
            self.open = Some(self.head.len() + rows.len());
            return Ok(());
        };
        if !rows.is_empty() {
            out.append(rows)?;
            self.open = Some(size + rows.len());
        }
        Ok(())
    }

    /// Takes over the timestamp of the event that brings the first row of a new one.
    fn start_event<E>(
        &mut self,
        event: &[u8],
        size: usize,
        end_flag: u16,
    ) -> Result<RowsEnd, PackError<E>> {
        overwrite(&mut self.head, 0, event.get(..4).unwrap_or_default());
        self.end_of(size, end_flag)
    }

    fn close<S: EventSink>(
        &mut self,
        end_flag: u16,
        out: &mut S,
    ) -> Result<(), PackError<S::Error>> {
        let Some(size) = self.open.take() else { return Ok(()) };
        self.notices.counters.rows_events_out += 1;
        let end = self.end_of(size, end_flag)?;
        Ok(out.close(end)?)
    }

    fn end_of<E>(&self, size: usize, end_flag: u16) -> Result<RowsEnd, PackError<E>> {
        let flags = self.key.rows_flags | end_flag;
        Ok(RowsEnd { event_size: size_field(size)?, flags_at: self.flags_at, flags })
    }

    fn pass_rows<S: EventSink>(
        &mut self,
        event: &[u8],
        out: &mut S,
    ) -> Result<(), PackError<S::Error>> {
        self.notices.counters.rows_events_out += 1;
        pass(event, out)
    }
}

/// Passes an event on with its size set and its `log_pos` cleared.
fn pass<S: EventSink>(event: &[u8], out: &mut S) -> Result<(), PackError<S::Error>> {
    let (&header, body) =
        event.split_first_chunk::<HEADER_LEN>().ok_or(PackError::TooShort(event.len()))?;
    let mut header = header;
    overwrite(&mut header, RowsEnd::SIZE_AT, &size_field(event.len())?.to_le_bytes());
    overwrite(&mut header, LOG_POS_AT, &[0; 4]);
    Ok(out.event(&header, body)?)
}

fn rows_flags(event: &[u8], at: usize) -> Option<u16> {
    event.get(at..)?.first_chunk().map(|&flags| u16::from_le_bytes(flags))
}

fn size_field<E>(size: usize) -> Result<u32, PackError<E>> {
    u32::try_from(size).map_err(|_| PackError::TooLong(size))
}

#[cfg(test)]
mod tests;
