//! Where a server is: a host and port, or a Unix socket.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::str::FromStr;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

use crate::tls::{Encryption, TlsStream};

/// `host:port`, `[v6]:port` or `unix:/path`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerAddress {
    /// A name or address and a TCP port. The name is resolved at every connect.
    Tcp {
        /// Host name or address, without brackets.
        host: String,
        /// TCP port.
        port: u16,
    },
    /// The path of a Unix socket.
    Unix(PathBuf),
}

/// The text is no server address.
#[derive(Debug, thiserror::Error)]
#[error("`{0}` is not a server address: write host:port or unix:/path/to/socket")]
pub struct ParseAddressError(String);

impl FromStr for ServerAddress {
    type Err = ParseAddressError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Some(path) = text.strip_prefix("unix:").filter(|path| path.starts_with('/')) {
            return Ok(Self::Unix(PathBuf::from(path)));
        }
        let fault = || ParseAddressError(text.to_owned());
        let (host, port) = text.rsplit_once(':').ok_or_else(fault)?;
        let port = port.parse().ok().filter(|port| *port != 0).ok_or_else(fault)?;
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let bracketed = bare.len() != host.len();
        if bare.is_empty() || bare.contains(':') != bracketed {
            return Err(fault());
        }
        Ok(Self::Tcp { host: bare.to_owned(), port })
    }
}

impl fmt::Display for ServerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Tcp { host, port } => write!(f, "{host}:{port}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl ServerAddress {
    /// Connects; TCP without Nagle's delay.
    ///
    /// # Errors
    /// What the resolver or the socket said. Give it a deadline: this does not.
    pub async fn connect(&self) -> io::Result<ServerStream> {
        match self {
            Self::Tcp { host, port } => {
                let stream = TcpStream::connect((host.as_str(), *port)).await?;
                stream.set_nodelay(true)?;
                Ok(ServerStream::Tcp(stream))
            }
            Self::Unix(path) => UnixStream::connect(path).await.map(ServerStream::Unix),
        }
    }
}

/// A connection to a server.
#[derive(Debug)]
pub enum ServerStream {
    /// Over TCP.
    Tcp(TcpStream),
    /// Over a Unix socket.
    Unix(UnixStream),
    /// Encrypted, over one of these.
    Tls(Box<TlsStream>),
}

impl ServerStream {
    /// How it is encrypted; `None` where it is not.
    pub fn encryption(&self) -> Option<&Encryption> {
        match self {
            Self::Tls(stream) => Some(stream.encryption()),
            Self::Tcp(_) | Self::Unix(_) => None,
        }
    }

    /// Whether a server takes a password on it as it is: nobody on the way can read it.
    pub fn is_secure(&self) -> bool {
        !matches!(self, Self::Tcp(_))
    }
}

impl AsyncRead for ServerStream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_read(cx, buf),
            Self::Unix(stream) => Pin::new(stream).poll_read(cx, buf),
            Self::Tls(stream) => Pin::new(&mut **stream).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for ServerStream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_write(cx, buf),
            Self::Unix(stream) => Pin::new(stream).poll_write(cx, buf),
            Self::Tls(stream) => Pin::new(&mut **stream).poll_write(cx, buf),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_flush(cx),
            Self::Unix(stream) => Pin::new(stream).poll_flush(cx),
            Self::Tls(stream) => Pin::new(&mut **stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Unix(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Tls(stream) => Pin::new(&mut **stream).poll_shutdown(cx),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_back_what_it_prints() {
        for text in
            ["127.0.0.1:3306", "db.example:3306", "[::1]:3306", "unix:/run/mysqld/mysqld.sock"]
        {
            assert_eq!(text.parse::<ServerAddress>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn refuses_what_is_no_address() {
        for text in [
            "",
            "host",
            "host:",
            "host:0",
            ":3306",
            "::1:3306",
            "unix:relative",
            "h:70000",
            "[h]:1",
        ] {
            assert!(text.parse::<ServerAddress>().is_err(), "{text}");
        }
    }
}
