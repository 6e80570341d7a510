//! PURGE, FLUSH and RESET: what changes the log's files.

use std::time::{Duration, SystemTime};

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use opensrv_mysql::ErrorKind;
use spillway_binlog::{Held, Purge, PurgeError};

use super::answer::SqlError;
use super::select;
use super::statement::{Moment, PurgeUpTo};
use crate::serve::account::Privilege;
use crate::serve::session::{Session, Warning};

/// Removes old files. One that a replica still reads stays, with all behind it, and a warning says so, as MySQL words it (MariaDB
/// says nothing).
///
/// # Errors
/// 1227 without BINLOG ADMIN; 1373 for a file that is not there; 1210 for what is no time; 1377 where the system refuses.
pub(super) fn purge(session: &Session, up_to: &PurgeUpTo) -> Result<(), SqlError> {
    session.require(&[Privilege::BinlogAdmin])?;
    let log = &session.service.log;
    let purged = match up_to {
        PurgeUpTo::File(name) => log.purge_to(name),
        PurgeUpTo::Moment(moment) => log.purge_before(time(session, moment)?),
    };
    let Purge { files, wanted, held } = purged.map_err(|error| explain(&error))?;
    if let Some(Held { file, readers, .. }) = held {
        let message = format!(
            "file {file} was not purged because it was being read by {readers} thread(s), purged only {} out of {wanted} files.",
            files.len()
        );
        let code = ErrorKind::ER_WARN_PURGE_LOG_IN_USE as u16;
        session.warn(Warning { level: "Warning", code, message });
    }
    Ok(())
}

fn explain(error: &PurgeError) -> SqlError {
    match error {
        PurgeError::NoSuchFile => SqlError::new(
            ErrorKind::ER_UNKNOWN_TARGET_BINLOG,
            "Target log not found in binlog index",
        ),
        PurgeError::Closed | PurgeError::Io(_) => {
            SqlError::new(ErrorKind::ER_BINLOG_PURGE_FATAL_ERR, error.to_string())
        }
    }
}

/// A time as the session's clock reads it, which is this machine's.
fn time(session: &Session, moment: &Moment) -> Result<SystemTime, SqlError> {
    let from = select::evaluate(session, &moment.from)?.to_text();
    let from = from.and_then(|text| text.trim().replacen(' ', "T", 1).parse::<DateTime>().ok());
    let from = from.and_then(|time| time.to_zoned_datetime(TimeZone::system()).ok());
    let from = from.and_then(|zoned| {
        let seconds = u64::try_from(zoned.timestamp().as_second()).ok()?;
        let seconds = seconds.checked_sub(moment.before)?;
        SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds))
    });
    from.ok_or_else(|| {
        let message = "Incorrect arguments to PURGE LOGS BEFORE";
        SqlError::new(ErrorKind::ER_WRONG_ARGUMENTS, message)
    })
}

/// Goes on in a new file.
///
/// # Errors
/// 1227 without BINLOG ADMIN; 1105 where the log records nothing.
pub(super) fn flush(session: &Session) -> Result<(), SqlError> {
    session.require(&[Privilege::BinlogAdmin])?;
    let rotated = session.service.log.rotate().wait_durable();
    rotated.map_err(|error| SqlError::new(ErrorKind::ER_UNKNOWN_ERROR, error.to_string()))
}

/// RESET MASTER would lose what replicas still need, and the place where recording goes on.
///
/// # Errors
/// Always: 1227 without BINLOG ADMIN, else 1235.
pub(super) fn reset(session: &Session) -> Result<(), SqlError> {
    session.require(&[Privilege::BinlogAdmin])?;
    let message = "the log cannot be emptied: it is the record of what the upstream committed, and says where recording goes on; PURGE \
                   BINARY LOGS removes old files";
    Err(SqlError::new(ErrorKind::ER_NOT_SUPPORTED_YET, message))
}
