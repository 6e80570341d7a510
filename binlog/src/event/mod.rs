//! Bytes ⇄ events, one file per event family. No I/O.
//!
//! Every event opens with the 19-byte header of binlog version 4 (see [`header`]). Where the format description says so, its
//! last four bytes are a CRC32 (see [`checksum`]). Unless a function says otherwise, it takes events *without* the checksum.

pub mod checksum;
pub mod control;
pub mod format_description;
pub mod gtid;
pub mod gtid_list;
pub mod header;
pub(crate) mod read;
mod types;

pub use checksum::ChecksumAlgorithm;
pub use format_description::{FormatDescription, version_family};
pub use header::EventHeader;
pub use types::EventType;

/// The four bytes a binlog file starts with (MySQL manual, "Binary Log Format").
pub const MAGIC: [u8; 4] = [0xfe, b'b', b'i', b'n'];

/// Bytes that are not the event they should be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EventError {
    /// Fewer bytes than the event's layout needs.
    #[error("{what} needs {needed} bytes, has {found}")]
    TooShort {
        /// What was being read.
        what: &'static str,
        /// Bytes its layout needs.
        needed: usize,
        /// Bytes there are.
        found: usize,
    },
    /// The checksum at the event's end is not that of its bytes.
    #[error("checksum of a {event_type} event is {found:#010x}, its bytes give {computed:#010x}")]
    Checksum {
        /// The event's type.
        event_type: EventType,
        /// The value in the event.
        found: u32,
        /// The value its bytes give.
        computed: u32,
    },
    /// A field has a value that the format does not allow.
    #[error("{what} is {value}, which the format does not allow")]
    Invalid {
        /// The field.
        what: &'static str,
        /// Its value.
        value: u64,
    },
}
