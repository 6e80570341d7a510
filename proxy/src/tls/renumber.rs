//! Packet numbers of a login that passes from a client without TLS to an upstream with it. No I/O.

use crate::wire::packet::{HEADER_LEN, Header};
use crate::wire::reply::{EOF, ERR, OK};

/// caching_sha2_password: the server wants the password itself.
const FULL_AUTHENTICATION: &[u8] = &[1, 4];
/// How a switch to that plugin begins, behind its first byte.
const CACHING_SHA2: &[u8] = b"caching_sha2_password\0";
/// Bytes kept of a payload: as many as are looked at.
const KEPT: usize = 1 + CACHING_SHA2.len();

/// Both directions of the login.
#[derive(Clone, Debug, Default)]
pub(super) struct Renumber {
    client: Lane,
    server: Lane,
    /// Whether the dialogue is that of caching_sha2_password.
    sha2: bool,
    is_stuck: bool,
}

impl Renumber {
    /// For a login that names this plugin.
    pub(super) fn new(plugin: &str) -> Self {
        let sha2 = plugin.as_bytes() == CACHING_SHA2.strip_suffix(&[0]).unwrap_or(CACHING_SHA2);
        Self { sha2, ..Self::default() }
    }

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
            match self.server.payload() {
                [OK | ERR, ..] => return true,
                [EOF, plugin @ ..] => self.sha2 = plugin == CACHING_SHA2,
                payload => self.is_stuck |= self.sha2 && payload == FULL_AUTHENTICATION,
            }
            rest = after;
        }
        false
    }

    /// Whether the upstream has asked for the password itself. Under TLS it takes that as it is, while the client, which sees no
    /// TLS, would first ask for a key to seal it with: that request would be taken for the password.
    pub(super) fn is_stuck(&self) -> bool {
        self.is_stuck
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
    /// The payload's first bytes.
    start: [u8; KEPT],
}

impl Lane {
    fn length(&self) -> usize {
        Header::parse(self.header).length
    }

    /// The payload that has just passed, or its beginning.
    fn payload(&self) -> &[u8] {
        self.start.get(..self.length().min(KEPT)).unwrap_or_default()
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
        for (place, byte) in self.start.iter_mut().skip(self.passed).zip(bytes.iter()) {
            *place = *byte;
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

    fn sticks(mut renumber: Renumber, mut bytes: Vec<u8>, step: usize) -> bool {
        for piece in bytes.chunks_mut(step) {
            assert!(!renumber.is_stuck());
            renumber.server_bytes(piece);
        }
        renumber.is_stuck()
    }

    #[test]
    fn a_request_for_the_password_itself_is_noticed() {
        for (payload, stuck) in [
            (&b"\x01\x04"[..], true),
            (b"\x01\x03", false),
            (b"\x01\x04x", false),
            (b"\x01", false),
        ] {
            for step in 1..8 {
                let by_login = Renumber::new("caching_sha2_password");
                let bytes = packets(3, &[payload]);
                assert_eq!(sticks(by_login, bytes, step), stuck, "{payload:?} {step}");
                let switch = b"\xfecaching_sha2_password\0abcdefghijklmnopqrst\0";
                let bytes = packets(3, &[switch, payload]);
                let by_switch = Renumber::new("mysql_native_password");
                assert_eq!(sticks(by_switch, bytes, step), stuck, "{payload:?} {step}");
                let away = packets(3, &[b"\xfedialog\0", payload]);
                assert!(!sticks(Renumber::new("caching_sha2_password"), away, step));
            }
        }
    }

    #[test]
    fn an_error_ends_the_login_too() {
        let mut bytes = packets(3, &[b"\xff\x15\x04no"]);
        assert!(Renumber::default().server_bytes(&mut bytes));
    }
}
