//! One GET over plain HTTP, for `spillway status`.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Empty, Limited};
use hyper::header::HOST;
use hyper::{Request, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

/// The whole exchange; a status document is small.
const TIMEOUT: Duration = Duration::from_secs(10);
const MAX_BODY_BYTES: usize = 16 << 20;

/// Why a document could not be fetched.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// The text is no URL this client understands.
    #[error("{0} is not a URL: write http://HOST:PORT")]
    Url(String),
    /// Nobody answers there.
    #[error("cannot connect to {address}: {source}")]
    Connect {
        /// Host and port.
        address: String,
        /// What the socket said.
        source: std::io::Error,
    },
    /// It does not speak HTTP, or stopped doing so.
    #[error("{address} gave no HTTP answer: {message}")]
    Http {
        /// Host and port.
        address: String,
        /// What was wrong.
        message: String,
    },
    /// It answered, with another status.
    #[error("{address} answered {status}")]
    Status {
        /// Host and port.
        address: String,
        /// The status.
        status: StatusCode,
    },
    /// It took too long.
    #[error("{0} did not answer within {TIMEOUT:?}")]
    Timeout(String),
}

/// Fetches `path` from the server of `url`.
///
/// # Errors
/// See [`FetchError`].
pub async fn fetch(url: &str, path: &str) -> Result<Bytes, FetchError> {
    let address = address_of(url)?;
    let exchange = exchange(&address, path);
    match tokio::time::timeout(TIMEOUT, exchange).await {
        Ok(result) => result,
        Err(_) => Err(FetchError::Timeout(address)),
    }
}

fn address_of(url: &str) -> Result<String, FetchError> {
    let fault = || FetchError::Url(url.to_owned());
    let uri: Uri = url.parse().map_err(|_| fault())?;
    if uri.scheme_str().is_some_and(|scheme| scheme != "http") {
        return Err(fault());
    }
    let host = uri.host().filter(|host| !host.is_empty()).ok_or_else(fault)?;
    Ok(format!("{host}:{}", uri.port_u16().unwrap_or(80)))
}

async fn exchange(address: &str, path: &str) -> Result<Bytes, FetchError> {
    let stream = TcpStream::connect(address)
        .await
        .map_err(|source| FetchError::Connect { address: address.to_owned(), source })?;
    let fault = |message: String| FetchError::Http { address: address.to_owned(), message };
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .map_err(|error| fault(error.to_string()))?;
    let request = Request::get(path)
        .header(HOST, address)
        .body(Empty::<Bytes>::new())
        .map_err(|error| fault(error.to_string()))?;
    let answer = async {
        let response = sender.send_request(request).await.map_err(|e| fault(e.to_string()))?;
        let status = response.status();
        if status != StatusCode::OK {
            return Err(FetchError::Status { address: address.to_owned(), status });
        }
        let body = Limited::new(response.into_body(), MAX_BODY_BYTES).collect().await;
        body.map(|body| body.to_bytes()).map_err(|error| fault(error.to_string()))
    };
    // The connection only moves while it is polled; the answer arrives through `sender`.
    tokio::pin!(connection);
    tokio::pin!(answer);
    tokio::select! {
        result = &mut answer => result,
        _ = &mut connection => answer.await,
    }
}
