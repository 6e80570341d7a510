//! Spillway's own log: lines or JSON on standard error, the level changeable while it runs.

use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{Layer as _, Registry, fmt, reload};

use crate::config::{Log, LogFormat, LogLevel};
use crate::exit::Failure;

/// Changes the level while Spillway runs.
#[derive(Clone, Debug)]
pub struct LevelHandle(reload::Handle<Targets, Registry>);

/// Sends the log to standard error.
///
/// # Errors
/// The process logs already.
pub fn start(log: Log) -> Result<LevelHandle, Failure> {
    let (filter, handle) = reload::Layer::new(targets(log.level));
    let layer = fmt::layer().with_writer(std::io::stderr).with_ansi(false);
    let layer = match log.format {
        LogFormat::Text => layer.with_target(false).boxed(),
        LogFormat::Json => layer.json().flatten_event(true).boxed(),
    };
    tracing_subscriber::registry()
        .with(layer.with_filter(filter))
        .try_init()
        .map_err(Failure::fault)?;
    Ok(LevelHandle(handle))
}

impl LevelHandle {
    /// Sets the level from now on.
    pub fn set(&self, level: LogLevel) {
        if let Err(error) = self.0.reload(targets(level)) {
            tracing::error!(%error, "the log level cannot be changed");
        }
    }
}

/// The level is for Spillway; libraries speak up only when something is wrong.
fn targets(level: LogLevel) -> Targets {
    let level = match level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    };
    Targets::new().with_default(level.min(LevelFilter::WARN)).with_target("spillway", level)
}
