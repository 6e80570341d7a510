//! SHOW BINLOG EVENTS: one row an event, made as they are asked for.

use opensrv_mysql::ErrorKind;
use spillway_binlog::event::control::parse_rotate;
use spillway_binlog::event::gtid::GtidEvent;
use spillway_binlog::event::{
    ChecksumAlgorithm, EventHeader, EventType, FormatDescription, gtid_list,
};
use spillway_binlog::gtid::mariadb::print_list;
use spillway_binlog::reader::{Cursor, Run};
use spillway_binlog::transaction::group::{is_rows, query_text};
use spillway_binlog::{Expelled, Log};

use super::answer::{ColumnKind, SqlError, Value};
use super::statement::EventRange;

/// Bytes of events turned into rows at a time.
const BATCH: usize = 64 * 1024;
/// Characters of a statement that a row shows.
const MAX_INFO: usize = 4096;

/// See the module's description.
#[derive(Debug)]
pub(in crate::serve) struct EventRows {
    cursor: Cursor,
    file: u64,
    skip: u64,
    left: u64,
}

impl EventRows {
    /// The columns, as MariaDB has them.
    pub const COLUMNS: [(&str, ColumnKind); 6] = [
        ("Log_name", ColumnKind::Text),
        ("Pos", ColumnKind::Unsigned),
        ("Event_type", ColumnKind::Text),
        ("Server_id", ColumnKind::Unsigned),
        ("End_log_pos", ColumnKind::Unsigned),
        ("Info", ColumnKind::Text),
    ];

    /// Finds the file and the position.
    ///
    /// # Errors
    /// 1220 where there is no such file, or no event starts at the position.
    pub fn open(log: &Log, range: &EventRange) -> Result<Self, SqlError> {
        let info = match &range.file {
            Some(name) => log.file_by_name(name),
            None => log.files().into_iter().next(),
        };
        let file = info.ok_or_else(|| failed("Could not find target log"))?.number;
        let cursor =
            log.cursor(file, range.from.unwrap_or(4).max(4)).map_err(|error| failed(&error))?;
        Ok(Self { cursor, file, skip: range.skip, left: range.rows.unwrap_or(u64::MAX) })
    }

    /// Resolves when the file was purged.
    pub fn expelled(&self) -> Expelled {
        self.cursor.expelled()
    }

    /// The next rows; none at the end of the file or the limit.
    ///
    /// # Errors
    /// 1220 where the file is damaged.
    pub fn next_rows(&mut self) -> Result<Vec<Vec<Value>>, SqlError> {
        while self.left > 0 && self.cursor.file() == self.file {
            let name = self.cursor.file_name().to_owned();
            let checksum = self.cursor.format().checksum;
            let Run::Events(run) = self.cursor.next_run(BATCH).map_err(|error| failed(&error))?
            else {
                break;
            };
            let mut rows = Vec::new();
            for (at, header, event) in run.events() {
                if self.skip > 0 {
                    self.skip -= 1;
                } else if self.left > 0 {
                    self.left -= 1;
                    rows.push(row(&name, at, &header, event, checksum));
                }
            }
            if !rows.is_empty() {
                return Ok(rows);
            }
        }
        Ok(Vec::new())
    }
}

fn failed(why: &(impl std::fmt::Display + ?Sized)) -> SqlError {
    let message = format!("Error when executing command SHOW BINLOG EVENTS: {why}");
    SqlError::new(ErrorKind::ER_ERROR_WHEN_EXECUTING_COMMAND, message)
}

fn row(
    file: &str,
    at: u64,
    header: &EventHeader,
    event: &[u8],
    checksum: ChecksumAlgorithm,
) -> Vec<Value> {
    let end = event.len().saturating_sub(checksum.trailer_len());
    let info = info(header.event_type, event, event.get(..end).unwrap_or_default());
    vec![
        Value::Text(file.to_owned()),
        Value::Unsigned(at),
        Value::Text(header.event_type.name().to_owned()),
        Value::Unsigned(u64::from(header.server_id)),
        Value::Unsigned(u64::from(header.end_position)),
        Value::Text(info.unwrap_or_default()),
    ]
}

/// What the event says, in the words of MariaDB where it has some. `bytes` is the event without its checksum.
fn info(event_type: EventType, event: &[u8], bytes: &[u8]) -> Option<String> {
    let body = bytes.get(EventHeader::LEN..)?;
    match event_type {
        EventType::FORMAT_DESCRIPTION => {
            let version = FormatDescription::parse(event).ok()?.server_version;
            Some(format!("Server ver: {version}, Binlog ver: 4"))
        }
        EventType::GTID => {
            let GtidEvent { gtid, .. } = GtidEvent::parse(bytes).ok()?;
            let begin = if GtidEvent::parse(bytes).ok()?.is_standalone() { "" } else { "BEGIN " };
            Some(format!("{begin}GTID {gtid}"))
        }
        EventType::GTID_LIST => {
            let (list, _) = gtid_list::parse(bytes).ok()?;
            Some(format!("[{}]", print_list(&list)))
        }
        EventType::ROTATE => {
            let (position, name) = parse_rotate(bytes).ok()?;
            Some(format!("{};pos={position}", text(name)))
        }
        EventType::XID => {
            let xid = u64::from_le_bytes(*body.first_chunk()?);
            Some(format!("COMMIT /* xid={xid} */"))
        }
        EventType::QUERY => query_text(bytes).map(text),
        EventType::ANNOTATE_ROWS => Some(text(body)),
        EventType::BINLOG_CHECKPOINT => body.get(4..).map(text),
        EventType::TABLE_MAP => table_map(body),
        other if is_rows(other) => {
            let [t0, t1, t2, t3, t4, t5, f0, f1] = *body.first_chunk()?;
            let table = u64::from_le_bytes([t0, t1, t2, t3, t4, t5, 0, 0]);
            let end = u16::from_le_bytes([f0, f1]) & 1 != 0;
            Some(format!("table_id: {table}{}", if end { " flags: STMT_END_F" } else { "" }))
        }
        _ => None,
    }
}

/// `table id u48 | flags u16 | length u8, schema, NUL | length u8, table, NUL | …`
fn table_map(body: &[u8]) -> Option<String> {
    let [t0, t1, t2, t3, t4, t5, _, _] = *body.first_chunk()?;
    let table = u64::from_le_bytes([t0, t1, t2, t3, t4, t5, 0, 0]);
    let (schema_len, rest) = body.get(8..)?.split_first()?;
    let (schema, rest) = rest.split_at_checked(usize::from(*schema_len))?;
    let (name_len, rest) = rest.get(1..)?.split_first()?;
    let name = rest.get(..usize::from(*name_len))?;
    Some(format!("table_id: {table} ({}.{})", text(schema), text(name)))
}

fn text(bytes: &[u8]) -> String {
    let shown: String = String::from_utf8_lossy(bytes).chars().take(MAX_INFO).collect();
    shown
}
