//! What the operating system asks for: SIGHUP reloads, SIGTERM and SIGINT stop.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// What a signal wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// Read the configuration again.
    Reload,
    /// Drain and end.
    Stop,
}

/// The signals of the process, queued from the moment this exists.
#[derive(Debug)]
pub struct Signals {
    hangup: Signal,
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// Takes over the signals.
    ///
    /// # Errors
    /// The system said no.
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            hangup: signal(SignalKind::hangup())?,
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    /// The next one.
    pub async fn next(&mut self) -> Wanted {
        tokio::select! {
            _ = self.terminate.recv() => Wanted::Stop,
            _ = self.interrupt.recv() => Wanted::Stop,
            _ = self.hangup.recv() => Wanted::Reload,
        }
    }
}
