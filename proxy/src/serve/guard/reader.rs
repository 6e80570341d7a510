//! The half the library reads from: one whole, judged packet at a time.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use opensrv_mysql::ErrorKind;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::SharedSocket;
use super::command::{Verdict, judge};
use super::login;
use crate::serve::session::Session;
use crate::serve::sql::SqlError;
use crate::wire::packet::{HEADER_LEN, Header, MAX_PAYLOAD, put_packet, split_packet};

/// Payload before login: names, a response, attributes.
const MAX_LOGIN_PAYLOAD: usize = 64 * 1024;
/// Kept of the buffer after a large packet.
const KEPT_BUFFER: usize = 16 * 1024;

/// See the module's description.
pub(in crate::serve) struct GuardReader<S> {
    socket: SharedSocket<S>,
    session: Arc<Session>,
    /// Read, not yet a whole packet.
    incoming: Vec<u8>,
    /// The packet being handed over.
    released: Vec<u8>,
    released_to: usize,
    /// The guard's own answer on its way out.
    outgoing: Vec<u8>,
    /// Sequence number of the next packet of the login.
    login_sequence: u8,
    ended: bool,
}

impl<S: AsyncRead + AsyncWrite + Unpin> GuardReader<S> {
    pub fn new(socket: SharedSocket<S>, session: Arc<Session>) -> Self {
        Self {
            socket,
            session,
            incoming: Vec::new(),
            released: Vec::new(),
            released_to: 0,
            outgoing: Vec::new(),
            login_sequence: 1,
            ended: false,
        }
    }

    /// Takes the next whole packet out of what was read, or ends the stream over what cannot be one.
    fn take_packet(&mut self) -> Option<(u8, Vec<u8>)> {
        let header = Header::peek(&self.incoming)?;
        let logged_in = self.session.is_logged_in();
        let expected = if logged_in { 0 } else { self.login_sequence };
        // A payload of the largest size is followed by more of it.
        let limit = if logged_in { MAX_PAYLOAD - 1 } else { MAX_LOGIN_PAYLOAD };
        if header.sequence != expected {
            self.end_with(
                header.sequence,
                ErrorKind::ER_NET_PACKETS_OUT_OF_ORDER,
                "Got packets out of order",
            );
            return None;
        }
        if header.length > limit {
            let message = "Got a packet bigger than 'max_allowed_packet' bytes";
            self.end_with(header.sequence, ErrorKind::ER_NET_PACKET_TOO_LARGE, message);
            return None;
        }
        let (_, payload, _) = split_packet(&self.incoming)?;
        let payload = payload.to_vec();
        self.incoming.drain(..HEADER_LEN + payload.len());
        self.incoming.shrink_to(KEPT_BUFFER);
        Some((header.sequence, payload))
    }

    fn judge(&mut self, sequence: u8, payload: &[u8]) {
        if !self.session.is_logged_in() {
            return self.judge_login(sequence, payload);
        }
        match judge(&self.session, payload) {
            Verdict::Pass(payload) => self.release(sequence, &payload),
            Verdict::Reply(payload) => self.reply(sequence, &payload),
            Verdict::Ignore => {}
            Verdict::TakeOver => self.ended = true,
        }
    }

    fn judge_login(&mut self, sequence: u8, payload: &[u8]) {
        self.login_sequence = sequence.wrapping_add(2);
        if sequence != 1 {
            return self.release(sequence, payload);
        }
        match login::read(payload, |user| self.session.find_account(user)) {
            Ok((login, payload)) => {
                self.session.set_login(login);
                self.release(sequence, &payload);
            }
            Err(error) => {
                tracing::debug!(%error, "replica port: bad login packet");
                self.session.service.metrics.login_refused("bad_handshake");
                self.end_with(sequence, ErrorKind::ER_HANDSHAKE_ERROR, "Bad handshake");
            }
        }
    }

    fn release(&mut self, sequence: u8, payload: &[u8]) {
        self.released.clear();
        self.released_to = 0;
        put_packet(&mut self.released, sequence, payload);
    }

    fn reply(&mut self, sequence: u8, payload: &[u8]) {
        put_packet(&mut self.outgoing, sequence.wrapping_add(1), payload);
    }

    fn end_with(&mut self, sequence: u8, kind: ErrorKind, message: &str) {
        self.reply(sequence, &SqlError::new(kind, message).to_payload());
        self.ended = true;
    }

    fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.outgoing.is_empty() {
            let written = ready!(Pin::new(&mut self.socket).poll_write(cx, &self.outgoing))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.outgoing.drain(..written);
        }
        Pin::new(&mut self.socket).poll_flush(cx)
    }

    fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut chunk = [0; 4096];
        let mut buf = ReadBuf::new(&mut chunk);
        ready!(Pin::new(&mut self.socket).poll_read(cx, &mut buf))?;
        if buf.filled().is_empty() {
            self.ended = true;
        }
        self.incoming.extend_from_slice(buf.filled());
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for GuardReader<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        loop {
            ready!(this.poll_send(cx))?;
            let released = this.released.get(this.released_to..).unwrap_or_default();
            if !released.is_empty() {
                let len = released.len().min(buf.remaining());
                buf.put_slice(released.get(..len).unwrap_or_default());
                this.released_to += len;
                return Poll::Ready(Ok(()));
            }
            if this.ended {
                return Poll::Ready(Ok(()));
            }
            match this.take_packet() {
                Some((sequence, payload)) => this.judge(sequence, &payload),
                None if this.ended => {}
                None => ready!(this.poll_receive(cx))?,
            }
        }
    }
}
