//! Where packed events go.

/// Takes the packer's output, in order, without checksums and with `log_pos` 0.
///
/// Most events arrive complete. A rows event that may still grow is opened, appended to and closed, so
/// that rows are copied once, from the source's event to where the sink keeps them. While an event is
/// open the packer calls only [`append`](Self::append) and [`close`](Self::close).
pub trait EventSink {
    /// What goes wrong when the sink cannot take more.
    type Error;

    /// Takes one complete event: `head` followed by `rest`, its size set in the header.
    ///
    /// # Errors
    /// Whatever keeps the sink from taking it.
    fn event(&mut self, head: &[u8], rest: &[u8]) -> Result<(), Self::Error>;

    /// Starts a rows event with `head` (header, post-header, bitmaps) and its first rows. Its size and
    /// rows flags are not final before [`close`](Self::close).
    ///
    /// # Errors
    /// Whatever keeps the sink from taking it.
    fn open(&mut self, head: &[u8], rows: &[u8]) -> Result<(), Self::Error>;

    /// Appends rows to the open event. It never grows past the packer's limit and the 19 header bytes.
    ///
    /// # Errors
    /// Whatever keeps the sink from taking them.
    fn append(&mut self, rows: &[u8]) -> Result<(), Self::Error>;

    /// Ends the open event. The sink writes the final values over those `open` came with.
    ///
    /// # Errors
    /// Whatever keeps the sink from taking it.
    fn close(&mut self, end: RowsEnd) -> Result<(), Self::Error>;
}

/// The final values of an event that was open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowsEnd {
    /// The whole event's bytes, header included; belongs at [`RowsEnd::SIZE_AT`], 4 bytes little-endian.
    pub event_size: u32,
    /// Where the rows flags are, from the start of the event.
    pub flags_at: usize,
    /// The rows flags; 2 bytes little-endian.
    pub flags: u16,
}

impl RowsEnd {
    /// Where the size is in an event header.
    pub const SIZE_AT: usize = 9;

    /// Writes the final values into `event`, which starts with the open event's first byte.
    pub fn patch(&self, event: &mut [u8]) {
        overwrite(event, Self::SIZE_AT, &self.event_size.to_le_bytes());
        overwrite(event, self.flags_at, &self.flags.to_le_bytes());
    }
}

/// Events one after the other in memory.
impl EventSink for Vec<u8> {
    type Error = std::convert::Infallible;

    fn event(&mut self, head: &[u8], rest: &[u8]) -> Result<(), Self::Error> {
        self.reserve(head.len() + rest.len());
        self.extend_from_slice(head);
        self.extend_from_slice(rest);
        Ok(())
    }

    fn open(&mut self, head: &[u8], rows: &[u8]) -> Result<(), Self::Error> {
        self.event(head, rows)
    }

    fn append(&mut self, rows: &[u8]) -> Result<(), Self::Error> {
        self.extend_from_slice(rows);
        Ok(())
    }

    fn close(&mut self, end: RowsEnd) -> Result<(), Self::Error> {
        let start = self.len().saturating_sub(end.event_size as usize);
        if let Some(event) = self.get_mut(start..) {
            end.patch(event);
        }
        Ok(())
    }
}

/// Writes `value` at `at`, where there is room for it.
pub(super) fn overwrite(bytes: &mut [u8], at: usize, value: &[u8]) {
    if let Some(place) = bytes.get_mut(at..at + value.len()) {
        place.copy_from_slice(value);
    }
}
