//! One request, one answer: a pure function of path, method and state.

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Body;
use hyper::header::{ALLOW, CACHE_CONTROL, CONNECTION, CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use hyper::header::{HeaderValue, X_CONTENT_TYPE_OPTIONS};
use hyper::{Method, Request, Response, StatusCode};

use super::{Health, Part};
use crate::Registry;

const PLAIN: &str = "text/plain; charset=utf-8";
const HTML: &str = "text/html; charset=utf-8";
const JSON: &str = "application/json";
/// The version is part of the format's name.
const METRICS: &str = "text/plain; version=0.0.4; charset=utf-8";
/// The page has one inline style sheet and nothing else.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'";

type Answer = Response<Full<Bytes>>;

/// Answers one request. For HEAD, hyper leaves the body out.
pub(super) fn respond<B: Body>(
    request: &Request<B>,
    registry: &Registry,
    health: &dyn Health,
) -> Answer {
    if request.method() != Method::GET && request.method() != Method::HEAD {
        let mut refusal = answer(StatusCode::METHOD_NOT_ALLOWED, PLAIN, "only GET and HEAD\n");
        refusal.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return closing(refusal);
    }
    if !request.body().is_end_stream() {
        return closing(answer(StatusCode::PAYLOAD_TOO_LARGE, PLAIN, "no request body, please\n"));
    }
    match request.uri().path() {
        "/" => answer(StatusCode::OK, HTML, health.page()),
        "/status" => answer(StatusCode::OK, JSON, health.status()),
        "/metrics" => {
            health.refresh_metrics();
            metrics(registry)
        }
        "/livez" => answer(StatusCode::OK, PLAIN, "ok\n"),
        "/readyz" => readiness(health, &[Part::Relay, Part::Serve]),
        "/readyz/relay" => readiness(health, &[Part::Relay]),
        "/readyz/serve" => readiness(health, &[Part::Serve]),
        _ => answer(
            StatusCode::NOT_FOUND,
            PLAIN,
            "there are / /metrics /status /livez /readyz /readyz/relay /readyz/serve\n",
        ),
    }
}

fn metrics(registry: &Registry) -> Answer {
    match registry.text() {
        Ok(text) => answer(StatusCode::OK, METRICS, text),
        Err(error) => {
            tracing::error!(%error, "http: metrics cannot be written");
            answer(StatusCode::INTERNAL_SERVER_ERROR, PLAIN, format!("{error}\n"))
        }
    }
}

fn readiness(health: &dyn Health, parts: &[Part]) -> Answer {
    let missing: Vec<_> = parts.iter().filter_map(|part| health.ready(*part).err()).collect();
    if missing.is_empty() {
        return answer(StatusCode::OK, PLAIN, "ok\n");
    }
    answer(StatusCode::SERVICE_UNAVAILABLE, PLAIN, missing.join("\n") + "\n")
}

fn answer(status: StatusCode, kind: &'static str, body: impl Into<Bytes>) -> Answer {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    response
}

/// A body that was not read would be taken for the next request.
fn closing(mut response: Answer) -> Answer {
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    response
}
