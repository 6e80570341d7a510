//! COM_BINLOG_DUMP: a client's connection, once it asked for the binlog. Reads the log through a cursor, filters, frames,
//! writes; waits at the end. What it holds in memory is one batch of small events, however slow the client.

mod error;
mod filter;
mod frames;
mod opening;
mod request;
mod substitute;

use std::sync::atomic::Ordering;
use std::time::Duration;

use spillway_binlog::LogEnd;
use spillway_binlog::event::{ChecksumAlgorithm, EventHeader, EventType, control};
use spillway_binlog::reader::{Cursor, Run};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::time::Instant;

use super::registry::{DumpProgress, EndReason};
use super::session::Session;
use error::{Coordinates, DumpError};
use filter::{Decision, Filter, FilterError, Notice};
use frames::{Buffer, Frames};
use request::{DumpRequest, Start};

/// Bytes of events handled at a time. Small events are copied together up to this, so it bounds a dump's memory.
const BATCH: usize = 256 * 1024;
/// EOF: the end of a dump that does not wait.
const EOF: &[u8] = &[0xfe, 0, 0, 2, 0];
/// COM_QUIT, whole.
const QUIT: &[u8] = &[1, 0, 0, 0, 1];

const STATE_SENDING: &str = "Sending binlog event to slave";
const STATE_WAITING: &str = "Master has sent all binlog to slave; waiting for more updates";

/// Serves one dump until the client goes, the connection is ended, or it has what it asked for.
pub(super) async fn serve<S>(session: &Session, stream: S, packet: &[u8])
where
    S: AsyncRead + AsyncWrite + Send,
{
    let (reader, writer) = tokio::io::split(stream);
    let mut connection = Wire { session, reader, writer, last_sent: Instant::now() };
    let stop = connection.run(packet).await;
    connection.finish(&stop).await;
}

/// Why a dump ends.
#[derive(Debug)]
enum Stop {
    /// The client has what it asked for.
    Eof,
    /// The client is gone, or cannot be told: a packet is half written.
    Closed,
    /// KILL, or Spillway stops.
    Ended,
    Failed(DumpError),
}

impl From<DumpError> for Stop {
    fn from(error: DumpError) -> Self {
        Self::Failed(error)
    }
}

/// The client's side of a dump.
struct Wire<'s, S> {
    session: &'s Session,
    reader: ReadHalf<S>,
    writer: WriteHalf<S>,
    last_sent: Instant,
}

/// The log's side of a dump.
struct Dump<'s> {
    session: &'s Session,
    request: DumpRequest,
    progress: std::sync::Arc<DumpProgress>,
    buffer: Buffer,
    cursor: Cursor,
    filter: Filter,
    checksum: ChecksumAlgorithm,
    /// Where the client asked to start, for error messages.
    first: (String, u64),
    /// Where the last event read starts.
    last_event: u64,
}

impl<S: AsyncRead + AsyncWrite + Send> Wire<'_, S> {
    async fn run(&mut self, packet: &[u8]) -> Stop {
        match self.try_run(packet).await {
            Ok(never) => match never {},
            Err(stop) => stop,
        }
    }

    async fn try_run(&mut self, packet: &[u8]) -> Result<std::convert::Infallible, Stop> {
        let session = self.session;
        let request = DumpRequest::parse(packet, |name| session.user_variable(name))?;
        let connection = &session.connection;
        let progress = session.service.connections.start_dump(connection, request.server_id);
        connection.set_activity(|activity| {
            activity.command = "Binlog Dump";
            activity.state = STATE_SENDING;
        });
        self.wait_for_first_file(&request).await?;
        let mut dump = self.open(request, progress).await?;
        loop {
            if let Some(reason) = connection.end_reason() {
                return Err(dump.ended(reason));
            }
            self.step(&mut dump).await?;
        }
    }

    async fn wait_for_first_file(&mut self, request: &DumpRequest) -> Result<(), Stop> {
        let log = &self.session.service.log;
        loop {
            let end = log.end();
            if !opening::is_empty(end) {
                return Ok(());
            }
            if request.non_block {
                return Err(Stop::Eof);
            }
            tokio::select! {
                now = log.changed(end) => if now == end { return Err(Stop::Ended) },
                _ = self.session.connection.ended() => return Err(Stop::Ended),
                () = client_gone(&mut self.reader, false) => return Err(Stop::Closed),
            }
        }
    }

    /// Finds the start, and sends what comes before the first event.
    async fn open<'d>(
        &mut self,
        request: DumpRequest,
        progress: std::sync::Arc<DumpProgress>,
    ) -> Result<Dump<'d>, Stop>
    where
        Self: 'd,
    {
        unimplemented!()
    }
}
