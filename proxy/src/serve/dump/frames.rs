//! Events to packets. Small events are copied together; large ones are written from where they lie.
//!
//! ```text
//!  packet:  length u24 | sequence u8 | 00 | [ef 00 where semi-synchronous] | event
//!  a payload of 0xffffff bytes or more goes on in further packets, the last of them shorter, if need be empty
//! ```

use std::io::{self, IoSlice};
use std::ops::Range;

use tokio::io::{AsyncWrite, AsyncWriteExt};

/// The largest payload of one packet.
const MAX_PAYLOAD: usize = 0xff_ffff;
/// Events up to this size are copied: below it a copy costs less than one more slice in the system call.
const COPY_LIMIT: usize = 8 * 1024;
/// Slices handed to one system call.
const MAX_SLICES: usize = 64;

/// What goes before each event.
const PLAIN: &[u8] = &[0];
/// The same on a connection that asked for semi-synchronous replication: magic, and no acknowledgement wanted.
const SEMI_SYNC: &[u8] = &[0, 0xef, 0];

/// Packets being put together.
#[derive(Debug)]
pub(super) struct Frames<'a, 'b> {
    buffer: &'b mut Buffer,
    pieces: Vec<Piece<'a>>,
    len: usize,
}

/// What stays between batches: the copy buffer and the next sequence number.
#[derive(Debug)]
pub(super) struct Buffer {
    bytes: Vec<u8>,
    sequence: u8,
    prefix: &'static [u8],
}

#[derive(Debug)]
enum Piece<'a> {
    Copied(Range<usize>),
    Mapped(&'a [u8]),
}

impl Buffer {
    /// For one dump, behind its request (sequence number 0).
    pub fn new(semi_sync: bool) -> Self {
        let prefix = if semi_sync { SEMI_SYNC } else { PLAIN };
        Self { bytes: Vec::new(), sequence: 1, prefix }
    }
}

impl<'a, 'b> Frames<'a, 'b> {
    /// An empty batch.
    pub fn new(buffer: &'b mut Buffer) -> Self {
        buffer.bytes.clear();
        Self { buffer, pieces: Vec::new(), len: 0 }
    }

    /// Bytes to be written.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Adds an event that outlives the batch.
    pub fn push(&mut self, event: &'a [u8]) {
        if event.len() <= COPY_LIMIT {
            self.push_made(event);
        } else {
            self.split(event, Self::map);
        }
    }

    /// Adds an event made on the way.
    pub fn push_made(&mut self, event: &[u8]) {
        self.split(event, Self::copy);
    }

    /// One packet for an event, or as many as it takes.
    fn split<'e>(&mut self, event: &'e [u8], add: impl Fn(&mut Self, &'e [u8])) {
        let mut prefix = self.buffer.prefix;
        let mut rest = event;
        loop {
            let room = MAX_PAYLOAD - prefix.len();
            let (part, after) = rest.split_at(rest.len().min(room));
            self.open_packet(prefix, part.len());
            if !part.is_empty() {
                add(self, part);
            }
            if part.len() < room {
                return;
            }
            (rest, prefix) = (after, &[]);
        }
    }

    /// Adds a payload that is no event: ERR or EOF.
    pub fn push_payload(&mut self, payload: &[u8]) {
        self.open_packet(payload, 0);
    }

    /// The packet's header and the beginning of its payload; `rest` more bytes of it are to follow.
    fn open_packet(&mut self, payload: &[u8], rest: usize) {
        let [l0, l1, l2, ..] = (payload.len() + rest).to_le_bytes();
        let header = [l0, l1, l2, self.buffer.sequence];
        self.buffer.sequence = self.buffer.sequence.wrapping_add(1);
        self.copy(&header);
        self.copy(payload);
    }

    fn map(&mut self, bytes: &'a [u8]) {
        self.len += bytes.len();
        self.pieces.push(Piece::Mapped(bytes));
    }

    fn copy(&mut self, bytes: &[u8]) {
        let start = self.buffer.bytes.len();
        self.buffer.bytes.extend_from_slice(bytes);
        let end = self.buffer.bytes.len();
        self.len += bytes.len();
        match self.pieces.last_mut() {
            Some(Piece::Copied(range)) => range.end = end,
            _ => self.pieces.push(Piece::Copied(start..end)),
        }
    }

    /// Writes the batch, whole.
    ///
    /// # Errors
    /// What the socket says.
    pub async fn write_to(self, output: &mut (impl AsyncWrite + Unpin)) -> io::Result<()> {
        let copied = &self.buffer.bytes;
        let slice = |piece: &Piece<'a>| match piece {
            Piece::Copied(range) => copied.get(range.clone()).unwrap_or_default(),
            Piece::Mapped(bytes) => bytes,
        };
        for pieces in self.pieces.chunks(MAX_SLICES) {
            let mut slices: Vec<_> =
                pieces.iter().map(|piece| IoSlice::new(slice(piece))).collect();
            let mut left = slices.as_mut_slice();
            while !left.is_empty() {
                let written = output.write_vectored(left).await?;
                if written == 0 {
                    return Err(io::ErrorKind::WriteZero.into());
                }
                IoSlice::advance_slices(&mut left, written);
            }
        }
        output.flush().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn written(buffer: &mut Buffer, fill: impl FnOnce(&mut Frames<'_, '_>)) -> Vec<u8> {
        let mut frames = Frames::new(buffer);
        fill(&mut frames);
        let len = frames.len();
        let mut output = Vec::new();
        frames.write_to(&mut output).await.unwrap();
        assert_eq!(output.len(), len);
        output
    }

    /// Payloads of the packets, joined as a client joins them, and the sequence numbers.
    fn packets(mut bytes: &[u8]) -> (Vec<Vec<u8>>, Vec<u8>) {
        let (mut payloads, mut sequences, mut open) = (vec![Vec::new()], Vec::new(), true);
        while let Some((header, rest)) = bytes.split_first_chunk::<4>() {
            let len = u32::from_le_bytes([header[0], header[1], header[2], 0]) as usize;
            if !open {
                payloads.push(Vec::new());
            }
            payloads.last_mut().unwrap().extend_from_slice(&rest[..len]);
            open = len == MAX_PAYLOAD;
            sequences.push(header[3]);
            bytes = &rest[len..];
        }
        assert!(!open && bytes.is_empty());
        (payloads, sequences)
    }

    #[tokio::test]
    async fn small_and_large_events_arrive_whole_and_numbered() {
        let small = vec![1; 45];
        for len in [COPY_LIMIT, COPY_LIMIT + 1, MAX_PAYLOAD - 2, MAX_PAYLOAD - 1, MAX_PAYLOAD] {
            let large: Vec<u8> = (0..=250).cycle().take(len).collect();
            let mut buffer = Buffer::new(false);
            let mut frames = Frames::new(&mut buffer);
            frames.push(&small);
            frames.push(&large);
            frames.push(&small);
            let mut output = Vec::new();
            frames.write_to(&mut output).await.unwrap();
            let (payloads, sequences) = packets(&output);
            assert_eq!(payloads.len(), 3, "{len}");
            assert!(payloads[1][0] == 0 && payloads[1][1..] == large, "{len}");
            assert!(payloads[2][1..] == small, "{len}");
            let count = if len >= MAX_PAYLOAD - 1 { 4 } else { 3 };
            assert_eq!(sequences, (1..=count).collect::<Vec<_>>(), "{len}");
        }
    }

    #[tokio::test]
    async fn an_event_of_many_packets() {
        let large: Vec<u8> = (0..=252).cycle().take(40 << 20).collect();
        let mut buffer = Buffer::new(true);
        let mut frames = Frames::new(&mut buffer);
        frames.push(&large);
        let mut output = Vec::new();
        frames.write_to(&mut output).await.unwrap();
        let (payloads, sequences) = packets(&output);
        assert_eq!((payloads.len(), sequences.len()), (1, 3));
        assert!(payloads[0][..3] == *SEMI_SYNC && payloads[0][3..] == large);
    }

    #[tokio::test]
    async fn sequence_numbers_go_on_and_wrap() {
        let mut buffer = Buffer::new(false);
        let first =
            written(&mut buffer, |frames| (0..300).for_each(|_| frames.push_made(&[7]))).await;
        assert_eq!(packets(&first).1.last(), Some(&44));
        let second = written(&mut buffer, |frames| frames.push_payload(&[0xfe, 0, 0, 2, 0])).await;
        assert_eq!(second, [5, 0, 0, 45, 0xfe, 0, 0, 2, 0]);
    }

    #[tokio::test]
    async fn more_pieces_than_one_call_takes() {
        let large = vec![9; COPY_LIMIT + 1];
        let mut buffer = Buffer::new(false);
        let mut frames = Frames::new(&mut buffer);
        (0..200).for_each(|_| frames.push(&large));
        let mut output = Vec::new();
        frames.write_to(&mut output).await.unwrap();
        let (payloads, _) = packets(&output);
        assert_eq!(payloads.len(), 200);
        assert!(payloads.iter().all(|payload| payload[1..] == large));
    }
}
