//! Why a capture session ended: whose fault it is, and whether trying again helps.

use std::io;

use spillway_binlog::SubmitError;
use spillway_binlog::alignment::AlignError;
use spillway_binlog::event::EventError;
use spillway_binlog::fs::is_full;
use spillway_binlog::gtid::mariadb::Gtid;
use spillway_binlog::transaction::TransactionError;

use super::packets::PacketError;
use super::watch::Difference;
use crate::tls::TlsFault;
use crate::wire::WireError;
use crate::wire::reply::ErrPacket;

/// What to do after a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Connect again.
    Retry,
    /// Somebody has to change something first; looked at again from time to time.
    Refused,
    /// The source has another history than the log; looked at again from time to time.
    Diverged,
    /// Another replica has our server id: each of the two ends the other's dump.
    DuplicateServerId,
    /// The log's disk is full; goes on by itself once there is room.
    DiskFull,
    /// The log takes nothing more.
    Stopped,
}

/// Why a session ended.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Fault {
    #[error("cannot reach {address}: {error}")]
    Connect { address: String, error: io::Error },
    #[error("the connection was lost: {0}")]
    Lost(#[from] io::Error),
    #[error(
        "nothing arrived for {0} seconds, not even a heartbeat: the connection is taken for dead"
    )]
    Silent(u64),
    #[error("the upstream ended the dump")]
    DumpEnded,
    #[error("the dump does not send what the upstream has: {0}; connecting anew")]
    Stale(Difference),
    #[error("the upstream sent what it should not: {0}")]
    Wire(#[from] WireError),
    #[error("the upstream sent what it should not: {0}")]
    Packet(#[from] PacketError),
    #[error("the upstream sent an event that cannot be right: {0}")]
    Event(#[from] EventError),
    #[error("{0}")]
    Transaction(#[from] TransactionError),
    /// An event does not fit in what a transaction may have; of the transaction that is open, if one is.
    #[error(
        "the upstream sends an event larger than max_binlog_cache_size ({limit} bytes){}: raise it and start Spillway again",
        of(open)
    )]
    EventTooLarge { open: Option<Gtid>, limit: u64 },
    /// The disk of the cache files is full.
    #[error(
        "cannot write the cache file of transaction {gtid}: {error}: make room on the disk, recording goes on by itself"
    )]
    CacheFull { gtid: Gtid, error: io::Error },
    /// The same in a transaction that is not recorded. The next session is sent nothing of it: the upstream is asked for other domains
    /// only from where it is.
    #[error(
        "the upstream sends an event larger than max_binlog_cache_size ({limit} bytes) in transaction {gtid}, whose domain is not recorded: \
         connecting anew behind it"
    )]
    ForeignTooLarge { gtid: Gtid, limit: u64 },
    /// An ERR packet, with a sentence that says what to do where one is known.
    #[error("{advice}")]
    Server { error: ErrPacket, advice: String, verdict: Verdict },
    /// The connection cannot be encrypted as `ssl_mode` wants it.
    #[error(transparent)]
    Tls(#[from] TlsFault),
    /// Something is set so that it cannot be captured.
    #[error("{0}")]
    Refused(String),
    /// What it sends does not go on where the log ends.
    #[error("the upstream has another history than the log: {0}; {WAY_ON}")]
    Diverged(String),
    /// By ALTER SOURCE, since the session began.
    #[error("a new timeline was asked for: it begins at the next connect")]
    Anew,
    /// What an operator asked for.
    #[error("cannot note beside the log what has come of ALTER SOURCE: {0}")]
    Note(io::Error),
    #[error(transparent)]
    Align(#[from] AlignError),
    #[error(transparent)]
    Log(#[from] SubmitError),
}

/// What an operator can do about a source that diverged.
const WAY_ON: &str = "nothing more is recorded: bring back the server that has it; or, on the replica port, ALTER SOURCE name CONTINUE if this \
    one holds the same transactions in another form (a fail-over), else ALTER SOURCE name START = 'current' begins a new timeline, and replicas are rebuilt";

impl Fault {
    /// The upstream no longer has what was asked for.
    pub(crate) fn is_purged(&self) -> bool {
        matches!(self, Self::Server { error, .. } if error.code == DUMP_REFUSED && error.message.contains(PURGED))
    }

    /// The transaction that cannot be taken as long as `max_binlog_cache_size`, or the room on the disk, is what it is.
    pub(crate) fn held_up_at(&self) -> Option<Gtid> {
        match self {
            Self::EventTooLarge { open, .. } => *open,
            Self::CacheFull { gtid, .. }
            | Self::Transaction(TransactionError::TooLarge { gtid, .. }) => Some(*gtid),
            _ => None,
        }
    }

    pub(crate) fn verdict(&self) -> Verdict {
        match self {
            Self::Server { verdict, .. } => *verdict,
            Self::Refused(_)
            | Self::EventTooLarge { .. }
            | Self::Transaction(TransactionError::TooLarge { .. }) => Verdict::Refused,
            Self::CacheFull { .. } => Verdict::DiskFull,
            Self::Note(error) if is_full(error) => Verdict::DiskFull,
            Self::Note(_) => Verdict::Refused,
            Self::Tls(fault) if !fault.is_passing() => Verdict::Refused,
            Self::Align(AlignError::Transaction(TransactionError::Cache(error)))
                if is_full(error) =>
            {
                Verdict::DiskFull
            }
            Self::Align(_) => Verdict::Refused,
            Self::Diverged(_) => Verdict::Diverged,
            Self::Log(_) => Verdict::Stopped,
            _ => Verdict::Retry,
        }
    }

    /// The `reason` label of the reconnects metric: few, and never a text from outside.
    pub(crate) fn label(&self) -> &'static str {
        match self {
            Self::Connect { .. } => "connect",
            Self::Lost(_) => "lost",
            Self::Silent(_) => "silent",
            Self::DumpEnded => "dump_ended",
            Self::ForeignTooLarge { .. } => "too_large",
            Self::Anew => "new_timeline",
            Self::Stale(_) => "stale",
            Self::Wire(_) | Self::Packet(_) => "protocol",
            Self::Event(_) => "event",
            Self::Transaction(_) | Self::CacheFull { .. } => "transaction",
            Self::Server { verdict: Verdict::DuplicateServerId, .. } => "duplicate_server_id",
            Self::Server { .. } => "server_error",
            Self::Tls(_) => "tls",
            Self::Refused(_) | Self::EventTooLarge { .. } => "refused",
            Self::Diverged(_) => "diverged",
            Self::Align(_) => "align",
            Self::Note(_) | Self::Log(_) => "log",
        }
    }
}

fn of(open: &Option<Gtid>) -> String {
    open.map_or_else(String::new, |gtid| format!(" in transaction {gtid}"))
}

const ACCESS_DENIED: u16 = 1045;
/// For an account that has no password to deny, such as one of unix_socket.
const ACCESS_DENIED_NO_PASSWORD: u16 = 1698;
const HOST_BLOCKED: u16 = 1129;
const HOST_NOT_ALLOWED: u16 = 1130;
/// At the login, or at the first statement.
const PASSWORD_EXPIRED: [u16; 2] = [1862, 1820];
/// MySQL's number, and MariaDB's.
const ACCOUNT_LOCKED: [u16; 2] = [3118, 4151];
/// Too many wrong passwords: MySQL's number, and MariaDB's.
const ACCOUNT_BLOCKED: [u16; 2] = [3955, 4150];
const PLUGIN_NOT_LOADED: u16 = 1524;
const NO_PRIVILEGE: u16 = 1227;
const DUMP_REFUSED: u16 = 1236;
const TLS_REQUIRED: u16 = 3159;
const PURGED: &str = "have been purged";
const DUPLICATE_SERVER_ID: u16 = 4052;
/// How servers without that error say it in a refused dump.
const SAME_SERVER_ID: [&str; 2] =
    ["with the same server_id", "with the same server_uuid/server_id"];

/// What an ERR packet of the upstream means here; `login` says, during a login, what else its refusal may be due to. After the
/// login "access denied" is how COM_REGISTER_SLAVE answers an account without the privilege.
pub(crate) fn server(error: ErrPacket, user: &str, login: Option<&str>) -> Fault {
    let text = error.message.clone();
    if let Some(what) = account_needs(error.code, user) {
        let advice = format!("the upstream refuses the login: {text}; {what}");
        return Fault::Server { error, advice, verdict: Verdict::Refused };
    }
    let (verdict, advice) = match (error.code, login) {
        (ACCESS_DENIED | ACCESS_DENIED_NO_PASSWORD, Some(hint)) => (
            Verdict::Refused,
            format!(
                "the upstream refuses the login: {text}; check user and password of the source{hint}"
            ),
        ),
        (TLS_REQUIRED, _) => (
            Verdict::Refused,
            format!(
                "the upstream takes encrypted connections only: {text}; set ssl_mode to \"REQUIRED\" or stricter"
            ),
        ),
        (ACCESS_DENIED | NO_PRIVILEGE, _) => (
            Verdict::Refused,
            format!(
                "the account lacks a privilege: {text}; GRANT REPLICATION SLAVE, BINLOG MONITOR ON *.* TO {user}"
            ),
        ),
        (DUMP_REFUSED, _) => dump_refused(&text),
        (DUPLICATE_SERVER_ID, _) => duplicate_server_id(&text),
        (code, _) => (Verdict::Retry, format!("the upstream answered with error {code}: {text}")),
    };
    Fault::Server { error, advice, verdict }
}

/// What has to be done at the upstream about an account, or a host, that is not let in although its password may be right.
fn account_needs(code: u16, user: &str) -> Option<String> {
    Some(match code {
        HOST_BLOCKED => "clear its host cache".to_owned(),
        HOST_NOT_ALLOWED => "create an account there that may connect from this host".to_owned(),
        PLUGIN_NOT_LOADED => "give the account another authentication plugin there".to_owned(),
        code if PASSWORD_EXPIRED.contains(&code) => {
            format!("ALTER USER {user} IDENTIFIED BY '…' there, and set that password here too")
        }
        code if ACCOUNT_LOCKED.contains(&code) || ACCOUNT_BLOCKED.contains(&code) => {
            format!("ALTER USER {user} ACCOUNT UNLOCK there")
        }
        _ => return None,
    })
}

fn duplicate_server_id(text: &str) -> (Verdict, String) {
    let advice = format!(
        "another replica of the upstream has our server_id, and each ends the other's dump: {text}; give Spillway or that replica \
         a server_id of its own"
    );
    (Verdict::DuplicateServerId, advice)
}

fn dump_refused(text: &str) -> (Verdict, String) {
    if SAME_SERVER_ID.iter().any(|same| text.contains(same)) {
        return duplicate_server_id(text);
    }
    if text.contains(PURGED) {
        let advice = format!(
            "the upstream has purged what comes next in the log: {text} Begin a new timeline with ALTER SOURCE on the replica port, or move the log away and record anew"
        );
        return (Verdict::Refused, advice);
    }
    if text.contains("not in the master's binlog") || text.contains("has diverged") {
        let advice =
            format!("the upstream does not have the log's last transaction: {text}; {WAY_ON}");
        return (Verdict::Diverged, advice);
    }
    (Verdict::Retry, format!("the upstream refuses the dump: {text}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(code: u16, text: &str) -> (Verdict, String) {
        let fault = server(ErrPacket::new(code, b"HY000", text), "spillway", Some(""));
        (fault.verdict(), fault.to_string())
    }

    #[test]
    fn each_known_refusal_says_what_to_do() {
        let (kind, advice) = verdict(NO_PRIVILEGE, "Access denied; you need REPLICATION SLAVE");
        assert_eq!(kind, Verdict::Refused);
        assert!(advice.contains("GRANT REPLICATION SLAVE, BINLOG MONITOR ON *.* TO spillway"));
        assert_eq!(verdict(ACCESS_DENIED, "no").0, Verdict::Refused);
        let registering = ErrPacket::new(ACCESS_DENIED, b"28000", "Access denied for user");
        let registering = server(registering, "spillway", None);
        assert_eq!(registering.verdict(), Verdict::Refused);
        assert!(registering.to_string().contains("GRANT REPLICATION SLAVE"));
        let purged = "Could not find GTID state requested by slave in any binlog files. Probably the slave state is too old and required binlog files have been purged.";
        assert_eq!(verdict(DUMP_REFUSED, purged).0, Verdict::Refused);
        let ahead = "Error: connecting slave requested to start from GTID 0-1-999, which is not in the master's binlog";
        assert_eq!(verdict(DUMP_REFUSED, ahead).0, Verdict::Diverged);
        assert_eq!(verdict(DUMP_REFUSED, "Binary log is not open").0, Verdict::Retry);
        let same =
            "A slave with the same server_uuid/server_id as this slave has connected to the master";
        for code in [DUMP_REFUSED, DUPLICATE_SERVER_ID] {
            let (kind, advice) = verdict(code, same);
            assert_eq!(kind, Verdict::DuplicateServerId);
            assert!(advice.contains("server_id of its own"), "{advice}");
        }
        for (code, what) in [
            (1129, "clear its host cache"),
            (1130, "may connect from this host"),
            (1524, "another authentication plugin"),
            (1698, "check user and password"),
            (1820, "ALTER USER spillway IDENTIFIED BY"),
            (1862, "ALTER USER spillway IDENTIFIED BY"),
            (3118, "ALTER USER spillway ACCOUNT UNLOCK"),
            (3955, "ALTER USER spillway ACCOUNT UNLOCK"),
            (4150, "ALTER USER spillway ACCOUNT UNLOCK"),
            (4151, "ALTER USER spillway ACCOUNT UNLOCK"),
        ] {
            let (kind, advice) = verdict(code, "no");
            assert!(kind == Verdict::Refused && advice.contains(what), "{code}: {advice}");
        }
        // What passes by itself: too many connections, and more of the account than it may have in an hour.
        for code in [1040, 1203, 1226] {
            assert_eq!(verdict(code, "too many").0, Verdict::Retry);
        }
    }
}
