//! A connection to an upstream: connect, log in, ask, register, start the dump.

use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::time::timeout;

use super::fault::{self, Fault};
use super::login;
use super::packets::PacketReader;
use crate::source::{Greeting, ServerStream, Upstream};
use crate::tls::{Encryption, TlsFault, TlsOptions};
use crate::wire::WireError;
use crate::wire::capability::SSL;
use crate::wire::cursor::Cursor;
use crate::wire::handshake::{HandshakeResponse, ServerGreeting, SslRequest};
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
    /// What a refused login may be due to besides user and password.
    login_hint: &'static str,
}

/// One row of text columns; `None` is NULL.
pub(crate) type Row = Vec<Option<String>>;

impl Connection {
    /// Connects as far as a login, with TLS where `tls` says so; answers how the connection is encrypted.
    pub(crate) async fn reach(upstream: &Upstream) -> Result<Option<Encryption>, Fault> {
        let mut connection = Self::connect(upstream, "").await?;
        let greeting = connection.greeting(upstream).await?;
        if upstream.tls().applies(upstream.address(), greeting.capabilities & SSL != 0)? {
            let mut login = login::login_packet(&greeting, "", "")?;
            login.capabilities |= SSL;
            connection = connection.encrypted(upstream, &login).await?;
        }
        Ok(connection.stream.encryption().cloned())
    }

    /// Connects and logs in; remembers the server's greeting in `upstream`.
    pub(crate) async fn open(
        upstream: &Upstream,
        user: &str,
        password: &str,
    ) -> Result<Self, Fault> {
        let mut connection = Self::connect(upstream, user).await?;
        let greeting = connection.greeting(upstream).await?;
        let tls = upstream.tls();
        let mut login = login::login_packet(&greeting, user, password)?;
        if tls.applies(upstream.address(), greeting.capabilities & SSL != 0)? {
            login.capabilities |= SSL;
            connection = connection.encrypted(upstream, &login).await?;
        }
        connection.login_hint = login_hint(tls, connection.stream.encryption());
        // As a whole: a server that asks again and again would never be late with one answer.
        timeout(DEADLINE, login::log_in(&mut connection, &greeting, &login, password))
            .await
            .map_err(|_| Fault::Silent(DEADLINE.as_secs()))?
            .map_err(|fault| match fault {
                Fault::Lost(error) => tls.explain_late(&error).map_or(error.into(), Fault::from),
                fault => fault,
            })?;
        connection.logged_in = true;
        Ok(connection)
    }

    async fn connect(upstream: &Upstream, user: &str) -> Result<Self, Fault> {
        let address = upstream.address();
        let failed = |error| Fault::Connect { address: address.to_string(), error };
        let stream = timeout(DEADLINE, address.connect()).await;
        let stream = stream.map_err(|elapsed| failed(elapsed.into()))?.map_err(failed)?;
        let (reader, user) = (PacketReader::new(MAX_ANSWER), user.to_owned());
        Ok(Self { stream, reader, thread_id: 0, user, logged_in: false, login_hint: "" })
    }

    async fn greeting(&mut self, upstream: &Upstream) -> Result<ServerGreeting, Fault> {
        let payload = self.answer_or_error().await?;
        let greeting = ServerGreeting::parse(&payload)?;
        self.thread_id = greeting.thread_id;
        upstream.set_greeting(Greeting { version: greeting.version.clone(), payload });
        Ok(greeting)
    }

    /// Asks for TLS, with what the login will say again, and does the handshake.
    async fn encrypted(
        mut self,
        upstream: &Upstream,
        login: &HandshakeResponse,
    ) -> Result<Self, Fault> {
        let HandshakeResponse { capabilities, max_packet, charset, .. } = *login;
        self.send(&SslRequest { capabilities, max_packet, charset }.encode()).await?;
        if self.reader.has_unread() {
            return Err(TlsFault::Injected.into());
        }
        let handshake = upstream.tls().encrypt(upstream.address(), self.stream);
        let stream = timeout(DEADLINE, handshake).await;
        let stream = stream.map_err(|_| Fault::Silent(DEADLINE.as_secs()))??;
        Ok(Self { stream, ..self })
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
        // TLS may still have a part of it.
        self.stream.flush().await?;
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
        let hint = (!self.logged_in).then_some(self.login_hint);
        Err(fault::server(ErrPacket::parse(payload)?, &self.user, hint))
    }
}

fn login_hint(tls: &TlsOptions, encryption: Option<&Encryption>) -> &'static str {
    match encryption {
        None => {
            ", and whether the account or the upstream requires an encrypted connection (this one is not: see ssl_mode)"
        }
        Some(_) if tls.client.is_none() => {
            ", and whether the account requires a client's certificate (ssl_cert and ssl_key)"
        }
        Some(_) => ", and whether the account accepts the certificate in ssl_cert",
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
