//! The half the library writes to: gathers its many small writes, and puts our refusal of a login in the place of its own.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::AsyncWrite;

use super::SharedSocket;
use crate::serve::session::Session;
use crate::wire::packet::{Header, put_packet};

/// Written out when this much has gathered: a long result must not gather whole.
const LIMIT: usize = 64 * 1024;

/// See the module's description.
pub(in crate::serve) struct GuardWriter<S> {
    socket: SharedSocket<S>,
    session: Arc<Session>,
    buffer: Vec<u8>,
    written: usize,
}

impl<S: AsyncWrite + Unpin> GuardWriter<S> {
    pub fn new(socket: SharedSocket<S>, session: Arc<Session>) -> Self {
        Self { socket, session, buffer: Vec::new(), written: 0 }
    }

    /// The library's refusal is the only packet in the buffer when it is flushed.
    fn replace_refusal(&mut self) {
        let Some(error) = self.session.take_login_error() else { return };
        let sequence = Header::peek(&self.buffer).map_or(2, |header| header.sequence);
        self.buffer.clear();
        put_packet(&mut self.buffer, sequence, &error.to_payload());
    }

    fn poll_drain(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            let left = self.buffer.get(self.written..).unwrap_or_default();
            if left.is_empty() {
                self.buffer.clear();
                self.written = 0;
                return Poll::Ready(Ok(()));
            }
            let written = ready!(Pin::new(&mut self.socket).poll_write(cx, left))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.written += written;
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for GuardWriter<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        if this.buffer.len() >= LIMIT {
            ready!(this.poll_drain(cx))?;
        }
        this.buffer.extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        this.replace_refusal();
        ready!(this.poll_drain(cx))?;
        Pin::new(&mut this.socket).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(this.poll_drain(cx))?;
        Pin::new(&mut this.socket).poll_shutdown(cx)
    }
}
