//! MariaDB's Gtid_list event (163): the GTID state at a file's beginning, or of a dump's connection.
//!
//! ```text
//!  body: count u28 + flags u4 (u32) | count × (domain u32, server u32, sequence u64)
//!  an empty list is followed by 2 zero bytes (observed on MariaDB 10.11 and 11.8)
//! ```
//! Flag 1 (`FLAG_UNTIL_REACHED`) in a dump says that the position of `START SLAVE UNTIL` was reached. Flag 8 (`FLAG_TIMELINE`)
//! in a file of Spillway's log says that a new timeline begins there, and behind the list stand the domains that it is about:
//!
//! ```text
//!  count u32 | count × domain u32; without the 2 zero bytes of an empty list
//! ```

use super::read::Fields;
use super::{EventError, EventHeader, header};
use crate::gtid::mariadb::Gtid;

/// In the upper four bits of the count: the until position was reached.
pub const FLAG_UNTIL_REACHED: u32 = 1 << 28;
/// Spillway's own, in its files only: the state is not the one that the file before ended with. Servers and tools pass over it.
pub const FLAG_TIMELINE: u32 = 1 << 31;
const COUNT_MASK: u32 = FLAG_UNTIL_REACHED - 1;
const ENTRY_LEN: usize = 16;

/// Reads an event without checksum: the GTIDs in their order, and the flags.
///
/// # Errors
/// [`EventError::TooShort`] where the count promises more than is there.
pub fn parse(event: &[u8]) -> Result<(Vec<Gtid>, u32), EventError> {
    let mut fields = Fields::new(header::body(event)?);
    let count = fields.u32("Gtid_list count")?;
    let entries = (count & COUNT_MASK) as usize;
    let bytes = fields.take(entries.saturating_mul(ENTRY_LEN), "Gtid_list")?;
    let list = bytes.chunks_exact(ENTRY_LEN).map(entry).collect::<Result<_, _>>()?;
    Ok((list, count & !COUNT_MASK))
}

/// The domains that a file begins anew; `None` where it begins no timeline.
///
/// # Errors
/// [`EventError::TooShort`] where a count promises more than is there.
pub fn timeline_domains(event: &[u8]) -> Result<Option<Vec<u32>>, EventError> {
    let (list, flags) = parse(event)?;
    if flags & FLAG_TIMELINE == 0 {
        return Ok(None);
    }
    let mut fields = Fields::new(header::body(event)?);
    fields.take(4 + list.len().saturating_mul(ENTRY_LEN), "Gtid_list")?;
    let count = fields.u32("count of a timeline's domains")?;
    let domains = fields.take((count as usize).saturating_mul(4), "domains of a timeline")?;
    Ok(Some(domains.chunks_exact(4).map(low_u32).collect()))
}

fn low_u32(bytes: &[u8]) -> u32 {
    bytes.try_into().map(u32::from_le_bytes).unwrap_or_default()
}

fn entry(bytes: &[u8]) -> Result<Gtid, EventError> {
    let mut fields = Fields::new(bytes);
    let domain = fields.u32("domain id")?;
    let server = fields.u32("server id")?;
    Ok(Gtid { domain, server, sequence: fields.u64("sequence number")? })
}

/// The body of a Gtid_list event. `flags` is 0 or one of `FLAG_*`.
pub fn body(list: &[Gtid], flags: u32) -> Vec<u8> {
    let count = u32::try_from(list.len()).unwrap_or(COUNT_MASK) & COUNT_MASK;
    let mut body = Vec::with_capacity(6 + list.len() * ENTRY_LEN);
    body.extend_from_slice(&(count | flags).to_le_bytes());
    for gtid in list {
        body.extend_from_slice(&gtid.domain.to_le_bytes());
        body.extend_from_slice(&gtid.server.to_le_bytes());
        body.extend_from_slice(&gtid.sequence.to_le_bytes());
    }
    if list.is_empty() {
        body.extend_from_slice(&[0; 2]);
    }
    body
}

/// The body of a Gtid_list event with which a file begins a timeline of these domains.
pub fn timeline_body(list: &[Gtid], domains: &[u32]) -> Vec<u8> {
    let mut body = body(list, FLAG_TIMELINE);
    body.truncate(4 + list.len() * ENTRY_LEN);
    let count = u32::try_from(domains.len()).unwrap_or(u32::MAX);
    body.extend_from_slice(&count.to_le_bytes());
    domains.iter().for_each(|domain| body.extend_from_slice(&domain.to_le_bytes()));
    body
}

/// Bytes of a Gtid_list event without checksum that holds `count` GTIDs.
pub fn event_len(count: usize) -> usize {
    EventHeader::LEN + 4 + if count == 0 { 2 } else { count * ENTRY_LEN }
}

#[cfg(test)]
mod tests {
    use super::super::{ChecksumAlgorithm, EventType, control};
    use super::*;

    #[test]
    fn writes_what_a_server_sent() {
        // Artificial Gtid_list of MariaDB 10.11 with 0-1-2 (facts on the replica protocol, A.4).
        let sent = [
            0, 0, 0, 0, 0xa3, 1, 0, 0, 0, 0x2b, 0, 0, 0, 0xe7, 2, 0, 0, 0x20, 0, 1, 0, 0, 0, 0, 0,
            0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0x66, 0xd8, 0x0e, 0x5a,
        ];
        let list = [Gtid { domain: 0, server: 1, sequence: 2 }];
        let header = control::artificial(EventType::GTID_LIST, 1, 0x2e7);
        let made = control::event(header, &body(&list, 0), ChecksumAlgorithm::Crc32);
        assert_eq!(made, sent);
        assert_eq!(parse(&sent[..39]).unwrap(), (list.to_vec(), 0));
        assert_eq!(event_len(0), 25);
    }

    #[test]
    fn the_domains_of_a_timeline_read_back_behind_any_list() {
        let header = control::artificial(EventType::GTID_LIST, 1, 0);
        let event = |body: &[u8]| control::event(header, body, ChecksumAlgorithm::None);
        let list = [Gtid { domain: 7, server: 1, sequence: 2 }];
        for list in [&list[..], &[]] {
            for domains in [&[7, u32::MAX][..], &[7], &[]] {
                let made = event(&timeline_body(list, domains));
                assert_eq!(parse(&made).unwrap(), (list.to_vec(), FLAG_TIMELINE));
                assert_eq!(timeline_domains(&made).unwrap(), Some(domains.to_vec()));
                for cut in 1..=4 * domains.len() + 4 {
                    let cut = timeline_domains(&made[..made.len() - cut]);
                    assert!(matches!(cut, Err(EventError::TooShort { .. })), "{cut:?}");
                }
            }
            assert_eq!(timeline_domains(&event(&body(list, 0))).unwrap(), None);
        }
    }

    #[test]
    fn a_count_beyond_the_bytes_is_an_error() {
        let header = control::artificial(EventType::GTID_LIST, 1, 0);
        let lie = control::event(header, &[0xff, 0xff, 0xff, 0x0f], ChecksumAlgorithm::None);
        assert!(matches!(parse(&lie), Err(EventError::TooShort { .. })));
    }
}
