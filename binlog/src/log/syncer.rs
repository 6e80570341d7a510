//! The sync thread of levels 2 and 0: makes what is written durable once a second, and at once while somebody waits for it.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::Shared;
use crate::fs::LogFile;

const EVERY: Duration = Duration::from_secs(1);

/// What was written and not synced yet.
#[derive(Debug)]
pub(crate) struct Unsynced {
    /// The active file; those before it were synced when it came.
    pub(crate) file: Arc<dyn LogFile>,
    /// Numbers of each lane's last jobs that are written.
    pub(crate) lanes: Vec<u64>,
    /// Where the active file ends.
    pub(crate) position: u64,
    pub(crate) file_number: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Syncer {
    inner: Mutex<Inner>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Inner {
    unsynced: Option<Unsynced>,
    /// Jobs that somebody waits for, by lane.
    wanted: Vec<u64>,
    closing: bool,
}

impl Syncer {
    /// Notes what is written, in place of what was noted before.
    pub(crate) fn note(&self, unsynced: Unsynced) {
        let mut inner = self.lock();
        let wanted = inner.is_wanted(&unsynced);
        inner.unsynced = Some(unsynced);
        drop(inner);
        if wanted {
            self.changed.notify_all();
        }
    }

    /// Somebody waits until this job is on disk.
    pub(crate) fn want(&self, lane: usize, number: u64) {
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
        let syncer = &shared.syncer;
        let mut last = Instant::now();
        while let Some(unsynced) = syncer.next(last) {
            last = Instant::now();
            if let Err(error) = unsynced.file.sync_data() {
                shared.latch(&error);
                return;
            }
            shared.options.observer.synced(last.elapsed());
            shared.published.update(|view| {
                for (progress, number) in view.lanes.iter_mut().zip(&unsynced.lanes) {
                    progress.durable = progress.durable.max(*number);
                }
            });
            shared.note_durable(unsynced.file_number, unsynced.position, EVERY);
        }
    }

    /// Waits until there is something to sync and it is time; `None` when closed and all is synced.
    fn next(&self, last: Instant) -> Option<Unsynced> {
        let mut inner = self.lock();
        loop {
            let elapsed = last.elapsed();
            let wanted = inner.unsynced.as_ref().is_some_and(|unsynced| inner.is_wanted(unsynced));
            if wanted || inner.closing || elapsed >= EVERY {
                if let Some(unsynced) = inner.unsynced.take() {
                    inner.forget_wanted(&unsynced);
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
