//! The client's side of a dump: packets out, and a watch on what comes in.

use std::io;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::time::Instant;

use super::Stop;
use super::frames::{Buffer, Frames};
use crate::serve::registry::Connection;

/// EOF: the end of a dump that does not wait.
const EOF: &[u8] = &[0xfe, 0, 0, 2, 0];
/// COM_QUIT, whole.
const QUIT: &[u8] = &[1, 0, 0, 0, 1];

/// See the module's description.
pub(super) struct Wire<S> {
    connection: Arc<Connection>,
    reader: ReadHalf<S>,
    writer: WriteHalf<S>,
    buffer: Buffer,
    semi_sync: bool,
    /// When something was written last.
    pub last_sent: Instant,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Wire<S> {
    pub fn new(connection: Arc<Connection>, socket: S) -> Self {
        let (reader, writer) = tokio::io::split(socket);
        let buffer = Buffer::new(false);
        Self { connection, reader, writer, buffer, semi_sync: false, last_sent: Instant::now() }
    }

    /// Whether packets carry the two bytes of semi-synchronous replication. Before the first packet only.
    pub fn set_semi_sync(&mut self, on: bool) {
        self.semi_sync = on;
        self.buffer = Buffer::new(on);
    }

    pub fn is_semi_sync(&self) -> bool {
        self.semi_sync
    }

    /// Writes what `fill` puts together, and answers its length; 0 is nothing. The write ends early when the connection is
    /// asked to end: a client that reads no more cannot hold it.
    ///
    /// # Errors
    /// [`Stop::Closed`].
    pub async fn send<'b>(
        &mut self,
        fill: impl FnOnce(&mut Frames<'b, '_>) -> Result<(), Stop>,
    ) -> Result<usize, Stop> {
        let mut frames = Frames::new(&mut self.buffer);
        // What was put together before a fault is sound, and is sent first.
        let filled = fill(&mut frames);
        let len = frames.len();
        if len > 0 {
            let write = frames.write_to(&mut self.writer);
            let written = tokio::select! {
                biased;
                written = write => written,
                _ = self.connection.ended() => Err(io::ErrorKind::ConnectionAborted.into()),
            };
            written.map_err(|_| Stop::Closed)?;
            self.last_sent = Instant::now();
        }
        filled.map(|()| len)
    }

    /// Resolves when the client is gone or the connection is to end.
    pub async fn gone(&mut self) -> Stop {
        tokio::select! {
            _ = self.connection.ended() => Stop::Ended,
            () = closed(&mut self.reader, self.semi_sync) => Stop::Closed,
        }
    }

    /// What the client gets last, then the end of the connection.
    pub async fn finish(mut self, stop: Stop) {
        let payload = match stop {
            Stop::Eof => EOF.to_vec(),
            Stop::Failed(error) => error.to_payload(),
            Stop::Closed | Stop::Ended | Stop::Expelled => Vec::new(),
        };
        if !payload.is_empty() {
            let mut frames = Frames::new(&mut self.buffer);
            frames.push_payload(&payload);
            // The client may be gone; there is nobody else to tell.
            let _ = frames.write_to(&mut self.writer).await;
        }
        let _ = self.writer.shutdown().await;
    }
}

/// Resolves when the client closes, quits or breaks the protocol. On a semi-synchronous dump it may acknowledge unasked.
async fn closed(reader: &mut (impl AsyncRead + Unpin), semi_sync: bool) {
    let mut bytes = [0; 1024];
    loop {
        match reader.read(&mut bytes).await {
            Ok(len) if len > 0 && semi_sync && bytes.get(..len) != Some(QUIT) => {}
            _ => return,
        }
    }
}
