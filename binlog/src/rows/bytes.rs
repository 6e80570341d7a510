//! Checked reading of little-endian numbers and length-prefixed pieces from event bytes.

/// Reads from the front of a slice; every read answers `None` where the bytes end too early.
#[derive(Clone, Copy)]
pub struct Bytes<'a>(pub &'a [u8]);

impl<'a> Bytes<'a> {
    pub fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (piece, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(piece)
    }

    pub fn u8(&mut self) -> Option<u8> {
        let (&byte, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(byte)
    }

    pub fn u16(&mut self) -> Option<u16> {
        let (&bytes, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u16::from_le_bytes(bytes))
    }

    /// The protocol's packed integer. 251 and 255 start no integer.
    pub fn packed(&mut self) -> Option<usize> {
        let len = match self.u8()? {
            small @ 0..=250 => return Some(usize::from(small)),
            252 => 2,
            253 => 3,
            254 => 8,
            _ => return None,
        };
        usize::try_from(le_number(self.take(len)?)).ok()
    }

    /// A name behind one length byte, ended by a NUL that does not count.
    pub fn name(&mut self) -> Option<&'a [u8]> {
        let len = usize::from(self.u8()?);
        let name = self.take(len)?;
        self.u8()?;
        Some(name)
    }
}

/// A little-endian number of up to eight bytes.
pub fn le_number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte))
}
