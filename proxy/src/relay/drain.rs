//! Stopping the connections of one worker thread: which are open, at what stage stopping is, and waking them when that changes.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// How far stopping is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Not stopping.
    Running,
    /// Connections end where nothing is under way in them.
    Draining,
    /// Connections end.
    Cut,
}

/// The open connections of one thread.
///
/// A connection looks at [`Self::stage`], a plain cell, whenever it runs, and is woken when that changes. It registers its waker
/// once: a task's waker stays good for the life of the task.
#[derive(Debug)]
pub(super) struct Drain {
    stage: Cell<Stage>,
    next_id: Cell<u64>,
    seats: RefCell<HashMap<u64, Option<Waker>>>,
    waiting_for_empty: RefCell<Option<Waker>>,
}

impl Drain {
    pub(super) fn new() -> Self {
        Self {
            stage: Cell::new(Stage::Running),
            next_id: Cell::new(0),
            seats: RefCell::default(),
            waiting_for_empty: RefCell::default(),
        }
    }

    pub(super) fn stage(&self) -> Stage {
        self.stage.get()
    }

    /// Counts a connection as open while the answer lives.
    pub(super) fn seat(self: &Rc<Self>) -> Seat {
        let id = self.next_id.get();
        self.next_id.set(id + 1);
        self.seats.borrow_mut().insert(id, None);
        Seat { id, drain: Rc::clone(self) }
    }

    /// Moves on to `stage` and wakes every connection.
    pub(super) fn advance(&self, stage: Stage) {
        self.stage.set(stage);
        for waker in self.seats.borrow().values().flatten() {
            waker.wake_by_ref();
        }
    }

    /// Waits until no connection is open.
    pub(super) async fn emptied(&self) {
        poll_fn(|cx| {
            if self.seats.borrow().is_empty() {
                return Poll::Ready(());
            }
            *self.waiting_for_empty.borrow_mut() = Some(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }

    pub(super) fn open(&self) -> usize {
        self.seats.borrow().len()
    }
}

/// One open connection.
#[derive(Debug)]
pub(super) struct Seat {
    id: u64,
    drain: Rc<Drain>,
}

impl Seat {
    /// From now on the task of `cx` is woken when the stage changes.
    pub(super) fn wake_on_change(&self, cx: &Context<'_>) {
        self.drain.seats.borrow_mut().insert(self.id, Some(cx.waker().clone()));
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.drain.seats.borrow_mut().remove(&self.id);
        if self.drain.seats.borrow().is_empty()
            && let Some(waker) = self.drain.waiting_for_empty.take()
        {
            waker.wake();
        }
    }
}
