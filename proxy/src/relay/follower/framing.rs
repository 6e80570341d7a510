//! Finds the packets in a stream of bytes that arrives in pieces. Remembers a header and a few first bytes, never a payload.

use crate::wire::packet::{HEADER_LEN, Header, split_packet};

/// First bytes of a payload that are looked at. An OK packet has its status within them: the first byte, two integers of up
/// to nine bytes, the status of two.
const PREFIX_LEN: usize = 21;

/// The packets of one direction.
#[derive(Clone, Debug, Default)]
pub(super) struct Framer {
    /// Header and first bytes of a packet that arrives in pieces.
    head: [u8; HEADER_LEN + PREFIX_LEN],
    /// Bytes of the unfinished packet seen so far, header included.
    seen: usize,
    /// The packet before was of the maximum length: the next one goes on with its payload.
    continued: bool,
}

/// A packet, all of whose bytes have been seen.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packet<'a> {
    pub(super) header: Header,
    /// The first bytes of the payload, up to [`PREFIX_LEN`].
    pub(super) prefix: &'a [u8],
    /// Goes on with the payload of the packet before.
    pub(super) continued: bool,
}

impl Framer {
    /// Takes bytes off the front of `input` up to the end of the next packet; `None` when all of them were taken and the
    /// packet is still not complete.
    pub(super) fn next<'s, 'i: 's>(&'s mut self, input: &mut &'i [u8]) -> Option<Packet<'s>> {
        if self.seen == 0
            && let Some((header, payload, rest)) = split_packet(input)
        {
            *input = rest;
            let prefix = payload.get(..PREFIX_LEN).unwrap_or(payload);
            return Some(self.finish(header).packet(prefix));
        }
        self.next_in_pieces(input)
    }

    /// Whether the last byte seen was the last of a payload.
    pub(super) fn at_boundary(&self) -> bool {
        self.seen == 0 && !self.continued
    }

    /// The header of the unfinished packet, once it is known.
    pub(super) fn unfinished(&self) -> Option<Header> {
        Header::peek(self.head.get(..self.seen.min(HEADER_LEN))?)
    }

    fn next_in_pieces(&mut self, input: &mut &[u8]) -> Option<Packet<'_>> {
        self.gather(input, HEADER_LEN)?;
        let header = self.unfinished()?;
        let head_len = HEADER_LEN + header.length.min(PREFIX_LEN);
        self.gather(input, head_len)?;
        self.skip(input, HEADER_LEN + header.length)?;
        let finished = self.finish(header);
        Some(finished.packet(self.head.get(HEADER_LEN..head_len)?))
    }

    /// Copies bytes until `wanted` of this packet are in `head`.
    fn gather(&mut self, input: &mut &[u8], wanted: usize) -> Option<()> {
        let missing = wanted.saturating_sub(self.seen);
        let (taken, rest) = input.split_at(missing.min(input.len()));
        if !taken.is_empty() {
            self.head.get_mut(self.seen..self.seen + taken.len())?.copy_from_slice(taken);
        }
        self.seen += taken.len();
        *input = rest;
        (taken.len() == missing).then_some(())
    }

    fn skip(&mut self, input: &mut &[u8], total: usize) -> Option<()> {
        let skipped = total.saturating_sub(self.seen).min(input.len());
        *input = input.get(skipped..)?;
        self.seen += skipped;
        (self.seen == total).then_some(())
    }

    fn finish(&mut self, header: Header) -> Finished {
        self.seen = 0;
        let continued = std::mem::replace(&mut self.continued, header.continues());
        Finished { header, continued }
    }
}

struct Finished {
    header: Header,
    continued: bool,
}

impl Finished {
    fn packet(self, prefix: &[u8]) -> Packet<'_> {
        Packet { header: self.header, prefix, continued: self.continued }
    }
}
