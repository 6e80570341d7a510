//! One socket for the library's two halves and for the guard, all in one task.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A handle to a socket. The halves are polled by one task, one after the other, so the lock is never waited for.
pub(in crate::serve) struct SharedSocket<S>(Arc<Mutex<S>>);

impl<S> Clone for SharedSocket<S> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<S: Unpin> SharedSocket<S> {
    pub fn new(socket: S) -> Self {
        Self(Arc::new(Mutex::new(socket)))
    }

    /// The socket itself, once the other handles are gone.
    pub fn into_inner(self) -> Option<S> {
        let socket = Arc::into_inner(self.0)?;
        Some(socket.into_inner().unwrap_or_else(PoisonError::into_inner))
    }

    fn with<T>(&self, poll: impl FnOnce(Pin<&mut S>) -> T) -> T {
        // A panic in a socket's poll leaves a socket.
        let mut socket = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        poll(Pin::new(&mut *socket))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for SharedSocket<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.with(|socket| socket.poll_read(cx, buf))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for SharedSocket<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.with(|socket| socket.poll_write(cx, bytes))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.with(|socket| socket.poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.with(|socket| socket.poll_shutdown(cx))
    }
}
