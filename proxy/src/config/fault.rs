//! What is wrong with a configuration file, and where.

use std::ops::Range;
use std::path::{Path, PathBuf};

/// A configuration file Spillway cannot use. One sentence; for the command line this is exit code 2.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read the configuration file {}: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The file was read and is refused.
    #[error("{}{}: {sentence}", path.display(), line.map(|n| format!(" line {n}")).unwrap_or_default())]
    Refused {
        /// The file.
        path: PathBuf,
        /// The line, where one can be named.
        line: Option<usize>,
        /// What is wrong and what is allowed.
        sentence: String,
    },
}

/// A refusal before the file's name and the line are known.
#[derive(Debug)]
pub(super) struct Fault {
    offset: Option<usize>,
    sentence: String,
}

impl Fault {
    /// A fault of the file as a whole.
    pub(super) fn new(sentence: String) -> Self {
        Self { offset: None, sentence }
    }

    /// A fault at a byte offset of the text.
    pub(super) fn at(offset: Option<usize>, sentence: String) -> Self {
        Self { offset, sentence }
    }

    /// The text is no TOML.
    pub(super) fn from_syntax(error: &toml::de::Error) -> Self {
        let offset = error.span().map(|Range { start, .. }| start);
        let message = error.message().trim().replace('\n', ", ");
        Self { offset, sentence: format!("this is not TOML: {message}") }
    }

    /// Adds the file's name and turns the offset into a line.
    pub(super) fn locate(self, text: &str, path: &Path) -> ConfigError {
        let line = self
            .offset
            .map(|offset| text.bytes().take(offset).filter(|byte| *byte == b'\n').count() + 1);
        ConfigError::Refused { path: path.to_owned(), line, sentence: self.sentence }
    }
}
