//! What a statement gives back: OK, rows, or an error a client understands.

use opensrv_mysql::{Column, ColumnFlags, ColumnType, ErrorKind};

use super::events::EventRows;
use crate::wire::reply::ErrPacket;

/// The answer to one statement.
pub(in crate::serve) enum Answer {
    Ok,
    Rows(Rows),
    /// SHOW BINLOG EVENTS: made while they are written, because a file may hold millions.
    Events(Box<EventRows>),
}

/// A value of a user variable or of a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::serve) enum Value {
    Null,
    Integer(i64),
    Unsigned(u64),
    Text(String),
}

impl Value {
    /// As text, the way MariaDB prints it; nothing for NULL.
    pub fn to_text(&self) -> Option<String> {
        match self {
            Self::Null => None,
            Self::Integer(number) => Some(number.to_string()),
            Self::Unsigned(number) => Some(number.to_string()),
            Self::Text(text) => Some(text.clone()),
        }
    }

    /// As a whole number, the way MariaDB reads a leading number out of a text; NULL and other text are 0.
    pub fn to_unsigned(&self) -> u64 {
        match self {
            Self::Null => 0,
            Self::Integer(number) => u64::try_from(*number).unwrap_or(0),
            Self::Unsigned(number) => *number,
            Self::Text(text) => {
                let digits = text.trim_start();
                let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
                digits.get(..end).and_then(|digits| digits.parse().ok()).unwrap_or(0)
            }
        }
    }
}

/// The type a column is announced with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::serve) enum ColumnKind {
    /// LONGLONG (8).
    Integer,
    /// LONGLONG, unsigned.
    Unsigned,
    /// VAR_STRING (253).
    Text,
    /// LONG_BLOB (251): user variables and BINLOG_GTID_POS, as MariaDB has it.
    LongText,
}

/// A whole result set in memory.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::serve) struct Rows {
    pub columns: Vec<(String, ColumnKind)>,
    pub rows: Vec<Vec<Value>>,
}

impl Rows {
    /// No rows yet under these columns.
    pub fn new(columns: &[(&str, ColumnKind)]) -> Self {
        let columns = columns.iter().map(|(name, kind)| ((*name).to_owned(), *kind)).collect();
        Self { columns, rows: Vec::new() }
    }
}

/// The library's description of columns.
pub(in crate::serve) fn describe(columns: &[(String, ColumnKind)]) -> Vec<Column> {
    columns.iter().map(|(name, kind)| column(name, *kind)).collect()
}

fn column(name: &str, kind: ColumnKind) -> Column {
    let (coltype, colflags) = match kind {
        ColumnKind::Integer => (ColumnType::MYSQL_TYPE_LONGLONG, ColumnFlags::empty()),
        ColumnKind::Unsigned => (ColumnType::MYSQL_TYPE_LONGLONG, ColumnFlags::UNSIGNED_FLAG),
        ColumnKind::Text => (ColumnType::MYSQL_TYPE_VAR_STRING, ColumnFlags::empty()),
        ColumnKind::LongText => (ColumnType::MYSQL_TYPE_LONG_BLOB, ColumnFlags::empty()),
    };
    Column { table: String::new(), column: name.to_owned(), coltype, colflags }
}

/// An error for the client: a code of MariaDB's with its SQLSTATE, and one sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::serve) struct SqlError {
    pub kind: ErrorKind,
    pub message: String,
}

/// What this port is for, said to whoever sends it something else.
pub(in crate::serve) const PURPOSE: &str = "this is Spillway's replica port: it serves the binlog and answers what replicas \
     and binlog tools ask; send other statements to the port that apps connect to";

impl SqlError {
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }

    /// 1235 42000: sound, but not here.
    pub fn unsupported() -> Self {
        Self::new(ErrorKind::ER_NOT_SUPPORTED_YET, PURPOSE)
    }

    /// 1227 42000, as MariaDB words it.
    pub fn missing_privilege(name: &str) -> Self {
        let message = format!(
            "Access denied; you need (at least one of) the {name} privilege(s) for this operation"
        );
        Self::new(ErrorKind::ER_SPECIFIC_ACCESS_DENIED_ERROR, message)
    }

    /// The payload of an ERR packet.
    pub fn to_payload(&self) -> Vec<u8> {
        ErrPacket::new(self.kind as u16, self.kind.sqlstate(), self.message.as_str()).encode()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_mariadb_reads_them() {
        assert_eq!(Value::Text("2000000000".to_owned()).to_unsigned(), 2_000_000_000);
        assert_eq!(Value::Text("4abc".to_owned()).to_unsigned(), 4);
        assert_eq!(Value::Text("abc".to_owned()).to_unsigned(), 0);
        assert_eq!(Value::Integer(-1).to_unsigned(), 0);
        assert_eq!(Value::Null.to_unsigned(), 0);
    }

    #[test]
    fn an_error_has_its_sqlstate() {
        let payload = SqlError::missing_privilege("BINLOG MONITOR").to_payload();
        assert_eq!(payload[..9], [0xff, 0xcb, 0x04, b'#', b'4', b'2', b'0', b'0', b'0']);
        assert_eq!(SqlError::unsupported().to_payload()[1..3], 1235_u16.to_le_bytes());
    }
}
