//! What a client gets in place of events it does not know, as MariaDB makes them: the same size, so that positions hold.

use spillway_binlog::event::{ChecksumAlgorithm, EventHeader, EventType};

/// The statement sets no schema (`LOG_EVENT_SUPPRESS_USE_F`).
const FLAG_SUPPRESS_USE: u16 = 0x0008;
/// It uses temporary tables (`LOG_EVENT_THREAD_SPECIFIC_F`).
const FLAG_THREAD_SPECIFIC: u16 = 0x0004;

/// A user variable event with an empty name and no value: `name length u32 = 0 | one byte of name | is null u8`.
const USER_VAR_LEN: usize = EventHeader::LEN + 6;
/// A query: `thread id u32 | seconds u32 | schema length u8 | error u16 | status length u16 | status | NUL | text`.
const QUERY_FIXED_LEN: usize = 13;
const MIN_QUERY_LEN: usize = EventHeader::LEN + QUERY_FIXED_LEN + 1 + 1;

const BEGIN: &[u8] = b"BEGIN";
/// A catalog name in the status variables (`Q_CATALOG_NZ_CODE`): one byte of length, and readers do nothing with it.
const STATUS_CATALOG: u8 = 6;

/// An event that does nothing: a query that is a comment; where there is no room, a user variable nobody reads. `None` where
/// there is no room for that either.
pub(super) fn dummy(event: &[u8], checksum: ChecksumAlgorithm) -> Option<Vec<u8>> {
    let body_end = event.len().checked_sub(checksum.trailer_len())?;
    if body_end < USER_VAR_LEN {
        return None;
    }
    if body_end < MIN_QUERY_LEN {
        let room = body_end - USER_VAR_LEN;
        // The name takes up the room; its first byte is what MariaDB sends.
        let name_len = u32::try_from(1 + room).ok()?;
        let mut body = name_len.to_le_bytes().to_vec();
        body.push(b'!');
        body.resize(body.len() + room, b'!');
        body.push(1);
        return rebuild(event, EventType::USER_VAR, &body, checksum);
    }
    let event_type = EventHeader::parse(event).ok()?.event_type.0;
    let mut text =
        format!("# Dummy event replacing event type {event_type} that slave cannot handle.")
            .into_bytes();
    text.resize(body_end - (MIN_QUERY_LEN - 1), b' ');
    rebuild(event, EventType::QUERY, &query(&[], &text), checksum)
}

/// `BEGIN` in place of the GTID event of a transaction. `None` where the sizes cannot be made to match.
pub(super) fn begin(event: &[u8], checksum: ChecksumAlgorithm) -> Option<Vec<u8>> {
    let body_len = event.len().checked_sub(EventHeader::LEN + checksum.trailer_len())?;
    let filler = body_len.checked_sub(QUERY_FIXED_LEN + 1 + BEGIN.len())?;
    rebuild(event, EventType::QUERY, &query(&status_filler(filler)?, BEGIN), checksum)
}

/// Status variables of `len` bytes that say nothing. A GTID event may be thousands of bytes long, padded to a page.
fn status_filler(len: usize) -> Option<Vec<u8>> {
    let mut filler = Vec::with_capacity(len);
    let mut left = len;
    while left > 0 {
        // Never leave a single byte: a variable needs two.
        let take = if left == 258 { 250 } else { left.min(257) };
        let name_len = take.checked_sub(2)?;
        filler.extend([STATUS_CATALOG, u8::try_from(name_len).ok()?]);
        filler.resize(filler.len() + name_len, b' ');
        left -= take;
    }
    Some(filler)
}

fn query(status: &[u8], text: &[u8]) -> Vec<u8> {
    let mut body = vec![0; QUERY_FIXED_LEN - 2];
    body.extend_from_slice(&u16::try_from(status.len()).unwrap_or(u16::MAX).to_le_bytes());
    body.extend_from_slice(status);
    body.push(0);
    body.extend_from_slice(text);
    body
}

/// The event with another type and body of the same size.
fn rebuild(
    event: &[u8],
    event_type: EventType,
    body: &[u8],
    checksum: ChecksumAlgorithm,
) -> Option<Vec<u8>> {
    let mut header = EventHeader::parse(event).ok()?;
    header.event_type = event_type;
    header.flags = (header.flags & !FLAG_THREAD_SPECIFIC) | FLAG_SUPPRESS_USE;
    let made = spillway_binlog::event::control::event(header, body, checksum);
    (made.len() == event.len()).then_some(made)
}

#[cfg(test)]
mod tests {
    use spillway_binlog::event::control;
    use spillway_binlog::transaction::group::query_text;

    use super::*;

    const CRC32: ChecksumAlgorithm = ChecksumAlgorithm::Crc32;

    fn event(event_type: EventType, body_len: usize) -> Vec<u8> {
        let header = EventHeader {
            timestamp: 5,
            event_type,
            server_id: 1,
            event_size: 0,
            end_position: 700,
            flags: FLAG_THREAD_SPECIFIC,
        };
        control::event(header, &vec![0; body_len], CRC32)
    }

    #[test]
    fn a_dummy_has_the_size_and_place_of_what_it_replaces() {
        for len in 6..200 {
            let original = event(EventType::BINLOG_CHECKPOINT, len);
            let made = dummy(&original, CRC32).unwrap();
            let bytes = CRC32.verify(&made).unwrap();
            let header = EventHeader::parse(bytes).unwrap();
            assert_eq!(made.len(), original.len());
            assert_eq!((header.end_position, header.flags), (700, FLAG_SUPPRESS_USE));
            match header.event_type {
                EventType::QUERY => assert!(query_text(bytes).unwrap().starts_with(b"#")),
                other => assert_eq!((other, len < 15), (EventType::USER_VAR, true)),
            }
        }
        assert_eq!(dummy(&event(EventType::GTID_LIST, 5), CRC32), None);
    }

    #[test]
    fn the_empty_gtid_list_becomes_the_servers_bytes() {
        let made = dummy(&event(EventType::GTID_LIST, 6), CRC32).unwrap();
        assert_eq!(made[4], EventType::USER_VAR.0);
        assert_eq!(made[19..25], [1, 0, 0, 0, 0x21, 1]);
    }

    #[test]
    fn begin_fits_gtid_events_of_all_sizes() {
        // 19 is the usual body; then commit ids and XA ids; then padding to a page.
        for len in [19, 21, 23, 25, 29, 90, 275, 276, 277, 278, 279, 600, 3740, 8000] {
            let original = event(EventType::GTID, len);
            let made = begin(&original, CRC32).unwrap();
            assert_eq!(made.len(), original.len());
            let bytes = CRC32.verify(&made).unwrap();
            assert_eq!(query_text(bytes), Some(BEGIN), "{len}");
        }
        assert_eq!(begin(&event(EventType::GTID, 18), CRC32), None);
        assert_eq!(begin(&event(EventType::GTID, 20), CRC32), None);
    }
}
