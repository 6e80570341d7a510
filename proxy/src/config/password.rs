//! Passwords and where they come from. None is ever shown.

use std::fmt;
use std::io;
use std::path::PathBuf;

use toml::de::DeValue;

/// A secret text that `Debug` does not show.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a secret.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The secret itself.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("\"…\"")
    }
}

/// Where a password comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Password {
    /// Written in the file, or taken from the environment when the file was read.
    Given(Secret),
    /// `password_file`: read at every use, so that it can change while Spillway runs.
    File(PathBuf),
}

impl Password {
    /// The password now; of a file, its first line.
    ///
    /// # Errors
    /// The file cannot be read: the error names it.
    pub fn read(&self) -> io::Result<Secret> {
        match self {
            Self::Given(secret) => Ok(secret.clone()),
            Self::File(path) => {
                let text = std::fs::read_to_string(path).map_err(|error| {
                    let message = format!("cannot read password_file {}: {error}", path.display());
                    io::Error::new(error.kind(), message)
                })?;
                Ok(Secret::new(text.lines().next().unwrap_or_default()))
            }
        }
    }
}

/// `password` as the file has it: the text, or `${NAME}`.
#[derive(Clone)]
pub(super) enum Written {
    Text(Secret),
    Environment(String),
}

impl Written {
    /// Reads the value of a `password` key.
    pub(super) fn parse(value: &DeValue<'_>) -> Option<Self> {
        let text = value.as_str()?;
        let name = text.strip_prefix("${").and_then(|rest| rest.strip_suffix('}'));
        Some(match name.filter(|name| is_variable(name)) {
            Some(name) => Self::Environment(name.to_owned()),
            None => Self::Text(Secret::new(text)),
        })
    }

    /// The password, from the environment if need be; the error is the name of a variable that is not set.
    pub(super) fn resolve(self) -> Result<Secret, String> {
        match self {
            Self::Text(secret) => Ok(secret),
            Self::Environment(name) => std::env::var(&name).map(Secret::new).map_err(|_| name),
        }
    }
}

fn is_variable(name: &str) -> bool {
    let mut bytes = name.bytes();
    bytes.next().is_some_and(|first| first.is_ascii_alphabetic() || first == b'_')
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_hides_a_secret() {
        assert_eq!(format!("{:?}", Password::Given(Secret::new("geheim"))), "Given(\"…\")");
    }

    #[test]
    fn a_password_file_is_read_again_each_time_and_gives_its_first_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("password");
        let password = Password::File(path.clone());
        assert!(password.read().unwrap_err().to_string().contains("password_file"));
        std::fs::write(&path, "one\r\nrest\n").unwrap();
        assert_eq!(password.read().unwrap().expose(), "one");
        std::fs::write(&path, "two").unwrap();
        assert_eq!(password.read().unwrap().expose(), "two");
    }
}
