//! The commit thread: takes all that is queued, appends it with one write and one sync, publishes it.
//!
//! A panic here aborts the process: what is on disk could then no longer be vouched for, and recovery can.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::active::ActiveFile;
use super::files::file_name;
use super::published::{Health, LogEnd};
use super::queue::Job;
use super::{Shared, index, verified};
use crate::event::FormatDescription;
use crate::fs;
use crate::gtid::mariadb::GtidState;
use crate::transaction::{Transaction, seal};

/// How long to wait before a write to a full disk is tried again.
const FULL_DISK_PAUSE: Duration = Duration::from_secs(1);
/// How often the position known to be durable is noted beside the log.
const DURABLE_NOTE_EVERY: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(crate) struct Committer {
    pub(crate) shared: Arc<Shared>,
    pub(crate) active: Option<ActiveFile>,
    pub(crate) state: GtidState,
    /// The last start of the source that a file of this log tells (`created`).
    pub(crate) last_created: u32,
    pub(crate) noted: Instant,
}

/// Transactions sealed for the active file but not yet written.
#[derive(Default)]
struct Group {
    transactions: Vec<Transaction>,
    bytes: u64,
}

/// Why nothing more is recorded.
enum Stop {
    Failed(io::Error),
    /// Closed while the disk was full.
    Closed,
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Self {
        Self::Failed(error)
    }
}

impl Committer {
    /// Runs until the queue is closed and empty, or a write fails.
    pub(crate) fn run(mut self) {
        let guard = AbortOnPanic;
        let mut jobs = VecDeque::new();
        let mut last_ticket = 0;
        while self.shared.queue.take(&mut jobs) {
            last_ticket += jobs.len() as u64;
            if let Err(stop) = self.commit(&mut jobs, last_ticket) {
                self.stop(stop);
                break;
            }
        }
        self.finish();
        std::mem::forget(guard);
    }

    fn commit(&mut self, jobs: &mut VecDeque<Job>, last_ticket: u64) -> Result<(), Stop> {
        let mut group = Group::default();
        for job in jobs.drain(..) {
            match job {
                Job::Begin { format, state } => self.begin(&format, state)?,
                Job::Transaction(transaction) => self.add(&mut group, transaction)?,
            }
        }
        self.write(&mut group)?;
        self.sync()?;
        self.publish(Some(last_ticket));
        if self.is_over_size(0) {
            let format = self.active()?.entry.format.as_ref().clone();
            self.rotate(format)?;
        }
        self.note_durable(DURABLE_NOTE_EVERY);
        Ok(())
    }

    fn begin(&mut self, format: &FormatDescription, state: GtidState) -> Result<(), Stop> {
        if self.active.is_some() {
            return Ok(());
        }
        self.state = state;
        self.last_created = format.created;
        let format = FormatDescription { checksum: self.shared.options.checksum, ..format.clone() };
        self.open_file(1, &format)
    }

    /// Seals a transaction for the place it will have, in a new file where the active one cannot take it.
    fn add(&mut self, group: &mut Group, mut transaction: Transaction) -> Result<(), Stop> {
        if let Some(format) = self.next_format(&transaction, group.bytes)? {
            self.write(group)?;
            self.rotate(format)?;
        }
        let active = self.active()?;
        let (position, checksum) = (active.position + group.bytes, active.entry.format.checksum);
        seal(transaction.events_mut(), position, checksum);
        self.state.update(transaction.gtid());
        group.bytes += transaction.size() as u64;
        group.transactions.push(transaction);
        Ok(())
    }

    /// The format description of the file a transaction needs, where the active file is not it.
    fn next_format(
        &mut self,
        transaction: &Transaction,
        pending: u64,
    ) -> Result<Option<FormatDescription>, Stop> {
        let wanted = transaction.format();
        let fits = wanted.same_class(&self.active()?.entry.format);
        let restarted = wanted.created != 0 && wanted.created != self.last_created;
        if fits && !restarted && !self.is_over_size(pending) {
            return Ok(None);
        }
        let created = if restarted { wanted.created } else { 0 };
        let checksum = self.shared.options.checksum;
        Ok(Some(FormatDescription { created, checksum, ..wanted.as_ref().clone() }))
    }

    fn is_over_size(&self, pending: u64) -> bool {
        let size = self.active.as_ref().map_or(0, |active| active.position + pending);
        size >= self.shared.options.max_binlog_size
    }

    fn write(&mut self, group: &mut Group) -> Result<(), Stop> {
        let Group { transactions, bytes } = std::mem::take(group);
        if transactions.is_empty() {
            return Ok(());
        }
        let mut transactions = transactions;
        let shared = Arc::clone(&self.shared);
        let active = self.active()?;
        retry_while_full(&shared, || {
            let mut parts: Vec<_> =
                transactions.iter_mut().map(|one| IoSlice::new(one.events_mut())).collect();
            active.append(&mut parts)
        })?;
        shared.options.observer.committed(transactions.len() as u64, bytes);
        Ok(())
    }

    fn sync(&mut self) -> Result<(), Stop> {
        let started = Instant::now();
        self.active()?.file.sync_data()?;
        self.shared.options.observer.synced(started.elapsed());
        Ok(())
    }

    /// Closes the active file with a Rotate event and goes on in the next.
    fn rotate(&mut self, mut format: FormatDescription) -> Result<(), Stop> {
        if format.created == self.last_created {
            format.created = 0;
        }
        let shared = Arc::clone(&self.shared);
        let active = self.active()?;
        let number = active.entry.number + 1;
        let next = file_name(&shared.options.basename, number);
        retry_while_full(&shared, || active.append_rotate(&next, shared.options.server_id))?;
        active.file.sync_data()?;
        self.open_file(number, &format)
    }

    /// Creates a file, publishes its beginning, and adds it to the index. A file the index does not know yet is adopted at
    /// recovery.
    fn open_file(&mut self, number: u64, format: &FormatDescription) -> Result<(), Stop> {
        let shared = Arc::clone(&self.shared);
        let list = self.state.list();
        let new = retry_while_full(&shared, || {
            ActiveFile::create(&shared.place(), number, format.clone(), list.clone())
        })?;
        if format.created != 0 {
            self.last_created = format.created;
        }
        shared.files.push(Arc::clone(&new.entry));
        if let Some(old) = self.active.replace(new) {
            old.set_closed();
        }
        self.publish(None);
        retry_while_full(&shared, || index::write(&shared.place(), &shared.files.all()))?;
        self.note_durable(Duration::ZERO);
        shared.options.observer.file_opened();
        Ok(())
    }

    fn publish(&self, last_ticket: Option<u64>) {
        let Some(active) = &self.active else { return };
        let end = LogEnd { file: active.entry.number, position: active.position };
        let state = Arc::new(self.state.clone());
        self.shared.published.update(|view| {
            view.end = end;
            view.state = state;
            view.health = Health::Running;
            view.durable = last_ticket.unwrap_or(view.durable);
        });
    }

    /// Notes what is verified and durable. Only a hint that spares recovery work and doubt: its loss or failure costs nothing.
    fn note_durable(&mut self, every: Duration) {
        let Some(active) = &self.active else { return };
        if self.noted.elapsed() < every {
            return;
        }
        self.noted = Instant::now();
        let (place, files) = (self.shared.place(), self.shared.files.all());
        if let Err(error) = verified::write(&place, &files, active.position) {
            tracing::debug!(%error, "cannot note how far the log is durable");
        }
    }

    fn active(&mut self) -> Result<&mut ActiveFile, Stop> {
        let missing = || io::Error::other("a transaction came before the log was begun");
        self.active.as_mut().ok_or_else(|| Stop::Failed(missing()))
    }

    fn stop(&self, stop: Stop) {
        self.shared.queue.close();
        let Stop::Failed(error) = stop else { return };
        tracing::error!(%error, "a write to the log failed: nothing more is recorded until Spillway is started again");
        let reason: Arc<str> = error.to_string().into();
        self.shared.published.update(|view| view.health = Health::Latched(reason));
    }

    fn finish(&mut self) {
        if !matches!(self.shared.published.view().health, Health::Latched(_)) {
            self.note_durable(Duration::ZERO);
            self.shared.published.update(|view| view.health = Health::Closed);
        }
    }
}

/// Tries again while the disk is full; readers and what is published are not affected.
fn retry_while_full<T>(
    shared: &Shared,
    mut operation: impl FnMut() -> io::Result<T>,
) -> Result<T, Stop> {
    let mut reported = false;
    loop {
        match operation() {
            Err(error) if fs::is_full(&error) => {
                if !std::mem::replace(&mut reported, true) {
                    tracing::warn!(%error, dir = %shared.options.dir.display(), "the log's disk is full: waiting for room");
                    shared.published.update(|view| view.health = Health::DiskFull);
                }
                if shared.queue.pause(FULL_DISK_PAUSE) {
                    return Err(Stop::Closed);
                }
            }
            other => {
                if reported {
                    tracing::info!("the log's disk has room again");
                    shared.published.update(|view| view.health = Health::Running);
                }
                return Ok(other?);
            }
        }
    }
}

struct AbortOnPanic;

impl Drop for AbortOnPanic {
    fn drop(&mut self) {
        tracing::error!(
            "the commit thread failed by a fault of Spillway's: ending the process, recovery will tell what is sound"
        );
        std::process::abort();
    }
}
