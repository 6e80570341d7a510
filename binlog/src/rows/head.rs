//! The part of a rows event in front of its rows.

use super::bytes::{Bytes, le_number};
use super::layout::RowsFields;
use super::{HEADER_LEN, STMT_END};

/// A rows event taken apart as far as its rows, which start at `rows_at`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowsHead<'a> {
    pub columns: usize,
    /// Columns present in the rows; for updates those of the image before.
    pub present: &'a [u8],
    /// Columns present in the image after; updates only.
    pub present_after: Option<&'a [u8]>,
    pub rows_at: usize,
}

impl<'a> RowsHead<'a> {
    /// Reads a whole event; `None` where it ends early or a length in it is impossible.
    pub fn parse(event: &'a [u8], fields: RowsFields) -> Option<Self> {
        let mut bytes = Bytes(event.get(HEADER_LEN..)?);
        bytes.take(fields.id_len)?;
        bytes.u16()?;
        if fields.extra_data {
            let len_with_itself = usize::from(bytes.u16()?);
            bytes.take(len_with_itself.checked_sub(2)?)?;
        }
        let columns = bytes.packed()?;
        let present = bytes.take(columns.div_ceil(8))?;
        let present_after =
            if fields.update { Some(bytes.take(columns.div_ceil(8))?) } else { None };
        let rows_at = event.len() - bytes.0.len();
        Some(Self { columns, present, present_after, rows_at })
    }
}

/// What rows events packed together agree in, besides extra data and bitmaps.
///
/// Numbers, not bytes of the head: comparing those would wait for what was just written there.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct RunKey {
    event_type: u8,
    server_id: u32,
    header_flags: u16,
    pub table_id: u64,
    /// Without statement end.
    pub rows_flags: u16,
}

impl RunKey {
    pub fn of(event: &[u8], id_len: usize) -> Option<Self> {
        let &[_, _, _, _, event_type, s0, s1, s2, s3, .., f0, f1] =
            event.first_chunk::<HEADER_LEN>()?;
        let mut bytes = Bytes(event.get(HEADER_LEN..)?);
        Some(Self {
            event_type,
            server_id: u32::from_le_bytes([s0, s1, s2, s3]),
            header_flags: u16::from_le_bytes([f0, f1]),
            table_id: le_number(bytes.take(id_len)?),
            rows_flags: bytes.u16()? & !STMT_END,
        })
    }
}
