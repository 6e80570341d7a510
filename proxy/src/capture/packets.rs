//! Packets off a socket without copying: a buffer that is filled with large reads and handed out packet by packet.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt};

use crate::wire::packet::{HEADER_LEN, Header};

/// Bytes read at once. Measured: below 256 KiB the system calls show.
const READ_LEN: usize = 1 << 20;

/// A buffered reader of packets. Payloads of 16 MiB and more are put together again.
#[derive(Debug)]
pub(crate) struct PacketReader {
    buffer: Vec<u8>,
    /// The unread part of the buffer.
    start: usize,
    end: usize,
    /// A payload of several packets: those read so far.
    long: Vec<u8>,
    long_is_whole: bool,
    /// Sequence number the next packet must have.
    pub(crate) sequence: u8,
    /// How often numbers may start again at 1.
    restarts: usize,
    /// Bytes a payload may have: what a hostile upstream can make us keep.
    pub(crate) limit: usize,
}

/// A packet that cannot be taken.
#[derive(Clone, Copy, Debug, thiserror::Error)]
pub(crate) enum PacketError {
    /// It is not the next one.
    #[error("packet number {found} where {expected} was due")]
    WrongSequence { found: u8, expected: u8 },
    /// A payload does not end.
    #[error("a packet of more than {limit} bytes")]
    TooLong { limit: usize },
}

impl PacketReader {
    /// A reader of payloads of at most `limit` bytes.
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            buffer: vec![0; READ_LEN],
            start: 0,
            end: 0,
            long: Vec::new(),
            long_is_whole: false,
            sequence: 0,
            restarts: 0,
            limit,
        }
    }

    /// The next payload that is in the buffer as a whole; `None` when more must be read first.
    pub(crate) fn buffered(&mut self) -> Result<Option<&[u8]>, PacketError> {
        if std::mem::take(&mut self.long_is_whole) {
            self.long = Vec::new();
        }
        loop {
            let unread = self.buffer.get(self.start..self.end).unwrap_or_default();
            let Some(header) = Header::peek(unread) else { return Ok(None) };
            if self.long.len() + header.length > self.limit {
                return Err(PacketError::TooLong { limit: self.limit });
            }
            let payload_at = self.start + HEADER_LEN;
            if unread.len() < HEADER_LEN + header.length {
                return Ok(None);
            }
            self.check_sequence(header.sequence)?;
            self.sequence = header.sequence.wrapping_add(1);
            self.start = payload_at + header.length;
            if self.long.is_empty() && !header.continues() {
                return Ok(self.buffer.get(payload_at..payload_at + header.length));
            }
            let piece = self.buffer.get(payload_at..payload_at + header.length);
            self.long.extend_from_slice(piece.unwrap_or_default());
            if !header.continues() {
                self.long_is_whole = true;
                return Ok(Some(&self.long));
            }
        }
    }

    /// The last payload asked for an acknowledgement. Numbers start again at 1, behind it or behind the acknowledgement; over a proxy
    /// they may also go on (observed).
    pub(crate) fn may_restart(&mut self) {
        self.restarts += 1;
    }

    fn check_sequence(&mut self, found: u8) -> Result<(), PacketError> {
        const RESTARTED: u8 = 1;
        let expected = self.sequence;
        if found == expected {
            return Ok(());
        }
        if found != RESTARTED || self.restarts == 0 || !self.long.is_empty() {
            return Err(PacketError::WrongSequence { found, expected });
        }
        self.restarts -= 1;
        Ok(())
    }

    /// Whether bytes have been read that nobody has taken.
    pub(crate) fn has_unread(&self) -> bool {
        self.start < self.end
    }

    /// Reads more, once. The buffer grows to the packet at hand where that is larger, at most 16 MiB.
    pub(crate) async fn fill(&mut self, stream: &mut (impl AsyncRead + Unpin)) -> io::Result<()> {
        self.make_room();
        let room = self.buffer.get_mut(self.end..).unwrap_or_default();
        match stream.read(room).await? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            read => {
                self.end += read;
                Ok(())
            }
        }
    }

    fn make_room(&mut self) {
        if self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        let unread = self.buffer.get(..self.end).unwrap_or_default();
        let wanted = Header::peek(unread).map_or(0, |header| HEADER_LEN + header.length);
        if wanted > self.buffer.len() {
            self.buffer.resize(wanted, 0);
        } else if self.buffer.len() > READ_LEN && self.end < READ_LEN {
            self.buffer.truncate(READ_LEN);
            self.buffer.shrink_to_fit();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::packet::put_packet;

    fn read_all(bytes: &[u8], step: usize) -> Vec<Vec<u8>> {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let mut reader = PacketReader::new(usize::MAX);
        let mut payloads = Vec::new();
        for mut piece in bytes.chunks(step) {
            while !piece.is_empty() {
                runtime.block_on(reader.fill(&mut piece)).unwrap();
                while let Some(payload) = reader.buffered().unwrap() {
                    payloads.push(payload.to_vec());
                }
            }
        }
        payloads
    }

    #[test]
    fn hands_out_the_same_packets_however_they_arrive() {
        let mut bytes = Vec::new();
        let mut sequence = 0;
        let sizes = [0, 1, 300, 70_000, 2 << 20];
        let payloads: Vec<_> = sizes.map(|size| vec![7; size]).to_vec();
        for payload in &payloads {
            sequence = put_packet(&mut bytes, sequence, payload);
        }
        for step in [1013, 1 << 16, bytes.len()] {
            assert_eq!(read_all(&bytes, step), payloads, "{step}");
        }
    }

    #[test]
    fn puts_long_payloads_together_at_their_edges() {
        for size in [0xff_fffe, 0xff_ffff, 0x100_0000, 0x1ff_fffe, 0x1ff_ffff] {
            let mut bytes = Vec::new();
            let sequence = put_packet(&mut bytes, 0, &vec![5; size]);
            put_packet(&mut bytes, sequence, b"next");
            let payloads = read_all(&bytes, bytes.len());
            assert_eq!(payloads.iter().map(Vec::len).collect::<Vec<_>>(), [size, 4]);
        }
    }

    #[test]
    fn a_packet_out_of_order_is_an_error() {
        let mut reader = PacketReader::new(usize::MAX);
        reader.buffer[..5].copy_from_slice(&[1, 0, 0, 3, 9]);
        reader.end = 5;
        let wrong = reader.buffered().unwrap_err();
        assert!(matches!(wrong, PacketError::WrongSequence { found: 3, expected: 0 }));
    }

    #[test]
    fn numbers_start_again_as_often_as_acknowledgements_were_asked_for() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let mut reader = PacketReader::new(usize::MAX);
        let mut unread: &[u8] = &[1, 0, 0, 0, 9, 1, 0, 0, 1, 9, 1, 0, 0, 1, 9, 1, 0, 0, 1, 9];
        runtime.block_on(reader.fill(&mut unread)).unwrap();
        assert!(reader.buffered().unwrap().is_some() && reader.buffered().unwrap().is_some());
        reader.may_restart();
        assert!(reader.buffered().unwrap().is_some());
        let wrong = reader.buffered().unwrap_err();
        assert!(matches!(wrong, PacketError::WrongSequence { found: 1, expected: 2 }));
    }

    #[test]
    fn a_payload_over_the_limit_is_an_error_before_it_is_kept() {
        const PART: usize = 0xff_ffff;
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let mut reader = PacketReader::new(PART + 5);
        let mut bytes = Vec::new();
        put_packet(&mut bytes, 0, &vec![5; PART + 6]);
        let mut unread = bytes.as_slice();
        let error = loop {
            match reader.buffered() {
                Ok(payload) => assert!(payload.is_none()),
                Err(error) => break error,
            }
            runtime.block_on(reader.fill(&mut unread)).unwrap();
        };
        assert!(matches!(error, PacketError::TooLong { limit } if limit == PART + 5));
        assert_eq!(reader.long.len(), PART);
    }
}
