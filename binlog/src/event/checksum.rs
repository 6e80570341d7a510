//! The CRC32 (IEEE) at an event's end, over all bytes before it.

use super::{EventError, EventHeader};

/// Bytes of a checksum at the end of an event.
pub const CHECKSUM_LEN: usize = 4;

/// Whether events carry a checksum; the `alg` byte at the end of a format description.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ChecksumAlgorithm {
    /// No checksum (0).
    None,
    /// CRC32 (1).
    Crc32,
}

impl ChecksumAlgorithm {
    /// From the `alg` byte.
    ///
    /// # Errors
    /// [`EventError::Invalid`] for any value but 0 and 1.
    pub fn from_byte(byte: u8) -> Result<Self, EventError> {
        match byte {
            0 => Ok(Self::None),
            1 => Ok(Self::Crc32),
            other => {
                Err(EventError::Invalid { what: "checksum algorithm", value: u64::from(other) })
            }
        }
    }

    /// The `alg` byte.
    pub fn to_byte(self) -> u8 {
        u8::from(self == Self::Crc32)
    }

    /// Bytes it adds to every event.
    pub fn trailer_len(self) -> usize {
        match self {
            Self::None => 0,
            Self::Crc32 => CHECKSUM_LEN,
        }
    }

    /// The name `@@binlog_checksum` shows.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "NONE",
            Self::Crc32 => "CRC32",
        }
    }

    /// Checks a whole event and answers it without its checksum.
    ///
    /// # Errors
    /// [`EventError::TooShort`] where there is no room for a checksum, [`EventError::Checksum`] where it does not match.
    pub fn verify(self, event: &[u8]) -> Result<&[u8], EventError> {
        if self == Self::None {
            return Ok(event);
        }
        let (bytes, found) = split(event)?;
        let computed = crc32fast::hash(bytes);
        if computed == found {
            return Ok(bytes);
        }
        let event_type = EventHeader::parse(event)?.event_type;
        Err(EventError::Checksum { event_type, found, computed })
    }

    /// Writes the checksum of a whole event into its last bytes.
    ///
    /// # Panics
    /// Where `event` is shorter than a header and a checksum: the caller has made it.
    pub fn write(self, event: &mut [u8]) {
        if self == Self::Crc32 {
            let at = event.len() - CHECKSUM_LEN;
            let computed = crc32fast::hash(&event[..at]);
            event[at..].copy_from_slice(&computed.to_le_bytes());
        }
    }
}

/// An event without the checksum behind it, which is not compared.
///
/// # Errors
/// [`EventError::TooShort`].
pub(super) fn take_off(event: &[u8]) -> Result<&[u8], EventError> {
    split(event).map(|(bytes, _)| bytes)
}

/// An event's bytes and the checksum behind them, not compared.
fn split(event: &[u8]) -> Result<(&[u8], u32), EventError> {
    let needed = EventHeader::LEN + CHECKSUM_LEN;
    let short = EventError::TooShort { what: "event with checksum", needed, found: event.len() };
    if event.len() < needed {
        return Err(short);
    }
    let (bytes, checksum) = event.split_last_chunk::<CHECKSUM_LEN>().ok_or(short)?;
    Ok((bytes, u32::from_le_bytes(*checksum)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An artificial Rotate of MariaDB 10.11 (facts on the replica protocol, A.4).
    const ROTATE: [u8; 42] = [
        0, 0, 0, 0, 4, 1, 0, 0, 0, 0x2a, 0, 0, 0, 0, 0, 0, 0, 0x20, 0, 4, 0, 0, 0, 0, 0, 0, 0,
        0x6d, 0x62, 0x69, 0x6e, 0x2e, 0x30, 0x30, 0x30, 0x30, 0x30, 0x31, 0x15, 0x50, 0x63, 0xe7,
    ];

    #[test]
    fn accepts_what_a_server_computed_and_computes_the_same() {
        let bytes = ChecksumAlgorithm::Crc32.verify(&ROTATE).unwrap();
        assert_eq!(bytes, &ROTATE[..38]);
        let mut again = ROTATE;
        again[38..].fill(0);
        ChecksumAlgorithm::Crc32.write(&mut again);
        assert_eq!(again, ROTATE);
    }

    #[test]
    fn notices_any_flipped_bit() {
        for bit in 0..ROTATE.len() * 8 {
            let mut damaged = ROTATE;
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(ChecksumAlgorithm::Crc32.verify(&damaged).is_err(), "bit {bit}");
        }
    }
}
