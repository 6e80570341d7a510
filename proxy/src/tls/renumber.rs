//! Packet numbers of a login that passes from a client without TLS to an upstream with it. No I/O.

use crate::wire::packet::{HEADER_LEN, Header};
use crate::wire::reply::{ERR, OK};

/// Both directions of the login.
#[derive(Clone, Debug, Default)]
pub(super) struct Renumber {
    client: Lane,
    server: Lane,
}

impl Renumber {
    /// Changes bytes of a client on their way; they may begin and end anywhere in a packet.
    pub(super) fn client_bytes(&mut self, bytes: &mut [u8]) {
        let mut rest = bytes;
        while let Some(after) = self.client.pass(rest, |sequence| sequence.wrapping_add(1)) {
            rest = after;
        }
    }

    /// Changes bytes of the upstream on their way; answers whether the login has ended with them. The upstream speaks next only
    /// when the client has given a command, whose packets have the same numbers on both sides.
    pub(super) fn server_bytes(&mut self, bytes: &mut [u8]) -> bool {
        let mut rest = bytes;
        while let Some(after) = self.server.pass(rest, |sequence| sequence.wrapping_sub(1)) {
            if matches!(self.server.first, OK | ERR) && self.server.length() > 0 {
                return true;
            }
            rest = after;
        }
        false
    }
}

/// Where in a packet a direction is.
#[derive(Clone, Debug, Default)]
struct Lane {
    header: [u8; HEADER_LEN],
    /// Bytes of the header that have passed.
    head: usize,
    /// Bytes of the payload that have passed.
    passed: usize,
    /// The payload's first byte.
    first: u8,
}

impl Lane {
    fn length(&self) -> usize {
        Header::parse(self.header).length
    }

    /// Changes bytes up to the end of a packet and answers what is behind it; `None` where they end before.
    fn pass<'a>(&mut self, bytes: &'a mut [u8], shift: fn(u8) -> u8) -> Option<&'a mut [u8]> {
        let mut rest = bytes;
        while !rest.is_empty() {
            rest = if self.head < HEADER_LEN {
                self.pass_header_byte(rest, shift)
            } else {
                self.pass_payload(rest)
            };
            if self.head == HEADER_LEN && self.passed == self.length() {
                (self.head, self.passed) = (0, 0);
                return Some(rest);
            }
        }
        None
    }

    fn pass_header_byte<'a>(&mut self, bytes: &'a mut [u8], shift: fn(u8) -> u8) -> &'a mut [u8] {
        let Some((byte, rest)) = bytes.split_first_mut() else { return &mut [] };
        if let Some(place) = self.header.get_mut(self.head) {
            *place = *byte;
        }
        self.head += 1;
        if self.head == HEADER_LEN {
            *byte = shift(*byte);
        }
        rest
    }

    fn pass_payload<'a>(&mut self, bytes: &'a mut [u8]) -> &'a mut [u8] {
        let step = bytes.len().min(self.length() - self.passed);
        if let (0, Some(first)) = (self.passed, bytes.first()) {
            self.first = *first;
        }
        self.passed += step;
        bytes.get_mut(step..).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::packet::put_packet;

    fn packets(first: u8, payloads: &[&[u8]]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut sequence = first;
        for payload in payloads {
            put_packet(&mut bytes, sequence, payload);
            sequence = sequence.wrapping_add(2);
        }
        bytes
    }

    #[test]
    fn numbers_are_shifted_however_the_bytes_arrive() {
        let to: [&[u8]; 3] = [b"login \x00\xff", b"", b"answer"];
        let from: [&[u8]; 3] = [b"\xfeplugin\0salt", b"\x01more \x00\xff", b"\x00\x00\x00\x02"];
        for step in 1..20 {
            let mut renumber = Renumber::default();
            let mut bytes = packets(1, &to);
            bytes.chunks_mut(step).for_each(|piece| renumber.client_bytes(piece));
            assert_eq!(bytes, packets(2, &to), "{step}");
            let mut bytes = packets(3, &from);
            let ends: Vec<_> =
                bytes.chunks_mut(step).map(|piece| renumber.server_bytes(piece)).collect();
            assert_eq!(bytes, packets(2, &from), "{step}");
            assert_eq!(ends.iter().position(|end| *end), Some(ends.len() - 1), "{step}");
        }
    }

    #[test]
    fn an_error_ends_the_login_too() {
        let mut bytes = packets(3, &[b"\xff\x15\x04no"]);
        assert!(Renumber::default().server_bytes(&mut bytes));
    }
}
