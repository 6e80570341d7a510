//! The opening of a connection: the server's greeting, the client's login, the short login before TLS, and the packets of the
//! authentication dialogue.

use super::WireError;
use super::capability::{
    CLIENT_MYSQL, CONNECT_ATTRS, CONNECT_WITH_DB, PLUGIN_AUTH, PLUGIN_AUTH_LENENC, PROTOCOL_41,
    SECURE_CONNECTION, SSL,
};
use super::cursor::{Cursor, put_lenenc_bytes, put_nul_bytes};

/// First byte of [`AuthMoreData`].
pub const AUTH_MORE_DATA: u8 = 0x01;

/// Bytes of scramble in a greeting, without the zero byte after them.
pub const SALT_LEN: usize = 20;

/// Bytes of a login before its first string; a login of exactly this length with CLIENT_SSL asks for TLS.
pub const LOGIN_HEAD_LEN: usize = 32;

/// The server's first packet, protocol 10.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerGreeting {
    /// Version as sent, e.g. `5.5.5-10.11.19-MariaDB-log`.
    pub version: String,
    /// The connection's id on the server.
    pub thread_id: u32,
    /// The scramble, without the zero byte after it.
    pub salt: Vec<u8>,
    /// What the server offers; MariaDB's extended bits from 32 up.
    pub capabilities: u64,
    /// Default collation.
    pub charset: u8,
    /// Bits of [`super::reply::status`].
    pub status: u16,
    /// The plugin the salt is for; empty when the server names none.
    pub auth_plugin: String,
}

/// Where the capability bits are in a greeting: after the first eight bytes of salt and a filler.
struct CapabilityOffsets {
    lower: usize,
    upper: usize,
    extended: usize,
}

impl ServerGreeting {
    /// Reads a payload.
    ///
    /// # Errors
    /// `Malformed` when it is not protocol 10, `Truncated` where it is cut.
    pub fn parse(payload: &[u8]) -> Result<Self, WireError> {
        let mut cursor = greeting_cursor(payload)?;
        let version = text(cursor.nul_bytes("version")?);
        let thread_id = cursor.u32("thread id")?;
        let mut salt = cursor.bytes(8, "salt")?.to_vec();
        cursor.u8("filler")?;
        let lower = cursor.u16("capabilities")?;
        let charset = cursor.u8("charset")?;
        let status = cursor.u16("status")?;
        let upper = cursor.u16("upper capabilities")?;
        let salt_len = cursor.u8("salt length")?;
        cursor.bytes(6, "reserved bytes")?;
        let extended = cursor.u32("extended capabilities")?;
        let capabilities = join_capabilities(u32::from(lower) | u32::from(upper) << 16, extended);
        if capabilities & (SECURE_CONNECTION | PLUGIN_AUTH) != 0 {
            let more = usize::from(salt_len).saturating_sub(9).max(12).min(cursor.rest().len());
            salt.extend_from_slice(cursor.bytes(more, "salt")?);
            let _filler = cursor.u8("filler").ok();
        }
        let named = capabilities & PLUGIN_AUTH != 0;
        let auth_plugin = if named { text(cursor.nul_or_rest()) } else { String::new() };
        Ok(Self { version, thread_id, salt, capabilities, charset, status, auth_plugin })
    }

    /// The payload.
    pub fn encode(&self) -> Vec<u8> {
        let caps = self.capabilities.to_le_bytes();
        let (head, tail) = self.salt.split_at(self.salt.len().min(8));
        let named = self.capabilities & PLUGIN_AUTH != 0;
        let mut out = vec![10];
        put_nul_bytes(&mut out, self.version.as_bytes());
        out.extend_from_slice(&self.thread_id.to_le_bytes());
        out.extend_from_slice(head);
        out.resize(out.len() + 8 - head.len(), 0);
        out.push(0);
        out.extend_from_slice(&caps[..2]);
        out.push(self.charset);
        out.extend_from_slice(&self.status.to_le_bytes());
        out.extend_from_slice(&caps[2..4]);
        out.push(if named { u8::try_from(self.salt.len() + 1).unwrap_or(u8::MAX) } else { 0 });
        out.extend_from_slice(&[0; 6]);
        let extended = self.capabilities & CLIENT_MYSQL == 0;
        out.extend_from_slice(if extended { &caps[4..] } else { &[0; 4] });
        out.extend_from_slice(tail);
        out.push(0);
        if named {
            put_nul_bytes(&mut out, self.auth_plugin.as_bytes());
        }
        out
    }

    /// Clears the capability bits of `mask` in a greeting's payload and leaves every other byte alone.
    ///
    /// # Errors
    /// As [`Self::parse`].
    pub fn mask_capabilities(payload: &mut [u8], mask: u64) -> Result<(), WireError> {
        let CapabilityOffsets { lower, upper, extended } = capability_offsets(payload)?;
        let [a, b, c, d, e, f, g, h] = mask.to_le_bytes();
        let mariadb = payload.get(lower).is_some_and(|byte| u64::from(*byte) & CLIENT_MYSQL == 0);
        clear(payload, lower, &[a, b]);
        clear(payload, upper, &[c, d]);
        if mariadb {
            clear(payload, extended, &[e, f, g, h]);
        }
        Ok(())
    }
}

/// What a client asks for and who it says it is (HandshakeResponse41).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HandshakeResponse {
    /// What the client takes of the server's offer; MariaDB's extended bits from 32 up.
    pub capabilities: u64,
    /// The largest packet the client will take.
    pub max_packet: u32,
    /// Collation of the connection (the lower byte; some servers use the next one too).
    pub charset: u8,
    /// The account's name.
    pub user: Vec<u8>,
    /// The plugin's answer to the salt.
    pub auth_response: Vec<u8>,
    /// The database to start in; empty for none.
    pub database: Vec<u8>,
    /// The plugin `auth_response` is for; empty when the client names none.
    pub auth_plugin: String,
    /// Connection attributes, in their order.
    pub attributes: Vec<(String, String)>,
}

impl HandshakeResponse {
    /// Reads a payload.
    ///
    /// # Errors
    /// `Malformed` for a login older than protocol 4.1, `Truncated` where it is cut. Cut attributes are no error: servers
    /// ignore them too.
    pub fn parse(payload: &[u8]) -> Result<Self, WireError> {
        let mut cursor = Cursor::new("login packet", payload);
        let head = LoginHead::read(&mut cursor)?;
        let capabilities = head.capabilities;
        let user = cursor.nul_bytes("user")?.to_vec();
        let auth_response = auth_response(&mut cursor, capabilities)?.to_vec();
        let database = match capabilities & CONNECT_WITH_DB {
            0 => Vec::new(),
            _ => cursor.nul_or_rest().to_vec(),
        };
        let named = capabilities & PLUGIN_AUTH != 0;
        let auth_plugin = if named { text(cursor.nul_or_rest()) } else { String::new() };
        let attributes = match capabilities & CONNECT_ATTRS {
            0 => Vec::new(),
            _ => attributes(&mut cursor).unwrap_or_default(),
        };
        let LoginHead { max_packet, charset, .. } = head;
        Ok(Self {
            capabilities,
            max_packet,
            charset,
            user,
            auth_response,
            database,
            auth_plugin,
            attributes,
        })
    }

    /// The payload. Which fields it has is what `capabilities` says. An `auth_response` of over 255 bytes needs
    /// PLUGIN_AUTH_LENENC, or is cut.
    pub fn encode(&self) -> Vec<u8> {
        let caps = self.capabilities;
        let mut out = login_head(caps, self.max_packet, self.charset);
        put_nul_bytes(&mut out, &self.user);
        if caps & PLUGIN_AUTH_LENENC != 0 {
            put_lenenc_bytes(&mut out, &self.auth_response);
        } else if caps & SECURE_CONNECTION != 0 {
            let length = u8::try_from(self.auth_response.len()).unwrap_or(u8::MAX);
            out.push(length);
            out.extend(self.auth_response.iter().take(length.into()));
        } else {
            put_nul_bytes(&mut out, &self.auth_response);
        }
        if caps & CONNECT_WITH_DB != 0 {
            put_nul_bytes(&mut out, &self.database);
        }
        if caps & PLUGIN_AUTH != 0 {
            put_nul_bytes(&mut out, self.auth_plugin.as_bytes());
        }
        if caps & CONNECT_ATTRS != 0 {
            let mut all = Vec::new();
            for (name, value) in &self.attributes {
                put_lenenc_bytes(&mut all, name.as_bytes());
                put_lenenc_bytes(&mut all, value.as_bytes());
            }
            put_lenenc_bytes(&mut out, &all);
        }
        out
    }
}

/// A login cut short after its fixed part: the client wants TLS before it says who it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SslRequest {
    /// As in [`HandshakeResponse`], with CLIENT_SSL.
    pub capabilities: u64,
    /// As in [`HandshakeResponse`].
    pub max_packet: u32,
    /// As in [`HandshakeResponse`].
    pub charset: u8,
}

impl SslRequest {
    /// Whether a client's first packet is one.
    pub fn matches(payload: &[u8]) -> bool {
        payload.len() == LOGIN_HEAD_LEN && Self::parse(payload).is_ok()
    }

    /// Reads a payload.
    ///
    /// # Errors
    /// `Malformed` without CLIENT_SSL or CLIENT_PROTOCOL_41, `Truncated` where it is cut.
    pub fn parse(payload: &[u8]) -> Result<Self, WireError> {
        let mut cursor = Cursor::new("TLS request", payload);
        let LoginHead { capabilities, max_packet, charset } = LoginHead::read(&mut cursor)?;
        if capabilities & SSL == 0 {
            return Err(cursor.malformed("does not ask for TLS"));
        }
        Ok(Self { capabilities, max_packet, charset })
    }

    /// The payload.
    pub fn encode(self) -> Vec<u8> {
        login_head(self.capabilities | SSL, self.max_packet, self.charset)
    }
}

/// The server wants another plugin than the one of the greeting or the login.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthSwitchRequest {
    /// The plugin to use.
    pub auth_plugin: String,
    /// What the plugin starts from: mostly a salt. One of 20 bytes has a zero byte behind it on the wire, which is left out here;
    /// those of 32 (client_ed25519, parsec) have none, and may end with a zero of their own.
    pub data: Vec<u8>,
}

impl AuthSwitchRequest {
    /// Reads a payload. The request of one byte, for the passwords of MySQL 4.0, names `mysql_old_password`.
    ///
    /// # Errors
    /// `Malformed` when the first byte is another, `Truncated` where it is cut.
    pub fn parse(payload: &[u8]) -> Result<Self, WireError> {
        let mut cursor = Cursor::new("authentication switch", payload);
        if cursor.u8("first byte")? != super::reply::EOF {
            return Err(cursor.malformed("does not start with 0xfe"));
        }
        if cursor.is_empty() {
            return Ok(Self { auth_plugin: "mysql_old_password".to_owned(), data: Vec::new() });
        }
        let auth_plugin = text(cursor.nul_bytes("plugin")?);
        let data = cursor.take_rest();
        let data = match data.split_last() {
            Some((0, salt)) if salt.len() == SALT_LEN => salt,
            _ => data,
        };
        Ok(Self { auth_plugin, data: data.to_vec() })
    }

    /// The payload.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![super::reply::EOF];
        put_nul_bytes(&mut out, self.auth_plugin.as_bytes());
        out.extend_from_slice(&self.data);
        if self.data.len() == SALT_LEN {
            out.push(0);
        }
        out
    }
}

/// Another step of the plugin's own dialogue; what it means is the plugin's affair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuthMoreData<'a>(pub &'a [u8]);

impl<'a> AuthMoreData<'a> {
    /// Reads a payload.
    ///
    /// # Errors
    /// `Malformed` when the first byte is another.
    pub fn parse(payload: &'a [u8]) -> Result<Self, WireError> {
        let mut cursor = Cursor::new("authentication data", payload);
        if cursor.u8("first byte")? != AUTH_MORE_DATA {
            return Err(cursor.malformed("does not start with 0x01"));
        }
        Ok(Self(cursor.take_rest()))
    }

    /// The payload.
    pub fn encode(self) -> Vec<u8> {
        [&[AUTH_MORE_DATA], self.0].concat()
    }
}

struct LoginHead {
    capabilities: u64,
    max_packet: u32,
    charset: u8,
}

impl LoginHead {
    fn read(cursor: &mut Cursor<'_>) -> Result<Self, WireError> {
        let capabilities = cursor.u32("capabilities")?;
        if u64::from(capabilities) & PROTOCOL_41 == 0 {
            return Err(cursor.malformed("older than protocol 4.1, which is not spoken here"));
        }
        let max_packet = cursor.u32("maximum packet size")?;
        let charset = cursor.u8("charset")?;
        cursor.bytes(19, "reserved bytes")?;
        let extended = cursor.u32("extended capabilities")?;
        Ok(Self { capabilities: join_capabilities(capabilities, extended), max_packet, charset })
    }
}

fn login_head(capabilities: u64, max_packet: u32, charset: u8) -> Vec<u8> {
    let caps = capabilities.to_le_bytes();
    let mut out = Vec::with_capacity(128);
    out.extend_from_slice(&caps[..4]);
    out.extend_from_slice(&max_packet.to_le_bytes());
    out.push(charset);
    out.extend_from_slice(&[0; 19]);
    let extended = capabilities & CLIENT_MYSQL == 0;
    out.extend_from_slice(if extended { &caps[4..] } else { &[0; 4] });
    out
}

/// The upper half counts only from a side that is no MySQL: MySQL reserves those bytes and some clients leave garbage there.
fn join_capabilities(lower: u32, extended: u32) -> u64 {
    let lower = u64::from(lower);
    if lower & CLIENT_MYSQL == 0 { lower | u64::from(extended) << 32 } else { lower }
}

fn greeting_cursor(payload: &[u8]) -> Result<Cursor<'_>, WireError> {
    let mut cursor = Cursor::new("server greeting", payload);
    match cursor.u8("protocol version")? {
        10 => Ok(cursor),
        _ => Err(cursor.malformed("not of protocol 10")),
    }
}

fn capability_offsets(payload: &[u8]) -> Result<CapabilityOffsets, WireError> {
    let mut cursor = greeting_cursor(payload)?;
    cursor.nul_bytes("version")?;
    cursor.bytes(4 + 8 + 1, "salt")?;
    let lower = payload.len() - cursor.rest().len();
    cursor.bytes(2 + 1 + 2 + 2 + 1 + 6 + 4, "capabilities")?;
    Ok(CapabilityOffsets { lower, upper: lower + 5, extended: lower + 14 })
}

fn clear(payload: &mut [u8], at: usize, mask: &[u8]) {
    for (byte, mask) in payload.iter_mut().skip(at).zip(mask) {
        *byte &= !mask;
    }
}

fn auth_response<'a>(cursor: &mut Cursor<'a>, capabilities: u64) -> Result<&'a [u8], WireError> {
    const FIELD: &str = "authentication data";
    if capabilities & PLUGIN_AUTH_LENENC != 0 {
        cursor.lenenc_bytes(FIELD)
    } else if capabilities & SECURE_CONNECTION != 0 {
        let length = cursor.u8(FIELD)?;
        cursor.bytes(length.into(), FIELD)
    } else {
        Ok(cursor.nul_or_rest())
    }
}

fn attributes(cursor: &mut Cursor<'_>) -> Result<Vec<(String, String)>, WireError> {
    let mut all = Cursor::new("connection attributes", cursor.lenenc_bytes("attributes")?);
    let mut found = Vec::new();
    while !all.is_empty() {
        let name = text(all.lenenc_bytes("name")?);
        found.push((name, text(all.lenenc_bytes("value")?)));
    }
    Ok(found)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
