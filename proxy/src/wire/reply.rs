//! Replies of a server: OK, ERR, EOF, and the status flags in them.

use super::WireError;
use super::capability;
use super::cursor::{Cursor, put_lenenc, put_lenenc_bytes};

/// First byte of an OK packet.
pub const OK: u8 = 0x00;
/// First byte of a request for a local file.
pub const LOCAL_INFILE: u8 = 0xfb;
/// First byte of an EOF packet, of an OK packet that ends a result set, and of an authentication switch.
pub const EOF: u8 = 0xfe;
/// First byte of an ERR packet.
pub const ERR: u8 = 0xff;
/// The error code of what is no error but a progress report of MariaDB.
pub const PROGRESS_CODE: u16 = 0xffff;

/// Bits of the server status in OK and EOF packets.
pub mod status {
    /// A transaction is open.
    pub const IN_TRANSACTION: u16 = 1;
    /// Autocommit is on.
    pub const AUTOCOMMIT: u16 = 1 << 1;
    /// Another result of the same command follows.
    pub const MORE_RESULTS: u16 = 1 << 3;
    /// Rows stay on the server, to be fetched.
    pub const CURSOR_EXISTS: u16 = 1 << 6;
    /// The cursor has given its last row.
    pub const LAST_ROW_SENT: u16 = 1 << 7;
    /// This result is that of the OUT parameters of a procedure.
    pub const PS_OUT_PARAMS: u16 = 1 << 12;
    /// The open transaction is read only.
    pub const IN_TRANSACTION_READONLY: u16 = 1 << 13;
    /// Session state follows in the OK packet.
    pub const SESSION_STATE_CHANGED: u16 = 1 << 14;
}

/// An ERR packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrPacket {
    /// The server's error number.
    pub code: u16,
    /// Five characters; `None` when the packet has none, as before the login.
    pub sql_state: Option<[u8; 5]>,
    /// The sentence.
    pub message: String,
}

impl ErrPacket {
    /// An error with an SQLSTATE.
    pub fn new(code: u16, sql_state: &[u8; 5], message: impl Into<String>) -> Self {
        Self { code, sql_state: Some(*sql_state), message: message.into() }
    }

    /// Reads a payload.
    ///
    /// # Errors
    /// `Malformed` when the first byte is not that of an error; `Truncated` without a code.
    pub fn parse(payload: &[u8]) -> Result<Self, WireError> {
        let mut cursor = Cursor::new("ERR packet", payload);
        if cursor.u8("first byte")? != ERR {
            return Err(cursor.malformed("does not start with 0xff"));
        }
        let code = cursor.u16("error code")?;
        let mut sql_state = None;
        if let [b'#', a, b, c, d, e, rest @ ..] = cursor.rest() {
            sql_state = Some([*a, *b, *c, *d, *e]);
            cursor = Cursor::new("ERR packet", rest);
        }
        let message = String::from_utf8_lossy(cursor.take_rest()).into_owned();
        Ok(Self { code, sql_state, message })
    }

    /// The payload.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![ERR];
        out.extend_from_slice(&self.code.to_le_bytes());
        if let Some(state) = &self.sql_state {
            out.push(b'#');
            out.extend_from_slice(state);
        }
        out.extend_from_slice(self.message.as_bytes());
        out
    }

    /// The SQLSTATE as text; `HY000` when there is none.
    pub fn sql_state(&self) -> String {
        let state = self.sql_state.as_ref().unwrap_or(b"HY000");
        String::from_utf8_lossy(state).into_owned()
    }
}

impl std::fmt::Display for ErrPacket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({}): {}", self.code, self.sql_state(), self.message)
    }
}

/// An OK packet, also the one that ends a result set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OkPacket {
    /// Rows changed.
    pub affected_rows: u64,
    /// The first value given by AUTO_INCREMENT, or 0.
    pub last_insert_id: u64,
    /// Bits of [`status`].
    pub status: u16,
    /// Number of warnings.
    pub warnings: u16,
    /// The human-readable sentence, mostly empty.
    pub info: Vec<u8>,
    /// The session state items as sent; empty when there are none.
    pub session_state: Vec<u8>,
}

impl OkPacket {
    /// Reads a payload; `capabilities` are those both sides agreed on.
    ///
    /// # Errors
    /// `Malformed` when the first byte is not that of an OK; `Truncated` where it is cut.
    pub fn parse(payload: &[u8], capabilities: u64) -> Result<Self, WireError> {
        let mut cursor = Cursor::new("OK packet", payload);
        if !matches!(cursor.u8("first byte")?, OK | EOF) {
            return Err(cursor.malformed("starts with neither 0x00 nor 0xfe"));
        }
        let mut packet = Self {
            affected_rows: cursor.lenenc("affected rows")?,
            last_insert_id: cursor.lenenc("last insert id")?,
            status: cursor.u16("status")?,
            warnings: cursor.u16("warnings")?,
            ..Self::default()
        };
        if capabilities & capability::SESSION_TRACK == 0 {
            packet.info = cursor.take_rest().to_vec();
        } else if !cursor.is_empty() {
            packet.info = cursor.lenenc_bytes("info")?.to_vec();
            if packet.status & status::SESSION_STATE_CHANGED != 0 && !cursor.is_empty() {
                packet.session_state = cursor.lenenc_bytes("session state")?.to_vec();
            }
        }
        Ok(packet)
    }

    /// The payload, with first byte 0x00.
    pub fn encode(&self, capabilities: u64) -> Vec<u8> {
        let mut out = vec![OK];
        put_lenenc(&mut out, self.affected_rows);
        put_lenenc(&mut out, self.last_insert_id);
        out.extend_from_slice(&self.status.to_le_bytes());
        out.extend_from_slice(&self.warnings.to_le_bytes());
        if capabilities & capability::SESSION_TRACK == 0 {
            out.extend_from_slice(&self.info);
        } else if !(self.info.is_empty() && self.session_state.is_empty()) {
            put_lenenc_bytes(&mut out, &self.info);
            if self.status & status::SESSION_STATE_CHANGED != 0 {
                put_lenenc_bytes(&mut out, &self.session_state);
            }
        }
        out
    }
}

/// An EOF packet of clients without DEPRECATE_EOF, and the end of a binlog dump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EofPacket {
    /// Number of warnings.
    pub warnings: u16,
    /// Bits of [`status`].
    pub status: u16,
}

impl EofPacket {
    /// Whether `payload` is one: a row may start with 0xfe too, but is longer.
    pub fn matches(payload: &[u8]) -> bool {
        payload.first() == Some(&EOF) && payload.len() < 9
    }

    /// Reads a payload.
    ///
    /// # Errors
    /// `Malformed` when it is not one; `Truncated` where it is cut.
    pub fn parse(payload: &[u8]) -> Result<Self, WireError> {
        let mut cursor = Cursor::new("EOF packet", payload);
        if !Self::matches(payload) {
            return Err(cursor.malformed("is longer than 8 bytes or does not start with 0xfe"));
        }
        cursor.u8("first byte")?;
        Ok(Self { warnings: cursor.u16("warnings")?, status: cursor.u16("status")? })
    }

    /// The payload.
    pub fn encode(self) -> Vec<u8> {
        let ([a, b], [c, d]) = (self.warnings.to_le_bytes(), self.status.to_le_bytes());
        vec![EOF, a, b, c, d]
    }
}
