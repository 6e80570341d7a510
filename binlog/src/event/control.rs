//! Building events, and the events that steer a stream: Rotate and Heartbeat.

use super::read::Fields;
use super::{ChecksumAlgorithm, EventError, EventHeader, EventType, header};

/// A whole event from a header and a body; size and checksum are filled in.
pub fn event(mut header: EventHeader, body: &[u8], checksum: ChecksumAlgorithm) -> Vec<u8> {
    let size = EventHeader::LEN + body.len() + checksum.trailer_len();
    header.event_size = u32::try_from(size).unwrap_or(u32::MAX);
    let mut event = Vec::with_capacity(size);
    event.extend_from_slice(&header.to_bytes());
    event.extend_from_slice(body);
    event.resize(size, 0);
    checksum.write(&mut event);
    event
}

/// The header of an artificial event: no time, flag 0x0020.
pub fn artificial(event_type: EventType, server_id: u32, end_position: u32) -> EventHeader {
    EventHeader {
        timestamp: 0,
        event_type,
        server_id,
        event_size: 0,
        end_position,
        flags: header::FLAG_ARTIFICIAL,
    }
}

/// The body of a Rotate event (4): `position u64 | file name, to the end`.
pub fn rotate_body(position: u64, file_name: &str) -> Vec<u8> {
    let mut body = position.to_le_bytes().to_vec();
    body.extend_from_slice(file_name.as_bytes());
    body
}

/// Reads a Rotate event without checksum: the position and the next file's name.
///
/// # Errors
/// [`EventError::TooShort`].
pub fn parse_rotate(event: &[u8]) -> Result<(u64, &[u8]), EventError> {
    let mut fields = Fields::new(header::body(event)?);
    let position = fields.u64("Rotate position")?;
    Ok((position, fields.rest()))
}

/// A Heartbeat event (27) as MariaDB sends it when idle: no flags, the reached position in the header, the file's name as body.
pub fn heartbeat(
    server_id: u32,
    end_position: u32,
    file_name: &str,
    checksum: ChecksumAlgorithm,
) -> Vec<u8> {
    let header =
        EventHeader { flags: 0, ..artificial(EventType::HEARTBEAT, server_id, end_position) };
    event(header, file_name.as_bytes(), checksum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heartbeat_is_the_servers_byte_for_byte() {
        // Facts on the replica protocol, A.4.
        let sent = [
            0, 0, 0, 0, 0x1b, 1, 0, 0, 0, 0x22, 0, 0, 0, 0x15, 2, 0, 0, 0, 0, 0x6d, 0x62, 0x69,
            0x6e, 0x2e, 0x30, 0x30, 0x30, 0x30, 0x30, 0x31, 0xa6, 0x1d, 0x02, 0xa4,
        ];
        assert_eq!(heartbeat(1, 0x215, "mbin.000001", ChecksumAlgorithm::Crc32), sent);
    }

    #[test]
    fn rotate_reads_back() {
        let header = artificial(EventType::ROTATE, 1, 0);
        let made = event(header, &rotate_body(4, "binlog.000002"), ChecksumAlgorithm::None);
        assert_eq!(parse_rotate(&made).unwrap(), (4, b"binlog.000002".as_slice()));
        assert!(parse_rotate(&made[..26]).is_err());
    }
}
