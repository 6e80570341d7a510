//! What the packer counts, and what it reports once: tables whose rows it leaves as they came.

use std::collections::HashSet;
use std::fmt;

/// Counts over a packer's life.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PackCounters {
    /// Rows events of the types that are packed, as the source sent them.
    pub rows_events_in: u64,
    /// The rows events they became.
    pub rows_events_out: u64,
    /// Left as they came: a column's width cannot be told from the table map.
    pub unknown_type: u64,
    /// Left as they came: the rows or the table map do not parse exactly.
    pub malformed: u64,
    /// Left as they came: no table map of that id came before.
    pub without_table_map: u64,
}

/// One kind of rows that is left as it came: reported once per table and reason.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Unpacked {
    /// `database.table`, or the table id where no table map is known.
    pub table: String,
    /// Why its rows are not packed.
    pub reason: UnpackedReason,
}

/// Why rows are left as they came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum UnpackedReason {
    /// The width of this column's values cannot be told from the table map.
    UnknownType {
        /// Index of the first such column, from 0.
        column: usize,
        /// Its type number in the table map.
        type_code: u8,
    },
    /// The table map ends early, or its metadata does not belong to its types.
    MalformedTableMap,
    /// The rows do not end exactly where the event ends, or are not of this table.
    MalformedRows,
    /// No table map of that id came before in the statement.
    NoTableMap,
}

impl fmt::Display for UnpackedReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownType { column, type_code } => {
                write!(f, "column {column} has type {type_code}, whose width is not known")
            }
            Self::MalformedTableMap => f.write_str("the table map does not parse"),
            Self::MalformedRows => f.write_str("the rows do not parse"),
            Self::NoTableMap => f.write_str("no table map came before the rows"),
        }
    }
}

/// Reports remembered, so that each is made once. Beyond this many all are forgotten, and may come again.
const REMEMBERED: usize = 1_000;

#[derive(Default)]
pub(super) struct Notices {
    pub counters: PackCounters,
    seen: HashSet<Unpacked>,
    fresh: Vec<Unpacked>,
}

impl Notices {
    /// Counts an event left as it came and remembers to report it, unless that was done before.
    pub fn unpacked(&mut self, table: String, reason: UnpackedReason) {
        *self.counter(reason) += 1;
        let unpacked = Unpacked { table, reason };
        if self.seen.contains(&unpacked) {
            return;
        }
        if self.seen.len() >= REMEMBERED {
            self.seen.clear();
            self.fresh.clear();
        }
        self.seen.insert(unpacked.clone());
        self.fresh.push(unpacked);
    }

    pub fn take(&mut self) -> Vec<Unpacked> {
        std::mem::take(&mut self.fresh)
    }

    fn counter(&mut self, reason: UnpackedReason) -> &mut u64 {
        match reason {
            UnpackedReason::UnknownType { .. } => &mut self.counters.unknown_type,
            UnpackedReason::MalformedTableMap | UnpackedReason::MalformedRows => {
                &mut self.counters.malformed
            }
            UnpackedReason::NoTableMap => &mut self.counters.without_table_map,
        }
    }
}
