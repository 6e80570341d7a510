//! What the commit thread has made visible, as one value, and who waits for it to change: threads and tasks alike.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use super::{CommitLevel, Shared};
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
    /// A file cannot be opened because too many are: nothing is recorded until one can be, then it goes on by itself.
    OutOfFiles,
    /// A write or sync failed with this error: nothing is recorded until the process is started again.
    Latched(Arc<str>),
    /// Closed.
    Closed,
}

impl Health {
    /// What the log lacks where it waits for something, and what to do.
    pub fn shortage(&self) -> Option<&'static str> {
        match self {
            Self::DiskFull => {
                Some("the log's disk is full: make room, recording goes on by itself")
            }
            Self::OutOfFiles => Some(
                "the log cannot open a file because too many are open: raise the limit (ulimit -n, LimitNOFILE), or let \
                 connections go; recording goes on by itself",
            ),
            Self::Running | Self::Latched(_) | Self::Closed => None,
        }
    }
}

/// One consistent view.
#[derive(Clone, Debug)]
pub(crate) struct View {
    pub(crate) end: LogEnd,
    /// How far each lane is.
    pub(crate) lanes: Vec<Progress>,
    pub(crate) state: Arc<GtidState>,
    pub(crate) health: Health,
}

impl View {
    /// The last jobs of each lane that are written, durable, or both.
    pub(crate) fn reach(&mut self, lanes: &[u64], written: bool, durable: bool) {
        if self.lanes.len() < lanes.len() {
            self.lanes.resize(lanes.len(), Progress::default());
        }
        for (progress, number) in self.lanes.iter_mut().zip(lanes) {
            if written {
                progress.written = *number;
            }
            if durable {
                progress.durable = progress.durable.max(*number);
            }
        }
    }
}

/// How far a lane is: numbers of its last jobs that are written, and on disk.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Progress {
    pub(crate) written: u64,
    pub(crate) durable: u64,
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
    /// Of those who wait for the health alone: most changes are none of it.
    of_health: Vec<Waker>,
}

impl Published {
    pub(crate) fn new(end: LogEnd, state: GtidState) -> Self {
        let (lanes, state) = (Vec::new(), Arc::new(state));
        let view = View { end, lanes, state, health: Health::Running };
        Self {
            inner: Mutex::new(Inner { view, wakers: Vec::new(), of_health: Vec::new() }),
            changed: Condvar::new(),
        }
    }

    pub(crate) fn view(&self) -> View {
        self.lock().view.clone()
    }

    pub(crate) fn health(&self) -> Health {
        self.lock().view.health.clone()
    }

    pub(crate) fn end(&self) -> LogEnd {
        self.lock().view.end
    }

    /// Changes the view and wakes all who wait.
    pub(crate) fn update(&self, change: impl FnOnce(&mut View)) {
        let wakers = {
            let mut inner = self.lock();
            let health = inner.view.health.clone();
            change(&mut inner.view);
            let mut wakers = std::mem::take(&mut inner.wakers);
            if inner.view.health != health {
                wakers.append(&mut inner.of_health);
            }
            wakers
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
        note(&mut inner.wakers, cx.waker());
        Poll::Pending
    }

    /// Polls until the health is another than `seen`.
    pub(crate) fn poll_health(&self, cx: &mut Context<'_>, seen: &Health) -> Poll<Health> {
        let mut inner = self.lock();
        if inner.view.health != *seen {
            return Poll::Ready(inner.view.health.clone());
        }
        note(&mut inner.of_health, cx.waker());
        Poll::Pending
    }

    /// Every change under the lock is complete when a panic could strike, so a poisoned lock holds a sound view.
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn note(wakers: &mut Vec<Waker>, waker: &Waker) {
    if !wakers.iter().any(|known| known.will_wake(waker)) {
        wakers.push(waker.clone());
    }
}

/// Resolves when the log's end is another than the one seen, or the log is closed. See `Log::changed`.
#[derive(Debug)]
pub struct Changed {
    pub(crate) shared: Arc<Shared>,
    pub(crate) seen: LogEnd,
}

impl Future for Changed {
    type Output = LogEnd;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<LogEnd> {
        let seen = self.seen;
        let polled = self.shared.published.poll(cx, |view| {
            let over = matches!(view.health, Health::Closed);
            (view.end != seen || over).then_some(view.end)
        });
        if polled.is_pending() {
            self.shared.queue.press();
        }
        polled
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

/// Tells when a submitted transaction is in the log. A source's order is kept, so a ticket answers for all of the source before it.
#[derive(Clone, Debug)]
pub struct Ticket {
    pub(crate) shared: Arc<Shared>,
    pub(crate) lane: usize,
    pub(crate) number: u64,
}

impl Ticket {
    /// Resolves when the transaction is written: readers see it, a kill of the process does not lose it.
    ///
    /// # Errors
    /// [`SubmitError`] where it never will be.
    pub async fn written(&self) -> Result<(), SubmitError> {
        self.resolve(|progress| progress.written).await
    }

    /// Resolves when the transaction is on disk. Where nothing else would sync it at once, this does.
    ///
    /// # Errors
    /// [`SubmitError`] where it never will be.
    pub async fn durable(&self) -> Result<(), SubmitError> {
        self.want_sync();
        self.resolve(|progress| progress.durable).await
    }

    /// Resolves when the log has the transaction as its commit level says: on disk at level 1, written at 2 and at 0, where this has
    /// it written at once.
    ///
    /// # Errors
    /// [`SubmitError`] where it never will have it.
    pub async fn committed(&self) -> Result<(), SubmitError> {
        match self.shared.options.commit_level {
            CommitLevel::One => self.durable().await,
            CommitLevel::Two | CommitLevel::Zero => self.written().await,
        }
    }

    /// Blocks until the transaction is on disk.
    ///
    /// # Errors
    /// [`SubmitError`] where it never will be.
    pub fn wait_durable(&self) -> Result<(), SubmitError> {
        self.want_sync();
        self.shared.published.wait(|view| self.answer(view, |progress| progress.durable))
    }

    /// Whether the transaction is written now.
    pub fn is_written(&self) -> bool {
        self.progress(&self.shared.published.lock().view).written >= self.number
    }

    /// Whether the transaction is on disk now.
    pub fn is_durable(&self) -> bool {
        self.progress(&self.shared.published.lock().view).durable >= self.number
    }

    /// Whether the log has the transaction as its commit level says.
    pub fn is_committed(&self) -> bool {
        match self.shared.options.commit_level {
            CommitLevel::One => self.is_durable(),
            CommitLevel::Two | CommitLevel::Zero => self.is_written(),
        }
    }

    async fn resolve(&self, reached: fn(Progress) -> u64) -> Result<(), SubmitError> {
        self.shared.queue.press();
        let poll = |cx: &mut Context<'_>| {
            self.shared.published.poll(cx, |view| self.answer(view, reached))
        };
        std::future::poll_fn(poll).await
    }

    fn want_sync(&self) {
        self.shared.queue.press();
        self.shared.syncer.want(self.lane, self.number);
    }

    fn progress(&self, view: &View) -> Progress {
        view.lanes.get(self.lane).copied().unwrap_or_default()
    }

    fn answer(&self, view: &View, reached: fn(Progress) -> u64) -> Option<Result<(), SubmitError>> {
        if reached(self.progress(view)) >= self.number {
            return Some(Ok(()));
        }
        match &view.health {
            Health::Running | Health::DiskFull | Health::OutOfFiles => None,
            Health::Latched(reason) => Some(Err(SubmitError::Latched(Arc::clone(reason)))),
            Health::Closed => Some(Err(SubmitError::Closed)),
        }
    }
}
