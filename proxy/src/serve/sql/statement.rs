//! The statements this port understands, as data.

/// One statement.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Statement {
    /// `SELECT` without a table: one row, unless its LIMIT says none.
    Select {
        items: Vec<SelectItem>,
        one_row: bool,
    },
    /// `SET …`, in the order written.
    Set(Vec<Assignment>),
    Show(Show),
    /// `KILL [CONNECTION | QUERY] id`.
    Kill {
        id: u64,
        query_only: bool,
    },
    /// `PURGE {BINARY | MASTER} LOGS …`
    Purge(PurgeUpTo),
    /// `FLUSH [BINARY] LOGS`.
    FlushLogs,
    /// RESET MASTER.
    ResetLog,
    /// `ALTER SOURCE name START = 'position'`: a new timeline.
    AlterSource {
        name: String,
        start: String,
    },
    /// `ALTER SOURCE name CONTINUE`: the source holds the log's last transaction in another form.
    ContinueSource {
        name: String,
    },
    Use(String),
    /// BEGIN, START TRANSACTION, COMMIT, ROLLBACK: there is nothing they could change here.
    Transaction,
}

/// Where a PURGE stops.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum PurgeUpTo {
    /// `TO 'file'`, which stays.
    File(String),
    /// `BEFORE …`
    Moment(Moment),
}

/// A time: `from`, less so many seconds.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Moment {
    pub from: Expression,
    pub before: u64,
}

/// One column of a SELECT.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SelectItem {
    pub expression: Expression,
    /// The alias, else the expression as the client wrote it.
    pub name: String,
}

/// A value to compute.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Expression {
    Null,
    Integer(i64),
    Text(String),
    /// A bare word where SET allows one: ON, OFF, DEFAULT, a character set.
    Word(String),
    UserVariable(String),
    SystemVariable(SystemName),
    Call {
        function: String,
        arguments: Vec<Expression>,
    },
}

/// `@@[GLOBAL. | SESSION. | LOCAL.]name`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SystemName {
    pub global: bool,
    /// In lower case.
    pub name: String,
}

/// One part of a SET.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Assignment {
    User {
        name: String,
        value: Expression,
    },
    System {
        variable: SystemName,
        value: Expression,
    },
    /// SET NAMES, SET CHARACTER SET.
    Names(String),
    /// SET TRANSACTION …
    Transaction,
}

/// What a SHOW asks for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Show {
    Variables(Filter),
    Status(Filter),
    MasterStatus,
    BinaryLogs,
    ReplicaHosts,
    BinlogEvents(EventRange),
    /// SHOW WARNINGS, SHOW ERRORS.
    Warnings,
    /// SHOW COUNT(*) WARNINGS, SHOW COUNT(*) ERRORS, with the column's name.
    WarningCount(&'static str),
    ProcessList,
    Grants,
    Databases(Filter),
    Tables,
}

/// `[IN 'file'] [FROM position] [LIMIT [skip,] rows]`.
#[derive(Debug, Default, PartialEq, Eq)]
pub(in crate::serve) struct EventRange {
    pub file: Option<String>,
    pub from: Option<u64>,
    pub skip: u64,
    pub rows: Option<u64>,
}

/// `LIKE 'pattern'`, or a WHERE on the name column.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Filter {
    All,
    /// Any of these patterns; a plain comparison is a pattern without wild cards.
    AnyOf(Vec<Pattern>),
}

/// A name to compare with, without regard to case.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Pattern {
    Exact(String),
    Like(String),
}

impl Filter {
    /// Whether a name passes.
    pub fn accepts(&self, name: &str) -> bool {
        match self {
            Self::All => true,
            Self::AnyOf(patterns) => patterns.iter().any(|pattern| pattern.accepts(name)),
        }
    }
}

impl Pattern {
    fn accepts(&self, name: &str) -> bool {
        match self {
            Self::Exact(wanted) => wanted.eq_ignore_ascii_case(name),
            Self::Like(pattern) => {
                let pattern: Vec<char> = pattern.to_lowercase().chars().collect();
                let name: Vec<char> = name.to_lowercase().chars().collect();
                like(&pattern, &name)
            }
        }
    }
}

/// SQL's LIKE with `%`, `_` and `\`. Walks back to the last `%` only, so that the time is bounded by pattern × name.
fn like(pattern: &[char], name: &[char]) -> bool {
    let (mut p, mut n) = (0, 0);
    let mut retry: Option<(usize, usize)> = None;
    while n < name.len() {
        let (wanted, width) = match (pattern.get(p), pattern.get(p + 1)) {
            (Some('\\'), Some(literal)) => (Some(*literal), 2),
            (Some('%'), _) => {
                retry = Some((p + 1, n));
                p += 1;
                continue;
            }
            (Some('_'), _) => (name.get(n).copied(), 1),
            (other, _) => (other.copied(), 1),
        };
        if wanted.is_some() && wanted == name.get(n).copied() {
            p += width;
            n += 1;
        } else if let Some((after_percent, from)) = retry {
            retry = Some((after_percent, from + 1));
            (p, n) = (after_percent, from + 1);
        } else {
            return false;
        }
    }
    pattern.get(p..).unwrap_or_default().iter().all(|rest| *rest == '%')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn like_follows_sql() {
        let accepts = |pattern: &str, name: &str| Pattern::Like(pattern.to_owned()).accepts(name);
        assert!(accepts("SERVER_ID", "server_id"));
        assert!(accepts("server%", "server_id"));
        assert!(accepts("%i_", "server_id"));
        assert!(accepts("%", ""));
        assert!(accepts("a%b%c", "axxbyybzc"));
        assert!(accepts("server\\_id", "server_id"));
        assert!(!accepts("server\\_id", "serverxid"));
        assert!(!accepts("server", "server_id"));
        assert!(!accepts("a%b%c", "axxbyyb"));
        assert!(!accepts("", "x"));
    }
}
