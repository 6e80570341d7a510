//! Commit by rename: the cache file of a large transaction becomes the next log file. A commit then costs the same whatever the
//! transaction's size, and nobody else waits for its bytes.
//!
//! Order: the body is synced before the transaction is queued, and the active file as far as it is written (here, [`prepare`]); in the commit slot ([`super::commit`]) Rotate is
//! appended to the active file and synced; header events and the Gtid event are written into the reserved head and synced; the
//! file is renamed; both directories are synced; the new end is published; the index follows.

use std::sync::Arc;

use super::Shared;
use super::active::{head, low};
use super::queue::{Job, Work};
use crate::event::{EventHeader, FormatDescription};
use crate::gtid::mariadb::Gtid;
use crate::transaction::{Spilled, Transaction, seal};

/// Syncs the body of a lane's large transaction, queues it, and goes on with what its lane held back. On a thread of its own: a
/// second large transaction of another source does not wait for the first.
pub(crate) fn prepare(shared: &Arc<Shared>, job: Job) {
    let (thread, first) = (Arc::clone(shared), Arc::new(std::sync::Mutex::new(Some(job))));
    let again = Arc::clone(&first);
    let builder = std::thread::Builder::new().name("binlog-prepare".into());
    let spawned = builder.spawn(move || {
        let job = first.lock().ok().and_then(|mut job| job.take());
        job.into_iter().for_each(|job| run(&thread, job));
    });
    if spawned.is_err() {
        // Without a thread it is done here: slower, not wrong.
        let job = again.lock().ok().and_then(|mut job| job.take());
        job.into_iter().for_each(|job| run(shared, job));
    }
}

fn run(shared: &Shared, mut job: Job) {
    loop {
        if let Work::Transaction(transaction) = &job.work
            && let Err(error) = transaction.sync_body()
        {
            shared.latch(&error);
        }
        // Where it fails the log is latched, and the queue goes nowhere.
        let _ = shared.syncer.sync_early();
        match shared.queue.prepared(job) {
            Some(next) => job = next,
            None => return,
        }
    }
}

/// The bytes before a cache file's body: header events, what rode with the transaction, and its Gtid event, padded with zeros so
/// that it ends where the body begins. `None` where they need more room than was kept.
pub(crate) fn fill_head(
    format: &FormatDescription,
    list: &[Gtid],
    server_id: u32,
    spilled: &Spilled,
) -> Option<Vec<u8>> {
    let room = usize::try_from(spilled.file.head).ok()?;
    let mut bytes = head(format, list, None, server_id);
    let lead_at = bytes.len();
    bytes.extend_from_slice(&spilled.lead);
    let gtid_at = lead_at + last_event(&spilled.lead)?;
    let trailer = format.checksum.trailer_len();
    let end = bytes.len().checked_sub(trailer)?;
    if bytes.len() > room {
        return None;
    }
    // The zeros go between the event's body and its checksum.
    bytes.truncate(end);
    bytes.resize(room, 0);
    let size = low((room - gtid_at) as u64).to_le_bytes();
    bytes.get_mut(gtid_at + 9..gtid_at + 13)?.copy_from_slice(&size);
    seal(bytes.get_mut(lead_at..)?, lead_at as u64, format.checksum);
    Some(bytes)
}

/// Where the last of some events starts.
fn last_event(events: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        let size = EventHeader::parse(events.get(at..)?).ok()?.event_size as usize;
        match at + size {
            next if next == events.len() => return Some(at),
            next => at = next,
        }
    }
}

impl Transaction {
    /// Makes the events in its cache file durable.
    fn sync_body(&self) -> std::io::Result<()> {
        match self.spilled() {
            Some(spilled) => spilled.file.finish_sync(),
            None => Ok(()),
        }
    }
}
