//! What the commit thread has made visible, as one value, and who waits for it to change: threads and tasks alike.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use crate::gtid::mariadb::GtidState;

/// Where the readable part of the log ends. Before the log's first file it is the default: file 0, position 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct LogEnd {
    /// Number of the active file, from 1.
    pub file: u64,
    /// Position in that file behind the last published byte.
    pub position: u64,
}

/// How the log is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Health {
    /// Transactions are recorded.
    Running,
    /// The disk is full: nothing is recorded until there is room, then it goes on by itself.
    DiskFull,
    /// A write or sync failed with this error: nothing is recorded until the process is started again.
    Latched(Arc<str>),
    /// Closed.
    Closed,
}

/// One consistent view.
#[derive(Clone, Debug)]
pub(crate) struct View {
    pub(crate) end: LogEnd,
    /// Tickets up to this number are on disk.
    pub(crate) durable: u64,
    pub(crate) state: Arc<GtidState>,
    pub(crate) health: Health,
}

#[derive(Debug)]
pub(crate) struct Published {
    inner: Mutex<Inner>,
    changed: Condvar,
}

#[derive(Debug)]
struct Inner {
    view: View,
    wakers: Vec<Waker>,
}

impl Published {
    pub(crate) fn new(end: LogEnd, state: GtidState) -> Self {
        let view = View { end, durable: 0, state: Arc::new(state), health: Health::Running };
        Self { inner: Mutex::new(Inner { view, wakers: Vec::new() }), changed: Condvar::new() }
    }

    pub(crate) fn view(&self) -> View {
        self.lock().view.clone()
    }

    pub(crate) fn end(&self) -> LogEnd {
        self.lock().view.end
    }

    /// Changes the view and wakes all who wait.
    pub(crate) fn update(&self, change: impl FnOnce(&mut View)) {
        let wakers = {
            let mut inner = self.lock();
            change(&mut inner.view);
            std::mem::take(&mut inner.wakers)
        };
        self.changed.notify_all();
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Blocks until `done` answers something.
    pub(crate) fn wait<T>(&self, mut done: impl FnMut(&View) -> Option<T>) -> T {
        let mut inner = self.lock();
        loop {
            if let Some(answer) = done(&inner.view) {
                return answer;
            }
            inner = self.changed.wait(inner).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Polls until `done` answers something; the task is woken at every change.
    pub(crate) fn poll<T>(
        &self,
        cx: &mut Context<'_>,
        done: impl FnOnce(&View) -> Option<T>,
    ) -> Poll<T> {
        let mut inner = self.lock();
        if let Some(answer) = done(&inner.view) {
            return Poll::Ready(answer);
        }
        if !inner.wakers.iter().any(|waker| waker.will_wake(cx.waker())) {
            inner.wakers.push(cx.waker().clone());
        }
        Poll::Pending
    }

    /// Every change under the lock is complete when a panic could strike, so a poisoned lock holds a sound view.
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Resolves when the log's end is another than the one seen, or the log is closed or latched. See `Log::changed`.
#[derive(Debug)]
pub struct Changed {
    pub(crate) published: Arc<Published>,
    pub(crate) seen: LogEnd,
}

impl Future for Changed {
    type Output = LogEnd;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<LogEnd> {
        let seen = self.seen;
        self.published.poll(cx, |view| {
            let over = matches!(view.health, Health::Closed);
            (view.end != seen || over).then_some(view.end)
        })
    }
}

/// The log will not record what was submitted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SubmitError {
    /// A write or sync failed.
    #[error(
        "the log stopped after a failed write: {0}; start Spillway again once the disk is sound"
    )]
    Latched(Arc<str>),
    /// The log was closed first.
    #[error("the log is closed")]
    Closed,
}

/// Tells when a submitted transaction is in the log. A source's order is kept, so a ticket answers for all before it.
#[derive(Clone, Debug)]
pub struct Ticket {
    pub(crate) published: Arc<Published>,
    pub(crate) number: u64,
}

impl Ticket {
    /// Blocks until the transaction is on disk.
    ///
    /// # Errors
    /// [`SubmitError`] where it never will be.
    pub fn wait_durable(&self) -> Result<(), SubmitError> {
        self.published.wait(|view| self.answer(view))
    }

    /// The same for a task.
    ///
    /// # Errors
    /// [`SubmitError`] where it never will be.
    pub async fn durable(&self) -> Result<(), SubmitError> {
        std::future::poll_fn(|cx| self.published.poll(cx, |view| self.answer(view))).await
    }

    /// Whether the transaction is on disk now.
    pub fn is_durable(&self) -> bool {
        self.published.lock().view.durable >= self.number
    }

    fn answer(&self, view: &View) -> Option<Result<(), SubmitError>> {
        if view.durable >= self.number {
            return Some(Ok(()));
        }
        match &view.health {
            Health::Running | Health::DiskFull => None,
            Health::Latched(reason) => Some(Err(SubmitError::Latched(Arc::clone(reason)))),
            Health::Closed => Some(Err(SubmitError::Closed)),
        }
    }
}
