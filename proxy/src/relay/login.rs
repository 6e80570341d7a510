//! The start of a connection: connecting upstream, passing the greeting on, reading the client's login. What comes then, the
//! dialogue of whatever authentication plugin, only has to pass.
//!
//! Where `ssl_mode` requires it, TLS begins between the client's login and its passing on: servers take the capabilities of a
//! session from the request for TLS, so that has to say what the login says.

use std::io;

use spillway_metrics::relay::Refusal;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::listener::keepalive;
use super::refusal::{
    self, BAD_HANDSHAKE, LINK_FAILURE, READ_ERROR, READ_TIMEOUT, REJECTED, UNREACHABLE,
};
use super::worker::Worker;
use crate::source::{Greeting, ServerStream};
use crate::tls::TlsFault;
use crate::wire::capability::{self, COMPRESS, SSL, ZSTD_COMPRESSION};
use crate::wire::handshake::{HandshakeResponse, LOGIN_HEAD_LEN, ServerGreeting, SslRequest};
use crate::wire::packet::{HEADER_LEN, Header, put_packet};
use crate::wire::reply::{ERR, ErrPacket};

/// Not offered to clients: bytes under TLS or compression cannot be followed.
pub(super) const MASKED_CAPABILITIES: u64 = SSL | COMPRESS | ZSTD_COMPRESSION;

/// The largest greeting or login that is read: connection attributes of 64 KiB and authentication data have room in it.
const MAX_PACKET: usize = 256 << 10;

/// A client that was not let in: what to count, and what it was told.
#[derive(Debug)]
pub(super) struct Refused {
    pub(super) reason: Refusal,
    pub(super) error: ErrPacket,
}

impl Refused {
    pub(super) fn new(reason: Refusal, code: u16, state: &[u8; 5], message: String) -> Self {
        Self { reason, error: ErrPacket::new(code, state, message) }
    }
}

/// A packet with its header.
#[derive(Debug)]
pub(super) struct RawPacket(Vec<u8>);

impl RawPacket {
    pub(super) fn sequence(&self) -> u8 {
        Header::peek(&self.0).map_or(0, |header| header.sequence)
    }

    pub(super) fn payload(&self) -> &[u8] {
        self.0.get(HEADER_LEN..).unwrap_or_default()
    }

    fn payload_mut(&mut self) -> &mut [u8] {
        self.0.get_mut(HEADER_LEN..).unwrap_or_default()
    }

    /// Sets CLIENT_SSL in a login.
    fn add_ssl(&mut self) {
        for (byte, bits) in self.payload_mut().iter_mut().zip(SSL.to_le_bytes()) {
            *byte |= bits;
        }
    }

    /// What asks for TLS before this login: its fixed part, under its number.
    fn ssl_request(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let fixed = self.payload().get(..LOGIN_HEAD_LEN).unwrap_or_default();
        put_packet(&mut bytes, self.sequence(), fixed);
        bytes
    }
}

/// An upstream that has greeted.
#[derive(Debug)]
pub(super) struct Greeted {
    server: ServerStream,
    packet: RawPacket,
    capabilities: u64,
    /// Whether TLS comes before the login.
    encrypt: bool,
}

/// A client's login.
#[derive(Debug)]
pub(super) struct Login {
    packet: RawPacket,
    /// What greeting and login have in common.
    pub(super) capabilities: u64,
    pub(super) sequence: u8,
}

/// Reads one packet and not a byte more.
///
/// # Errors
/// Those of the stream, and `InvalidData` for a packet that is too large.
pub(super) async fn read_packet<R: AsyncRead + Unpin>(stream: &mut R) -> io::Result<RawPacket> {
    let mut header = [0; HEADER_LEN];
    stream.read_exact(&mut header).await?;
    let length = Header::parse(header).length;
    if length > MAX_PACKET {
        let fault = format!("a packet of {length} bytes during the login");
        return Err(io::Error::new(io::ErrorKind::InvalidData, fault));
    }
    let mut packet = vec![0; HEADER_LEN + length];
    let (head, payload) = packet.split_at_mut(HEADER_LEN);
    head.copy_from_slice(&header);
    stream.read_exact(payload).await?;
    Ok(RawPacket(packet))
}

/// Connects to the upstream and takes its greeting, with what is not offered taken out of it.
pub(super) async fn connect(worker: &Worker) -> Result<Greeted, Refused> {
    let connecting = async {
        let mut server = worker.upstream.address().connect().await?;
        if let ServerStream::Tcp(stream) = &server {
            socket2::SockRef::from(stream).set_tcp_keepalive(&keepalive())?;
        }
        let greeting = read_packet(&mut server).await?;
        Ok((server, greeting))
    };
    let limit = worker.options.connect_timeout;
    let connected = match timeout(limit, connecting).await {
        Ok(connected) => connected.map_err(|error: io::Error| match error.kind() {
            io::ErrorKind::UnexpectedEof => "it closed the connection before its greeting".into(),
            _ => error.to_string(),
        }),
        Err(_) => Err(format!("no greeting within {limit:?}")),
    };
    note_reachable(worker, connected.as_ref().err());
    match connected {
        Ok((server, packet)) => greeted(worker, server, packet),
        Err(why) => Err(unreachable(worker, &why)),
    }
}

/// An outage is logged at its start and its end, not for each client.
fn note_reachable(worker: &Worker, fault: Option<&String>) {
    let was_down = worker.upstream_down.replace(fault.is_some());
    let source = worker.upstream.name();
    match fault {
        Some(error) if !was_down => {
            let address = worker.upstream.address();
            tracing::warn!(source, %address, error, "the upstream cannot be reached");
        }
        None if was_down => tracing::info!(source, "the upstream can be reached again"),
        _ => {}
    }
}

fn unreachable(worker: &Worker, why: &str) -> Refused {
    let (name, address) = (worker.upstream.name(), worker.upstream.address());
    let message = format!("Spillway cannot reach source '{name}' at {address}: {why}");
    Refused::new(Refusal::UpstreamUnreachable, UNREACHABLE, LINK_FAILURE, message)
}

fn greeted(
    worker: &Worker,
    server: ServerStream,
    mut packet: RawPacket,
) -> Result<Greeted, Refused> {
    if packet.payload().first() == Some(&ERR) {
        return Err(refused_by_upstream(worker, packet.payload()));
    }
    let greeting = ServerGreeting::parse(packet.payload());
    let greeting = greeting.map_err(|fault| no_server(worker, &fault.to_string()))?;
    if packet.sequence() != 0 {
        return Err(no_server(worker, "its greeting does not have the sequence number 0"));
    }
    let encrypt =
        encrypts(worker, greeting.capabilities).map_err(|fault| no_tls(worker, &fault))?;
    let remembered = Greeting { version: greeting.version, payload: packet.payload().to_vec() };
    worker.upstream.set_greeting(remembered);
    ServerGreeting::mask_capabilities(packet.payload_mut(), MASKED_CAPABILITIES)
        .map_err(|fault| no_server(worker, &fault.to_string()))?;
    let capabilities = greeting.capabilities & !MASKED_CAPABILITIES;
    Ok(Greeted { server, packet, capabilities, encrypt })
}

/// `PREFERRED` leaves the relay plain: its settings say so.
fn encrypts(worker: &Worker, capabilities: u64) -> Result<bool, TlsFault> {
    let tls = worker.upstream.tls();
    let applies = || tls.applies(worker.upstream.address(), capabilities & SSL != 0);
    if tls.mode.is_required() { applies() } else { Ok(false) }
}

fn no_tls(worker: &Worker, fault: &TlsFault) -> Refused {
    let (source, address) = (worker.upstream.name(), worker.upstream.address());
    let error = fault.to_string();
    if worker.no_tls.replace(error.clone()) != error {
        tracing::warn!(source, %address, error, "connections to the upstream cannot be encrypted");
    }
    unreachable(worker, &error)
}

fn note_encrypted(worker: &Worker) {
    if !worker.no_tls.take().is_empty() {
        let source = worker.upstream.name();
        tracing::info!(source, "connections to the upstream can be encrypted again");
    }
}

fn no_server(worker: &Worker, why: &str) -> Refused {
    let (name, address) = (worker.upstream.name(), worker.upstream.address());
    tracing::warn!(source = name, %address, error = why, "the upstream's greeting cannot be read");
    let message = format!("Source '{name}' at {address} is no server Spillway knows: {why}");
    Refused::new(Refusal::UpstreamGreeting, UNREACHABLE, LINK_FAILURE, message)
}

/// Such as "Too many connections" or "Host is blocked": its own words, with an SQLSTATE.
fn refused_by_upstream(worker: &Worker, payload: &[u8]) -> Refused {
    match ErrPacket::parse(payload) {
        Ok(error) => {
            let source = worker.upstream.name();
            tracing::warn!(source, %error, "the upstream refused a connection");
            let state = error.sql_state.unwrap_or(*REJECTED);
            Refused::new(Refusal::UpstreamGreeting, error.code, &state, error.message)
        }
        Err(fault) => no_server(worker, &fault.to_string()),
    }
}

impl Greeted {
    /// Passes the greeting on and reads the client's answer to it; passes that on too, if it is one that can be followed.
    pub(super) async fn login(
        self,
        worker: &Worker,
        client: &mut TcpStream,
    ) -> Result<(Login, ServerStream), Refused> {
        let limit = worker.options.login_timeout;
        let answer = async {
            client.write_all(&self.packet.0).await?;
            read_packet(client).await
        };
        let packet = match timeout(limit, answer).await {
            Ok(Ok(packet)) => packet,
            Ok(Err(error)) if error.kind() == io::ErrorKind::InvalidData => {
                return Err(bad_login(&error.to_string()));
            }
            Ok(Err(error)) => return Err(cut(&error)),
            Err(_) => return Err(too_slow()),
        };
        let mut login = self.check(packet).map_err(|fault| bad_login(&fault))?;
        let mut server = self.server;
        if self.encrypt {
            server = encrypted(worker, server, &mut login).await?;
        }
        let sent = async {
            server.write_all(&login.packet.0).await?;
            server.flush().await
        };
        match timeout(limit, sent).await {
            Ok(Ok(())) => Ok((login, server)),
            Ok(Err(error)) => Err(unreachable(worker, &error.to_string())),
            Err(_) => Err(unreachable(worker, "it does not read")),
        }
    }

    fn check(&self, packet: RawPacket) -> Result<Login, String> {
        let sequence = packet.sequence();
        if sequence != 1 {
            return Err(format!("the login has sequence number {sequence}, expected 1"));
        }
        if SslRequest::matches(packet.payload()) {
            return Err("TLS was asked for, which is not offered here".to_owned());
        }
        let login =
            HandshakeResponse::parse(packet.payload()).map_err(|fault| fault.to_string())?;
        let unoffered = login.capabilities & MASKED_CAPABILITIES;
        if unoffered != 0 {
            let bit = 1 << unoffered.trailing_zeros();
            let name = capability::name(bit).unwrap_or("a capability");
            return Err(format!("the login uses {name}, which is not offered here"));
        }
        let capabilities = self.capabilities & login.capabilities;
        tracing::debug!(
            user = %String::from_utf8_lossy(&login.user),
            database = %String::from_utf8_lossy(&login.database),
            plugin = login.auth_plugin,
            "login"
        );
        Ok(Login { packet, capabilities, sequence })
    }
}

/// Begins TLS, and makes the login one that follows it.
async fn encrypted(
    worker: &Worker,
    mut server: ServerStream,
    login: &mut Login,
) -> Result<ServerStream, Refused> {
    login.packet.add_ssl();
    let handshake = async {
        server.write_all(&login.packet.ssl_request()).await.map_err(TlsFault::Lost)?;
        worker.upstream.tls().encrypt(worker.upstream.address(), server).await
    };
    let mut server = match timeout(worker.options.connect_timeout, handshake).await {
        Ok(encrypted) => encrypted.map_err(|fault| no_tls(worker, &fault))?,
        Err(_) => return Err(unreachable(worker, "the TLS handshake does not end")),
    };
    note_encrypted(worker);
    if let ServerStream::Tls(stream) = &mut server {
        stream.renumber_login();
    }
    Ok(server)
}

pub(super) fn bad_login(fault: &str) -> Refused {
    Refused::new(Refusal::BadLogin, BAD_HANDSHAKE, LINK_FAILURE, format!("Bad handshake: {fault}"))
}

pub(super) fn too_slow() -> Refused {
    let message = "Got timeout reading communication packets during the login".to_owned();
    Refused::new(Refusal::LoginTimeout, READ_TIMEOUT, LINK_FAILURE, message)
}

pub(super) fn cut(error: &io::Error) -> Refused {
    let message = format!("The connection was lost during the login: {error}");
    Refused::new(Refusal::LoginCut, READ_ERROR, LINK_FAILURE, message)
}

/// Tells a client that its login has failed here; `sequence` is the number it waits for.
pub(super) async fn tell(client: &mut TcpStream, sequence: u8, refused: &Refused) {
    refusal::in_reply(client, sequence, &refused.error).await;
}
