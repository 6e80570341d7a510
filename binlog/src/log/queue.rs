//! What waits for the commit thread: jobs in the order they were submitted, taken all at once. Each source has a lane, whose order is
//! kept; a lane whose transaction is being prepared holds back what comes behind it, and nothing of any other lane.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::event::FormatDescription;
use crate::gtid::Domains;
use crate::gtid::mariadb::GtidState;
use crate::transaction::Transaction;

/// Under lazy writing (level 0): queued bytes that are written without waiting for the second to end.
const LAZY_BYTES: u64 = 16 << 20;
/// Under lazy writing: how long a job may wait.
const LAZY_PAUSE: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(crate) enum Work {
    /// Record a transaction.
    Transaction(Transaction),
    /// Begin these domains at a state; `None`: all of them, and only in an empty log. `anew`: whatever the log has of them.
    Begin { format: Arc<FormatDescription>, state: GtidState, domains: Option<Domains>, anew: bool },
    /// Go on in a new file.
    Rotate,
}

#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) lane: usize,
    /// Counts the lane's jobs from 1: its ticket.
    pub(crate) number: u64,
    pub(crate) work: Work,
}

impl Job {
    fn size(&self) -> u64 {
        match &self.work {
            Work::Transaction(transaction) => transaction.size(),
            Work::Begin { .. } | Work::Rotate => 0,
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Queue {
    inner: Mutex<Inner>,
    filled: Condvar,
    /// Transactions of this many bytes that are in a file are prepared before they are queued.
    large: u64,
    /// Jobs wait for a second, or until somebody presses.
    lazy: bool,
}

#[derive(Debug, Default)]
struct Inner {
    jobs: VecDeque<Job>,
    bytes: u64,
    /// When the first of `jobs` came.
    since: Option<Instant>,
    lanes: Vec<Lane>,
    closing: bool,
    pressed: bool,
    /// The commit thread sleeps on `filled`.
    waiting: bool,
}

#[derive(Debug, Default)]
struct Lane {
    last: u64,
    preparing: bool,
    held: VecDeque<Job>,
}

impl Queue {
    pub(crate) fn new(large: u64, lazy: bool) -> Self {
        Self { large, lazy, ..Self::default() }
    }

    /// A new lane's number.
    pub(crate) fn add_lane(&self) -> usize {
        let mut inner = self.lock();
        inner.lanes.push(Lane::default());
        inner.lanes.len() - 1
    }

    /// Whether a transaction is committed by renaming its file.
    pub(crate) fn is_large(&self, transaction: &Transaction) -> bool {
        transaction.spilled().is_some() && transaction.size() >= self.large
    }

    /// Adds a job; answers its number, and the job itself where it must be prepared first.
    pub(crate) fn push(&self, lane: usize, work: Work) -> (u64, Option<Job>) {
        let mut inner = self.lock();
        let closing = inner.closing;
        let Some(of) = inner.lanes.get_mut(lane) else { return (0, None) };
        of.last += 1;
        let number = of.last;
        let job = Job { lane, number, work };
        if closing {
            return (number, None);
        }
        if of.preparing {
            of.held.push_back(job);
            return (number, None);
        }
        if self.needs_preparation(&job) {
            of.preparing = true;
            return (number, Some(job));
        }
        self.queue(inner, job);
        (number, None)
    }

    fn needs_preparation(&self, job: &Job) -> bool {
        matches!(&job.work, Work::Transaction(transaction) if self.is_large(transaction))
    }

    /// Queues a job that was prepared and what its lane held back; answers the next job of the lane to prepare.
    pub(crate) fn prepared(&self, job: Job) -> Option<Job> {
        let lane = job.lane;
        self.queue(self.lock(), job);
        loop {
            let mut inner = self.lock();
            let of = inner.lanes.get_mut(lane)?;
            let Some(job) = of.held.pop_front() else {
                of.preparing = false;
                drop(inner);
                self.filled.notify_all();
                return None;
            };
            if self.needs_preparation(&job) {
                return Some(job);
            }
            self.queue(inner, job);
        }
    }

    fn queue(&self, mut inner: MutexGuard<'_, Inner>, job: Job) {
        inner.bytes += job.size();
        inner.since.get_or_insert_with(Instant::now);
        inner.jobs.push_back(job);
        let wake = std::mem::take(&mut inner.waiting);
        drop(inner);
        if wake {
            self.filled.notify_all();
        }
    }

    /// Somebody waits for what is queued.
    pub(crate) fn press(&self) {
        if self.lazy {
            self.lock().pressed = true;
            self.filled.notify_all();
        }
    }

    /// Waits for jobs and swaps them into `jobs`, which must be empty. Answers false when the queue is closed and empty.
    pub(crate) fn take(&self, jobs: &mut VecDeque<Job>) -> bool {
        let mut inner = self.lock();
        loop {
            if self.is_due(&inner) {
                break;
            }
            if inner.closing
                && inner.jobs.is_empty()
                && !inner.lanes.iter().any(|lane| lane.preparing)
            {
                return false;
            }
            inner = self.sleep(inner);
        }
        (inner.bytes, inner.since, inner.pressed) = (0, None, false);
        std::mem::swap(&mut inner.jobs, jobs);
        true
    }

    fn is_due(&self, inner: &Inner) -> bool {
        if inner.jobs.is_empty() {
            return false;
        }
        let waited = inner.since.is_some_and(|since| since.elapsed() >= LAZY_PAUSE);
        !self.lazy || inner.pressed || inner.closing || waited || inner.bytes >= LAZY_BYTES
    }

    fn sleep<'a>(&self, mut inner: MutexGuard<'a, Inner>) -> MutexGuard<'a, Inner> {
        inner.waiting = true;
        let Some(since) = inner.since.filter(|_| self.lazy) else {
            return self.filled.wait(inner).unwrap_or_else(PoisonError::into_inner);
        };
        let left = LAZY_PAUSE.saturating_sub(since.elapsed());
        self.filled.wait_timeout(inner, left).unwrap_or_else(PoisonError::into_inner).0
    }

    /// Takes no more jobs; those queued or being prepared are still handed out.
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
