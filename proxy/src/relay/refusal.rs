//! Errors made up here, sent so that clients show them with their SQLSTATE.

use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::login::{MASKED_CAPABILITIES, read_packet};
use super::worker::Worker;
use crate::wire::capability::{
    CONNECT_WITH_DB, LONG_FLAG, PLUGIN_AUTH, PROTOCOL_41, SECURE_CONNECTION, TRANSACTIONS,
};
use crate::wire::handshake::{SALT_LEN, ServerGreeting};
use crate::wire::packet::put_packet;
use crate::wire::reply::{ErrPacket, status};

/// How long a client has to take an error and to hang up.
const LINGER: Duration = Duration::from_secs(2);

/// SQLSTATE of a connection that the server rejects.
pub(super) const REJECTED: &[u8; 5] = b"08004";

/// SQLSTATE of a connection that is lost or never came about. Pools of all languages drop connections with class 08.
pub(super) const LINK_FAILURE: &[u8; 5] = b"08S01";

/// "Error connecting to master": the servers' own error for what cannot be reached, in their tables of class 08. The numbers
/// from 2000, which client libraries make for this themselves, are no choice: libmariadb takes one of them from a server for a
/// malformed packet.
pub(super) const UNREACHABLE: u16 = 1218;

/// "Connection was killed": of the errors that servers send, the one that pools (SQLAlchemy among them) know to mean that this
/// connection is of no use any more.
pub(super) const CONNECTION_LOST: u16 = 1927;

/// "Server shutdown in progress".
pub(super) const SHUTDOWN: u16 = 1053;

/// "Too many connections".
pub(super) const TOO_MANY_CONNECTIONS: u16 = 1040;

/// "Bad handshake".
pub(super) const BAD_HANDSHAKE: u16 = 1043;

/// "Got timeout reading communication packets".
pub(super) const READ_TIMEOUT: u16 = 1159;

/// "Got an error reading communication packets".
pub(super) const READ_ERROR: u16 = 1158;

/// Tells a client that has seen no greeting yet.
///
/// An error in place of a greeting is read by clients without an SQLSTATE, as that came with a later protocol. So it gets a
/// greeting first, and the error in reply to its login. The login is read and forgotten.
pub(super) async fn instead_of_greeting(
    worker: &Worker,
    client: &mut TcpStream,
    error: &ErrPacket,
) {
    let mut packet = Vec::new();
    put_packet(&mut packet, 0, &made_up_greeting(worker));
    let told = async {
        client.write_all(&packet).await?;
        let login = read_packet(client).await?;
        write_error(client, login.sequence().wrapping_add(1), error).await
    };
    // A client that does not listen is not told.
    if let Ok(Ok(())) = timeout(worker.options.login_timeout, told).await {
        hang_up(client).await;
    }
}

/// Tells a client that waits for the packet with this number, and hangs up.
pub(super) async fn in_reply(client: &mut TcpStream, sequence: u8, error: &ErrPacket) {
    if let Ok(Ok(())) = timeout(LINGER, write_error(client, sequence, error)).await {
        hang_up(client).await;
    }
}

async fn write_error<W>(client: &mut W, sequence: u8, error: &ErrPacket) -> std::io::Result<()>
where
    W: AsyncWrite + Unpin,
{
    let mut packet = Vec::new();
    put_packet(&mut packet, sequence, &error.encode());
    client.write_all(&packet).await
}

/// Waits a little for the client to hang up first. Closing while bytes of it are unread would make the system throw away the
/// error that was just sent.
async fn hang_up<S: AsyncRead + AsyncWrite + Unpin>(client: &mut S) {
    let _ = client.shutdown().await;
    let read_all = async {
        let mut sink = [0; 4096];
        while client.read(&mut sink).await.is_ok_and(|count| count > 0) {}
    };
    let _ = timeout(LINGER, read_all).await;
}

/// The last greeting of the upstream with a salt of its own; if there was none, one that claims little.
fn made_up_greeting(worker: &Worker) -> Vec<u8> {
    let last = worker.upstream.greeting();
    let last = last.and_then(|greeting| ServerGreeting::parse(&greeting.payload).ok());
    let mut greeting = last.unwrap_or_else(|| ServerGreeting {
        // Clients want three numbers here, and use none of them before the login.
        version: "5.7.0-Spillway".to_owned(),
        thread_id: 0,
        salt: Vec::new(),
        capabilities: LONG_FLAG
            | CONNECT_WITH_DB
            | PROTOCOL_41
            | TRANSACTIONS
            | SECURE_CONNECTION
            | PLUGIN_AUTH,
        charset: 45,
        status: status::AUTOCOMMIT,
        auth_plugin: "mysql_native_password".to_owned(),
    });
    greeting.capabilities &= !MASKED_CAPABILITIES;
    greeting.salt = salt();
    greeting.encode()
}

/// Printable, as servers send it: some clients take it for text.
fn salt() -> Vec<u8> {
    let mut bytes = [0; SALT_LEN];
    // Nobody is let in by this salt. Without randomness it is a constant, and still refuses.
    let _ = getrandom::fill(&mut bytes);
    bytes.iter().map(|byte| byte % 94 + 33).collect()
}
