//! The sync thread. At levels 2 and 0 it makes what is written durable once a second, and at once while somebody waits for it. At level
//! 1 it syncs at once what the commit thread hands over instead of syncing it itself: while one part of a stream is synced, the next
//! is written. Readers then see that part, and tickets are answered, after its sync and not before.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::abort::AbortOnPanic;
use super::published::LogEnd;
use super::{CommitLevel, Shared};
use crate::fs::LogFile;
use crate::gtid::mariadb::GtidState;

const EVERY: Duration = Duration::from_secs(1);

/// What was written and not synced yet.
#[derive(Debug)]
pub(crate) struct Unsynced {
    /// The active file; those before it were synced when it came.
    pub(crate) file: Arc<dyn LogFile>,
    /// Numbers of each lane's last jobs that are written.
    pub(crate) lanes: Vec<u64>,
    /// Where the active file ends.
    pub(crate) end: LogEnd,
    /// The GTID state there.
    pub(crate) state: Arc<GtidState>,
    /// Bytes that were written since the last time.
    pub(crate) bytes: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Syncer {
    inner: Mutex<Inner>,
    changed: Condvar,
    /// What is noted is synced at once, and published only then: level 1.
    eager: bool,
}

#[derive(Debug, Default)]
struct Inner {
    unsynced: Option<Unsynced>,
    /// Jobs that somebody waits for, by lane.
    wanted: Vec<u64>,
    /// What is noted is to be synced at once.
    early: bool,
    /// How many syncs were begun.
    begun: u64,
    running: bool,
    failed: bool,
    closing: bool,
}

/// A sync has failed, which has latched the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SyncFailed;

impl Syncer {
    pub(crate) fn new(level: CommitLevel) -> Self {
        Self { eager: level == CommitLevel::One, ..Self::default() }
    }

    /// Notes what is written, in place of what was noted before. At level 1, waits first while as many bytes as `limit` are to be
    /// synced behind those that are being synced.
    pub(crate) fn note(&self, mut unsynced: Unsynced, limit: u64) -> Result<(), SyncFailed> {
        let full = |inner: &mut Inner| {
            let bytes = inner.unsynced.as_ref().map_or(0, |unsynced| unsynced.bytes);
            self.eager && !inner.failed && bytes >= limit
        };
        let mut inner = self.wait_while(full)?;
        let wanted = self.eager || inner.is_wanted(&unsynced);
        unsynced.bytes += inner.unsynced.take().map_or(0, |before| before.bytes);
        inner.unsynced = Some(unsynced);
        drop(inner);
        if wanted {
            self.changed.notify_all();
        }
        Ok(())
    }

    /// Whether all that was noted is synced.
    pub(crate) fn is_idle(&self) -> Result<bool, SyncFailed> {
        let inner = self.lock();
        if inner.failed { Err(SyncFailed) } else { Ok(!inner.running && inner.unsynced.is_none()) }
    }

    /// Waits until no sync runs. What is noted besides is the caller's to sync from now on. Two threads must not sync a file at
    /// once: an error is told to one of them only.
    pub(crate) fn take_over(&self) -> Result<(), SyncFailed> {
        let mut inner = self.lock();
        (inner.unsynced, inner.early) = (None, false);
        drop(inner);
        // Whoever wanted it early need not wait.
        self.changed.notify_all();
        self.wait_while(|inner| inner.running).map(drop)
    }

    /// Has what is written synced now, and waits for that: what then is left for a sync in the commit slot is little.
    pub(crate) fn sync_early(&self) -> Result<(), SyncFailed> {
        if self.eager {
            return Ok(());
        }
        let mut inner = self.lock();
        inner.early |= inner.unsynced.is_some();
        let last = inner.begun + u64::from(inner.early);
        drop(inner);
        self.changed.notify_all();
        // By number: while others want syncs, one follows the other.
        let is_due = |inner: &mut Inner| inner.early || (inner.running && inner.begun <= last);
        self.wait_while(|inner| is_due(inner) && !inner.failed).map(drop)
    }

    /// Waits until all that was noted is synced.
    pub(crate) fn drain(&self) -> Result<(), SyncFailed> {
        self.wait_while(|inner| inner.running || (inner.unsynced.is_some() && !inner.failed))
            .map(drop)
    }

    fn wait_while(
        &self,
        condition: impl FnMut(&mut Inner) -> bool,
    ) -> Result<MutexGuard<'_, Inner>, SyncFailed> {
        let waited = self.changed.wait_while(self.lock(), condition);
        let inner = waited.unwrap_or_else(PoisonError::into_inner);
        if inner.failed { Err(SyncFailed) } else { Ok(inner) }
    }

    /// Somebody waits until this job is on disk.
    pub(crate) fn want(&self, lane: usize, number: u64) {
        if self.eager {
            return;
        }
        let mut inner = self.lock();
        if inner.wanted.len() <= lane {
            inner.wanted.resize(lane + 1, 0);
        }
        if let Some(wanted) = inner.wanted.get_mut(lane) {
            *wanted = number.max(*wanted);
        }
        drop(inner);
        self.changed.notify_all();
    }

    /// Syncs what is left, then [`run`](Self::run) ends.
    pub(crate) fn close(&self) {
        self.lock().closing = true;
        self.changed.notify_all();
    }

    /// Runs until closed, or until a sync fails, which latches the log.
    pub(crate) fn run(shared: &Shared) {
        let guard = AbortOnPanic;
        let syncer = &shared.syncer;
        let mut last = Instant::now();
        while let Some(unsynced) = syncer.next(last) {
            last = Instant::now();
            if let Err(error) = unsynced.file.sync_data() {
                shared.latch(&error);
                syncer.fail();
                break;
            }
            shared.options.observer.synced(last.elapsed());
            syncer.publish(shared, &unsynced);
            shared.note_durable(unsynced.end.file, unsynced.end.position, EVERY);
        }
        std::mem::forget(guard);
    }

    fn publish(&self, shared: &Shared, unsynced: &Unsynced) {
        shared.published.update(|view| {
            if self.eager {
                view.end = unsynced.end;
                view.state = Arc::clone(&unsynced.state);
            }
            view.reach(&unsynced.lanes, self.eager, true);
        });
    }

    fn fail(&self) {
        let mut inner = self.lock();
        (inner.running, inner.failed) = (false, true);
        drop(inner);
        self.changed.notify_all();
    }

    /// Waits until there is something to sync and it is time; `None` when closed and all is synced.
    fn next(&self, last: Instant) -> Option<Unsynced> {
        let mut inner = self.lock();
        if std::mem::take(&mut inner.running) {
            self.changed.notify_all();
        }
        loop {
            let elapsed = last.elapsed();
            let wanted = inner.unsynced.as_ref().is_some_and(|unsynced| inner.is_wanted(unsynced));
            let due = self.eager || wanted || inner.early || inner.closing || elapsed >= EVERY;
            if due {
                if let Some(unsynced) = inner.unsynced.take() {
                    inner.forget_wanted(&unsynced);
                    (inner.running, inner.early) = (true, false);
                    inner.begun += 1;
                    if self.eager {
                        // There is room for the next.
                        self.changed.notify_all();
                    }
                    return Some(unsynced);
                }
                if inner.closing {
                    return None;
                }
            }
            let left = if elapsed < EVERY { EVERY - elapsed } else { EVERY };
            let waited = self.changed.wait_timeout(inner, left);
            inner = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    /// Whether syncing this answers somebody.
    fn is_wanted(&self, unsynced: &Unsynced) -> bool {
        let pairs = self.wanted.iter().zip(&unsynced.lanes);
        pairs.into_iter().any(|(wanted, written)| *wanted != 0 && wanted <= written)
    }

    fn forget_wanted(&mut self, unsynced: &Unsynced) {
        for (wanted, written) in self.wanted.iter_mut().zip(&unsynced.lanes) {
            if *wanted <= *written {
                *wanted = 0;
            }
        }
    }
}
