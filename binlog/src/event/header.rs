//! The 19-byte header every event opens with (binlog version 4; MySQL manual, "Event Header").
//!
//! ```text
//!  0        4      5          9            13         17       19
//!  +--------+------+----------+------------+----------+--------+
//!  | time   | type | server   | event size | end pos  | flags  |
//!  | u32 s  | u8   | id u32   | u32        | u32      | u16    |
//!  +--------+------+----------+------------+----------+--------+
//! ```

use super::read::Fields;
use super::{EventError, EventType};

/// The event is not from a file: made by the sending server (`LOG_EVENT_ARTIFICIAL_F`).
pub const FLAG_ARTIFICIAL: u16 = 0x0020;
/// The event may be skipped by who does not know its type (`LOG_EVENT_IGNORABLE_F`).
pub const FLAG_IGNORABLE: u16 = 0x0080;
/// Set in the format description of a file that a server has open (`LOG_EVENT_BINLOG_IN_USE_F`). Spillway never sets it.
pub const FLAG_IN_USE: u16 = 0x0001;

/// The fields of the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventHeader {
    /// When the statement began, Unix seconds; 0 in artificial events.
    pub timestamp: u32,
    /// The event's type.
    pub event_type: EventType,
    /// The server the event comes from first.
    pub server_id: u32,
    /// Bytes of the whole event, header and checksum included.
    pub event_size: u32,
    /// Position of the byte after the event, modulo 2³²; 0 where it has none.
    pub end_position: u32,
    /// `FLAG_*`.
    pub flags: u16,
}

impl EventHeader {
    /// Bytes of the header.
    pub const LEN: usize = 19;

    /// Reads the header at the start of `bytes`.
    ///
    /// # Errors
    /// [`EventError::TooShort`] under 19 bytes; [`EventError::Invalid`] for an event size below the header's own.
    pub fn parse(bytes: &[u8]) -> Result<Self, EventError> {
        let mut fields = Fields::new(bytes);
        let header: [u8; Self::LEN] = fields.array("event header")?;
        let mut fields = Fields::new(&header);
        let header = Self {
            timestamp: fields.u32("timestamp")?,
            event_type: EventType(fields.u8("event type")?),
            server_id: fields.u32("server id")?,
            event_size: fields.u32("event size")?,
            end_position: fields.u32("end position")?,
            flags: fields.u16("flags")?,
        };
        if (header.event_size as usize) < Self::LEN {
            let value = u64::from(header.event_size);
            return Err(EventError::Invalid { what: "event size", value });
        }
        Ok(header)
    }

    /// Reads the header of an event that is here as a whole, checksum included.
    ///
    /// # Errors
    /// As [`EventHeader::parse`]; [`EventError::Invalid`] where the event says another size than it has.
    pub fn parse_whole(event: &[u8]) -> Result<Self, EventError> {
        let header = Self::parse(event)?;
        if header.event_size as usize == event.len() {
            return Ok(header);
        }
        Err(EventError::Invalid { what: "event size", value: u64::from(header.event_size) })
    }

    /// The header as it stands in a file.
    pub fn to_bytes(self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        bytes[..4].copy_from_slice(&self.timestamp.to_le_bytes());
        bytes[4] = self.event_type.0;
        bytes[5..9].copy_from_slice(&self.server_id.to_le_bytes());
        bytes[9..13].copy_from_slice(&self.event_size.to_le_bytes());
        bytes[13..17].copy_from_slice(&self.end_position.to_le_bytes());
        bytes[17..].copy_from_slice(&self.flags.to_le_bytes());
        bytes
    }
}

/// The body of an event without checksum: what follows the header.
///
/// # Errors
/// [`EventError::TooShort`] under 19 bytes.
pub fn body(event: &[u8]) -> Result<&[u8], EventError> {
    let found = event.len();
    event.get(EventHeader::LEN..).ok_or(EventError::TooShort {
        what: "event header",
        needed: EventHeader::LEN,
        found,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_a_server_sent() {
        // Heartbeat of MariaDB 10.11, facts on the replica protocol, A.4.
        let bytes = [0, 0, 0, 0, 0x1b, 1, 0, 0, 0, 0x22, 0, 0, 0, 0x15, 2, 0, 0, 0, 0, b'm'];
        let header = EventHeader::parse(&bytes).unwrap();
        assert_eq!(header.event_type, EventType::HEARTBEAT);
        assert_eq!((header.event_size, header.end_position, header.server_id), (34, 533, 1));
        assert_eq!(header.to_bytes(), bytes[..19]);
    }

    #[test]
    fn refuses_short_and_impossible() {
        assert!(matches!(EventHeader::parse(&[0; 18]), Err(EventError::TooShort { .. })));
        assert!(matches!(EventHeader::parse(&[0; 19]), Err(EventError::Invalid { .. })));
        let mut event = vec![0; 34];
        event[9] = 34;
        assert!(EventHeader::parse_whole(&event).is_ok());
        assert!(EventHeader::parse_whole(&event[..33]).is_err());
    }
}
