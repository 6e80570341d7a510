//! Packet framing: the 3-byte length and the sequence number, and payloads of 16 MiB and more in several packets.

use super::WireError;
use super::cursor::Cursor;

/// Bytes of a packet header.
pub const HEADER_LEN: usize = 4;

/// The longest payload of one packet. A packet of exactly this length is followed by another one of the same payload.
pub const MAX_PAYLOAD: usize = 0xff_ffff;

/// The header of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Bytes of payload that follow.
    pub length: usize,
    /// Sequence number: 0 for the first packet of a command, one more for each packet after it, whoever sends it.
    pub sequence: u8,
}

impl Header {
    /// Reads four bytes.
    pub fn parse(bytes: [u8; HEADER_LEN]) -> Self {
        let [a, b, c, sequence] = bytes;
        Self { length: u32::from_le_bytes([a, b, c, 0]) as usize, sequence }
    }

    /// The header of the packet at the start of `bytes`; `None` when fewer than four bytes are there yet.
    pub fn peek(bytes: &[u8]) -> Option<Self> {
        bytes.first_chunk().map(|head| Self::parse(*head))
    }

    /// The four bytes. A length over [`MAX_PAYLOAD`] is cut to it: [`put_packet`] is what splits.
    pub fn encode(self) -> [u8; HEADER_LEN] {
        let length = self.length.min(MAX_PAYLOAD).to_le_bytes();
        [length[0], length[1], length[2], self.sequence]
    }

    /// Whether the payload goes on in the next packet.
    pub fn continues(self) -> bool {
        self.length == MAX_PAYLOAD
    }
}

/// The packet at the start of `bytes` and what follows it; `None` while it is not complete.
pub fn split_packet(bytes: &[u8]) -> Option<(Header, &[u8], &[u8])> {
    let header = Header::peek(bytes)?;
    let (payload, rest) = bytes.get(HEADER_LEN..)?.split_at_checked(header.length)?;
    Some((header, payload, rest))
}

/// Appends `payload` as one packet, or as several when it is 16 MiB or more, and answers the sequence number that comes next.
pub fn put_packet(out: &mut Vec<u8>, sequence: u8, payload: &[u8]) -> u8 {
    let mut next = sequence;
    let mut rest = payload;
    loop {
        let (piece, after) = rest.split_at(rest.len().min(MAX_PAYLOAD));
        out.extend_from_slice(&Header { length: piece.len(), sequence: next }.encode());
        out.extend_from_slice(piece);
        next = next.wrapping_add(1);
        rest = after;
        if piece.len() < MAX_PAYLOAD {
            return next;
        }
    }
}

/// Puts the packets of one payload together again.
#[derive(Debug)]
pub struct Assembly {
    payload: Vec<u8>,
    limit: usize,
}

impl Assembly {
    /// Payloads over `limit` bytes are refused.
    pub fn new(limit: usize) -> Self {
        Self { payload: Vec::new(), limit }
    }

    /// Adds the payload of the next packet; answers the whole when this one was the last.
    ///
    /// # Errors
    /// `Malformed` when the whole would pass the limit.
    pub fn push(&mut self, header: Header, piece: &[u8]) -> Result<Option<Vec<u8>>, WireError> {
        if self.payload.len().saturating_add(piece.len()) > self.limit {
            return Err(Cursor::new("packet", &[]).malformed("larger than the limit for it"));
        }
        self.payload.extend_from_slice(piece);
        Ok((!header.continues()).then(|| std::mem::take(&mut self.payload)))
    }
}
