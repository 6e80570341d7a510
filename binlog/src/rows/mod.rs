//! The packer: repacks consecutive rows events row by row into events of at most a wanted size. No
//! I/O.
//!
//! [`RowsPacker`] takes the events of a transaction in order and writes the repacked ones to an
//! [`EventSink`]. It reads table maps only as far as the widths of the columns (`table_map`,
//! `width`), walks rows without decoding values (`image`), and never changes a row: where a type is
//! unknown or a row does not end where it should, the events keep their bytes and the reason is
//! reported (`notice`).

mod bytes;
mod describe;
mod head;
mod image;
mod layout;
mod notice;
mod packer;
mod sink;
mod table_map;
mod width;

pub(crate) use describe::{RowsChange, TableDescription};
pub use layout::RowsLayout;
pub use notice::{PackCounters, Unpacked, UnpackedReason};
pub use packer::{MAX_EVENT_SIZE, MIN_EVENT_SIZE, PackError, RowsPacker};
pub use sink::{EventSink, RowsEnd};

/// Length of the header every v4 event starts with.
const HEADER_LEN: usize = 19;

/// Rows flag of the event that ends its statement.
const STMT_END: u16 = 0x0001;

/// Event type numbers the packer tells apart.
mod event_type {
    pub const TABLE_MAP: u8 = 19;
    pub const WRITE_ROWS_V1: u8 = 23;
    pub const UPDATE_ROWS_V1: u8 = 24;
    pub const DELETE_ROWS_V1: u8 = 25;
    pub const WRITE_ROWS: u8 = 30;
    pub const UPDATE_ROWS: u8 = 31;
    pub const DELETE_ROWS: u8 = 32;
    pub const PARTIAL_UPDATE_ROWS: u8 = 39;
    /// First of MariaDB's own event types (annotate rows).
    pub const MARIADB_FIRST: u8 = 160;
    pub const WRITE_ROWS_COMPRESSED_V1: u8 = 166;
    pub const DELETE_ROWS_COMPRESSED: u8 = 171;
}
