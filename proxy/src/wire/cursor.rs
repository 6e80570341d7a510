//! Reading and writing the protocol's primitive values: little-endian integers, length-encoded integers, strings.

use super::WireError;

/// A position in one packet payload. Knows the packet's name, so that an error can say what was cut.
#[derive(Clone, Debug)]
pub struct Cursor<'a> {
    rest: &'a [u8],
    packet: &'static str,
}

impl<'a> Cursor<'a> {
    /// Starts at the first byte of `payload`; `packet` names it in errors.
    pub fn new(packet: &'static str, payload: &'a [u8]) -> Self {
        Self { rest: payload, packet }
    }

    /// What has not been read yet.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Whether everything has been read.
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// An error about this packet.
    pub fn malformed(&self, fault: &'static str) -> WireError {
        WireError::Malformed { packet: self.packet, fault }
    }

    /// The next `count` bytes.
    ///
    /// # Errors
    /// `Truncated` when fewer are left.
    pub fn bytes(&mut self, count: usize, field: &'static str) -> Result<&'a [u8], WireError> {
        let (head, rest) = self.rest.split_at_checked(count).ok_or_else(|| self.cut(field))?;
        self.rest = rest;
        Ok(head)
    }

    /// The next byte.
    ///
    /// # Errors
    /// `Truncated` at the end.
    pub fn u8(&mut self, field: &'static str) -> Result<u8, WireError> {
        self.array::<1>(field).map(|[byte]| byte)
    }

    /// A 16-bit integer.
    ///
    /// # Errors
    /// `Truncated` when fewer than two bytes are left.
    pub fn u16(&mut self, field: &'static str) -> Result<u16, WireError> {
        self.array(field).map(u16::from_le_bytes)
    }

    /// A 32-bit integer.
    ///
    /// # Errors
    /// `Truncated` when fewer than four bytes are left.
    pub fn u32(&mut self, field: &'static str) -> Result<u32, WireError> {
        self.array(field).map(u32::from_le_bytes)
    }

    /// A 64-bit integer.
    ///
    /// # Errors
    /// `Truncated` when fewer than eight bytes are left.
    pub fn u64(&mut self, field: &'static str) -> Result<u64, WireError> {
        self.array(field).map(u64::from_le_bytes)
    }

    /// A length-encoded integer.
    ///
    /// # Errors
    /// `Truncated` at the end; `Malformed` for 0xfb (NULL) and 0xff, which are no integers.
    pub fn lenenc(&mut self, field: &'static str) -> Result<u64, WireError> {
        Ok(match self.u8(field)? {
            0xfb | 0xff => return Err(self.malformed("a length is neither a number nor absent")),
            0xfc => self.u16(field)?.into(),
            0xfd => {
                let [a, b, c] = self.array(field)?;
                u32::from_le_bytes([a, b, c, 0]).into()
            }
            0xfe => self.u64(field)?,
            small => small.into(),
        })
    }

    /// A string with its length-encoded length before it.
    ///
    /// # Errors
    /// As [`Self::lenenc`]; `Truncated` when the length is more than what is left.
    pub fn lenenc_bytes(&mut self, field: &'static str) -> Result<&'a [u8], WireError> {
        let length = self.lenenc(field)?;
        let length = usize::try_from(length).map_err(|_| self.cut(field))?;
        self.bytes(length, field)
    }

    /// A string ended by a zero byte, which is not part of it.
    ///
    /// # Errors
    /// `Truncated` when there is no zero byte.
    pub fn nul_bytes(&mut self, field: &'static str) -> Result<&'a [u8], WireError> {
        let end = self.rest.iter().position(|byte| *byte == 0).ok_or_else(|| self.cut(field))?;
        let text = self.bytes(end, field)?;
        self.u8(field)?;
        Ok(text)
    }

    /// A string ended by a zero byte, or by the end of the packet as some clients write the last one.
    pub fn nul_or_rest(&mut self) -> &'a [u8] {
        let mut parts = self.rest.splitn(2, |byte| *byte == 0);
        let text = parts.next().unwrap_or_default();
        self.rest = parts.next().unwrap_or_default();
        text
    }

    /// All that is left.
    pub fn take_rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }

    fn array<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], WireError> {
        let (head, rest) = self.rest.split_first_chunk::<N>().ok_or_else(|| self.cut(field))?;
        self.rest = rest;
        Ok(*head)
    }

    fn cut(&self, field: &'static str) -> WireError {
        WireError::Truncated { packet: self.packet, field }
    }
}

/// Appends a length-encoded integer, in its shortest form.
pub fn put_lenenc(out: &mut Vec<u8>, value: u64) {
    let bytes = value.to_le_bytes();
    match value {
        0..=0xfa => out.extend_from_slice(&bytes[..1]),
        0xfb..=0xffff => {
            out.push(0xfc);
            out.extend_from_slice(&bytes[..2]);
        }
        0x1_0000..=0xff_ffff => {
            out.push(0xfd);
            out.extend_from_slice(&bytes[..3]);
        }
        _ => {
            out.push(0xfe);
            out.extend_from_slice(&bytes);
        }
    }
}

/// Appends a string with its length-encoded length before it.
pub fn put_lenenc_bytes(out: &mut Vec<u8>, text: &[u8]) {
    put_lenenc(out, text.len() as u64);
    out.extend_from_slice(text);
}

/// Appends a string and the zero byte that ends it; a zero byte inside ends it there, as it would for its reader.
pub fn put_nul_bytes(out: &mut Vec<u8>, text: &[u8]) {
    out.extend(text.iter().take_while(|byte| **byte != 0));
    out.push(0);
}
