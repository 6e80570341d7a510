//! Where a transaction ends in a MariaDB event stream.

use crate::dump::{Event, GTID};

const QUERY: u8 = 2;
const XID: u8 = 16;
const XA_PREPARE: u8 = 38;
const QUERY_COMPRESSED: u8 = 165;
/// `FL_STANDALONE` of a GTID event: no COMMIT follows.
const STANDALONE: u8 = 1;

/// Follows one group.
#[derive(Default)]
pub(super) struct Tracker {
    inside: Option<Inside>,
}

#[derive(Clone, Copy, PartialEq)]
enum Inside {
    Standalone,
    Transaction,
}

impl Tracker {
    /// Whether the group ends with this event. An event outside of groups is a group of its own.
    pub(super) fn ends_with(&mut self, event: &Event) -> bool {
        if event.kind == GTID {
            let standalone = event.body.get(12).is_some_and(|flags| flags & STANDALONE != 0);
            self.inside = Some(if standalone { Inside::Standalone } else { Inside::Transaction });
            return false;
        }
        match self.inside {
            None => true,
            Some(Inside::Standalone) => matches!(event.kind, QUERY | QUERY_COMPRESSED),
            Some(Inside::Transaction) => match event.kind {
                XID | XA_PREPARE => true,
                QUERY => matches!(query_text(&event.body), Some(b"COMMIT" | b"ROLLBACK")),
                _ => false,
            },
        }
    }
}

/// After thread id, time, error code, status variables and the database's name.
fn query_text(body: &[u8]) -> Option<&[u8]> {
    let database = usize::from(*body.get(8)?);
    let status = usize::from(u16::from_le_bytes([*body.get(11)?, *body.get(12)?]));
    body.get(13 + status + database + 1..)
}
