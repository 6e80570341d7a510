//! A binlog dump client: reads the event stream of any source, checks every checksum.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::client::{COM_BINLOG_DUMP, Client, Error, unexpected};

/// Flags of COM_BINLOG_DUMP: end with EOF instead of waiting, and send Annotate_rows.
pub const NON_BLOCKING_WITH_ANNOTATE: u16 = 3;
/// Flag of COM_BINLOG_DUMP: send Annotate_rows.
pub const ANNOTATE: u16 = 2;

/// FORMAT_DESCRIPTION_EVENT.
pub const FORMAT_DESCRIPTION: u8 = 15;
/// ROTATE_EVENT.
pub const ROTATE: u8 = 4;
/// HEARTBEAT_LOG_EVENT.
pub const HEARTBEAT: u8 = 27;
/// GTID_EVENT of MariaDB.
pub const GTID: u8 = 162;
/// GTID_LIST_EVENT of MariaDB.
pub const GTID_LIST: u8 = 163;

/// Length of the common event header.
pub const HEADER: usize = 19;
/// Header flag of events made up for the stream.
pub const ARTIFICIAL: u16 = 0x20;

/// What to ask a source for.
#[derive(Debug, Clone)]
pub struct Request {
    /// `@slave_connect_state`; `None` attaches by file and position.
    pub gtid: Option<String>,
    /// First file, empty for the first there is.
    pub file: String,
    /// Position in it.
    pub position: u32,
    /// Flags of COM_BINLOG_DUMP.
    pub flags: u16,
    /// Our server id.
    pub server_id: u32,
    /// What `@master_binlog_checksum` is set to: `@@global.binlog_checksum`, `'CRC32'` or `'NONE'`.
    pub checksum: &'static str,
    /// `@master_heartbeat_period`.
    pub heartbeat: Option<Duration>,
}

impl Request {
    /// Everything the source has, from the empty GTID state, ending at the end.
    pub fn everything() -> Self {
        Self::from_gtid("")
    }

    /// Everything after a GTID position, ending at the end.
    pub fn from_gtid(gtid: &str) -> Self {
        // A source ends the dump of an id that comes a second time.
        static NEXT: AtomicU32 = AtomicU32::new(0);
        Self {
            gtid: Some(gtid.to_owned()),
            file: String::new(),
            position: 4,
            flags: NON_BLOCKING_WITH_ANNOTATE,
            server_id: 900_000 + NEXT.fetch_add(1, Ordering::Relaxed),
            checksum: "@@global.binlog_checksum",
            heartbeat: None,
        }
    }
}

/// One event, its checksum verified and taken off.
#[derive(Debug, Clone)]
pub struct Event {
    /// Seconds since 1970, zero in artificial events.
    pub timestamp: u32,
    /// Type code.
    pub kind: u8,
    /// Who wrote it.
    pub server_id: u32,
    /// `event_length` of the header, with the checksum.
    pub length: u32,
    /// `next_position` of the header.
    pub end_position: u32,
    /// Header flags.
    pub flags: u16,
    /// What follows the header, without the checksum.
    pub body: Vec<u8>,
    /// Whether it came with a checksum.
    pub checksummed: bool,
}

impl Event {
    /// Takes an event apart. `checksums` tells whether events have one; a format description changes it.
    ///
    /// # Errors
    /// An event that is malformed or has a wrong checksum.
    pub fn parse(bytes: &[u8], checksums: &mut bool) -> Result<Self, Error> {
        let bad = |what: &str| Error::Protocol(format!("event of {} bytes: {what}", bytes.len()));
        if bytes.len() < HEADER {
            return Err(bad("shorter than its header"));
        }
        let u32_at = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
        let kind = bytes[4];
        if u32_at(9) as usize != bytes.len() {
            return Err(bad("its header says another length"));
        }
        if kind == FORMAT_DESCRIPTION && bytes.len() > HEADER + 5 {
            *checksums = bytes[bytes.len() - 5] == 1;
        }
        let checksummed = *checksums || kind == FORMAT_DESCRIPTION;
        let end = bytes.len() - if checksummed { 4 } else { 0 };
        if end < HEADER {
            return Err(bad("too short for a checksum"));
        }
        if checksummed && crc32fast::hash(&bytes[..end]) != u32_at(end) {
            return Err(bad(&format!("wrong checksum, type {kind}, end position {}", u32_at(13))));
        }
        Ok(Self {
            timestamp: u32_at(0),
            kind,
            server_id: u32_at(5),
            length: u32_at(9),
            end_position: u32_at(13),
            flags: u16::from_le_bytes([bytes[17], bytes[18]]),
            body: bytes[HEADER..end].to_vec(),
            checksummed,
        })
    }

    /// `domain-server-sequence` of a GTID event.
    pub fn gtid(&self) -> Option<String> {
        if self.kind != GTID || self.body.len() < 12 {
            return None;
        }
        let sequence = u64::from_le_bytes(self.body[..8].try_into().unwrap());
        let domain = u32::from_le_bytes(self.body[8..12].try_into().unwrap());
        Some(format!("{domain}-{}-{sequence}", self.server_id))
    }
}

/// A running dump.
pub struct Dump {
    client: Client,
    checksums: bool,
}

impl Dump {
    /// Logs in, says what a MariaDB replica says, and starts the dump.
    ///
    /// # Errors
    /// When the source refuses a step before the dump.
    pub fn start(port: u16, login: (&str, &str), request: &Request) -> Result<Self, Error> {
        let mut client = Client::connect(port, login.0, login.1)?;
        let checksum = request.checksum;
        if let Some(period) = request.heartbeat {
            client.query(&format!("SET @master_heartbeat_period= {}", period.as_nanos()))?;
        }
        client.query(&format!("SET @master_binlog_checksum= {checksum}"))?;
        let checksum = client.query("SELECT @master_binlog_checksum")?.scalar();
        client.query("SET @mariadb_slave_capability=4")?;
        if let Some(gtid) = &request.gtid {
            client.query(&format!("SET @slave_connect_state='{gtid}'"))?;
            client.query("SET @slave_gtid_strict_mode=0")?;
        }
        client.command(COM_BINLOG_DUMP, &dump_payload(request))?;
        Ok(Self { client, checksums: checksum == "CRC32" })
    }

    /// The next event; `None` at the end of a non-blocking dump.
    ///
    /// # Errors
    /// The source's error, a broken connection, an event that is malformed or has a wrong checksum.
    pub fn next_event(&mut self) -> Result<Option<Event>, Error> {
        let packet = self.client.receive()?;
        match packet.split_first() {
            Some((0x00, event)) => Event::parse(event, &mut self.checksums).map(Some),
            Some((0xfe, rest)) if rest.len() < 8 => Ok(None),
            _ => Err(unexpected(&packet)),
        }
    }

    /// Sets how long [`Dump::next_event`] may wait.
    pub fn set_read_timeout(&self, timeout: Duration) {
        self.client.set_read_timeout(timeout);
    }
}

impl Iterator for Dump {
    type Item = Result<Event, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_event().transpose()
    }
}

fn dump_payload(request: &Request) -> Vec<u8> {
    let mut payload = request.position.to_le_bytes().to_vec();
    payload.extend_from_slice(&request.flags.to_le_bytes());
    payload.extend_from_slice(&request.server_id.to_le_bytes());
    payload.extend_from_slice(request.file.as_bytes());
    payload
}
