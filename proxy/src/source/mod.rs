//! One upstream cluster as the other parts see it: where it is, how it greeted last, and how capture is doing.

mod address;
mod alter;
mod retention;

use std::io;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, SystemTime};

pub use address::{ParseAddressError, ServerAddress, ServerStream};
pub use alter::AlterError;
pub(crate) use alter::{NoteError, SUFFIX as ALTER_NOTE, Vouched};
pub use retention::Retention;
use spillway_binlog::Log;
use spillway_binlog::gtid::Domains;
use spillway_binlog::gtid::mariadb::{Gtid, GtidState};
use tokio::sync::Notify;

use crate::capture::StartPosition;
use crate::tls::TlsOptions;
use alter::Alter;
use retention::Lacking;

/// What capture is doing with a source. One state at a time, each since a moment and, where it matters, for a reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CaptureState {
    /// `capture = false`, or not started yet.
    Stopped,
    /// No connection yet, or lost: trying again with backoff.
    Connecting,
    /// Events arrive and are recorded.
    Streaming,
    /// The log's disk is full, or it may open no more files; goes on by itself.
    PausedForDisk,
    /// The source's history is not the one in the log; nothing is appended until an operator decides.
    Diverged,
    /// The source or its settings cannot be captured until somebody changes them.
    Refused,
    /// Another replica has our server id, and the source serves one of the two: tried again at longer intervals.
    DuplicateServerId,
}

impl CaptureState {
    /// The name in the status document and in logs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Stopped => "stopped",
            Self::Connecting => "connecting",
            Self::Streaming => "streaming",
            Self::PausedForDisk => "paused_for_disk",
            Self::Diverged => "diverged",
            Self::Refused => "refused",
            Self::DuplicateServerId => "duplicate_server_id",
        }
    }
}

/// Whether the upstream's commits wait for the log, where `semi_sync` is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SemiSync {
    /// They do.
    Active,
    /// They do not: the upstream is set so.
    OffAtUpstream,
    /// The upstream knows nothing of it.
    Unsupported,
}

impl SemiSync {
    /// The name in the status document.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::OffAtUpstream => "off_at_upstream",
            Self::Unsupported => "unsupported",
        }
    }

    /// Why commits do not wait although they should, and what to do.
    pub fn shortcoming(self) -> Option<&'static str> {
        match self {
            Self::Active => None,
            Self::OffAtUpstream => Some(
                "semi_sync is set, and the upstream's commits do not wait: SET GLOBAL rpl_semi_sync_master_enabled = ON there",
            ),
            Self::Unsupported => Some(
                "semi_sync is set, and the upstream has no rpl_semi_sync_master_enabled: its commits do not wait",
            ),
        }
    }
}

/// Capture's state with its moment and reason.
#[derive(Clone, Debug)]
pub struct CaptureStatus {
    /// What capture is doing.
    pub state: CaptureState,
    /// Since when.
    pub since: SystemTime,
    /// Why, as one sentence that says what to do; empty while all is well.
    pub reason: String,
    /// The last GTID handed to the log, in the source's own notation; before the first that comes behind it, the GTID position
    /// that the log, or a new timeline, was begun at. Empty where that is.
    pub last_gtid: String,
    /// The `timestamp` of the last event read (Unix seconds, the source's clock); 0 before the first.
    pub last_event_timestamp: u32,
    /// Whether commits wait for the log; `None` before the first connection, and without `semi_sync`.
    pub semi_sync: Option<SemiSync>,
    retention: Option<Retention>,
    lacking: Lacking,
}

impl CaptureStatus {
    /// How long the upstream will still have what the log lacks, or would lack if nothing more were received; `None` where that is
    /// not known or without end.
    pub fn purged_in(&self, now: SystemTime) -> Option<Duration> {
        self.lacking.kept_for(self.retention, now)
    }
}

/// The last greeting seen from an upstream server: what the relay shows to clients and the replica port to replicas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Greeting {
    /// The version string exactly as greeted, e.g. `5.5.5-10.11.19-MariaDB-log` or `11.8.9-MariaDB`.
    pub version: String,
    /// The whole payload of the greeting packet (protocol 10), without the packet header.
    pub payload: Vec<u8>,
}

/// One `[[source]]`, shared by relay, capture, serve and status.
#[derive(Debug)]
pub struct Upstream {
    name: String,
    address: ServerAddress,
    tls: TlsOptions,
    greeting: Mutex<Option<Arc<Greeting>>>,
    capture: Mutex<CaptureStatus>,
    /// Of capture's settings; nothing is captured before they are there.
    domains: OnceLock<Domains>,
    alter: Alter,
    retry: Notify,
}

impl Upstream {
    /// A source that has not been reached yet.
    pub fn new(name: impl Into<String>, address: ServerAddress) -> Self {
        let capture = CaptureStatus {
            state: CaptureState::Stopped,
            since: SystemTime::now(),
            reason: String::new(),
            last_gtid: String::new(),
            last_event_timestamp: 0,
            semi_sync: None,
            retention: None,
            lacking: Lacking::default(),
        };
        Self {
            name: name.into(),
            address,
            tls: TlsOptions::default(),
            greeting: Mutex::new(None),
            capture: Mutex::new(capture),
            domains: OnceLock::new(),
            alter: Alter::default(),
            retry: Notify::new(),
        }
    }

    /// The same with its own `ssl_…` settings.
    #[must_use]
    pub fn with_tls(self, tls: TlsOptions) -> Self {
        Self { tls, ..self }
    }

    /// The `name` in the configuration.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where to connect; names are resolved at every connect.
    pub fn address(&self) -> &ServerAddress {
        &self.address
    }

    /// How connections to it are encrypted.
    pub fn tls(&self) -> &TlsOptions {
        &self.tls
    }

    /// The last greeting seen, by relay or capture.
    pub fn greeting(&self) -> Option<Arc<Greeting>> {
        lock(&self.greeting).clone()
    }

    /// Remembers a greeting.
    pub fn set_greeting(&self, greeting: Greeting) {
        *lock(&self.greeting) = Some(Arc::new(greeting));
    }

    /// Capture's state now.
    pub fn capture_status(&self) -> CaptureStatus {
        lock(&self.capture).clone()
    }

    /// Sets the state; `since` moves only when state or reason change. Answers whether they did.
    pub fn set_capture_state(&self, state: CaptureState, reason: &str) -> bool {
        let mut status = lock(&self.capture);
        let changed = status.state != state || status.reason != reason;
        if changed {
            status.state = state;
            status.reason = reason.to_owned();
            status.since = SystemTime::now();
        }
        changed
    }

    /// Asks capture to give up the log's history of this source and to begin a new timeline at `start`, at its next connect. It is
    /// on disk when this is over: also a killed process carries it out in its next life.
    ///
    /// # Errors
    /// [`AlterError`]: the source may go on by itself, or the new timeline cannot be noted.
    pub fn begin_anew(&self, log: &Log, start: StartPosition) -> Result<(), AlterError> {
        let state = self.capture_status().state;
        let held_up = matches!(state, CaptureState::Diverged | CaptureState::Refused);
        if !held_up && !self.alter.is_waiting() {
            return Err(AlterError::NotHeldUp(state.as_str()));
        }
        let reason = alter::new_timeline(&start);
        self.alter.want(log, &self.name, start)?;
        self.set_capture_state(state, &reason);
        self.retry_now();
        Ok(())
    }

    /// Vouches that the diverged source holds the log's last transaction in another form, as a promoted replica may: capture goes on
    /// behind it at its next connect, in the same timeline, and at any later one as long as it is the last of its domain.
    /// It is on disk when this is over. Answers that transaction's GTID.
    ///
    /// # Errors
    /// [`AlterError`]: the source is not diverged, the log has nothing of it, or what is vouched for cannot be noted.
    pub fn continue_behind_last(&self, log: &Log) -> Result<Gtid, AlterError> {
        let state = self.capture_status().state;
        let Some(domains) = self.domains.get().filter(|_| state == CaptureState::Diverged) else {
            return Err(AlterError::NotDiverged(state.as_str()));
        };
        let gtid = self.alter.vouch(log, &self.name, domains)?;
        self.set_capture_state(state, &alter::going_on(gtid));
        self.retry_now();
        Ok(gtid)
    }

    /// Capture of these domains begins.
    pub(crate) fn is_captured(&self, domains: &Domains) {
        // A source is captured once in a process.
        let _ = self.domains.set(domains.clone());
    }

    /// What the source is vouched for to hold in another form, as far as this place in the log.
    pub(crate) fn vouched(&self, log: &Log) -> Option<Vouched> {
        let vouched = self.alter.vouched()?;
        let end = log.end();
        if (vouched.file, vouched.position) < (end.file, end.position) {
            return Some(vouched);
        }
        // It is about another log.
        self.forget_vouched(log);
        None
    }

    /// This server is gone on with: another was not vouched for.
    pub(crate) fn bind_vouched(&self, log: &Log, server: u32) -> io::Result<()> {
        self.alter.bind_vouched(log, &self.name, server)
    }

    /// The log has newer transactions of the source only, or the server is another.
    pub(crate) fn forget_vouched(&self, log: &Log) {
        self.alter.forget_vouched(log, &self.name);
    }

    /// Takes up what an earlier life of the process was asked for with ALTER SOURCE and has not done.
    pub(crate) fn restore_asked(&self, log: &Log) -> Result<(), NoteError> {
        if let Some(reason) = self.alter.restore(log, &self.name)? {
            tracing::warn!(source = self.name, "{reason}");
            self.set_capture_state(CaptureState::Connecting, &reason);
        }
        Ok(())
    }

    /// Forgets a new timeline that the log has begun, though the process ended, or failed, before it could say so. Answers whether
    /// there was one.
    pub(crate) fn forget_begun(&self, log: &Log, domains: &Domains) -> io::Result<bool> {
        self.alter.forget_begun(log, &self.name, domains)
    }

    /// Whether a new timeline was asked for since the session began.
    pub(crate) fn is_to_begin_anew(&self) -> bool {
        self.alter.is_waiting()
    }

    /// Where a new timeline is to begin: from here on it cannot be asked for otherwise, until the attempt is over.
    pub(crate) fn take_new_start(&self) -> Option<StartPosition> {
        self.alter.take()
    }

    /// The attempt is over without one.
    pub(crate) fn put_new_start_back(&self) {
        self.alter.put_back();
    }

    /// Notes what the log is about to begin with. Answers whether that is a new timeline: then [`Upstream::has_begun_anew`] comes
    /// before anything more is handed to the log.
    pub(crate) fn begins_anew(&self, log: &Log, state: GtidState) -> io::Result<bool> {
        self.alter.begins(log, &self.name, state)
    }

    /// The log has begun it.
    pub(crate) fn has_begun_anew(&self, log: &Log) -> io::Result<()> {
        self.alter.done(log, &self.name)
    }

    /// Ends capture's pause before its next attempt.
    pub fn retry_now(&self) {
        self.retry.notify_one();
    }

    /// Resolves when capture is to try again now.
    pub(crate) async fn is_to_retry(&self) {
        self.retry.notified().await;
    }

    /// Notes how far capture has read: the last GTID handed to the log, if there is a new one, and the time of the last event.
    pub fn set_capture_progress(&self, last_gtid: Option<&str>, last_event_timestamp: u32) {
        let mut status = lock(&self.capture);
        if let Some(last_gtid) = last_gtid.filter(|gtid| *gtid != status.last_gtid) {
            last_gtid.clone_into(&mut status.last_gtid);
        }
        status.last_event_timestamp = last_event_timestamp;
        let retention = status.retention;
        status.lacking.received(last_event_timestamp, retention);
    }

    /// The log begins the source's domains at this GTID position: what was recorded of another timeline is the last no more.
    pub(crate) fn begins_at(&self, position: &str) {
        position.clone_into(&mut lock(&self.capture).last_gtid);
    }

    /// The log has all the upstream has.
    pub(crate) fn lacks_nothing(&self) {
        let mut status = lock(&self.capture);
        let retention = status.retention;
        status.lacking.nothing(retention);
    }

    /// Notes how long the upstream keeps its binlog files; `None` is until somebody purges them, or unknown.
    pub fn set_retention(&self, retention: Option<Retention>) {
        lock(&self.capture).retention = retention;
    }

    /// Notes whether the upstream's commits wait for the log. Answers whether that is news.
    pub fn set_semi_sync(&self, semi_sync: SemiSync) -> bool {
        lock(&self.capture).semi_sync.replace(semi_sync) != Some(semi_sync)
    }
}

/// A panic while one of these was held cannot leave it half written: each guarded write is a plain assignment.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
