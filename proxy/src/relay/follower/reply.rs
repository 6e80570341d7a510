//! Where a reply ends: a state machine over the packets of one reply, by their lengths and first bytes.

use super::command::{Command, ReplyKind};
use crate::wire::capability::{
    DEPRECATE_EOF, MARIADB_CACHE_METADATA, MARIADB_PROGRESS, OPTIONAL_RESULTSET_METADATA,
};
use crate::wire::cursor::Cursor;
use crate::wire::packet::MAX_PAYLOAD;
use crate::wire::reply::{EOF, ERR, LOCAL_INFILE, OK, PROGRESS_CODE, status};

/// The shortest OK packet: first byte, two one-byte integers, status, warnings. What is shorter and starts with 0x00 is none.
const SHORTEST_OK: usize = 7;

/// An EOF packet is shorter than this; a row that starts with 0xfe is longer.
const EOF_LIMIT: usize = 9;

/// One packet of a reply: the first bytes, and the length of all.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReplyPacket<'a> {
    pub(super) prefix: &'a [u8],
    pub(super) length: usize,
}

/// What comes next in a reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Expect {
    /// The first packet of the reply, or of another result in it.
    #[default]
    First,
    /// Definitions, `left` of them, then what `after` says.
    Definitions { left: u64, after: After },
    /// The EOF behind definitions, for clients without DEPRECATE_EOF.
    DefinitionsEnd { after: After },
    /// Rows, then an end.
    Rows,
    /// The row of a procedure's OUT parameters, then its end. That does not say that more follows, but it does: the procedure's OK
    /// (MySQL 9.7.4, observed, towards clients without DEPRECATE_EOF).
    OutParameters,
}

/// What follows a run of definitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum After {
    /// Rows.
    Rows,
    /// The definitions of a prepared statement's columns.
    Columns(u16),
    /// The EOF of such definitions, which are left out themselves.
    ColumnsEnd,
    /// Nothing: the statement is prepared.
    Prepared,
}

/// What a packet meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The reply goes on.
    More,
    /// The client sends a file now; then the reply goes on.
    LocalFile,
    /// The reply has ended. No status: the packet that ended it has none.
    Done { status: Option<u16>, error: Option<u16> },
    /// This packet cannot stand here.
    Inconsistent(&'static str),
}

impl Expect {
    /// Goes on by one packet of the reply to `command`.
    pub(super) fn packet(
        &mut self,
        command: Command,
        capabilities: u64,
        packet: ReplyPacket<'_>,
    ) -> Outcome {
        self.step(command, capabilities, packet).unwrap_or_else(Outcome::Inconsistent)
    }

    fn step(
        &mut self,
        command: Command,
        capabilities: u64,
        packet: ReplyPacket<'_>,
    ) -> Result<Outcome, &'static str> {
        let Some(first) = packet.prefix.first().copied() else {
            return Err("an empty packet");
        };
        if first == ERR {
            return error(capabilities, packet);
        }
        match *self {
            Self::First => self.first(command, capabilities, packet, first),
            Self::Definitions { left, after } => {
                Ok(self.definitions(capabilities, left.saturating_sub(1), after))
            }
            Self::DefinitionsEnd { after } => {
                let status = eof_status(packet).ok_or("no EOF behind the definitions")?;
                Ok(self.after_definitions(command, after, status))
            }
            Self::Rows | Self::OutParameters if !ends_rows(capabilities, packet) => {
                Ok(Outcome::More)
            }
            Self::OutParameters => {
                *self = Self::First;
                Ok(Outcome::More)
            }
            Self::Rows => {
                let status = end_status(packet)?;
                Ok(self.result_done(command, status))
            }
        }
    }

    fn first(
        &mut self,
        command: Command,
        capabilities: u64,
        packet: ReplyPacket<'_>,
        first: u8,
    ) -> Result<Outcome, &'static str> {
        match command.reply_kind() {
            ReplyKind::Results => self.first_of_result(command, capabilities, packet, first),
            ReplyKind::Simple => simple(packet, first),
            ReplyKind::Prepare => self.prepared(capabilities, packet, first),
            ReplyKind::Rows | ReplyKind::FieldList => {
                *self = Self::Rows;
                self.step(command, capabilities, packet)
            }
            ReplyKind::Text => Ok(Outcome::Done { status: None, error: None }),
            ReplyKind::Dialogue if first == OK && packet.length >= SHORTEST_OK => {
                Ok(Outcome::Done { status: Some(ok_status(packet)?), error: None })
            }
            ReplyKind::Dialogue => Ok(Outcome::More),
            ReplyKind::None | ReplyKind::Stream | ReplyKind::Unknown => {
                Err("a reply to a command that has none")
            }
        }
    }

    fn first_of_result(
        &mut self,
        command: Command,
        capabilities: u64,
        packet: ReplyPacket<'_>,
        first: u8,
    ) -> Result<Outcome, &'static str> {
        match first {
            OK if packet.length >= SHORTEST_OK => {
                let status = ok_status(packet)?;
                Ok(self.result_done(command, status))
            }
            LOCAL_INFILE => Ok(Outcome::LocalFile),
            EOF => Err("an EOF where a result starts"),
            _ => {
                let left = definitions_to_come(capabilities, packet)?;
                Ok(self.definitions(capabilities, left, After::Rows))
            }
        }
    }

    /// A result has ended: another one may follow it in the same reply.
    fn result_done(&mut self, command: Command, status: u16) -> Outcome {
        let many = command.reply_kind() == ReplyKind::Results;
        if many && status & status::MORE_RESULTS != 0 {
            *self = Self::First;
            return Outcome::More;
        }
        Outcome::Done { status: Some(status), error: None }
    }

    fn prepared(
        &mut self,
        capabilities: u64,
        packet: ReplyPacket<'_>,
        first: u8,
    ) -> Result<Outcome, &'static str> {
        if first != OK {
            return Err("neither OK nor ERR");
        }
        let mut cursor = Cursor::new("prepared statement", packet.prefix);
        let _first_byte_and_statement_id = cursor.bytes(5, "statement id");
        let (Ok(columns), Ok(parameters)) = (cursor.u16("columns"), cursor.u16("parameters"))
        else {
            return Err("a prepared statement without its counts");
        };
        let asked_for_none = capabilities & OPTIONAL_RESULTSET_METADATA != 0
            && packet.length > 12
            && packet.prefix.get(12) == Some(&0);
        if asked_for_none {
            return Ok(self.ends_of_prepared(capabilities, columns > 0, parameters > 0));
        }
        if parameters == 0 {
            return Ok(self.columns_of_prepared(columns, None));
        }
        let after = After::Columns(columns);
        *self = Self::Definitions { left: parameters.into(), after };
        Ok(Outcome::More)
    }

    /// Definitions that are left out still have the EOF behind them, for clients without DEPRECATE_EOF (MySQL 9.7.4, observed).
    fn ends_of_prepared(&mut self, capabilities: u64, columns: bool, parameters: bool) -> Outcome {
        let after = if columns && parameters { After::ColumnsEnd } else { After::Prepared };
        if capabilities & DEPRECATE_EOF != 0 || !(columns || parameters) {
            return Outcome::Done { status: None, error: None };
        }
        *self = Self::DefinitionsEnd { after };
        Outcome::More
    }

    fn columns_of_prepared(&mut self, columns: u16, status: Option<u16>) -> Outcome {
        if columns == 0 {
            return Outcome::Done { status, error: None };
        }
        *self = Self::Definitions { left: columns.into(), after: After::Prepared };
        Outcome::More
    }

    /// `left` definitions are still to come.
    fn definitions(&mut self, capabilities: u64, left: u64, after: After) -> Outcome {
        if left > 0 {
            *self = Self::Definitions { left, after };
        } else if capabilities & DEPRECATE_EOF == 0 {
            *self = Self::DefinitionsEnd { after };
        } else {
            return match after {
                After::Rows => {
                    *self = Self::Rows;
                    Outcome::More
                }
                After::Columns(columns) => self.columns_of_prepared(columns, None),
                After::ColumnsEnd | After::Prepared => Outcome::Done { status: None, error: None },
            };
        }
        Outcome::More
    }

    fn after_definitions(&mut self, command: Command, after: After, status: u16) -> Outcome {
        match after {
            // The rows stay on the server until COM_STMT_FETCH.
            After::Rows
                if command == Command::STMT_EXECUTE && status & status::CURSOR_EXISTS != 0 =>
            {
                self.result_done(command, status)
            }
            After::Rows => {
                let out = status & status::PS_OUT_PARAMS != 0;
                *self = if out { Self::OutParameters } else { Self::Rows };
                Outcome::More
            }
            After::Columns(columns) => self.columns_of_prepared(columns, Some(status)),
            After::ColumnsEnd => {
                *self = Self::DefinitionsEnd { after: After::Prepared };
                Outcome::More
            }
            After::Prepared => Outcome::Done { status: Some(status), error: None },
        }
    }
}

fn error(capabilities: u64, packet: ReplyPacket<'_>) -> Result<Outcome, &'static str> {
    let mut cursor = Cursor::new("ERR packet", packet.prefix);
    let _first_byte = cursor.u8("first byte");
    let code = cursor.u16("error code").map_err(|_| "an ERR packet without its code")?;
    if code == PROGRESS_CODE && capabilities & MARIADB_PROGRESS != 0 {
        return Ok(Outcome::More);
    }
    Ok(Outcome::Done { status: None, error: Some(code) })
}

fn simple(packet: ReplyPacket<'_>, first: u8) -> Result<Outcome, &'static str> {
    match first {
        OK => Ok(Outcome::Done { status: Some(ok_status(packet)?), error: None }),
        EOF => Ok(Outcome::Done { status: Some(end_status(packet)?), error: None }),
        _ => Err("neither OK, EOF nor ERR where one of them is due"),
    }
}

/// How many column definitions follow a column count. A byte behind it says whether any do, where the client asked for that: so
/// MariaDB, and MySQL too (9.7.4, observed; its documentation has the byte before the count).
fn definitions_to_come(capabilities: u64, packet: ReplyPacket<'_>) -> Result<u64, &'static str> {
    let mut cursor = Cursor::new("column count", packet.prefix);
    let count = cursor.lenenc("count").map_err(|_| "a column count that is no number")?;
    let flagged = capabilities & (OPTIONAL_RESULTSET_METADATA | MARIADB_CACHE_METADATA) != 0;
    let present = !flagged || cursor.u8("flag") != Ok(0);
    match count {
        0 => Err("a result set without columns"),
        // The most columns a table or result can have in any server is 4,096.
        1..=0xffff if cursor.is_empty() => Ok(if present { count } else { 0 }),
        _ => Err("no column count where one is due"),
    }
}

/// With DEPRECATE_EOF rows end with an OK packet of any length; a row whose first value has an eight-byte length, which starts
/// with the same byte, fills a packet of the maximum length.
fn ends_rows(capabilities: u64, packet: ReplyPacket<'_>) -> bool {
    let limit = if capabilities & DEPRECATE_EOF == 0 { EOF_LIMIT } else { MAX_PAYLOAD };
    packet.prefix.first() == Some(&EOF) && packet.length < limit
}

/// The status in a packet that starts with 0xfe: of five bytes it is an EOF, longer an OK.
fn end_status(packet: ReplyPacket<'_>) -> Result<u16, &'static str> {
    match eof_status(packet) {
        Some(status) => Ok(status),
        None => ok_status(packet),
    }
}

fn eof_status(packet: ReplyPacket<'_>) -> Option<u16> {
    match packet.prefix {
        [EOF, _, _, low, high] if packet.length == 5 => Some(u16::from_le_bytes([*low, *high])),
        _ => None,
    }
}

fn ok_status(packet: ReplyPacket<'_>) -> Result<u16, &'static str> {
    const FAULT: &str = "an OK packet without its status";
    let mut cursor = Cursor::new("OK packet", packet.prefix);
    cursor.u8("first byte").map_err(|_| FAULT)?;
    cursor.lenenc("affected rows").map_err(|_| FAULT)?;
    cursor.lenenc("last insert id").map_err(|_| FAULT)?;
    cursor.u16("status").map_err(|_| FAULT)
}
