//! MariaDB's GTID event (162), which opens every transaction.
//!
//! ```text
//!  body: sequence u64 | domain u32 | flags2 u8 | then, by flags2: commit id u64, or XA ids, or padding …
//!  the server id of the GTID is the one in the event header
//! ```
//! Observed on MariaDB 10.11 and 11.8: bytes after the known fields are ignored by every reader.

use super::read::Fields;
use super::{EventError, EventHeader, header};
use crate::gtid::mariadb::Gtid;

/// The transaction is one event (DDL) with no Xid or COMMIT behind it (`FL_STANDALONE`).
pub const FLAG_STANDALONE: u8 = 0x01;
/// All its engines roll back (`FL_TRANSACTIONAL`).
pub const FLAG_TRANSACTIONAL: u8 = 0x04;
/// It is a DDL statement (`FL_DDL`).
pub const FLAG_DDL: u8 = 0x20;
/// It ends with an `XA_prepare` event (`FL_PREPARED_XA`).
pub const FLAG_PREPARED_XA: u8 = 0x40;

/// The fields every GTID event has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GtidEvent {
    /// The transaction's GTID.
    pub gtid: Gtid,
    /// `FLAG_*`.
    pub flags2: u8,
}

impl GtidEvent {
    /// Reads an event without checksum.
    ///
    /// # Errors
    /// [`EventError::TooShort`].
    pub fn parse(event: &[u8]) -> Result<Self, EventError> {
        let server = EventHeader::parse(event)?.server_id;
        let mut fields = Fields::new(header::body(event)?);
        let sequence = fields.u64("GTID sequence number")?;
        let domain = fields.u32("GTID domain id")?;
        let flags2 = fields.u8("GTID flags")?;
        Ok(Self { gtid: Gtid { domain, server, sequence }, flags2 })
    }

    /// Whether the transaction ends with the first event that is no preamble of a statement.
    pub fn is_standalone(&self) -> bool {
        self.flags2 & FLAG_STANDALONE != 0
    }
}
