//! What becomes of each command: the library's, answered here, or refused.

use opensrv_mysql::ErrorKind;

use crate::serve::registry::Registration;
use crate::serve::session::Session;
use crate::serve::sql::SqlError;
use crate::wire::WireError;
use crate::wire::cursor::Cursor;
use crate::wire::reply::{EofPacket, OkPacket, status};

/// Command bytes (MySQL manual, "Command Phase").
mod code {
    pub const QUIT: u8 = 0x01;
    pub const INIT_DB: u8 = 0x02;
    pub const QUERY: u8 = 0x03;
    pub const FIELD_LIST: u8 = 0x04;
    pub const STATISTICS: u8 = 0x09;
    pub const PROCESS_INFO: u8 = 0x0a;
    pub const PROCESS_KILL: u8 = 0x0c;
    pub const PING: u8 = 0x0e;
    pub const CHANGE_USER: u8 = 0x11;
    pub const BINLOG_DUMP: u8 = 0x12;
    pub const REGISTER_SLAVE: u8 = 0x15;
    pub const STMT_PREPARE: u8 = 0x16;
    pub const STMT_EXECUTE: u8 = 0x17;
    pub const STMT_SEND_LONG_DATA: u8 = 0x18;
    pub const STMT_CLOSE: u8 = 0x19;
    pub const STMT_RESET: u8 = 0x1a;
    pub const SET_OPTION: u8 = 0x1b;
    pub const BINLOG_DUMP_GTID: u8 = 0x1e;
    pub const RESET_CONNECTION: u8 = 0x1f;
}

/// COM_SET_OPTION: no more than one statement a query.
const MULTI_STATEMENTS_OFF: u16 = 1;

/// What to do with a command.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The library gets this payload.
    Pass(Vec<u8>),
    /// The client gets this payload.
    Reply(Vec<u8>),
    /// Nothing: the command has no answer.
    Ignore,
    /// The library sees the end of the stream; the session has what comes next.
    TakeOver,
}

/// Judges one command, whole. What it asks of the session is done on the way.
pub(super) fn judge(session: &Session, payload: &[u8]) -> Verdict {
    let Some((command, body)) = payload.split_first() else {
        return refuse(ErrorKind::ER_UNKNOWN_COM_ERROR, "An empty packet is no command");
    };
    match *command {
        code::QUIT | code::PING => Verdict::Pass(payload.to_vec()),
        code::QUERY => query(body),
        code::INIT_DB | code::FIELD_LIST | code::STMT_PREPARE => pass_text(payload, body),
        code::STMT_EXECUTE | code::STMT_RESET => statement(session, *command, payload, body),
        code::STMT_CLOSE if body.len() == 4 => Verdict::Pass(payload.to_vec()),
        // Statements have no parameters here, so there is nothing to keep; neither command has an answer.
        code::STMT_CLOSE | code::STMT_SEND_LONG_DATA => Verdict::Ignore,
        code::STATISTICS => Verdict::Reply(statistics(session)),
        code::PROCESS_INFO => query(b"SHOW PROCESSLIST"),
        code::RESET_CONNECTION => {
            session.reset();
            ok()
        }
        code::PROCESS_KILL => answer(kill(session, body)),
        code::SET_OPTION => set_option(body),
        code::REGISTER_SLAVE => answer(register(session, body)),
        code::BINLOG_DUMP => match session.request_dump(payload.to_vec()) {
            Ok(()) => Verdict::TakeOver,
            Err(error) => Verdict::Reply(error.to_payload()),
        },
        code::BINLOG_DUMP_GTID => refuse(
            ErrorKind::ER_NOT_SUPPORTED_YET,
            "The log holds MariaDB's events: a MySQL GTID set does not say where to start in it",
        ),
        code::CHANGE_USER => refuse(
            ErrorKind::ER_NOT_SUPPORTED_YET,
            "The replica port does not change users: open a new connection",
        ),
        _ => refuse(ErrorKind::ER_UNKNOWN_COM_ERROR, "Unknown command"),
    }
}

fn refuse(kind: ErrorKind, message: &str) -> Verdict {
    Verdict::Reply(SqlError::new(kind, message).to_payload())
}

fn ok() -> Verdict {
    Verdict::Reply(OkPacket { status: status::AUTOCOMMIT, ..OkPacket::default() }.encode(0))
}

fn answer(result: Result<(), SqlError>) -> Verdict {
    match result {
        Ok(()) => ok(),
        Err(error) => Verdict::Reply(error.to_payload()),
    }
}

/// With a blank in front, so that the library does not answer it by its first bytes.
fn query(text: &[u8]) -> Verdict {
    if std::str::from_utf8(text).is_err() {
        return not_text();
    }
    let mut payload = vec![code::QUERY, b' '];
    payload.extend_from_slice(text);
    Verdict::Pass(payload)
}

fn pass_text(payload: &[u8], text: &[u8]) -> Verdict {
    if std::str::from_utf8(text).is_err() { not_text() } else { Verdict::Pass(payload.to_vec()) }
}

fn not_text() -> Verdict {
    refuse(ErrorKind::ER_INVALID_CHARACTER_STRING, "Invalid utf8 character string")
}

/// `statement id u32 | …`. The library ends the connection on an id it does not know.
fn statement(session: &Session, command: u8, payload: &[u8], body: &[u8]) -> Verdict {
    let id = body.first_chunk().map(|id| u32::from_le_bytes(*id));
    match id.filter(|id| session.statement(*id).is_some()) {
        Some(_) if command == code::STMT_RESET => ok(),
        // Flags and an iteration count follow the id.
        Some(_) if body.len() >= 9 => Verdict::Pass(payload.to_vec()),
        _ => refuse(
            ErrorKind::ER_UNKNOWN_STMT_HANDLER,
            "Unknown prepared statement handler given to EXECUTE",
        ),
    }
}

/// A bare text, as `mysqladmin status` prints it.
fn statistics(session: &Session) -> Vec<u8> {
    let service = &session.service;
    let uptime = service.started.elapsed().as_secs();
    let threads = service.connections.all().len();
    format!("Uptime: {uptime}  Threads: {threads}").into_bytes()
}

fn kill(session: &Session, body: &[u8]) -> Result<(), SqlError> {
    let id = body.first_chunk().map(|id| u32::from_le_bytes(*id));
    session.kill(u64::from(id.unwrap_or(0)), false)
}

fn set_option(body: &[u8]) -> Verdict {
    let option = body.first_chunk().map(|option| u16::from_le_bytes(*option));
    if option == Some(MULTI_STATEMENTS_OFF) {
        let eof = EofPacket { warnings: 0, status: status::AUTOCOMMIT };
        return Verdict::Reply(eof.encode());
    }
    refuse(ErrorKind::ER_NOT_SUPPORTED_YET, "The replica port takes one statement a query")
}

fn register(session: &Session, body: &[u8]) -> Result<(), SqlError> {
    let registration = parse_registration(body).map_err(|error| {
        SqlError::new(ErrorKind::ER_MALFORMED_PACKET, format!("COM_REGISTER_SLAVE: {error}"))
    })?;
    session.register_replica(registration)
}

/// `server id u32 | host | user | password, each with a byte of length | port u16 | rank u32 | master id u32`
fn parse_registration(body: &[u8]) -> Result<Registration, WireError> {
    let mut cursor = Cursor::new("COM_REGISTER_SLAVE", body);
    let server_id = cursor.u32("server id")?;
    let mut text = |field| {
        let len = usize::from(cursor.u8(field)?);
        let bytes = cursor.bytes(len, field)?;
        Ok::<_, WireError>(String::from_utf8_lossy(bytes).into_owned())
    };
    let host = text("host")?;
    text("user")?;
    text("password")?;
    Ok(Registration { server_id, host, port: cursor.u16("port")? })
}
