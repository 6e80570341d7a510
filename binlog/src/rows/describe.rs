//! Table maps and rows events as far as two writers of the same change have to agree in them.

use super::bytes::{Bytes, le_number};
use super::event_type::{WRITE_ROWS, WRITE_ROWS_V1};
use super::head::RowsHead;
use super::layout::RowsLayout;
use super::{HEADER_LEN, STMT_END};

/// A table: its schema and name, and its columns' types with their metadata. Not its id, which is another on every server.
pub struct TableDescription(Vec<u8>);

impl TableDescription {
    /// The table's id, and the table; `None` where a table map cannot be read.
    pub fn parse(event: &[u8], layout: RowsLayout) -> Option<(u64, Self)> {
        let mut bytes = Bytes(event.get(HEADER_LEN..)?);
        let id = le_number(bytes.take(layout.table_map_id_len()?)?);
        bytes.u16()?;
        let before = bytes.0;
        bytes.name()?;
        bytes.name()?;
        let columns = bytes.packed()?;
        bytes.take(columns)?;
        let metadata = bytes.packed()?;
        bytes.take(metadata)?;
        let len = before.len() - bytes.0.len();
        Some((id, Self(before.get(..len)?.to_vec())))
    }
}

/// A rows event, of any kind.
pub struct RowsChange<'a> {
    /// The same in either version of an event type; another for each kind that is never packed.
    operation: u8,
    /// Columns present in the rows; behind those, for updates, in the images after.
    columns: [&'a [u8]; 2],
    /// Of the table map that tells the table.
    pub table_id: u64,
    /// Whether the statement's table maps end with it.
    pub ends_statement: bool,
    /// The rows themselves. Of a kind that is never packed, all behind the flags.
    pub rows: &'a [u8],
}

impl<'a> RowsChange<'a> {
    /// `None` for other events, and where one cannot be read.
    pub fn parse(event: &'a [u8], layout: RowsLayout) -> Option<Self> {
        let event_type = *event.get(4)?;
        let fields = layout.rows(event_type);
        let id_len = fields.map(|fields| fields.id_len);
        let id_len = id_len.or(RowsLayout::unpacked_rows_id_len(event_type))?;
        let mut bytes = Bytes(event.get(HEADER_LEN..)?);
        let table_id = le_number(bytes.take(id_len)?);
        let ends_statement = bytes.u16()? & STMT_END != 0;
        let Some(fields) = fields else {
            let (operation, columns) = (event_type, [&[][..]; 2]);
            return Some(Self { operation, columns, table_id, ends_statement, rows: bytes.0 });
        };
        let head = RowsHead::parse(event, fields)?;
        let columns = [head.present, head.present_after.unwrap_or_default()];
        let first = if fields.extra_data { WRITE_ROWS } else { WRITE_ROWS_V1 };
        let rows = event.get(head.rows_at..)?;
        Some(Self { operation: event_type - first, columns, table_id, ends_statement, rows })
    }

    /// Everything but the rows: the operation, the table, and which columns the rows have.
    pub fn what(&self, table: &TableDescription) -> Vec<u8> {
        let mut what = vec![self.operation];
        what.extend_from_slice(&table.0);
        self.columns.iter().for_each(|columns| what.extend_from_slice(columns));
        what
    }
}
