//! Where a MariaDB replica's state attaches: the file its transactions go on in.

use std::collections::HashMap;

use super::{ReadError, Run, Sought};
use crate::event::EventType;
use crate::event::gtid::GtidEvent;
use crate::gtid::mariadb::{Gtid, GtidState};
use crate::log::{FileEntry, Log};

/// Why a state cannot attach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttachError {
    /// The log has the domain, but not this GTID or one after it; or one that was given up may have had it.
    Ahead(Gtid),
    /// The state is older than the log's first file, or than the last timeline.
    Purged,
}

impl Log {
    /// The newest file from whose beginning a replica with `state` (one GTID a domain) misses nothing, by the rules of MariaDB
    /// 10.11: every GTID of the file's Gtid_list must be behind the replica in its domain; the domain's latest may be equal.
    ///
    /// # Errors
    /// [`AttachError`].
    pub fn find_attach(&self, state: &[Gtid]) -> Result<u64, AttachError> {
        self.check_not_ahead(state)?;
        let wanted: HashMap<u32, Gtid> = state.iter().map(|gtid| (gtid.domain, *gtid)).collect();
        let (files, end) = (self.shared.files.all(), self.end());
        // Nothing is left of what ended before the first file.
        let timelines: Vec<_> =
            files.iter().skip(1).filter_map(|entry| entry.timeline.as_ref()).collect();
        let may_be_old =
            |gtid: &&Gtid| timelines.iter().any(|timeline| timeline.may_be_old(**gtid));
        if let Some(gtid) = state.iter().find(may_be_old) {
            return Err(AttachError::Ahead(*gtid));
        }
        for entry in files.iter().rev().filter(|entry| entry.number <= end.file) {
            if starts_before(entry, &wanted) {
                return Ok(entry.number);
            }
            let has = |domain| wanted.get(&domain).copied();
            let timeline = entry.timeline.as_ref();
            if timeline.is_some_and(|timeline| !timeline.can_enter(&entry.gtid_list, has)) {
                return Err(AttachError::Purged);
            }
        }
        Err(AttachError::Purged)
    }

    /// A domain the log does not know is fine: it may come. In one it knows, the server's last must not be behind.
    fn check_not_ahead(&self, state: &[Gtid]) -> Result<(), AttachError> {
        let log = self.gtid_state();
        for gtid in state {
            if log.latest(gtid.domain).is_none() {
                continue;
            }
            let known = log.last_of(gtid.domain, gtid.server);
            if known.is_none_or(|known| known.sequence < gtid.sequence) {
                return Err(AttachError::Ahead(*gtid));
            }
        }
        Ok(())
    }

    /// The GTID state before a position of a file (`BINLOG_GTID_POS`).
    ///
    /// # Errors
    /// [`ReadError`], also for a position where no event starts.
    pub fn gtid_state_at(&self, file: u64, position: u64) -> Result<GtidState, ReadError> {
        const STEP: usize = 1 << 20;
        drop(self.cursor(file, position)?);
        let entry = self.shared.files.get(file).ok_or(ReadError::NoSuchFile)?;
        let Sought { mut cursor, mut state } = self.seek_before(file, position)?;
        while cursor.position() < position && cursor.file() == file {
            let Run::Events(run) = cursor.next_run(STEP)? else { break };
            for (at, header, event) in run.events() {
                if at < position && header.event_type == EventType::GTID {
                    let damaged = |fault| ReadError::Damaged {
                        file: entry.name.clone(),
                        position: at,
                        fault,
                    };
                    state.update(GtidEvent::parse(event).map_err(damaged)?.gtid);
                }
            }
        }
        Ok(state)
    }
}

fn starts_before(entry: &FileEntry, wanted: &HashMap<u32, Gtid>) -> bool {
    let list = &entry.gtid_list;
    list.iter().enumerate().all(|(index, known)| {
        // A domain the replica lacks begins before this file.
        let Some(replica) = wanted.get(&known.domain) else { return false };
        if replica.server != known.server || replica.sequence > known.sequence {
            return true;
        }
        let is_latest = list.get(index + 1).is_none_or(|next| next.domain != known.domain);
        replica.sequence == known.sequence && is_latest
    })
}
