//! An encrypted connection to an upstream.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::client;

use super::certificate::{Certificate, date};
use super::renumber::Renumber;
use crate::source::ServerStream;

/// The connection. Reading also sends what writing has left over, so that whoever reads need not flush.
#[derive(Debug)]
pub struct TlsStream {
    inner: client::TlsStream<ServerStream>,
    encryption: Encryption,
    /// While a login passes whose client knows nothing of TLS.
    renumber: Option<Renumber>,
}

/// How a connection is encrypted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Encryption {
    /// Such as `TLSv1_3`.
    pub protocol: String,
    /// Such as `TLS13_AES_256_GCM_SHA384`.
    pub cipher_suite: String,
    /// The upstream's certificate, where it can be read.
    pub upstream: Option<Certificate>,
    /// Ours, where one is set.
    pub own: Option<Certificate>,
}

impl fmt::Display for Encryption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}", self.protocol, self.cipher_suite)?;
        if let Some(certificate) = &self.upstream {
            let (subject, until) = (&certificate.subject, date(certificate.not_after));
            write!(f, ", certificate {subject} valid until {until}")?;
        }
        Ok(())
    }
}

impl TlsStream {
    pub(super) fn new(
        inner: client::TlsStream<ServerStream>,
        upstream: Option<Certificate>,
        own: Option<Certificate>,
    ) -> Self {
        let (_, session) = inner.get_ref();
        let protocol = session.protocol_version().and_then(|version| version.as_str());
        let suite = session.negotiated_cipher_suite().and_then(|suite| suite.suite().as_str());
        let encryption = Encryption {
            protocol: protocol.unwrap_or("TLS").to_owned(),
            cipher_suite: suite.unwrap_or("unknown cipher suite").to_owned(),
            upstream,
            own,
        };
        Self { inner, encryption, renumber: None }
    }

    /// How it is encrypted.
    pub fn encryption(&self) -> &Encryption {
        &self.encryption
    }

    /// From here to the end of the login, packets get the numbers they have on either side: the request for TLS, which only the
    /// upstream has seen, has taken one.
    pub(crate) fn renumber_login(&mut self) {
        self.renumber = Some(Renumber::default());
    }

    fn poll_leftovers(&mut self, cx: &mut Context<'_>) {
        if self.inner.get_ref().1.wants_write() {
            // A failure is told by the next read or write too.
            let _ = Pin::new(&mut self.inner).poll_flush(cx);
        }
    }
}

impl AsyncRead for TlsStream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        this.poll_leftovers(cx);
        let before = buf.filled().len();
        let read = Pin::new(&mut this.inner).poll_read(cx, buf);
        if let Some(renumber) = &mut this.renumber {
            let passed = buf.filled_mut().get_mut(before..).unwrap_or_default();
            if renumber.server_bytes(passed) {
                this.renumber = None;
            }
        }
        read
    }
}

impl AsyncWrite for TlsStream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let Some(renumber) = &mut this.renumber else {
            return Pin::new(&mut this.inner).poll_write(cx, bytes);
        };
        let mut shifted = bytes.to_vec();
        renumber.clone().client_bytes(&mut shifted);
        let written = Pin::new(&mut this.inner).poll_write(cx, &shifted);
        if let Poll::Ready(Ok(length)) = written {
            shifted.truncate(length);
            renumber.client_bytes(&mut shifted);
        }
        written
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_shutdown(cx)
    }
}
