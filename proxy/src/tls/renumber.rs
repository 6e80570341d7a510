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
        self.client.pass(bytes, |sequence| sequence.wrapping_add(1), |_| false);
    }

    /// Changes bytes of the upstream on their way; answers whether the login has ended with them. The upstream speaks next only
    /// when the client has given a command, whose packets have the same numbers on both sides.
    pub(super) fn server_bytes(&mut self, bytes: &mut [u8]) -> bool {
        self.server.pass(
            bytes,
            |sequence| sequence.wrapping_sub(1),
            |first| first == OK || first == ERR,
        )
    }
}

/// Where in a packet a direction is.
#[derive(Clone, Debug, Default)]
struct Lane {
    header: [u8; HEADER_LEN],
    /// Bytes of the header that have passed.
    head: usize,
    /// Bytes of the payload still to come.
    left: usize,
    /// Whether this is the last packet.
    last: bool,
}

impl Lane {
    fn pass(&mut self, bytes: &mut [u8], shift: fn(u8) -> u8, ends: fn(u8) -> bool) -> bool {
        let mut rest = bytes;
        while !rest.is_empty() {
            rest = if self.head < HEADER_LEN {
                self.pass_header_byte(rest, shift)
            } else {
                self.pass_payload(rest, ends)
            };
            if self.head == HEADER_LEN && self.left == 0 {
                if self.last {
                    return true;
                }
                self.head = 0;
            }
        }
        false
    }

    fn pass_header_byte<'a>(&mut self, bytes: &'a mut [u8], shift: fn(u8) -> u8) -> &'a mut [u8] {
        let Some((byte, rest)) = bytes.split_first_mut() else { return &mut [] };
        if let Some(place) = self.header.get_mut(self.head) {
            *place = *byte;
        }
        self.head += 1;
        if self.head == HEADER_LEN {
            *byte = shift(*byte);
            self.left = Header::parse(self.header).length;
        }
        rest
    }

    fn pass_payload<'a>(&mut self, bytes: &'a mut [u8], ends: fn(u8) -> bool) -> &'a mut [u8] {
        let whole = self.left == Header::parse(self.header).length;
        if whole && bytes.first().is_some_and(|first| ends(*first)) {
            self.last = true;
        }
        let step = self.left.min(bytes.len());
        self.left -= step;
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
