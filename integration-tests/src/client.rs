//! A small blocking client of the MySQL protocol over `std::net`.
//!
//! It exists because the tests need what no client library offers: raw replies, a binlog dump, commands sent back to back,
//! and packets that break the rules. Tests of what ordinary applications do use `mysql_async` or the real tools instead.

use std::fmt;
use std::io::{BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::scramble::{caching_sha2_token, native_token};

/// Longest payload of one packet; a longer message continues in the next one.
pub const MAX_PACKET: usize = 0xFF_FFFF;

/// COM_QUIT.
pub const COM_QUIT: u8 = 0x01;
/// COM_QUERY.
pub const COM_QUERY: u8 = 0x03;
/// COM_PING.
pub const COM_PING: u8 = 0x0e;
/// COM_CHANGE_USER.
pub const COM_CHANGE_USER: u8 = 0x11;
/// COM_BINLOG_DUMP.
pub const COM_BINLOG_DUMP: u8 = 0x12;
/// COM_STMT_PREPARE.
pub const COM_STMT_PREPARE: u8 = 0x16;
/// COM_STMT_EXECUTE.
pub const COM_STMT_EXECUTE: u8 = 0x17;
/// COM_STMT_FETCH.
pub const COM_STMT_FETCH: u8 = 0x1c;
/// COM_RESET_CONNECTION.
pub const COM_RESET_CONNECTION: u8 = 0x1f;

const CACHING_SHA2: &str = "caching_sha2_password";

const CLIENT_CONNECT_WITH_DB: u32 = 1 << 3;
const CLIENT_LONG_PASSWORD: u32 = 1;
const CLIENT_PROTOCOL_41: u32 = 1 << 9;
const CLIENT_TRANSACTIONS: u32 = 1 << 13;
const CLIENT_SECURE_CONNECTION: u32 = 1 << 15;
const CLIENT_MULTI_STATEMENTS: u32 = 1 << 16;
const CLIENT_MULTI_RESULTS: u32 = 1 << 17;
const CLIENT_PLUGIN_AUTH: u32 = 1 << 19;
/// What this client asks for, before the server's own bits are masked in.
pub const CAPABILITIES: u32 = CLIENT_LONG_PASSWORD
    | CLIENT_PROTOCOL_41
    | CLIENT_TRANSACTIONS
    | CLIENT_SECURE_CONNECTION
    | CLIENT_MULTI_STATEMENTS
    | CLIENT_MULTI_RESULTS
    | CLIENT_PLUGIN_AUTH;
const SERVER_MORE_RESULTS_EXISTS: u16 = 8;
const READ_TIMEOUT: Duration = Duration::from_secs(120);

/// What went wrong on a connection.
#[derive(Debug)]
pub enum Error {
    /// The socket failed or was closed.
    Io(std::io::Error),
    /// The server answered with an ERR packet.
    Server {
        /// The error number.
        code: u16,
        /// Five characters; empty in an error before the handshake.
        sqlstate: String,
        /// The sentence.
        message: String,
    },
    /// The server sent something this client does not understand.
    Protocol(String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => write!(f, "connection: {error}"),
            Self::Server { code, sqlstate, message } => write!(f, "{code} ({sqlstate}): {message}"),
            Self::Protocol(what) => write!(f, "protocol: {what}"),
        }
    }
}

impl std::error::Error for Error {}

impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Self {
        Self::Io(error)
    }
}

/// A result set or an OK.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Reply {
    /// Column names; empty for an OK.
    pub columns: Vec<String>,
    /// Rows in text form; NULL is `None`.
    pub rows: Vec<Vec<Option<String>>>,
    /// From the OK packet.
    pub affected_rows: u64,
}

impl Reply {
    /// The first column of the first row, empty when there is none.
    pub fn scalar(&self) -> String {
        self.rows.first().and_then(|row| row.first().cloned().flatten()).unwrap_or_default()
    }

    /// A column by name, of the first row.
    pub fn named(&self, column: &str) -> Option<String> {
        let index = self.columns.iter().position(|name| name == column)?;
        self.rows.first()?.get(index).cloned().flatten()
    }
}

/// What a server says first.
#[derive(Debug, Clone, Default)]
pub struct Greeting {
    /// The version text.
    pub version: String,
    /// The connection id.
    pub connection_id: u32,
    /// The capability bits.
    pub capabilities: u32,
    /// The authentication plugin named.
    pub plugin: String,
    scramble: Vec<u8>,
}

/// Who logs in, and how.
#[derive(Debug, Clone)]
pub struct Login<'a> {
    /// Account name.
    pub user: &'a str,
    /// Password, empty for none.
    pub password: &'a str,
    /// Capability bits to ask for; see [`CAPABILITIES`].
    pub capabilities: u32,
    /// Default database, empty for none.
    pub database: &'a str,
}

impl<'a> Login<'a> {
    /// A login with this client's usual capabilities.
    pub fn new(user: &'a str, password: &'a str) -> Self {
        Self { user, password, capabilities: CAPABILITIES, database: "" }
    }
}

/// A logged-in connection.
pub struct Client {
    reader: BufReader<TcpStream>,
    sequence: u8,
    /// What the server said first.
    pub greeting: Greeting,
}

impl Client {
    /// Connects to 127.0.0.1 and logs in.
    ///
    /// # Errors
    /// When nobody listens, or the server refuses.
    pub fn connect(port: u16, user: &str, password: &str) -> Result<Self, Error> {
        Self::login(port, &Login::new(user, password))
    }

    /// As [`Client::connect`], with all the choices.
    ///
    /// # Errors
    /// When nobody listens, or the server refuses.
    pub fn login(port: u16, login: &Login<'_>) -> Result<Self, Error> {
        let mut client = Self::greeted(port)?;
        let response = client.handshake_response(login);
        client.send(&response)?;
        client.finish_login(login.password)?;
        Ok(client)
    }

    /// Connects and reads the greeting, no more.
    ///
    /// # Errors
    /// When nobody listens, or the first packet is not a greeting.
    pub fn greeted(port: u16) -> Result<Self, Error> {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_read_timeout(Some(READ_TIMEOUT))?;
        stream.set_nodelay(true)?;
        let reader = BufReader::with_capacity(256 * 1024, stream);
        let mut client = Self { reader, sequence: 0, greeting: Greeting::default() };
        let packet = client.receive()?;
        client.greeting = parse_greeting(&packet)?;
        Ok(client)
    }

    /// Runs one statement and reads its whole reply. Of a multi-statement, the last reply.
    ///
    /// # Errors
    /// The server's error, or that of the connection.
    pub fn query(&mut self, sql: &str) -> Result<Reply, Error> {
        Ok(self.query_all(sql)?.pop().unwrap_or_default())
    }

    /// Runs statements separated by semicolons; all their replies.
    ///
    /// # Errors
    /// The server's error, or that of the connection.
    pub fn query_all(&mut self, sql: &str) -> Result<Vec<Reply>, Error> {
        self.command(COM_QUERY, sql.as_bytes())?;
        self.read_replies()
    }

    /// Sends a command and reads nothing.
    ///
    /// # Errors
    /// When the connection fails.
    pub fn command(&mut self, command: u8, payload: &[u8]) -> Result<(), Error> {
        let mut message = Vec::with_capacity(payload.len() + 1);
        message.push(command);
        message.extend_from_slice(payload);
        self.sequence = 0;
        self.send(&message)
    }

    /// Reads the replies of one COM_QUERY.
    ///
    /// # Errors
    /// The server's error, or that of the connection.
    pub fn read_replies(&mut self) -> Result<Vec<Reply>, Error> {
        let mut replies = Vec::new();
        loop {
            let (reply, status) = self.read_reply()?;
            replies.push(reply);
            if status & SERVER_MORE_RESULTS_EXISTS == 0 {
                return Ok(replies);
            }
        }
    }

    /// One message, put together from its packets.
    ///
    /// # Errors
    /// When the connection fails or is closed.
    pub fn receive(&mut self) -> Result<Vec<u8>, Error> {
        let mut message = Vec::new();
        loop {
            let mut header = [0; 4];
            self.reader.read_exact(&mut header)?;
            let length =
                usize::from(header[0]) | usize::from(header[1]) << 8 | usize::from(header[2]) << 16;
            self.sequence = header[3].wrapping_add(1);
            let begin = message.len();
            message.resize(begin + length, 0);
            self.reader.read_exact(&mut message[begin..])?;
            if length < MAX_PACKET {
                return Ok(message);
            }
        }
    }

    /// Sends one message, split into packets as it must be.
    ///
    /// # Errors
    /// When the connection fails.
    pub fn send(&mut self, message: &[u8]) -> Result<(), Error> {
        let mut rest = message;
        loop {
            let (now, later) = rest.split_at(rest.len().min(MAX_PACKET));
            let mut header = u32::try_from(now.len()).unwrap().to_le_bytes();
            header[3] = self.sequence;
            self.sequence = self.sequence.wrapping_add(1);
            let mut packet = Vec::with_capacity(now.len() + 4);
            packet.extend_from_slice(&header);
            packet.extend_from_slice(now);
            self.reader.get_mut().write_all(&packet)?;
            if now.len() < MAX_PACKET {
                return Ok(());
            }
            rest = later;
        }
    }

    /// Writes bytes as they are.
    ///
    /// # Errors
    /// When the connection fails.
    pub fn send_raw(&mut self, bytes: &[u8]) -> Result<(), Error> {
        Ok(self.reader.get_mut().write_all(bytes)?)
    }

    /// Sets how long a read may take before it fails.
    pub fn set_read_timeout(&self, timeout: Duration) {
        self.reader.get_ref().set_read_timeout(Some(timeout)).unwrap();
    }

    /// COM_CHANGE_USER, with mysql_native_password, or caching_sha2_password where the server knows the password's hash.
    ///
    /// # Errors
    /// The server's error, or that of the connection.
    pub fn change_user(&mut self, user: &str, password: &str, db: &str) -> Result<(), Error> {
        let token = native_token(password, &self.greeting.scramble);
        let mut payload = Vec::new();
        put_c_string(&mut payload, user);
        payload.push(u8::try_from(token.len()).unwrap());
        payload.extend_from_slice(&token);
        put_c_string(&mut payload, db);
        payload.extend_from_slice(&[45, 0]);
        put_c_string(&mut payload, "mysql_native_password");
        self.command(COM_CHANGE_USER, &payload)?;
        self.finish_login(password)
    }

    fn handshake_response(&self, login: &Login<'_>) -> Vec<u8> {
        let token = native_token(login.password, &self.greeting.scramble);
        let mut capabilities = login.capabilities;
        if !login.database.is_empty() {
            capabilities |= CLIENT_CONNECT_WITH_DB;
        }
        let mut response = Vec::new();
        response.extend_from_slice(&capabilities.to_le_bytes());
        response.extend_from_slice(&(1_u32 << 30).to_le_bytes());
        response.push(45);
        response.extend_from_slice(&[0; 23]);
        put_c_string(&mut response, login.user);
        response.push(u8::try_from(token.len()).unwrap());
        response.extend_from_slice(&token);
        if !login.database.is_empty() {
            put_c_string(&mut response, login.database);
        }
        if capabilities & CLIENT_PLUGIN_AUTH != 0 {
            put_c_string(&mut response, "mysql_native_password");
        }
        response
    }

    fn finish_login(&mut self, password: &str) -> Result<(), Error> {
        loop {
            let packet = self.receive()?;
            match packet.first() {
                Some(0x00) => return Ok(()),
                Some(0xfe) => self.switch_plugin(&packet, password)?,
                // caching_sha2_password: the server knew the password's hash; its OK follows.
                _ if packet == [0x01, 0x03] => {}
                _ => return Err(unexpected(&packet)),
            }
        }
    }

    fn switch_plugin(&mut self, packet: &[u8], password: &str) -> Result<(), Error> {
        let mut rest = &packet[1..];
        let plugin = take_c_string(&mut rest);
        self.greeting.scramble = rest.strip_suffix(&[0]).unwrap_or(rest).to_vec();
        let token = match plugin.as_str() {
            "mysql_native_password" => native_token(password, &self.greeting.scramble),
            CACHING_SHA2 => caching_sha2_token(password, &self.greeting.scramble),
            _ => return Err(Error::Protocol(format!("this client does not know {plugin}"))),
        };
        self.send(&token)
    }

    fn read_reply(&mut self) -> Result<(Reply, u16), Error> {
        let first = self.receive()?;
        match first.first() {
            Some(0x00) => {
                let mut rest = &first[1..];
                let affected_rows = take_length(&mut rest)?;
                take_length(&mut rest)?;
                Ok((Reply { affected_rows, ..Reply::default() }, take_u16(&mut rest)?))
            }
            None | Some(0xff | 0xfb) => Err(unexpected(&first)),
            Some(_) => self.read_result_set(&first),
        }
    }

    fn read_result_set(&mut self, first: &[u8]) -> Result<(Reply, u16), Error> {
        let count = take_length(&mut &first[..])?;
        let mut reply = Reply::default();
        for _ in 0..count {
            let definition = self.receive()?;
            reply.columns.push(column_name(&definition)?);
        }
        eof_status(&self.receive()?).ok_or_else(|| Error::Protocol("no EOF".to_owned()))?;
        loop {
            let packet = self.receive()?;
            if let Some(status) = eof_status(&packet) {
                return Ok((reply, status));
            }
            if packet.first() == Some(&0xff) {
                return Err(unexpected(&packet));
            }
            reply.rows.push(text_row(&packet, count)?);
        }
    }
}

/// The error in an ERR packet; a protocol error for anything else.
pub fn unexpected(packet: &[u8]) -> Error {
    let Some((0xff, rest)) = packet.split_first() else {
        let head = &packet[..packet.len().min(16)];
        return Error::Protocol(format!("unexpected packet {head:02x?} of {} bytes", packet.len()));
    };
    let code = u16::from_le_bytes([rest[0], rest[1]]);
    let text = String::from_utf8_lossy(&rest[2..]).into_owned();
    let (sqlstate, message) = match text.strip_prefix('#') {
        Some(marked) if marked.len() >= 5 => marked.split_at(5),
        _ => ("", text.as_str()),
    };
    Error::Server { code, sqlstate: sqlstate.to_owned(), message: message.to_owned() }
}

fn parse_greeting(packet: &[u8]) -> Result<Greeting, Error> {
    if packet.first() != Some(&10) || packet.len() < 45 {
        return Err(unexpected(packet));
    }
    let mut rest = &packet[1..];
    let version = take_c_string(&mut rest);
    let connection_id = u32::from_le_bytes([rest[0], rest[1], rest[2], rest[3]]);
    let mut scramble = rest[4..12].to_vec();
    let low = u16::from_le_bytes([rest[13], rest[14]]);
    let high = u16::from_le_bytes([rest[18], rest[19]]);
    let mut tail = &rest[31..];
    scramble.extend_from_slice(take_until_nul(&mut tail));
    let plugin = take_c_string(&mut tail);
    let capabilities = u32::from(low) | u32::from(high) << 16;
    Ok(Greeting { version, connection_id, capabilities, plugin, scramble })
}

fn eof_status(packet: &[u8]) -> Option<u16> {
    (packet.len() < 9 && packet.first() == Some(&0xfe) && packet.len() >= 5)
        .then(|| u16::from_le_bytes([packet[3], packet[4]]))
}

fn column_name(definition: &[u8]) -> Result<String, Error> {
    let mut rest = definition;
    for _ in 0..4 {
        take_text(&mut rest)?;
    }
    Ok(take_text(&mut rest)?.unwrap_or_default())
}

fn text_row(packet: &[u8], columns: u64) -> Result<Vec<Option<String>>, Error> {
    let mut rest = packet;
    (0..columns).map(|_| take_text(&mut rest)).collect()
}

fn take_text(rest: &mut &[u8]) -> Result<Option<String>, Error> {
    if rest.first() == Some(&0xfb) {
        *rest = &rest[1..];
        return Ok(None);
    }
    let length = usize::try_from(take_length(rest)?).unwrap();
    if rest.len() < length {
        return Err(Error::Protocol("a text longer than its packet".to_owned()));
    }
    let (text, after) = rest.split_at(length);
    *rest = after;
    Ok(Some(String::from_utf8_lossy(text).into_owned()))
}

/// A length-encoded integer.
pub(crate) fn take_length(rest: &mut &[u8]) -> Result<u64, Error> {
    let short = || Error::Protocol("a packet ends inside a length".to_owned());
    let (&first, after) = rest.split_first().ok_or_else(short)?;
    let width = match first {
        0xfc => 2,
        0xfd => 3,
        0xfe => 8,
        _ => 0,
    };
    if after.len() < width {
        return Err(short());
    }
    let (bytes, after) = after.split_at(width);
    *rest = after;
    Ok(match width {
        0 => u64::from(first),
        _ => bytes.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)),
    })
}

fn take_u16(rest: &mut &[u8]) -> Result<u16, Error> {
    match **rest {
        [low, high, ..] => Ok(u16::from_le_bytes([low, high])),
        _ => Err(Error::Protocol("a packet ends inside a number".to_owned())),
    }
}

fn take_c_string(rest: &mut &[u8]) -> String {
    String::from_utf8_lossy(take_until_nul(rest)).into_owned()
}

fn take_until_nul<'a>(rest: &mut &'a [u8]) -> &'a [u8] {
    let end = rest.iter().position(|byte| *byte == 0).unwrap_or(rest.len());
    let text = &rest[..end];
    *rest = rest.get(end + 1..).unwrap_or_default();
    text
}

fn put_c_string(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(text.as_bytes());
    out.push(0);
}
