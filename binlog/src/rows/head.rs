//! The part of a rows event in front of its rows.

use super::HEADER_LEN;
use super::bytes::{Bytes, le_number};
use super::layout::RowsFields;

/// A rows event taken apart as far as its rows, which start at `rows_at`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowsHead<'a> {
    pub table_id: u64,
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
        let table_id = le_number(bytes.take(fields.id_len)?);
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
        Some(Self { table_id, columns, present, present_after, rows_at })
    }
}
