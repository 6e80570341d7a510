//! What a source's format description says about its table maps and rows events.

use super::event_type::{
    DELETE_ROWS, DELETE_ROWS_COMPRESSED, DELETE_ROWS_V1, MARIADB_FIRST, PARTIAL_UPDATE_ROWS,
    TABLE_MAP, UPDATE_ROWS, UPDATE_ROWS_V1, WRITE_ROWS, WRITE_ROWS_COMPRESSED_V1, WRITE_ROWS_V1,
};

/// Header lengths of table maps and rows events, and how the source logs old temporal types.
///
/// A table id has 6 bytes, or 4 where the event's post-header has 6 bytes in all (MySQL 5.1 before
/// 5.1.4). Rows events whose post-header has any other length are not packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowsLayout {
    table_map: u8,
    rows_v1: [u8; 3],
    rows_v2: [u8; 3],
    old_temporals_are_fixed: bool,
}

impl RowsLayout {
    /// Takes the array at the end of a format description event: one post-header length per event
    /// type, starting with type 1, without the checksum algorithm behind it.
    ///
    /// An array that reaches MariaDB's own event types tells a MariaDB source. There, TIMESTAMP, TIME
    /// and DATETIME in the format of before MariaDB 10.1 (`mysql56_temporal_format=OFF`) are logged as
    /// types 7, 11 and 12 without metadata whatever their fraction: seen on 10.11, TIMESTAMP(0), (3)
    /// and (6) are all type 7 and take 4, 6 and 7 bytes. Their width is unknown. MySQL never had
    /// fractions in these types.
    pub fn from_post_header_lengths(lengths: &[u8]) -> Self {
        let of = |event_type: u8| lengths.get(usize::from(event_type) - 1).copied().unwrap_or(0);
        Self {
            table_map: of(TABLE_MAP),
            rows_v1: [WRITE_ROWS_V1, UPDATE_ROWS_V1, DELETE_ROWS_V1].map(of),
            rows_v2: [WRITE_ROWS, UPDATE_ROWS, DELETE_ROWS].map(of),
            old_temporals_are_fixed: lengths.len() < usize::from(MARIADB_FIRST),
        }
    }

    pub(super) fn old_temporals_are_fixed(&self) -> bool {
        self.old_temporals_are_fixed
    }

    /// Bytes of the table id in a table map.
    pub(super) fn table_map_id_len(&self) -> Option<usize> {
        id_len(self.table_map)
    }

    /// Where the fields of a rows event that can be packed are; `None` for all other events.
    pub(super) fn rows(&self, event_type: u8) -> Option<RowsFields> {
        let v2 = match event_type {
            WRITE_ROWS_V1..=DELETE_ROWS_V1 => false,
            WRITE_ROWS..=DELETE_ROWS => true,
            _ => return None,
        };
        let id_len = if v2 {
            (*self.rows_v2.get(usize::from(event_type - WRITE_ROWS))? == 10).then_some(6)?
        } else {
            id_len(*self.rows_v1.get(usize::from(event_type - WRITE_ROWS_V1))?)?
        };
        let update = event_type == UPDATE_ROWS_V1 || event_type == UPDATE_ROWS;
        Some(RowsFields { id_len, extra_data: v2, update })
    }

    /// Bytes of the table id in a rows event that is never packed (compressed, partial update).
    pub(super) fn unpacked_rows_id_len(event_type: u8) -> Option<usize> {
        let known = event_type == PARTIAL_UPDATE_ROWS
            || (WRITE_ROWS_COMPRESSED_V1..=DELETE_ROWS_COMPRESSED).contains(&event_type);
        known.then_some(6)
    }
}

impl Default for RowsLayout {
    /// The layout of every MariaDB 10 and 11.
    fn default() -> Self {
        Self { table_map: 8, rows_v1: [8; 3], rows_v2: [10; 3], old_temporals_are_fixed: false }
    }
}

/// What a rows event of a packable type has in front of its rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RowsFields {
    pub id_len: usize,
    /// Version 2 events carry a length-prefixed block of extra data.
    pub extra_data: bool,
    /// Update events have a second column bitmap, and two images per row.
    pub update: bool,
}

fn id_len(post_header: u8) -> Option<usize> {
    match post_header {
        6 => Some(4),
        8 => Some(6),
        _ => None,
    }
}
