//! The command line: what clap parses, and which command answers it.

use std::path::PathBuf;

use clap::{Parser, Subcommand};

use crate::config::{Config, DEFAULT_PATH};
use crate::exit::{Failure, Outcome};
use crate::{binlog, check, demo, run, status};

/// A replication proxy for MySQL and MariaDB.
#[derive(Debug, Parser)]
#[command(name = "spillway", version, arg_required_else_help = true)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the proxy: relay, record and serve. SIGHUP reloads, SIGTERM drains.
    Run(ConfigFile),
    /// Check the configuration, then probe the upstream: one line a finding, exit code 1 on a fault.
    Check(ConfigFile),
    /// Try it: a private primary, Spillway and a private replica, from the installed MariaDB.
    Demo {
        /// Check that primary and replica are equal, then end with 0 or 1.
        #[arg(long)]
        once: bool,
        /// Where to keep the servers' data; left out: a temporary directory, removed at the end.
        #[arg(long, value_name = "DIR")]
        dir: Option<PathBuf>,
    },
    /// Look at binlog files.
    #[command(subcommand)]
    Binlog(binlog::Command),
    /// Show what a running Spillway is doing; exit code 1 when something needs a person.
    Status {
        /// Its HTTP address.
        #[arg(long, default_value = "http://127.0.0.1:4308")]
        url: String,
        /// Print the JSON document as it is.
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, clap::Args)]
struct ConfigFile {
    /// The configuration file.
    #[arg(short = 'c', long = "config", value_name = "FILE", env = "SPILLWAY_CONFIG", default_value = DEFAULT_PATH)]
    path: PathBuf,
}

impl ConfigFile {
    fn load(&self) -> Result<Config, Failure> {
        Config::load(&self.path).map_err(Failure::usage)
    }
}

impl Cli {
    /// Runs the command.
    ///
    /// # Errors
    /// One sentence for standard error, with the exit code: 1 the thing asked about is at fault, 2 wrong usage.
    pub fn execute(self) -> Result<Outcome, Failure> {
        match self.command {
            Command::Run(file) => run::run(&file.path, file.load()?),
            Command::Check(file) => check::check(&file.load()?),
            Command::Demo { once, dir } => demo::demo(once, dir),
            Command::Binlog(command) => command.execute(),
            Command::Status { url, json } => status::command::show(&url, json),
        }
    }
}
