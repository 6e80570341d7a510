//! `[http]`: metrics, status and readiness, read only.

use std::net::SocketAddr;

use super::fault::Fault;
use super::key::Key;
use super::section::{Keys, Section};
use super::value;

const LISTEN: Key<SocketAddr> = Key {
    name: "listen",
    meaning: "Where /metrics, /status, /livez and /readyz are served, read only and without accounts. \
              Port 0: the system chooses one and the log says which.",
    allowed: "an address and port such as \"127.0.0.1:4308\"",
    default: Some("\"127.0.0.1:4308\""),
    reload: false,
    secret: false,
    parse: value::socket_address,
};

pub(super) const KEYS: Keys = &[&LISTEN];

/// `[http]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Http {
    /// Where to listen.
    pub listen: SocketAddr,
}

pub(super) fn read(mut section: Section<'_>) -> Result<Http, Fault> {
    let http = Http { listen: section.get(&LISTEN)? };
    section.finish()?;
    Ok(http)
}
