//! `[binlog]`: the log's directory, files and durability.

use std::path::PathBuf;
use std::time::Duration;

use spillway_binlog::CommitLevel;

use super::fault::Fault;
use super::key::Key;
use super::section::{Keys, Section};
use super::value;

const DIR: Key<PathBuf> = Key {
    name: "dir",
    meaning: "The directory of the log; made if it is missing. One process at a time may use it.",
    allowed: "a path",
    default: Some("\"spillway-data\""),
    reload: false,
    secret: false,
    parse: |value| value::text(value).map(PathBuf::from),
};

const LOG_BIN: Key<String> = Key {
    name: "log_bin",
    meaning: "The base name of the files: `binlog` makes `binlog.000001` … and `binlog.index`. Another name begins another log, beside the old one.",
    allowed: "a file name of 1 to 200 letters, digits, `_` and `-`",
    default: Some("\"binlog\""),
    reload: false,
    secret: false,
    parse: |value| value::text(value).filter(|name| is_base_name(name)),
};

const BINLOG_ROW_EVENT_MAX_SIZE: Key<u64> = Key {
    name: "binlog_row_event_max_size",
    meaning: "Rows events are repacked, row by row, up to this size, whatever the upstream's own setting. \
              A single row that is larger stays alone.",
    allowed: "a size from 256 (bytes) to \"1GiB\"",
    default: Some("\"64KiB\""),
    reload: false,
    secret: false,
    parse: |value| value::size(value, 256..=1 << 30),
};

const MAX_BINLOG_CACHE_SIZE: Key<u64> = Key {
    name: "max_binlog_cache_size",
    meaning: "The largest transaction recorded; capture stops with an error at a larger one. Left out: no limit.",
    allowed: "a size of at least \"4KiB\"",
    default: None,
    reload: false,
    secret: false,
    parse: |value| value::size(value, 4096..=u64::MAX),
};

const MAX_BINLOG_SIZE: Key<u64> = Key {
    name: "max_binlog_size",
    meaning: "A file that has reached this size is followed by the next. A transaction is never split, so a file \
              can be larger.",
    allowed: "a size from \"4KiB\" to \"1GiB\"",
    default: Some("\"1GiB\""),
    reload: false,
    secret: false,
    parse: |value| value::size(value, 4096..=1 << 30),
};

const BINLOG_CHECKSUM: Key<Checksum> = Key {
    name: "binlog_checksum",
    meaning: "The checksum at the end of each event written. Without one, damage inside an event cannot be noticed.",
    allowed: "\"CRC32\" or \"NONE\"",
    default: Some("\"CRC32\""),
    reload: false,
    secret: false,
    parse: |value| value::one_of(value, &[("CRC32", Checksum::Crc32), ("NONE", Checksum::None)]),
};

const FLUSH_LOG_AT_TRX_COMMIT: Key<CommitLevel> = Key {
    name: "flush_log_at_trx_commit",
    meaning: "Durability level, as the engines have it. 1: each group of commits is written and synced before readers see it. 2: \
              written at once, synced once a second. 0: written at once while a reader waits, else once a second; \
              synced once a second. What a crash takes at 2 and 0 is fetched again from the upstream.",
    allowed: "1, 2 or 0",
    default: Some("1"),
    reload: false,
    secret: false,
    parse: |value| match value::integer(value, 0..=2)? {
        0_u8 => Some(CommitLevel::Zero),
        1 => Some(CommitLevel::One),
        _ => Some(CommitLevel::Two),
    },
};

const BINLOG_MMAP: Key<bool> = Key {
    name: "binlog_mmap",
    meaning: "Read the log's files through memory maps; false reads them into buffers.",
    allowed: "true or false",
    default: Some("true"),
    reload: false,
    secret: false,
    parse: value::boolean,
};

const BINLOG_CACHE_SIZE: Key<u64> = Key {
    name: "binlog_cache_size",
    meaning: "Memory per open transaction; beyond it the transaction's cache is a file in `#binlog_cache_files`.",
    allowed: "a size from \"4KiB\" to \"1GiB\"",
    default: Some("\"1MiB\""),
    reload: false,
    secret: false,
    parse: |value| value::size(value, 4096..=1 << 30),
};

const BINLOG_LARGE_COMMIT_THRESHOLD: Key<u64> = Key {
    name: "binlog_large_commit_threshold",
    meaning: "A transaction of at least this size whose cache is a file is committed by a rename: its cache file becomes the next \
              log file.",
    allowed: "a size of at least \"10MiB\"",
    default: Some("\"16MiB\""),
    reload: false,
    secret: false,
    parse: |value| value::size(value, (10 << 20)..=u64::MAX),
};

const BINLOG_EXPIRE_LOGS_SECONDS: Key<Option<Duration>> = Key {
    name: "binlog_expire_logs_seconds",
    meaning: "Files that were closed longer ago than this are removed, once no connected reader needs them. 0 keeps them. The default \
              is 30 days.",
    allowed: "a number of seconds from 0 to 4294967295",
    default: Some("2592000"),
    reload: true,
    secret: false,
    parse: |value| {
        let seconds = value::integer(value, 0..=u32::MAX)?;
        Some(Some(Duration::from_secs(seconds.into())).filter(|age| !age.is_zero()))
    },
};

const MAX_BINLOG_TOTAL_SIZE: Key<u64> = Key {
    name: "max_binlog_total_size",
    meaning: "While all files together are larger, the oldest is removed, but for the one being written. The limit is hard: a replica \
              that still reads a file which has to go is disconnected with error 1236 (purged). Left out: no limit.",
    allowed: "a size of at least \"4KiB\"",
    default: None,
    reload: true,
    secret: false,
    parse: |value| value::size(value, 4096..=u64::MAX),
};

pub(super) const KEYS: Keys = &[
    &DIR,
    &LOG_BIN,
    &BINLOG_ROW_EVENT_MAX_SIZE,
    &BINLOG_CACHE_SIZE,
    &MAX_BINLOG_CACHE_SIZE,
    &BINLOG_LARGE_COMMIT_THRESHOLD,
    &MAX_BINLOG_SIZE,
    &FLUSH_LOG_AT_TRX_COMMIT,
    &BINLOG_CHECKSUM,
    &BINLOG_MMAP,
    &BINLOG_EXPIRE_LOGS_SECONDS,
    &MAX_BINLOG_TOTAL_SIZE,
];

/// `[binlog]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binlog {
    /// The directory of the log.
    pub dir: PathBuf,
    /// The base name of its files.
    pub log_bin: String,
    /// Up to which size rows events are packed, in bytes.
    pub binlog_row_event_max_size: u64,
    /// The largest transaction, in bytes; `None`: no limit.
    pub max_binlog_cache_size: Option<u64>,
    /// The size at which a file is followed by the next, in bytes.
    pub max_binlog_size: u64,
    /// The checksum of events written.
    pub binlog_checksum: Checksum,
    /// When commits are written and synced.
    pub flush_log_at_trx_commit: CommitLevel,
    /// Whether files are read through memory maps.
    pub binlog_mmap: bool,
    /// Memory per open transaction, in bytes.
    pub binlog_cache_size: u64,
    /// From which size a transaction is committed by a rename, in bytes.
    pub binlog_large_commit_threshold: u64,
    /// How long files are kept after they were closed; `None`: for good.
    pub binlog_expire_logs_seconds: Option<Duration>,
    /// How large all files may be, in bytes; `None`: no limit.
    pub max_binlog_total_size: Option<u64>,
}

/// The checksum at the end of each event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checksum {
    /// CRC-32 as zlib has it.
    Crc32,
    /// None.
    None,
}

fn is_base_name(name: &str) -> bool {
    name.len() <= 200 && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}

pub(super) fn read(mut section: Section<'_>) -> Result<Binlog, Fault> {
    let binlog = Binlog {
        dir: section.get(&DIR)?,
        log_bin: section.get(&LOG_BIN)?,
        binlog_row_event_max_size: section.get(&BINLOG_ROW_EVENT_MAX_SIZE)?,
        max_binlog_cache_size: section.optional(&MAX_BINLOG_CACHE_SIZE)?,
        max_binlog_size: section.get(&MAX_BINLOG_SIZE)?,
        binlog_checksum: section.get(&BINLOG_CHECKSUM)?,
        flush_log_at_trx_commit: section.get(&FLUSH_LOG_AT_TRX_COMMIT)?,
        binlog_mmap: section.get(&BINLOG_MMAP)?,
        binlog_cache_size: section.get(&BINLOG_CACHE_SIZE)?,
        binlog_large_commit_threshold: section.get(&BINLOG_LARGE_COMMIT_THRESHOLD)?,
        binlog_expire_logs_seconds: section.get(&BINLOG_EXPIRE_LOGS_SECONDS)?,
        max_binlog_total_size: section.optional(&MAX_BINLOG_TOTAL_SIZE)?,
    };
    section.finish()?;
    Ok(binlog)
}
