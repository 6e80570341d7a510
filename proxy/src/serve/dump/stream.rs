//! The running dump: from the cursor through the filter to the wire.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use spillway_binlog::event::{ChecksumAlgorithm, EventHeader, EventType, control};
use spillway_binlog::gtid::mariadb::GtidState;
use spillway_binlog::reader::{Cursor, EventRun, ReadError, Run};
use spillway_binlog::{Log, LogEnd};
use spillway_metrics::serve::ReplicaMetrics;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Instant;

use super::error::{Coordinates, DumpError};
use super::filter::{Decision, Filter, FilterError, Notice};
use super::frames::Frames;
use super::opening::{self, Opening};
use super::request::{DumpRequest, Start};
use super::wire::Wire;
use super::{STATE_SENDING, STATE_WAITING, Stop, set_state};
use crate::serve::registry::{DumpProgress, EndReason};
use crate::serve::session::Session;

/// Bytes of events handled at a time. Small events are copied together up to this, so it bounds a dump's memory.
const BATCH: usize = 256 * 1024;

/// See the module's description.
pub(super) struct Stream<'s> {
    session: &'s Session,
    request: DumpRequest,
    progress: Arc<DumpProgress>,
    metrics: ReplicaMetrics,
    cursor: Cursor,
    filter: Filter,
    place: Place,
}

/// Where the stream stands, and what it says about that.
struct Place {
    server_id: u32,
    /// Of the file being sent.
    checksum: ChecksumAlgorithm,
    coordinates: Coordinates,
}

impl<'s> Stream<'s> {
    /// A stream at its opening; sends what comes before the first event.
    pub async fn open<S>(
        session: &'s Session,
        wire: &mut Wire<S>,
        request: DumpRequest,
        progress: Arc<DumpProgress>,
        metrics: ReplicaMetrics,
        opening: Opening,
    ) -> Result<Self, Stop>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let Opening { cursor, filter, position, format_description } = opening;
        let place = Place {
            server_id: session.service.server_id,
            // Before the first file there is only the client's word for what it reads.
            checksum: request.checksum.unwrap_or(ChecksumAlgorithm::None),
            coordinates: coordinates(&request, &cursor),
        };
        let mut stream = Self { session, request, progress, metrics, cursor, filter, place };
        stream.enter_file(wire, position, &format_description).await?;
        if let Some(notice) = stream.filter.is_over_at_start() {
            let event = stream.place.notice(&notice, stream.cursor.position());
            stream.send(wire, &event).await?;
            return Err(Stop::Eof);
        }
        if let Some(notice) = stream.filter.notice() {
            let event = stream.place.notice(&notice, position);
            stream.send(wire, &event).await?;
        }
        Ok(stream)
    }

    /// Handles what comes next: a run of events, a new file, or the log's end.
    pub async fn step<S>(&mut self, wire: &mut Wire<S>) -> Result<(), Stop>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        if let Some(reason) = self.session.connection.end_reason() {
            return Err(self.ended(reason));
        }
        // Before the cursor looks: what is published behind its back then counts as a change.
        let seen = self.cursor.end();
        let Self { session, cursor, filter, place, .. } = self;
        match cursor.next_run(BATCH) {
            Ok(Run::Events(run)) => {
                let log = &session.service.log;
                let sent = wire.send(|frames| fill(frames, run, filter, place, log)).await?;
                self.advanced(wire, sent).await
            }
            Ok(Run::NextFile) => self.next_file(wire).await,
            Ok(Run::CaughtUp) => self.wait(wire, seen).await,
            Err(error) => Err(place.read_error(error).into()),
        }
    }

    /// Notes how far the client is. Where a long stretch is passed over, it still hears from us.
    async fn advanced<S>(&mut self, wire: &mut Wire<S>, sent: usize) -> Result<(), Stop>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        self.progress.file.store(self.cursor.file(), Relaxed);
        self.progress.position.store(self.cursor.position(), Relaxed);
        self.progress.sent_bytes.fetch_add(sent as u64, Relaxed);
        self.metrics.sent(sent as u64);
        if sent > 0 {
            return Ok(());
        }
        tokio::task::yield_now().await;
        match self.heartbeat_at(wire) {
            Some(due) if due <= Instant::now() => self.heartbeat(wire).await,
            _ => Ok(()),
        }
    }

    async fn next_file<S>(&mut self, wire: &mut Wire<S>) -> Result<(), Stop>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        if !self.cursor.can_enter(|domain| self.filter.ahead_in(domain)) {
            // A new timeline: what the client has is not what it goes on from. A tool that reads what is there has all of the old.
            if self.request.non_block {
                return Err(Stop::Eof);
            }
            return Err(DumpError::Purged.into());
        }
        let raw = opening::take_format_description(&mut self.cursor)?;
        let keep_created = self.filter.is_at_start();
        let event = opening::outgoing_format_description(raw, keep_created, false);
        self.enter_file(wire, opening::FIRST_POSITION, &event).await
    }

    /// The file's name and its format description. The Rotate still carries what the file before it had.
    async fn enter_file<S>(
        &mut self,
        wire: &mut Wire<S>,
        position: u64,
        format_description: &[u8],
    ) -> Result<(), Stop>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let Self { cursor, place, .. } = self;
        let rotate = opening::rotate(place.server_id, cursor.file_name(), position, place.checksum);
        place.checksum = cursor.format().checksum;
        cursor.file_name().clone_into(&mut place.coordinates.file);
        place.coordinates.event = position;
        place.coordinates.byte = cursor.position();
        self.send(wire, &rotate).await?;
        let place = &self.place;
        if self.request.checksum.is_none() && place.checksum != ChecksumAlgorithm::None {
            return Err(DumpError::ChecksumUnaware(place.here()).into());
        }
        self.send(wire, format_description).await
    }

    /// Nothing more is published. `seen` is the log's end as it was before that was found.
    async fn wait<S>(&mut self, wire: &mut Wire<S>, seen: LogEnd) -> Result<(), Stop>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        if self.request.non_block {
            return Err(Stop::Eof);
        }
        set_state(self.session, STATE_WAITING);
        let heartbeat_at = self.heartbeat_at(wire);
        let due = tokio::select! {
            now = self.session.service.log.changed(seen) => {
                // The end does not change when the log is closed.
                if now == seen { return Err(Stop::Ended) }
                false
            }
            stop = wire.gone() => return Err(self.named(stop)),
            () = sleep_until(heartbeat_at) => true,
        };
        set_state(self.session, STATE_SENDING);
        if due { self.heartbeat(wire).await } else { Ok(()) }
    }

    /// When the client has to hear from us next.
    fn heartbeat_at<S>(&self, wire: &Wire<S>) -> Option<Instant> {
        wire.last_sent.checked_add(self.request.heartbeat?)
    }

    async fn heartbeat<S>(&mut self, wire: &mut Wire<S>) -> Result<(), Stop>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let event = self.place.heartbeat(self.cursor.position());
        self.send(wire, &event).await
    }

    /// Sends an event made here.
    async fn send<S>(&self, wire: &mut Wire<S>, event: &[u8]) -> Result<(), Stop>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let fill = |frames: &mut Frames<'_, '_>| {
            frames.push_made(event);
            Ok(())
        };
        let sent = wire.send(fill).await? as u64;
        self.progress.sent_bytes.fetch_add(sent, Relaxed);
        self.metrics.sent(sent);
        Ok(())
    }

    fn named(&self, stop: Stop) -> Stop {
        match (stop, self.session.connection.end_reason()) {
            (Stop::Ended, Some(reason)) => self.ended(reason),
            (stop, _) => stop,
        }
    }

    fn ended(&self, reason: EndReason) -> Stop {
        match reason {
            EndReason::SameServerId => DumpError::SameServerId(self.place.here()).into(),
            EndReason::Killed | EndReason::Shutdown => Stop::Ended,
        }
    }
}

fn coordinates(request: &DumpRequest, cursor: &Cursor) -> Coordinates {
    let (first_file, first_position) = match &request.start {
        Start::Position { file, position } => (file.clone(), *position),
        Start::Gtid(_) => (String::new(), opening::FIRST_POSITION),
    };
    Coordinates {
        first_file,
        first_position,
        file: cursor.file_name().to_owned(),
        event: cursor.position(),
        byte: cursor.position(),
    }
}

/// Forever where there is no time.
async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// Puts a run's packets together.
///
/// # Errors
/// [`Stop::Eof`] once the UNTIL position is reached; what was put together is still to be sent, as with any other error.
fn fill<'a>(
    frames: &mut Frames<'a, '_>,
    run: EventRun<'a>,
    filter: &mut Filter,
    place: &mut Place,
    log: &Log,
) -> Result<(), Stop> {
    let passes_all = filter.passes_all();
    for (at, header, event) in run.events() {
        let end = at + event.len() as u64;
        (place.coordinates.event, place.coordinates.byte) = (at, end);
        if passes_all {
            frames.push(event);
            continue;
        }
        match place.decide(filter, &header, event, log)? {
            Decision::Send => frames.push(event),
            Decision::Replace(made) => frames.push_made(&made),
            Decision::Skip => {}
        }
        if let Some(notice) = filter.notice() {
            frames.push_made(&place.notice(&notice, end));
            if matches!(notice, Notice::UntilReached(_)) {
                return Err(Stop::Eof);
            }
        }
    }
    Ok(())
}

impl Place {
    fn decide(
        &self,
        filter: &mut Filter,
        header: &EventHeader,
        event: &[u8],
        log: &Log,
    ) -> Result<Decision, DumpError> {
        let state = || GtidState::clone(&log.gtid_state());
        filter.decide(header, event, self.checksum, state).map_err(|error| match error {
            FilterError::Ahead(gtid) => opening::ahead(&state(), gtid),
            FilterError::Hole(gtid) => DumpError::Hole(gtid),
            FilterError::TooSmall => DumpError::TooSmall(self.here()),
            FilterError::Group(error) => {
                DumpError::Group { error: Box::new(error), coordinates: self.here() }
            }
        })
    }

    fn here(&self) -> Box<Coordinates> {
        Box::new(self.coordinates.clone())
    }

    fn read_error(&self, error: ReadError) -> DumpError {
        match error {
            ReadError::Purged { .. } => DumpError::Purged,
            error => DumpError::Read { error: Box::new(error), coordinates: self.here() },
        }
    }

    fn notice(&self, notice: &Notice, position: u64) -> Vec<u8> {
        let (Notice::Reached(body) | Notice::UntilReached(body)) = notice;
        let header = control::artificial(EventType::GTID_LIST, self.server_id, low(position));
        control::event(header, body, self.checksum)
    }

    /// Beyond 4 GiB the position does not fit the header: it is 0 there, and the body opens with it.
    fn heartbeat(&self, position: u64) -> Vec<u8> {
        let file = &self.coordinates.file;
        if let Ok(position) = u32::try_from(position) {
            return control::heartbeat(self.server_id, position, file, self.checksum);
        }
        let header = EventHeader {
            flags: 0,
            ..control::artificial(EventType::HEARTBEAT, self.server_id, 0)
        };
        let mut body = position.to_le_bytes().to_vec();
        body.extend_from_slice(file.as_bytes());
        control::event(header, &body, self.checksum)
    }
}

/// A position as headers have it.
fn low(position: u64) -> u32 {
    u32::try_from(position & u64::from(u32::MAX)).unwrap_or(u32::MAX)
}
