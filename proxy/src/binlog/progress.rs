//! How far a long command is: one line on standard error that is written over, where that is a terminal; elsewhere nothing.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

const EVERY: Duration = Duration::from_millis(200);

/// Bytes done of all.
#[derive(Debug)]
pub(super) struct Progress {
    shown: bool,
    total: u64,
    before: u64,
    last: Instant,
    written: bool,
}

impl Progress {
    pub(super) fn new(total: u64) -> Self {
        let shown = std::io::stderr().is_terminal();
        Self { shown, total, before: 0, last: Instant::now(), written: false }
    }

    /// Whether somebody looks on.
    pub(super) fn is_shown(&self) -> bool {
        self.shown
    }

    /// At a position of a file.
    pub(super) fn at(&mut self, file: &str, position: u64) {
        if !self.shown || self.last.elapsed() < EVERY {
            return;
        }
        self.last = Instant::now();
        self.written = true;
        eprint!("\r\x1b[K{}", line(file, self.before + position, self.total));
        // What cannot be shown is not missed.
        let _ = std::io::stderr().flush();
    }

    /// A file is done: the line makes room for what is said of it.
    pub(super) fn file_done(&mut self, bytes: u64) {
        self.before += bytes;
        self.clear();
    }

    fn clear(&mut self) {
        if std::mem::take(&mut self.written) {
            eprint!("\r\x1b[K");
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}

fn line(file: &str, done: u64, total: u64) -> String {
    let percent = u128::from(done) * 100 / u128::from(total.max(1));
    format!("{file}: {percent} %, {} of {} MiB", done >> 20, total >> 20)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_how_much_of_all_is_done() {
        assert_eq!(line("a.1", 3 << 20, 12 << 20), "a.1: 25 %, 3 of 12 MiB");
        assert_eq!(line("a.1", 0, 0), "a.1: 0 %, 0 of 0 MiB");
    }
}
