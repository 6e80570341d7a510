//! A connection to an upstream: connect, log in, ask, register, start the dump.

use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::time::timeout;

use super::fault::{self, Fault};
use super::login;
use super::packets::PacketReader;
use crate::source::{Greeting, ServerStream, Upstream};
use crate::wire::WireError;
use crate::wire::cursor::Cursor;
use crate::wire::handshake::ServerGreeting;
use crate::wire::packet::put_packet;
use crate::wire::reply::{EofPacket, ErrPacket};

/// For connecting and logging in, and for each answer before the dump.
const DEADLINE: Duration = Duration::from_secs(10);

/// Bytes an answer before the dump may have, in one packet and in all of them: the longest is SHOW BINARY LOGS.
const MAX_ANSWER: usize = 16 << 20;
/// Bytes an event may have: the largest `max_allowed_packet` of a server, and room for the headers around it.
const MAX_EVENT: usize = (1 << 30) + (1 << 16);

const COM_QUERY: u8 = 0x03;
const COM_BINLOG_DUMP: u8 = 0x12;
const COM_REGISTER_SLAVE: u8 = 0x15;
const ERR: u8 = 0xff;
/// Counted for a row on top of its bytes, so that many empty ones count too.
const ROW_OVERHEAD: usize = 64;
/// What capture asks for has fewer.
const MAX_COLUMNS: u64 = 64;
/// Ask for Annotate_rows events too.
const DUMP_ANNOTATE: u16 = 2;

/// A logged-in connection.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) stream: ServerStream,
    pub(crate) reader: PacketReader,
    /// Its thread at the server.
    pub(crate) thread_id: u32,
    user: String,
    logged_in: bool,
}

/// One row of text columns; `None` is NULL.
pub(crate) type Row = Vec<Option<String>>;

impl Connection {
    /// Connects and logs in; remembers the server's greeting in `upstream`.
    pub(crate) async fn open(
        upstream: &Upstream,
        user: &str,
        password: &str,
    ) -> Result<Self, Fault> {
        let address = upstream.address();
        let failed = |error| Fault::Connect { address: address.to_string(), error };
        let stream = timeout(DEADLINE, address.connect()).await;
        let stream = stream.map_err(|elapsed| failed(elapsed.into()))?.map_err(failed)?;
        let (reader, user_name) = (PacketReader::new(MAX_ANSWER), user.to_owned());
        let mut connection =
            Self { stream, reader, thread_id: 0, user: user_name, logged_in: false };
        let payload = connection.answer().await?;
        connection.check_error(&payload)?;
        let greeting = ServerGreeting::parse(&payload)?;
        connection.thread_id = greeting.thread_id;
        upstream.set_greeting(Greeting { version: greeting.version.clone(), payload });
        // As a whole: a server that asks again and again would never be late with one answer.
        timeout(DEADLINE, login::log_in(&mut connection, &greeting, user, password))
            .await
            .map_err(|_| Fault::Silent(DEADLINE.as_secs()))??;
        connection.logged_in = true;
        Ok(connection)
    }

    /// Asks; answers the rows, none for a statement without a result.
    pub(crate) async fn query(&mut self, sql: &str) -> Result<Vec<Row>, Fault> {
        let asked = timeout(DEADLINE, self.ask(sql)).await;
        asked.map_err(|_| Fault::Silent(DEADLINE.as_secs()))?
    }

    async fn ask(&mut self, sql: &str) -> Result<Vec<Row>, Fault> {
        self.command(COM_QUERY, sql.as_bytes()).await?;
        let first = self.answer_or_error().await?;
        if first.first() == Some(&0) {
            return Ok(Vec::new());
        }
        let columns = Cursor::new("column count", &first).lenenc("column count")?;
        if columns > MAX_COLUMNS {
            return Err(malformed("has more columns than were asked for"));
        }
        for _ in 0..columns {
            self.answer_or_error().await?;
        }
        self.answer_or_error().await?;
        self.rows(columns).await
    }

    async fn rows(&mut self, columns: u64) -> Result<Vec<Row>, Fault> {
        let mut rows = Vec::new();
        let mut bytes = 0;
        loop {
            let payload = self.answer_or_error().await?;
            if EofPacket::matches(&payload) {
                return Ok(rows);
            }
            bytes += payload.len() + ROW_OVERHEAD;
            if bytes > MAX_ANSWER {
                return Err(malformed("does not end"));
            }
            rows.push(row(&payload, columns)?);
        }
    }

    /// The first column of the first row; empty where there is none.
    pub(crate) async fn query_value(&mut self, sql: &str) -> Result<String, Fault> {
        let rows = self.query(sql).await?;
        let value = rows.into_iter().next().and_then(|row| row.into_iter().next());
        Ok(value.flatten().unwrap_or_default())
    }

    /// Registers as a replica: `server id u32 | host, user, password (1-byte lengths, empty) | port u16 | rank u32 | source id u32`.
    pub(crate) async fn register(&mut self, server_id: u32) -> Result<(), Fault> {
        let mut body = server_id.to_le_bytes().to_vec();
        body.extend_from_slice(&[0; 3 + 2 + 4 + 4]);
        self.command(COM_REGISTER_SLAVE, &body).await?;
        self.answer_or_error().await.map(drop)
    }

    /// Starts the dump: `position u32 | flags u16 | server id u32 | file name`. The file and position count only without
    /// `@slave_connect_state`. Events may then have as many bytes as any server sends.
    pub(crate) async fn start_dump(&mut self, server_id: u32, file: &str) -> Result<(), Fault> {
        const AFTER_MAGIC: u32 = 4;
        let mut body = AFTER_MAGIC.to_le_bytes().to_vec();
        body.extend_from_slice(&DUMP_ANNOTATE.to_le_bytes());
        body.extend_from_slice(&server_id.to_le_bytes());
        body.extend_from_slice(file.as_bytes());
        self.reader.limit = MAX_EVENT;
        self.command(COM_BINLOG_DUMP, &body).await
    }

    async fn command(&mut self, command: u8, body: &[u8]) -> Result<(), Fault> {
        self.reader.sequence = 0;
        self.send(&[&[command], body].concat()).await
    }

    /// Sends a payload as the next packet of the dialogue.
    pub(crate) async fn send(&mut self, payload: &[u8]) -> Result<(), Fault> {
        let mut bytes = Vec::with_capacity(payload.len() + 4);
        self.reader.sequence = put_packet(&mut bytes, self.reader.sequence, payload);
        self.stream.write_all(&bytes).await?;
        Ok(())
    }

    /// Sends an acknowledgement into a running dump: a packet of number 0, whatever number is due from the server.
    pub(crate) async fn acknowledge(&mut self, payload: &[u8]) -> Result<(), Fault> {
        let mut bytes = Vec::with_capacity(payload.len() + 4);
        put_packet(&mut bytes, 0, payload);
        self.stream.write_all(&bytes).await?;
        self.stream.flush().await?;
        Ok(())
    }

    /// The next payload, within the deadline.
    pub(crate) async fn answer(&mut self) -> Result<Vec<u8>, Fault> {
        timeout(DEADLINE, self.next()).await.map_err(|_| Fault::Silent(DEADLINE.as_secs()))?
    }

    async fn next(&mut self) -> Result<Vec<u8>, Fault> {
        loop {
            if let Some(payload) = self.reader.buffered()? {
                return Ok(payload.to_vec());
            }
            self.reader.fill(&mut self.stream).await?;
        }
    }

    pub(crate) async fn answer_or_error(&mut self) -> Result<Vec<u8>, Fault> {
        let payload = self.answer().await?;
        self.check_error(&payload)?;
        Ok(payload)
    }

    /// Turns an ERR packet into what it means.
    pub(crate) fn check_error(&self, payload: &[u8]) -> Result<(), Fault> {
        if payload.first() != Some(&ERR) {
            return Ok(());
        }
        Err(fault::server(ErrPacket::parse(payload)?, &self.user, self.logged_in))
    }
}

fn malformed(fault: &'static str) -> Fault {
    WireError::Malformed { packet: "result set", fault }.into()
}

fn row(payload: &[u8], columns: u64) -> Result<Row, Fault> {
    const NULL: u8 = 0xfb;
    let mut cursor = Cursor::new("row", payload);
    let mut row = Vec::new();
    for _ in 0..columns {
        if cursor.rest().first() == Some(&NULL) {
            cursor.u8("NULL")?;
            row.push(None);
        } else {
            let value = cursor.lenenc_bytes("column")?;
            row.push(Some(String::from_utf8_lossy(value).into_owned()));
        }
    }
    Ok(row)
}
