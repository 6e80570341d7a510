//! What waits for the commit thread: jobs in the order they were submitted, taken all at once.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::event::FormatDescription;
use crate::gtid::mariadb::GtidState;
use crate::transaction::Transaction;

#[derive(Debug)]
pub(crate) enum Job {
    /// Record a transaction.
    Transaction(Transaction),
    /// Open the first file of an empty log.
    Begin { format: Arc<FormatDescription>, state: GtidState },
}

#[derive(Debug, Default)]
pub(crate) struct Queue {
    inner: Mutex<Inner>,
    filled: Condvar,
}

#[derive(Debug, Default)]
struct Inner {
    jobs: VecDeque<Job>,
    /// Number of the last ticket given out.
    last_ticket: u64,
    closing: bool,
    /// The commit thread sleeps on `filled`.
    waiting: bool,
}

impl Queue {
    /// Adds a job; answers its ticket's number.
    pub(crate) fn push(&self, job: Job) -> u64 {
        let mut inner = self.lock();
        inner.last_ticket += 1;
        if !inner.closing {
            inner.jobs.push_back(job);
        }
        let (number, wake) = (inner.last_ticket, std::mem::take(&mut inner.waiting));
        drop(inner);
        if wake {
            self.filled.notify_one();
        }
        number
    }

    /// Waits for jobs and swaps them into `jobs`, which must be empty. Answers false when the queue is closed and empty.
    pub(crate) fn take(&self, jobs: &mut VecDeque<Job>) -> bool {
        let mut inner = self.lock();
        while inner.jobs.is_empty() {
            if inner.closing {
                return false;
            }
            inner.waiting = true;
            inner = self.filled.wait(inner).unwrap_or_else(PoisonError::into_inner);
        }
        std::mem::swap(&mut inner.jobs, jobs);
        true
    }

    /// Takes no more jobs; those queued are still handed out.
    pub(crate) fn close(&self) {
        self.lock().closing = true;
        self.filled.notify_all();
    }

    /// Waits up to `pause`, less when the queue is closed. Answers whether it is closed.
    pub(crate) fn pause(&self, pause: Duration) -> bool {
        let inner = self.lock();
        let waited = self.filled.wait_timeout_while(inner, pause, |inner| !inner.closing);
        waited.unwrap_or_else(PoisonError::into_inner).0.closing
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
