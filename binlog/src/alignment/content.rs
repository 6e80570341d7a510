//! What a transaction does, whoever wrote it down. A replica that logs what it applies writes other bytes than its source: with its
//! own Xid, table ids and flags, an `exec_time` of its own, `Xid` instead of `COMMIT`, fewer table maps, rows events of another
//! size (observed on MariaDB 10.11 and 11.8). After a fail-over to such a replica the log's last transaction comes in that form.
//!
//! Two transactions of the same GTID and time do the same where these are equal, in order: the rows and the columns they have, by
//! operation and table with its column types; the statements with their schema; whatever else stands between them; and the
//! annotations, where both have any. Rows that one of them has as a statement, compressed or with fewer columns are not compared.

use std::collections::HashMap;

use sha2::{Digest, Sha256};

use crate::event::{EventHeader, EventType};
use crate::rows::{RowsChange, RowsLayout, TableDescription};
use crate::transaction::group::{is_rows, query_parts};

/// What was seen of a transaction, event by event.
pub(super) struct Content {
    layout: RowsLayout,
    hash: Sha256,
    /// Tables of the statement at hand.
    tables: HashMap<u64, TableDescription>,
    /// The rows at hand, as far as they are one change of one table: what they are, and their bytes so far.
    run: Option<(Vec<u8>, u64)>,
    annotations: Option<Sha256>,
}

/// Of a whole transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ContentSum {
    changes: [u8; 32],
    annotations: Option<[u8; 32]>,
}

impl ContentSum {
    pub(super) fn is_same(&self, other: &Self) -> bool {
        let annotated = self.annotations.as_ref().zip(other.annotations.as_ref());
        self.changes == other.changes && annotated.is_none_or(|(one, other)| one == other)
    }
}

impl Content {
    /// Of a source whose rows events have this layout.
    pub(super) fn new(layout: RowsLayout) -> Self {
        Self { layout, hash: Sha256::new(), tables: HashMap::new(), run: None, annotations: None }
    }

    /// Takes the next event, without its checksum.
    pub(super) fn add(&mut self, event: &[u8]) {
        let Ok(EventHeader { event_type, .. }) = EventHeader::parse(event) else { return };
        let body = event.get(EventHeader::LEN..).unwrap_or_default();
        match event_type {
            EventType::GTID | EventType::XID => {}
            EventType::ANNOTATE_ROWS => {
                piece(self.annotations.get_or_insert_default(), body);
            }
            EventType::TABLE_MAP => {
                if let Some((id, table)) = TableDescription::parse(event, self.layout) {
                    self.tables.insert(id, table);
                }
            }
            EventType::QUERY | EventType::QUERY_COMPRESSED => match query_parts(event) {
                Some((_, b"BEGIN" | b"COMMIT")) => {}
                Some((schema, text)) => self.statement(event_type, schema, text),
                None => self.other(event_type, &[body]),
            },
            _ if is_rows(event_type) => self.rows(event_type, event, body),
            _ => self.other(event_type, &[body]),
        }
    }

    fn rows(&mut self, event_type: EventType, event: &[u8], body: &[u8]) {
        let change = RowsChange::parse(event, self.layout);
        let known = change.and_then(|change| Some((self.tables.get(&change.table_id)?, change)));
        let Some((table, change)) = known else { return self.other(event_type, &[body]) };
        let what = change.what(table);
        if self.run.as_ref().is_none_or(|(running, _)| *running != what) {
            self.end_run();
            piece(&mut self.hash, &what);
            self.run = Some((what, 0));
        }
        self.hash.update(change.rows);
        if let Some((_, bytes)) = &mut self.run {
            *bytes += change.rows.len() as u64;
        }
        if change.ends_statement {
            self.tables.clear();
        }
    }

    fn statement(&mut self, event_type: EventType, schema: &[u8], text: &[u8]) {
        // A replica has XA END without a schema, and drops what there is.
        let schema = if text.starts_with(b"XA ") { &[] } else { schema };
        let [before, after] = around_if_exists(text);
        let len = (before.len() + after.len()) as u64;
        self.other(event_type, &[schema, &len.to_le_bytes()]);
        self.hash.update(before);
        self.hash.update(after);
    }

    fn other(&mut self, event_type: EventType, pieces: &[&[u8]]) {
        self.end_run();
        self.hash.update([event_type.0]);
        pieces.iter().for_each(|bytes| piece(&mut self.hash, bytes));
    }

    fn end_run(&mut self) {
        if let Some((_, bytes)) = self.run.take() {
            self.hash.update(bytes.to_le_bytes());
        }
    }

    /// Behind the last event.
    pub(super) fn sum(mut self) -> ContentSum {
        self.end_run();
        ContentSum {
            changes: self.hash.finalize().into(),
            annotations: self.annotations.map(|hash| hash.finalize().into()),
        }
    }
}

/// A statement that drops something, without `IF EXISTS`; another as it is.
fn around_if_exists(text: &[u8]) -> [&[u8]; 2] {
    const IF_EXISTS: &[u8] = b" IF EXISTS";
    let at = text.windows(IF_EXISTS.len()).position(|window| window == IF_EXISTS);
    // Before any name.
    let is_verb = |at: &usize| text.iter().take(*at).all(|byte| matches!(byte, b'A'..=b'Z' | b' '));
    match at.filter(is_verb).filter(|_| text.starts_with(b"DROP ")) {
        Some(at) => {
            let (before, rest) = text.split_at(at);
            [before, rest.get(IF_EXISTS.len()..).unwrap_or_default()]
        }
        None => [text, &[]],
    }
}

/// With its length, so that what follows is told apart.
fn piece(hash: &mut Sha256, bytes: &[u8]) {
    hash.update((bytes.len() as u64).to_le_bytes());
    hash.update(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{event, insert};

    fn sum(events: &[Vec<u8>]) -> ContentSum {
        let mut content = Content::new(RowsLayout::default());
        events.iter().for_each(|event| content.add(event));
        content.sum()
    }

    fn same(one: &[Vec<u8>], other: &[Vec<u8>]) -> bool {
        let same = sum(one).is_same(&sum(other));
        assert_eq!(same, sum(other).is_same(&sum(one)));
        same
    }

    fn table_map(id: u8, name: u8, optional: &[u8]) -> Vec<u8> {
        let columns = [2, 3, 15, 2, 0x28, 0x23];
        let body = [&[id, 0, 0, 0, 0, 0, 1, 0, 1, b'd', 0, 1, name, 0], &columns[..], optional];
        event(EventType::TABLE_MAP, &body.concat())
    }

    /// Of two columns, both present.
    fn rows(event_type: u8, id: u8, flags: u8, rows: &[u8]) -> Vec<u8> {
        let mut body = vec![id, 0, 0, 0, 0, 0, flags, 0];
        if event_type >= 30 {
            body.extend([2, 0]);
        }
        body.extend([2, 3]);
        if [24, 31].contains(&event_type) {
            body.push(3);
        }
        body.extend_from_slice(rows);
        event(EventType(event_type), &body)
    }

    fn query(seconds: u8, status: &[u8], schema: &str, text: &str) -> Vec<u8> {
        let [schema_len, status_len] =
            [schema.len(), status.len()].map(|len| u8::try_from(len).unwrap());
        let head = [7, 0, 0, 0, seconds, 0, 0, 0, schema_len, 0, 0, status_len, 0];
        let body = [&head[..], status, schema.as_bytes(), &[0], text.as_bytes()];
        event(EventType::QUERY, &body.concat())
    }

    fn note(text: &str) -> Vec<u8> {
        event(EventType::ANNOTATE_ROWS, text.as_bytes())
    }

    fn xid(number: u8) -> Vec<u8> {
        event(EventType::XID, &[number; 8])
    }

    #[test]
    fn what_a_replica_writes_otherwise_does_not_count() {
        let source = [
            note("INSERT"),
            table_map(1, b't', &[0]),
            table_map(2, b'u', &[0]),
            rows(23, 1, 0, b"one row, "),
            rows(23, 1, 0, b"two rows, "),
            rows(23, 2, 1, b"of u"),
            query(0, b"", "d", "COMMIT"),
        ];
        let replica = [
            table_map(0x51, b't', &[3, 1, 1, 0]),
            rows(30, 0x51, 0, b"one row, two rows, "),
            table_map(0x52, b'u', &[2]),
            table_map(0x53, b'v', &[2]),
            rows(30, 0x52, 1, b"of u"),
            xid(9),
        ];
        assert!(same(&source, &replica));
        // Of a table that was not told: compared as it is.
        assert!(!same(&source, &replica[1..]));
        assert!(same(&insert(40), &insert(40)) && !same(&insert(40), &insert(39)));
    }

    #[test]
    fn what_is_done_counts_and_to_what_and_in_which_order() {
        let of = |event_type: u8, table: u8, bytes: &[u8]| {
            vec![table_map(1, table, &[0]), rows(event_type, 1, 1, bytes), xid(1)]
        };
        let one = of(23, b't', b"row");
        assert!(same(&one, &of(30, b't', b"row")));
        for other in [of(25, b't', b"row"), of(23, b'u', b"row"), of(23, b't', b"roW")] {
            assert!(!same(&one, &other));
        }
        assert!(!same(&of(24, b't', b"rows"), &of(25, b't', b"rows")));
        let mut fewer_columns = one.clone();
        fewer_columns[1][EventHeader::LEN + 9] = 1;
        assert!(!same(&one, &fewer_columns));
        let both = [of(23, b't', b"row"), of(23, b'u', b"row")];
        let reversed = [both[1].clone(), both[0].clone()].concat();
        assert!(!same(&both.concat(), &reversed));
        // What one table gets, the other does not.
        let moved = [of(23, b't', b"rowr"), of(23, b'u', b"ow")].concat();
        assert!(!same(&both.concat(), &moved));
        assert!(!same(&one, &[one.clone(), vec![event(EventType::INTVAR, &[2; 9])]].concat()));
        assert!(!same(&one, &[]) && same(&[], &[xid(3)]));
    }

    #[test]
    fn statements_count_with_their_schema_but_not_how_they_went() {
        let one = [query(0, b"", "d", "CREATE TABLE t (id INT)")];
        assert!(same(&one, &[query(3, b"\x00\x01", "d", "CREATE TABLE t (id INT)")]));
        assert!(!same(&one, &[query(0, b"", "e", "CREATE TABLE t (id INT)")]));
        assert!(!same(&one, &[query(0, b"", "d", "CREATE TABLE u (id INT)")]));
        let ended = |schema: &str| [query(0, b"", schema, "XA END X'61',X'',1")];
        assert!(same(&ended("d"), &ended("")));
        let dropped = |text: &str| [query(0, b"", "d", text)];
        assert!(same(&dropped("DROP SEQUENCE `s`"), &dropped("DROP SEQUENCE IF EXISTS `s`")));
        assert!(!same(&dropped("DROP TABLE `s`"), &dropped("DROP SEQUENCE IF EXISTS `s`")));
        assert!(!same(&dropped("DROP TABLE `x IF EXISTS`"), &dropped("DROP TABLE `x`")));
        let ended = |text: &str| [query(0, b"", "d", "INSERT"), query(0, b"", "d", text)];
        assert!(!same(&ended("COMMIT"), &ended("ROLLBACK")));
        assert!(!same(&dropped("SELECT `s`"), &dropped("SELECT IF EXISTS `s`")));
        // Where there is no statement in it.
        let short = [event(EventType::QUERY, &[1, 2])];
        assert!(same(&short, &short) && !same(&short, &[]));
    }

    #[test]
    fn annotations_count_where_both_have_any() {
        let changes = [table_map(1, b't', &[0]), rows(23, 1, 1, b"row")];
        let noted = |text: &str| [&[note(text)], &changes[..]].concat();
        assert!(same(&noted("a"), &noted("a")) && !same(&noted("a"), &noted("b")));
        assert!(same(&noted("a"), &changes));
    }
}
