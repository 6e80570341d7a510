//! `spillway binlog list|events|verify|find`: looking at binlog files, Spillway's or a MariaDB server's. Nothing is changed and no lock
//! is taken: a running Spillway does not notice.

mod beside;
mod events;
mod files;
mod find;
mod list;
mod progress;
mod summary;
mod verify;

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use clap::Subcommand;
use spillway_binlog::gtid::mariadb::Gtid;

use crate::exit::{Failure, Outcome};
pub(crate) use beside::beside;
use files::Target;

/// What to look at.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// One line a file: size, transactions, first and last GTID, times.
    List {
        /// A log's directory; where there are several logs in it, each.
        #[arg(value_name = "DIR")]
        dir: PathBuf,
    },
    /// One line an event: file, position, type, size, end position, GTID or summary.
    Events {
        /// A file, or a log's directory.
        #[arg(value_name = "FILE|DIR")]
        path: PathBuf,
        /// One JSON object an event.
        #[arg(long)]
        json: bool,
    },
    /// Checks checksums, positions, transactions and GTIDs; exit code 1 at the first fault, naming its position.
    Verify {
        /// A file, or a log's directory.
        #[arg(value_name = "FILE|DIR")]
        path: PathBuf,
    },
    /// Where a transaction is: file, position, GTID and time; exit code 1 when it is not there.
    #[command(group = clap::ArgGroup::new("what").required(true))]
    Find {
        /// A log's directory, or a file.
        #[arg(value_name = "DIR")]
        dir: PathBuf,
        /// The transaction with this GTID, as in 0-1-100.
        #[arg(long, group = "what")]
        gtid: Option<Gtid>,
        /// The first transaction at or after this time: RFC 3339, or "YYYY-MM-DD HH:MM:SS" in UTC.
        #[arg(long, group = "what", value_parser = find::parse_time)]
        time: Option<jiff::Timestamp>,
    },
}

impl Command {
    /// Runs it.
    ///
    /// # Errors
    /// A file cannot be read or is at fault: one sentence with its name and position.
    pub fn execute(self) -> Result<Outcome, Failure> {
        let mut out = Out(BufWriter::new(io::stdout().lock()));
        let result = match self {
            Self::List { dir } => each(&dir, &mut out, list::list),
            Self::Events { path, json } => {
                each(&path, &mut out, |target, out| events::events(target, json, out))
            }
            Self::Verify { path } => each(&path, &mut out, verify::verify),
            Self::Find { dir, gtid, time } => {
                let wanted = find::Wanted::new(gtid, time);
                Target::open(&dir).and_then(|targets| find::find(&targets, wanted, &mut out))
            }
        };
        match result.and_then(|()| out.flush()) {
            Ok(()) | Err(Stop::ReaderGone) => Ok(Outcome::Fine),
            Err(Stop::Failure(failure)) => {
                // What was said before the fault comes before it.
                let _ = out.flush();
                Err(failure)
            }
        }
    }
}

/// Runs a command over each log of a directory; where there are several, each has its name above.
fn each<W: Write>(
    path: &Path,
    out: &mut Out<W>,
    mut command: impl FnMut(&Target, &mut Out<W>) -> Result<(), Stop>,
) -> Result<(), Stop> {
    let targets = Target::open(path)?;
    for target in &targets {
        if targets.len() > 1 {
            out.line(&format!("log {}:", target.name))?;
        }
        command(target, out)?;
    }
    Ok(())
}

/// Why a command ended early.
#[derive(Debug)]
enum Stop {
    /// As `| head` does; no fault of anybody.
    ReaderGone,
    Failure(Failure),
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Self::Failure(failure)
    }
}

/// Standard output.
struct Out<W: Write>(W);

impl<W: Write> Out<W> {
    fn line(&mut self, line: &str) -> Result<(), Stop> {
        let written = self.0.write_all(line.as_bytes()).and_then(|()| self.0.write_all(b"\n"));
        written.map_err(|error| stop(&error))
    }

    fn flush(&mut self) -> Result<(), Stop> {
        self.0.flush().map_err(|error| stop(&error))
    }
}

fn stop(error: &io::Error) -> Stop {
    match error.kind() {
        io::ErrorKind::BrokenPipe => Stop::ReaderGone,
        _ => Stop::Failure(Failure::fault(format!("cannot write the output: {error}"))),
    }
}

/// Unix seconds for people.
fn time(seconds: u32) -> String {
    jiff::Timestamp::from_second(i64::from(seconds))
        .map(|time| time.to_string())
        .unwrap_or_default()
}
