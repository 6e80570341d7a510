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
            EventType::QUERY => match query_parts(event) {
                Some((_, b"BEGIN" | b"COMMIT" | b"ROLLBACK")) => {}
                Some((schema, text)) => self.other(event_type, &[schema, text]),
                None => self.other(event_type, &[body]),
            },
            EventType::QUERY_COMPRESSED => match query_parts(event) {
                Some((schema, text)) => self.other(event_type, &[schema, text]),
                None => self.other(event_type, &[body]),
            },
            _ if is_rows(event_type) => self.rows(event),
            _ => self.other(event_type, &[body]),
        }
    }

    fn rows(&mut self, event: &[u8]) {
        let change = RowsChange::parse(event, self.layout);
        let known = change.and_then(|change| Some((self.tables.get(&change.table_id)?, change)));
        let Some((table, change)) = known else {
            let body = event.get(EventHeader::LEN..).unwrap_or_default();
            let event_type = EventType(event.get(4).copied().unwrap_or_default());
            return self.other(event_type, &[body]);
        };
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

/// With its length, so that what follows is told apart.
fn piece(hash: &mut Sha256, bytes: &[u8]) {
    hash.update((bytes.len() as u64).to_le_bytes());
    hash.update(bytes);
}
