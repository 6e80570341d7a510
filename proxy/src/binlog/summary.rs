//! What an event says, in a few words. For people: an event that cannot be read has no summary.

use spillway_binlog::event::gtid::{FLAG_DDL, FLAG_STANDALONE, GtidEvent};
use spillway_binlog::event::header::body;
use spillway_binlog::event::{EventHeader, EventType, FormatDescription, control, gtid_list};
use spillway_binlog::gtid::mariadb::{Gtid, print_list};
use spillway_binlog::transaction::group::{is_rows, query_text};

/// Longer texts are cut.
const LONGEST: usize = 120;
/// The statement ends with this rows event (`STMT_END_F`).
const STATEMENT_END: u16 = 1;

/// The GTID of a GTID event.
pub(super) fn gtid(event: &[u8]) -> Option<Gtid> {
    let header = EventHeader::parse(event).ok()?;
    let is_gtid = header.event_type == EventType::GTID;
    is_gtid.then(|| GtidEvent::parse(event).ok().map(|event| event.gtid)).flatten()
}

/// A few words on an event without its checksum.
pub(super) fn summary(event: &[u8]) -> String {
    words(event).unwrap_or_default()
}

fn words(event: &[u8]) -> Option<String> {
    let event_type = EventHeader::parse(event).ok()?.event_type;
    let body = body(event).ok()?;
    match event_type {
        EventType::FORMAT_DESCRIPTION => {
            let format = FormatDescription::parse_checked(event).ok()?;
            Some(format!("{}, checksum {}", format.server_version, format.checksum.as_str()))
        }
        EventType::ROTATE => Some(format!("to {}", text(control::parse_rotate(event).ok()?.1))),
        EventType::GTID_LIST => Some(format!("[{}]", print_list(&gtid_list::parse(event).ok()?.0))),
        EventType::GTID => Some(flags(GtidEvent::parse(event).ok()?.flags2)),
        EventType::QUERY => query_text(event).map(text),
        EventType::ANNOTATE_ROWS => Some(text(body)),
        EventType::XID => {
            Some(format!("xid {}", u64::from_le_bytes(body.get(..8)?.try_into().ok()?)))
        }
        EventType::TABLE_MAP => table(body),
        rows if is_rows(rows) => rows_flags(body),
        _ => None,
    }
}

fn flags(flags2: u8) -> String {
    let names = [(FLAG_STANDALONE, "standalone"), (FLAG_DDL, "ddl")];
    let set = names.iter().filter(|(flag, _)| flags2 & flag != 0).map(|(_, name)| *name);
    set.collect::<Vec<_>>().join(" ")
}

/// `id 6 bytes | flags u16 | length u8, schema, NUL | length u8, table, NUL | …`.
fn table(body: &[u8]) -> Option<String> {
    let (schema, rest) = name(body.get(8..)?)?;
    let (table, _) = name(rest)?;
    Some(format!("{}.{} is {}", text(schema), text(table), table_id(body)?))
}

/// `id 6 bytes | flags u16 | …`, in both versions of the event.
fn rows_flags(body: &[u8]) -> Option<String> {
    let flags = u16::from_le_bytes(body.get(6..8)?.try_into().ok()?);
    let end = if flags & STATEMENT_END != 0 { ", ends the statement" } else { "" };
    Some(format!("table {}{end}", table_id(body)?))
}

fn table_id(body: &[u8]) -> Option<u64> {
    let mut id = [0; 8];
    id.get_mut(..6)?.copy_from_slice(body.get(..6)?);
    Some(u64::from_le_bytes(id))
}

fn name(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, rest) = bytes.split_first()?;
    let (name, rest) = rest.split_at_checked(usize::from(*len))?;
    Some((name, rest.get(1..)?))
}

/// One line without control characters.
fn text(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes.get(..4 * LONGEST).unwrap_or(bytes));
    let clean = |c: char| if c.is_control() { ' ' } else { c };
    let mut line: String = text.chars().take(LONGEST).map(clean).collect();
    if text.chars().nth(LONGEST).is_some() {
        line.push('…');
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(event_type: EventType, body: &[u8]) -> Vec<u8> {
        let header = control::artificial(event_type, 1, 0);
        control::event(header, body, spillway_binlog::event::ChecksumAlgorithm::None)
    }

    #[test]
    fn each_event_has_its_words() {
        let query = b"\0\0\0\0\0\0\0\0\x01\0\0\x02\0ssd\0CREATE TABLE t\n(a INT)";
        let table = b"\x17\0\0\0\0\0\x01\0\x01d\0\x01t\0rest";
        for (event_type, body, expected) in [
            (EventType::QUERY, &query[..], "CREATE TABLE t (a INT)"),
            (EventType::TABLE_MAP, table, "d.t is 23"),
            (EventType::WRITE_ROWS_V1, b"\x17\0\0\0\0\0\x01\0rest", "table 23, ends the statement"),
            (EventType::WRITE_ROWS_V1, b"\x17\0\0\0\0\0\0\0rest", "table 23"),
            (EventType::XID, b"\x2a\0\0\0\0\0\0\0", "xid 42"),
            (EventType::ROTATE, b"\x04\0\0\0\0\0\0\0binlog.000002", "to binlog.000002"),
            (EventType::ANNOTATE_ROWS, b"INSERT INTO t", "INSERT INTO t"),
        ] {
            assert_eq!(summary(&event(event_type, body)), expected, "{event_type}");
        }
    }

    #[test]
    fn short_bytes_have_no_summary() {
        for code in 0..=u8::MAX {
            for len in 0..20 {
                summary(&event(EventType(code), &vec![0xff; len]));
            }
        }
        assert_eq!(summary(&[]), "");
        assert_eq!(summary(&event(EventType::XID, b"\0\0")), "");
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        let long = summary(&event(EventType::ANNOTATE_ROWS, "é".repeat(1000).as_bytes()));
        assert_eq!(long.chars().count(), LONGEST + 1);
    }
}
