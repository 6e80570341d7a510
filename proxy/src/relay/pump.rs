//! Both directions of one connection as one future: what one side sends is followed and written to the other side at once.

use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use spillway_metrics::relay::{Direction, Shard};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use super::drain::{Seat, Stage};
use super::follower::{Event, Fault, Follower, Side};
use super::worker::Worker;
use crate::source::ServerStream;

/// Reads in one go before other connections get their turn.
const TURNS: usize = 16;

/// Why the pump stopped.
#[derive(Debug)]
pub(super) enum Stop {
    /// A step of the login is done; go on.
    LoginStep,
    /// The client is let in; go on.
    LoggedIn,
    /// The upstream refused the login. The error has been passed on.
    LoginRefused(u16),
    /// Something that is no login passed, and was not passed on.
    LoginFault(Fault),
    /// The upstream wants the password itself in a way in which the client cannot give it. That was not passed on.
    PasswordAsked,
    /// The client has closed its side; all it sent has been passed on.
    ClientClosed,
    /// The client's connection failed.
    ClientFailed(io::Error),
    /// The upstream has closed its side; all it sent has been passed on.
    UpstreamClosed,
    /// Nothing is under way, and the relay is being stopped.
    Drained,
    /// The time to finish is over.
    Cut,
}

/// One connection.
#[derive(Debug)]
pub(super) struct Pump {
    worker: Rc<Worker>,
    seat: Seat,
    client: TcpStream,
    server: ServerStream,
    up: Lane,
    down: Lane,
    tally: Tally,
    woken_on_change: bool,
}

/// One direction.
#[derive(Debug, Default)]
struct Lane {
    /// What the receiver did not take at once, from `sent` on.
    backlog: Vec<u8>,
    sent: usize,
    state: LaneState,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum LaneState {
    #[default]
    Open,
    /// The sender has closed; what it sent may still have to be written.
    SenderClosed,
    /// The receiver takes nothing any more.
    ReceiverFailed,
}

/// What went wrong in a lane.
enum LaneError {
    Read(io::Error),
    Write(io::Error),
}

impl Pump {
    pub(super) fn new(
        worker: Rc<Worker>,
        seat: Seat,
        client: TcpStream,
        server: ServerStream,
        follower: Follower,
    ) -> Self {
        let (up, down) = (Lane::default(), Lane::default());
        let secure = server.is_secure();
        let tally = Tally { follower, secure, since: None, note: None, unfollowed: None };
        Self { worker, seat, client, server, up, down, tally, woken_on_change: false }
    }

    pub(super) fn follower(&self) -> &Follower {
        &self.tally.follower
    }

    /// Gives up the upstream; what is left is the client, and its seat to be kept as long as that is open.
    pub(super) fn into_client(self) -> (TcpStream, Seat) {
        (self.client, self.seat)
    }

    /// Passes bytes until something happens that somebody has to decide about.
    pub(super) async fn run(&mut self) -> Stop {
        std::future::poll_fn(|cx| self.poll(cx)).await
    }

    /// Passes on what the upstream still sends, until it closes, after the client has closed its side.
    pub(super) async fn finish(&mut self) {
        std::future::poll_fn(|cx| {
            loop {
                match ready!(self.poll_down(cx)) {
                    Some(_) => return Poll::Ready(()),
                    None => continue,
                }
            }
        })
        .await;
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Stop> {
        if !self.woken_on_change {
            self.seat.wake_on_change(cx);
            self.woken_on_change = true;
        }
        for _ in 0..TURNS {
            let up = self.poll_up(cx);
            if let Poll::Ready(Some(stop)) = up {
                return Poll::Ready(stop);
            }
            let down = self.poll_down(cx);
            if let Poll::Ready(Some(stop)) = down {
                return Poll::Ready(stop);
            }
            if up.is_pending() && down.is_pending() {
                return self.drained();
            }
        }
        // There may be more at once, but other connections are first.
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    fn drained(&self) -> Poll<Stop> {
        match self.worker.drain.stage() {
            Stage::Running => Poll::Pending,
            Stage::Draining if self.may_end() => Poll::Ready(Stop::Drained),
            Stage::Draining => Poll::Pending,
            Stage::Cut => Poll::Ready(Stop::Cut),
        }
    }

    fn may_end(&self) -> bool {
        let follower = &self.tally.follower;
        let passed = self.up.backlog.is_empty() && self.down.backlog.is_empty();
        follower.is_streaming() || follower.is_in_login() || (passed && follower.is_idle())
    }

    fn poll_up(&mut self, cx: &mut Context<'_>) -> Poll<Option<Stop>> {
        let Self { worker, client, server, up, tally, .. } = self;
        let mut buffer = worker.buffer.borrow_mut();
        let turn = up.poll(cx, client, server, &mut buffer, |bytes| {
            worker.shard.add_bytes(Direction::ToUpstream, bytes.len());
            tally.follow(Side::Client, bytes, &worker.shard)
        });
        drop(buffer);
        match ready!(turn) {
            Ok(()) if up.is_finished() => {
                // Closing is the last thing the upstream hears; whether it does is of no matter.
                let _ = Pin::new(server).poll_shutdown(cx);
                Poll::Ready(Some(Stop::ClientClosed))
            }
            Ok(()) => Poll::Ready(self.stop_of_note()),
            Err(LaneError::Read(error)) => Poll::Ready(Some(Stop::ClientFailed(error))),
            Err(LaneError::Write(_)) => {
                // It may have said why before it closed: that is still to be read.
                *up = Lane { state: LaneState::ReceiverFailed, ..Lane::default() };
                Poll::Ready(None)
            }
        }
    }

    fn poll_down(&mut self, cx: &mut Context<'_>) -> Poll<Option<Stop>> {
        let Self { worker, client, server, down, tally, .. } = self;
        let mut buffer = worker.buffer.borrow_mut();
        let turn = down.poll(cx, server, client, &mut buffer, |bytes| {
            worker.shard.add_bytes(Direction::ToClient, bytes.len());
            tally.follow(Side::Server, bytes, &worker.shard)
        });
        drop(buffer);
        match ready!(turn) {
            Ok(()) if down.is_finished() => Poll::Ready(Some(Stop::UpstreamClosed)),
            Ok(()) => Poll::Ready(self.stop_of_note()),
            // A reset says the same as an end.
            Err(LaneError::Read(_)) => {
                down.state = LaneState::SenderClosed;
                Poll::Ready(down.is_finished().then_some(Stop::UpstreamClosed))
            }
            Err(LaneError::Write(error)) => Poll::Ready(Some(Stop::ClientFailed(error))),
        }
    }

    fn stop_of_note(&mut self) -> Option<Stop> {
        if let Some(fault) = self.tally.unfollowed.take() {
            self.worker.metrics.unfollowed();
            let source = self.worker.upstream.name();
            tracing::info!(source, %fault, "a connection is no longer followed");
        }
        self.tally.note.take()
    }
}

impl Lane {
    /// Whether the sender has closed and all it sent is written.
    fn is_finished(&self) -> bool {
        self.state == LaneState::SenderClosed && self.backlog.is_empty()
    }

    /// One step: writes what is left over, or reads and writes once. Pending when neither can be done now.
    fn poll<R, W>(
        &mut self,
        cx: &mut Context<'_>,
        from: &mut R,
        to: &mut W,
        buffer: &mut [u8],
        follow: impl FnOnce(&[u8]) -> bool,
    ) -> Poll<Result<(), LaneError>>
    where
        R: AsyncRead + Unpin,
        W: AsyncWrite + Unpin,
    {
        if !self.backlog.is_empty() {
            return self.poll_backlog(cx, to);
        }
        if self.state != LaneState::Open {
            return Poll::Pending;
        }
        let mut read = ReadBuf::new(buffer);
        ready!(Pin::new(from).poll_read(cx, &mut read)).map_err(LaneError::Read)?;
        let bytes = read.filled();
        if bytes.is_empty() {
            self.state = LaneState::SenderClosed;
            return Poll::Ready(Ok(()));
        }
        if !follow(bytes) {
            return Poll::Ready(Ok(()));
        }
        let written = match Pin::new(to).poll_write(cx, bytes) {
            Poll::Ready(written) => written.map_err(LaneError::Write)?,
            Poll::Pending => 0,
        };
        self.backlog.extend_from_slice(bytes.get(written..).unwrap_or_default());
        Poll::Ready(Ok(()))
    }

    fn poll_backlog<W: AsyncWrite + Unpin>(
        &mut self,
        cx: &mut Context<'_>,
        to: &mut W,
    ) -> Poll<Result<(), LaneError>> {
        let rest = self.backlog.get(self.sent..).unwrap_or_default();
        let written = ready!(Pin::new(to).poll_write(cx, rest)).map_err(LaneError::Write)?;
        if written == 0 {
            return Poll::Ready(Err(LaneError::Write(io::ErrorKind::WriteZero.into())));
        }
        self.sent += written;
        if self.sent >= self.backlog.len() {
            // Given back, not kept: an idle connection holds no buffer.
            *self = Self { state: self.state, ..Self::default() };
        }
        Poll::Ready(Ok(()))
    }
}

/// The follower, and what its events amount to.
#[derive(Debug)]
struct Tally {
    follower: Follower,
    /// The upstream takes a password itself as it is, while the client, which sees no TLS, would first ask for a key to seal it
    /// with: that request would be taken for the password.
    secure: bool,
    /// When the oldest unanswered command became the oldest: since then the server has been at it.
    since: Option<Instant>,
    note: Option<Stop>,
    unfollowed: Option<Fault>,
}

impl Tally {
    /// Answers whether the bytes may pass.
    fn follow(&mut self, side: Side, bytes: &[u8], shard: &Shard) -> bool {
        let Self { follower, secure, since, note, unfollowed } = self;
        let in_login = follower.is_in_login();
        let mut sink = |_end: usize, event: Event| match event {
            Event::Command(command) => {
                shard.command(command.index());
                if command.has_reply() && since.is_none() {
                    *since = Some(Instant::now());
                }
            }
            Event::Reply { command, .. } => {
                let now = Instant::now();
                let began = since.replace(now).unwrap_or(now);
                shard.answered(command.index(), now.saturating_duration_since(began));
            }
            Event::LoggedIn => *note = Some(Stop::LoggedIn),
            Event::LoginRefused { code } => *note = Some(Stop::LoginRefused(code)),
            Event::PasswordAsked if *secure => *note = Some(Stop::PasswordAsked),
            Event::LoginStep(_) => *note = Some(Stop::LoginStep),
            Event::PasswordAsked if in_login => *note = Some(Stop::LoginStep),
            Event::Lost(fault) if in_login => *note = Some(Stop::LoginFault(fault)),
            Event::Lost(fault) => *unfollowed = Some(fault),
            Event::PasswordAsked | Event::ServerError { .. } | Event::Streaming => {}
        };
        match side {
            Side::Client => follower.client_bytes(bytes, &mut sink),
            Side::Server => follower.server_bytes(bytes, &mut sink),
        }
        if follower.is_between_commands() {
            *since = None;
        }
        !matches!(note, Some(Stop::LoginFault(_) | Stop::PasswordAsked))
    }
}
