//! COM_BINLOG_DUMP: a client's connection, once it asked for the binlog. Reads the log through a cursor, filters, frames,
//! writes; waits at the end. What it holds in memory is one batch of small events, however slow the client.

mod error;
mod filter;
mod frames;
mod opening;
mod request;
mod stream;
mod substitute;
mod wire;

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use spillway_binlog::FileInfo;
use tokio::io::{AsyncRead, AsyncWrite};

use super::registry::DumpProgress;
use super::session::Session;
use error::DumpError;
use opening::Opening;
use request::DumpRequest;
use stream::Stream;
use wire::Wire;

const STATE_SENDING: &str = "Sending binlog event to slave";
const STATE_WAITING: &str = "Master has sent all binlog to slave; waiting for more updates";

const STATE_HELD: &str = "Waiting for the log to catch up with its source";

/// As long as a replica gives its KILL (`rpl_semi_sync_slave_kill_conn_timeout`, 5 s).
const KILL_PATIENCE: Duration = Duration::from_secs(5);

/// Why a dump ends.
#[derive(Debug)]
enum Stop {
    /// The client has what it asked for.
    Eof,
    /// The client is gone, or can be told nothing: a packet is half written.
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

/// Serves one dump until the client goes, the connection is ended, or the client has what it asked for.
pub(super) async fn serve<S>(session: &Session, socket: S, packet: &[u8])
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut wire = Wire::new(Arc::clone(&session.connection), socket);
    let result = match DumpRequest::parse(packet, |name| session.user_variable(name)) {
        Ok(request) => {
            wire.set_semi_sync(request.semi_sync);
            run(session, &mut wire, request).await
        }
        Err(error) => Err(error.into()),
    };
    let stop = match result {
        Ok(()) => Stop::Eof,
        Err(stop) => stop,
    };
    report(session, &stop);
    session.connection.end_dump();
    let linger = wire.is_semi_sync() && matches!(stop, Stop::Closed);
    wire.finish(stop).await;
    if linger {
        await_kill(session).await;
    }
}

/// A semi-synchronous MariaDB replica closes its dump and then, on another connection, kills it: its source would not have
/// noticed. So that this is no error in the replica's log, the connection can still be found for a while.
async fn await_kill(session: &Session) {
    session.connection.set_activity(|activity| activity.state = "Closed by the replica");
    // Whether the KILL comes or not, nothing is left to do.
    let _ = tokio::time::timeout(KILL_PATIENCE, session.connection.ended()).await;
}

async fn run<S>(session: &Session, wire: &mut Wire<S>, request: DumpRequest) -> Result<(), Stop>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let connection = &session.connection;
    let progress = session.service.connections.start_dump(connection, request.server_id);
    let replica = session.service.metrics.replica_connected(
        request.server_id,
        &connection.activity().user,
        &connection.peer.to_canonical().to_string(),
    );
    set_state(session, STATE_SENDING);
    tracing::info!(
        connection = connection.id,
        server_id = request.server_id,
        start = ?request.start,
        "binlog dump starts"
    );
    wait_for_first_file(session, wire, request.non_block).await?;
    let opening = open_or_hold(session, wire, &request).await?;
    let mut stream = Stream::open(session, wire, request, progress, replica, opening).await?;
    loop {
        stream.step(wire).await?;
    }
}

fn set_state(session: &Session, state: &'static str) {
    session.connection.set_activity(|activity| {
        activity.command = "Binlog Dump";
        activity.state = state;
        activity.info = None;
    });
}

/// While the log has no file there is nothing to open; the client waits for as long as it has patience.
async fn wait_for_first_file<S>(
    session: &Session,
    wire: &mut Wire<S>,
    non_block: bool,
) -> Result<(), Stop>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let log = &session.service.log;
    loop {
        let end = log.end();
        if end.file != 0 {
            return Ok(());
        }
        if non_block {
            return Err(Stop::Eof);
        }
        tokio::select! {
            now = log.changed(end) => if now == end { return Err(Stop::Ended) },
            stop = wire.gone() => return Err(stop),
        }
    }
}

/// A replica that is ahead of a log which is still fetching again what a crash took is held, not refused: it goes on by itself.
async fn open_or_hold<S>(
    session: &Session,
    wire: &mut Wire<S>,
    request: &DumpRequest,
) -> Result<Opening, Stop>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    /// The log may be caught up without another transaction.
    const LOOK_EVERY: Duration = Duration::from_millis(500);
    let log = &session.service.log;
    loop {
        let (seen, settled) = (log.end(), log.is_caught_up() || request.non_block);
        match open(session, request).await {
            Err(Stop::Failed(error)) if error.is_ahead() && !settled => {}
            opened => return opened,
        }
        set_state(session, STATE_HELD);
        tokio::select! {
            _ = log.changed(seen) => {}
            () = tokio::time::sleep(LOOK_EVERY) => {}
            stop = wire.gone() => return Err(stop),
        }
        if let Some(reason) = session.connection.end_reason() {
            tracing::debug!(?reason, "a held dump ends");
            return Err(Stop::Ended);
        }
    }
}

/// Opening reads the file up to the client's position, so it is not done on a thread that serves others.
async fn open(session: &Session, request: &DumpRequest) -> Result<Opening, Stop> {
    let (log, request) = (Arc::clone(&session.service.log), request.clone());
    let opening = tokio::task::spawn_blocking(move || opening::open(&log, &request)).await;
    Ok(opening.map_err(|_| Stop::Closed)??)
}

fn report(session: &Session, stop: &Stop) {
    let connection = session.connection.id;
    match stop {
        Stop::Failed(error) => {
            session.service.metrics.dump_failed(error.reason());
            tracing::warn!(connection, %error, "binlog dump ends with an error");
        }
        Stop::Eof | Stop::Closed | Stop::Ended => {
            tracing::info!(connection, end = ?stop, "binlog dump ends");
        }
    }
}

/// Bytes of the log that a dump has not sent.
pub(super) fn lag_bytes(files: &[FileInfo], dump: &DumpProgress) -> u64 {
    let (file, position) = (dump.file.load(Relaxed), dump.position.load(Relaxed));
    let behind = files.iter().filter(|info| info.number > file).map(|info| info.size).sum::<u64>();
    let here = files.iter().find(|info| info.number == file);
    behind + here.map_or(0, |info| info.size.saturating_sub(position))
}

#[cfg(test)]
mod tests;
