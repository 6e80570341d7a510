//! How a command ends: exit codes 0 fine, 1 the thing asked about is at fault, 2 wrong usage or configuration.

use std::fmt::Display;
use std::process::ExitCode;

/// What a command found out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All is well.
    Fine,
    /// The thing asked about is at fault, and the command has said how.
    Fault,
}

/// A command that could not do its work, or refused to.
#[derive(Debug)]
pub struct Failure {
    code: u8,
    sentence: String,
}

impl Failure {
    /// The thing asked about is at fault.
    pub fn fault(sentence: impl Display) -> Self {
        Self { code: 1, sentence: sentence.to_string() }
    }

    /// Wrong usage or configuration.
    pub fn usage(sentence: impl Display) -> Self {
        Self { code: 2, sentence: sentence.to_string() }
    }

    /// The sentence for standard error.
    pub fn sentence(&self) -> &str {
        &self.sentence
    }
}

/// The process's exit code; a failure's sentence goes to standard error.
pub fn code(result: Result<Outcome, Failure>) -> ExitCode {
    match result {
        Ok(Outcome::Fine) => ExitCode::SUCCESS,
        Ok(Outcome::Fault) => ExitCode::from(1),
        Err(Failure { code, sentence }) => {
            eprintln!("spillway: {sentence}");
            ExitCode::from(code)
        }
    }
}
