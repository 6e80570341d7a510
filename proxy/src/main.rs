//! The `spillway` binary: parses the command line, hands over, answers with an exit code.

use std::process::ExitCode;

use clap::Parser;
use spillway::cli::Cli;
use spillway::exit;

fn main() -> ExitCode {
    exit::code(Cli::parse().execute())
}
