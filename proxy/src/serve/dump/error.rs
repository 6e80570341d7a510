//! Why a dump cannot start or go on, in MariaDB's codes and words: replicas and people know them.

use spillway_binlog::gtid::mariadb::Gtid;
use spillway_binlog::reader::ReadError;
use spillway_binlog::transaction::group::GroupError;

use crate::wire::reply::ErrPacket;

/// `ER_MASTER_FATAL_ERROR_READING_BINLOG`: the replica stops and does not try again.
const FATAL: u16 = 1236;
/// `ER_SLAVE_SAME_ID`.
const SAME_ID: u16 = 4052;
/// `ER_UNKNOWN_ERROR`.
const UNKNOWN: u16 = 1105;

/// See the module's description.
#[derive(Debug, thiserror::Error)]
pub(super) enum DumpError {
    #[error("{0}")]
    Malformed(&'static str),
    #[error("Could not find first log file name in binary log index file")]
    NoSuchFile,
    #[error(
        "Client requested master to start replication from impossible position; the first event '{file}' at {position}, \
         the last event read from '{file}' at 4, the last byte read from '{file}' at 4."
    )]
    ImpossiblePosition { file: String, position: u64 },
    #[error(
        "log event entry exceeded max_allowed_packet; Increase max_allowed_packet on master{0}"
    )]
    InsideEvent(Box<Coordinates>),
    #[error(
        "Error: connecting slave requested to start from GTID {0}, which is not in the master's binlog"
    )]
    Ahead(Gtid),
    #[error(
        "Error: connecting slave requested to start from GTID {0}, which is not in the master's binlog. Since the master's \
         binlog contains GTIDs with higher sequence numbers, it probably means that the slave has diverged due to \
         executing extra erroneous transactions"
    )]
    Diverged(Gtid),
    #[error(
        "Could not find GTID state requested by slave in any binlog files. Probably the slave state is too old and required \
         binlog files have been purged."
    )]
    Purged,
    #[error(
        "The binlog on the master is missing the GTID {0} requested by the slave (even though both a prior and a subsequent \
         sequence number does exist), and GTID strict mode is enabled"
    )]
    Hole(Gtid),
    #[error(
        "Slave can not handle replication events with the checksum that master is configured to log{0}"
    )]
    ChecksumUnaware(Box<Coordinates>),
    #[error("A slave with the same server_id as this slave has connected to the master{0}")]
    SameServerId(Box<Coordinates>),
    #[error("{error}{coordinates}")]
    Read { error: Box<ReadError>, coordinates: Box<Coordinates> },
    #[error("{error}{coordinates}")]
    Group { error: Box<GroupError>, coordinates: Box<Coordinates> },
    #[error("Failed to find format descriptor event in start of binlog: {0}")]
    NoFormatDescription(String),
    #[error("Failed to replace an event that the client does not know: too small event{0}")]
    TooSmall(Box<Coordinates>),
}

/// Where the client started and where reading stands; MariaDB ends its messages with it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Coordinates {
    pub first_file: String,
    pub first_position: u64,
    pub file: String,
    /// Where the last event read starts.
    pub event: u64,
    /// Behind the last byte read.
    pub byte: u64,
}

impl std::fmt::Display for Coordinates {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { first_file, first_position, file, event, byte } = self;
        write!(
            f,
            "; the first event '{first_file}' at {first_position}, the last event read from '{file}' at {event}, \
             the last byte read from '{file}' at {byte}."
        )
    }
}

impl DumpError {
    /// Whether the log lacks what the replica has.
    pub fn is_ahead(&self) -> bool {
        matches!(self, Self::Ahead(_) | Self::Diverged(_))
    }

    /// The name in the metric.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Malformed(_) => "malformed_request",
            Self::NoSuchFile => "no_such_file",
            Self::ImpossiblePosition { .. } | Self::InsideEvent(_) => "impossible_position",
            Self::Ahead(_) | Self::Diverged(_) => "ahead",
            Self::Purged => "purged",
            Self::Hole(_) => "hole",
            Self::ChecksumUnaware(_) => "checksum_unaware",
            Self::SameServerId(_) => "same_server_id",
            Self::Read { .. } => "read",
            Self::Group { .. } | Self::NoFormatDescription(_) | Self::TooSmall(_) => "corrupt",
        }
    }

    /// The payload of the ERR packet that takes an event's place.
    pub fn to_payload(&self) -> Vec<u8> {
        let code = match self {
            Self::Malformed(_) => UNKNOWN,
            Self::SameServerId(_) => SAME_ID,
            _ => FATAL,
        };
        // MariaDB keeps 512 bytes of a message.
        let message: String = self.to_string().chars().take(500).collect();
        ErrPacket::new(code, b"HY000", message).encode()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_mariadbs() {
        let position =
            DumpError::ImpossiblePosition { file: "mbin.000003".into(), position: 999_999 };
        assert_eq!(
            position.to_string(),
            "Client requested master to start replication from impossible position; the first event 'mbin.000003' at \
             999999, the last event read from 'mbin.000003' at 4, the last byte read from 'mbin.000003' at 4."
        );
        let ahead = DumpError::Ahead("0-1-999".parse().unwrap()).to_payload();
        assert_eq!(&ahead[..9], b"\xff\xd4\x04#HY000");
        let coordinates = Coordinates {
            first_file: "a.1".into(),
            first_position: 4,
            file: "a.2".into(),
            event: 7,
            byte: 9,
        };
        let same = DumpError::SameServerId(Box::new(coordinates));
        assert_eq!(same.to_payload()[1..3], 4052_u16.to_le_bytes());
        assert!(same.to_string().ends_with(
            "; the first event 'a.1' at 4, the last event read from 'a.2' at 7, the last byte read from 'a.2' at 9."
        ));
    }
}
