//! The format description event (15) at the head of every file and every dump.
//!
//! ```text
//!  body: version u16 = 4 | server version, 50 bytes, NUL-padded | created u32 | header length u8 = 19
//!        | post-header length of type 1, 2, … n (u8 each) | checksum alg u8
//!  then a CRC32 of the event, whatever `alg` says (observed on MariaDB 10.11, 11.8 and MySQL 9.7)
//! ```
//! MariaDB 10.11 and 11.8 have 171 post-header lengths, MySQL 9.7 has 42.

use super::checksum::{self, CHECKSUM_LEN, ChecksumAlgorithm};
use super::read::Fields;
use super::{EventError, EventHeader, EventType, header};
use crate::rows::RowsLayout;

const SERVER_VERSION_LEN: usize = 50;
/// Before the post-header lengths: version, server version, created, header length.
const FIXED_LEN: usize = 2 + SERVER_VERSION_LEN + 4 + 1;

/// What a format description says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormatDescription {
    /// Version of the server that wrote the events, up to 50 bytes.
    pub server_version: String,
    /// When that server started, Unix seconds, in the first file after a start; else 0. A replica that reads a value other
    /// than 0 drops the temporary tables it holds for the source.
    pub created: u32,
    /// Post-header length of each event type, from type 1 on.
    pub post_header_lengths: Vec<u8>,
    /// Whether the events after this one carry a checksum.
    pub checksum: ChecksumAlgorithm,
}

impl FormatDescription {
    /// Reads a whole event as it comes from a dump, its last four bytes included, and checks them where it says that events have
    /// checksums. Where it says NONE they mean nothing: a server sets `created` and the end position to 0 on the wire and
    /// leaves the four bytes as they were in its file (observed on MariaDB 10.11).
    ///
    /// # Errors
    /// Any [`EventError`]: too short, a bad checksum, a binlog version other than 4, a header length other than 19.
    pub fn parse(event: &[u8]) -> Result<Self, EventError> {
        EventHeader::parse_whole(event)?;
        let format = Self::parse_checked(checksum::take_off(event)?);
        if !matches!(&format, Ok(format) if format.checksum == ChecksumAlgorithm::None) {
            ChecksumAlgorithm::Crc32.verify(event)?;
        }
        format
    }

    /// Reads an event whose checksum was checked and taken off.
    ///
    /// # Errors
    /// As [`FormatDescription::parse`].
    pub fn parse_checked(event: &[u8]) -> Result<Self, EventError> {
        let mut fields = Fields::new(header::body(event)?);
        expect("binlog version", u64::from(fields.u16("binlog version")?), 4)?;
        let version = fields.take(SERVER_VERSION_LEN, "server version")?;
        let created = fields.u32("created")?;
        let header_len = u64::from(fields.u8("header length")?);
        expect("header length", header_len, EventHeader::LEN as u64)?;
        let short = EventError::TooShort { what: "checksum algorithm", needed: 1, found: 0 };
        let (alg, lengths) = fields.rest().split_last().ok_or(short)?;
        Ok(Self {
            server_version: text(version),
            created,
            post_header_lengths: lengths.to_vec(),
            checksum: ChecksumAlgorithm::from_byte(*alg)?,
        })
    }

    /// Where the fields of table maps and rows events are.
    pub fn rows_layout(&self) -> RowsLayout {
        RowsLayout::from_post_header_lengths(&self.post_header_lengths)
    }

    /// The whole event, checksum included, ending at `end_position`.
    pub fn to_event(&self, timestamp: u32, server_id: u32, end_position: u32) -> Vec<u8> {
        let size = EventHeader::LEN + FIXED_LEN + self.post_header_lengths.len() + 1 + CHECKSUM_LEN;
        let header = EventHeader {
            timestamp,
            event_type: EventType::FORMAT_DESCRIPTION,
            server_id,
            event_size: u32::try_from(size).unwrap_or(u32::MAX),
            end_position,
            flags: 0,
        };
        let mut event = Vec::with_capacity(size);
        event.extend_from_slice(&header.to_bytes());
        event.extend_from_slice(&4_u16.to_le_bytes());
        let mut version = [0; SERVER_VERSION_LEN];
        let len = self.server_version.len().min(SERVER_VERSION_LEN);
        version[..len].copy_from_slice(&self.server_version.as_bytes()[..len]);
        event.extend_from_slice(&version);
        event.extend_from_slice(&self.created.to_le_bytes());
        event.push(19);
        event.extend_from_slice(&self.post_header_lengths);
        event.push(self.checksum.to_byte());
        event.extend_from_slice(&[0; CHECKSUM_LEN]);
        ChecksumAlgorithm::Crc32.write(&mut event);
        event
    }

    /// The post-header length of a type; 0 for one it does not list.
    pub fn post_header_length(&self, event_type: EventType) -> u8 {
        let index = usize::from(event_type.0).checked_sub(1);
        index.and_then(|index| self.post_header_lengths.get(index)).copied().unwrap_or(0)
    }

    /// Whether events of `other` may stand in a file headed by this: written by a server of the same family, with the same
    /// post-header lengths. `created` and the checksum may differ.
    pub fn same_class(&self, other: &Self) -> bool {
        version_family(&self.server_version) == version_family(&other.server_version)
            && self.post_header_lengths == other.post_header_lengths
    }
}

/// `10.11` of `10.11.19-MariaDB-log`: MariaDB changes how events are written from one series to the next, not within one. Any other
/// version is a family of its own.
pub fn version_family(version: &str) -> &str {
    let Some((number, _)) = version.split_once("-MariaDB") else { return version };
    number.rsplit_once('.').map_or(number, |(family, _)| family)
}

fn expect(what: &'static str, value: u64, expected: u64) -> Result<(), EventError> {
    if value == expected { Ok(()) } else { Err(EventError::Invalid { what, value }) }
}

/// A NUL-padded text field; bytes that are not UTF-8 are replaced.
fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn description() -> FormatDescription {
        FormatDescription {
            server_version: "10.11.19-MariaDB-0+deb12u1-log".into(),
            created: 7,
            post_header_lengths: (0..171).collect(),
            checksum: ChecksumAlgorithm::Crc32,
        }
    }

    #[test]
    fn reads_back_what_it_writes_in_the_servers_size() {
        let event = description().to_event(1, 2, 256);
        assert_eq!(event.len(), 252);
        assert_eq!(FormatDescription::parse(&event).unwrap(), description());
        assert_eq!(description().post_header_length(EventType::TABLE_MAP), 18);
    }

    #[test]
    fn a_server_without_checksums_leaves_a_stale_one_on_the_wire() {
        let without = FormatDescription { checksum: ChecksumAlgorithm::None, ..description() };
        let mut event = without.to_event(1, 2, 256);
        event[71..75].fill(0);
        let parsed = FormatDescription::parse(&event).unwrap();
        assert_eq!(parsed, FormatDescription { created: 0, ..without });
        let mut event = description().to_event(1, 2, 256);
        event[71..75].fill(0);
        assert!(matches!(FormatDescription::parse(&event), Err(EventError::Checksum { .. })));
    }

    #[test]
    fn servers_of_one_series_are_of_one_class() {
        let of = |version: &str| FormatDescription {
            server_version: version.into(),
            created: 0,
            checksum: ChecksumAlgorithm::None,
            ..description()
        };
        for same in ["10.11.19-MariaDB-0+deb12u1-log", "10.11.2-MariaDB", "10.11.20-MariaDB-log"] {
            assert!(description().same_class(&of(same)), "{same}");
        }
        for other in ["10.6.19-MariaDB-log", "11.8.9-MariaDB", "10.11.19-log", ""] {
            assert!(!description().same_class(&of(other)), "{other}");
        }
        let mut lengths = of("10.11.19-MariaDB");
        lengths.post_header_lengths.pop();
        assert!(!description().same_class(&lengths));
        assert_eq!(version_family("8.0.36"), "8.0.36");
    }

    #[test]
    fn refuses_every_truncation_and_other_versions() {
        let event = description().to_event(1, 2, 256);
        for len in 0..event.len() {
            assert!(FormatDescription::parse(&event[..len]).is_err(), "{len}");
        }
        let mut old = event.clone();
        old[19] = 3;
        ChecksumAlgorithm::Crc32.write(&mut old);
        assert!(matches!(FormatDescription::parse(&old), Err(EventError::Invalid { .. })));
    }
}
