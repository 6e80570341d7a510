//! `[log]`: what Spillway says about itself, on standard error.

use super::fault::Fault;
use super::key::Key;
use super::section::{Keys, Section};
use super::value;

const LEVEL: Key<LogLevel> = Key {
    name: "level",
    meaning: "The least important messages shown.",
    allowed: "\"error\", \"warn\", \"info\", \"debug\" or \"trace\"",
    default: Some("\"info\""),
    reload: true,
    secret: false,
    parse: |value| {
        let levels = [
            ("error", LogLevel::Error),
            ("warn", LogLevel::Warn),
            ("info", LogLevel::Info),
            ("debug", LogLevel::Debug),
            ("trace", LogLevel::Trace),
        ];
        value::one_of(value, &levels)
    },
};

const FORMAT: Key<LogFormat> = Key {
    name: "format",
    meaning: "One line of text a message, or one JSON object.",
    allowed: "\"text\" or \"json\"",
    default: Some("\"text\""),
    reload: false,
    secret: false,
    parse: |value| value::one_of(value, &[("text", LogFormat::Text), ("json", LogFormat::Json)]),
};

pub(super) const KEYS: Keys = &[&LEVEL, &FORMAT];

/// `[log]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Log {
    /// The least important messages shown.
    pub level: LogLevel,
    /// How a message is written.
    pub format: LogFormat,
}

/// How important a message must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogLevel {
    /// Something is broken.
    Error,
    /// Something needs a look.
    Warn,
    /// What an operator wants to read afterwards.
    Info,
    /// What a developer wants to read.
    Debug,
    /// Everything.
    Trace,
}

/// How a message is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// A line of text.
    Text,
    /// A JSON object.
    Json,
}

pub(super) fn read(mut section: Section<'_>) -> Result<Log, Fault> {
    let log = Log { level: section.get(&LEVEL)?, format: section.get(&FORMAT)? };
    section.finish()?;
    Ok(log)
}
