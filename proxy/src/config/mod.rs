//! The configuration file: one struct and one file a section, one constant a key.
//!
//! A key is one unit, see `key.rs`: its meaning, default, bounds and whether a reload applies it stand in one constant, from
//! which values are read, faults are worded and docs/CONFIG.md is written.

mod binlog;
mod docs;
mod fault;
mod foreign;
mod http;
mod key;
mod log;
mod password;
mod replicas;
mod section;
mod source;
mod sources;
mod unavailable;
mod value;

use std::net::SocketAddr;
use std::path::Path;

use toml::de::DeTable;

pub use binlog::{Binlog, Checksum};
pub use docs::render as render_docs;
pub use fault::ConfigError;
pub use http::Http;
pub use log::{Log, LogFormat, LogLevel};
pub use password::{Password, Secret};
pub use replicas::Replicas;
pub use source::{Capture, Source};

use fault::Fault;
use key::{Described, Key};
use section::Section;

/// Where the file is looked for when neither `-c` nor `SPILLWAY_CONFIG` names one.
pub const DEFAULT_PATH: &str = "/etc/spillway/spillway.toml";

const SERVER_ID: Key<u32> = Key {
    name: "server_id",
    meaning: "Spillway's id towards upstream and replicas: unique among all of them.",
    allowed: "a number from 1 to 4294967295",
    default: None,
    reload: false,
    secret: false,
    parse: |value| value::integer(value, 1..=u32::MAX),
};

const KEYS: &[&dyn Described] = &[&SERVER_ID];

/// The whole file, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// `server_id`.
    pub server_id: u32,
    /// Every `[[source]]`, at least one.
    pub sources: Vec<Source>,
    /// `[binlog]`.
    pub binlog: Binlog,
    /// `[replicas]`.
    pub replicas: Replicas,
    /// `[http]`.
    pub http: Http,
    /// `[log]`.
    pub log: Log,
}

impl Config {
    /// Reads and checks a file.
    ///
    /// # Errors
    /// The file cannot be read, is no TOML, or says something Spillway refuses: one sentence that names what and where.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| ConfigError::Unreadable { path: path.to_owned(), source })?;
        Self::parse(&text, path)
    }

    /// Checks the text of a file; `path` only names it in errors.
    ///
    /// # Errors
    /// As [`Config::load`].
    pub fn parse(text: &str, path: &Path) -> Result<Self, ConfigError> {
        read(text).map_err(|fault| fault.locate(text, path))
    }

    /// The addresses this configuration listens on, each with the key that asks for it.
    fn listeners(&self) -> Vec<(String, SocketAddr)> {
        let alone = self.sources.len() == 1;
        let relays = self.sources.iter().filter_map(|source| {
            let of = if alone { String::new() } else { format!(" of {}", source.name) };
            Some((format!("`source.listen`{of}"), source.listen?))
        });
        let others =
            [("`replicas.listen`", self.replicas.listen), ("`http.listen`", self.http.listen)];
        relays.chain(others.map(|(key, address)| (key.to_owned(), address))).collect()
    }

    /// What holds between sections.
    fn check(self) -> Result<Self, Fault> {
        let listeners = self.listeners();
        for (index, (key, address)) in listeners.iter().enumerate() {
            let twin = listeners.iter().take(index).find(|(_, other)| other == address);
            if let Some((other, _)) = twin.filter(|_| address.port() != 0) {
                return Err(Fault::new(format!(
                    "{key} and {other} are both {address}: give each its own port"
                )));
            }
        }
        Ok(self)
    }
}

fn read(text: &str) -> Result<Config, Fault> {
    let table = DeTable::parse(text).map_err(|error| Fault::from_syntax(&error))?;
    let mut root = Section::root(text, KEYS, table.into_inner());
    let sources = root.tables("source", source::KEYS)?;
    let mut replicas = root.table("replicas", replicas::KEYS)?;
    let users = replicas.tables("replicas.user", replicas::USER_KEYS)?;
    let relay = root.table("relay", unavailable::RELAY_KEYS)?;
    let binlog = root.table("binlog", binlog::KEYS)?;
    let http = root.table("http", http::KEYS)?;
    let log = root.table("log", log::KEYS)?;
    let server_id = root.optional(&SERVER_ID)?;
    // Unknown names first: a misspelt section must not show up as "missing".
    root.refuse_rest()?;
    relay.finish()?;
    let config = Config {
        server_id: server_id.map_or_else(|| root.get(&SERVER_ID), Ok)?,
        sources: sources::read(sources)?,
        binlog: binlog::read(binlog)?,
        replicas: replicas::read(replicas, users)?,
        http: http::read(http)?,
        log: log::read(log)?,
    };
    config.check()
}

#[cfg(test)]
mod tests;
