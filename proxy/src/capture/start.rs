//! Where recording begins when the log is empty.

use std::fmt;
use std::str::FromStr;

use spillway_binlog::gtid::mariadb::{self, Gtid};

/// `start` of a `[[source]]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StartPosition {
    /// With the first file the upstream still has.
    Oldest,
    /// With the next transaction.
    Current,
    /// Behind this position, one GTID a domain.
    Gtid(Vec<Gtid>),
}

impl fmt::Display for StartPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Oldest => f.write_str("oldest"),
            Self::Current => f.write_str("current"),
            Self::Gtid(list) => f.write_str(&mariadb::print_list(list)),
        }
    }
}

/// The text is no start position.
#[derive(Debug, thiserror::Error)]
#[error(
    "`{0}` is no start position: write \"oldest\", \"current\" or a GTID position as in \"0-1-100,1-2-7\""
)]
pub struct ParseStartError(String);

impl FromStr for StartPosition {
    type Err = ParseStartError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "oldest" => Ok(Self::Oldest),
            "current" => Ok(Self::Current),
            _ => match mariadb::parse_list(text) {
                Ok(list) if !list.is_empty() => Ok(Self::Gtid(list)),
                _ => Err(ParseStartError(text.to_owned())),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_the_three_kinds_and_nothing_else() {
        assert_eq!("oldest".parse::<StartPosition>().unwrap(), StartPosition::Oldest);
        assert_eq!("current".parse::<StartPosition>().unwrap(), StartPosition::Current);
        let list = vec!["0-1-5".parse().unwrap(), "1-1-2".parse().unwrap()];
        assert_eq!("0-1-5,1-1-2".parse::<StartPosition>().unwrap(), StartPosition::Gtid(list));
        for text in ["", "newest", "5", "0-1"] {
            assert!(text.parse::<StartPosition>().is_err(), "{text}");
        }
    }
}
