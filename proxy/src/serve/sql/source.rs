//! ALTER SOURCE: an operator's ways on where a source's history is no longer the log's, or does not look like it.

use opensrv_mysql::ErrorKind;

use super::answer::SqlError;
use crate::capture::StartPosition;
use crate::serve::account::Privilege;
use crate::serve::session::Session;
use crate::source::{AlterError, Upstream};

/// Has a source begin a new timeline at `start`, as its key in the configuration: `oldest`, `current`, or a GTID position. It
/// happens at the source's next connect, which is at once, or in the process's next life; status tells how it went. Replicas of the
/// old timeline are refused.
///
/// # Errors
/// 1227 without REPLICATION SLAVE ADMIN; 1210 for a source that there is not, or what is no position; 1198 unless the source is
/// diverged or refused; 1026 where it cannot be noted beside the log.
pub(super) fn begin_anew(session: &Session, name: &str, start: &str) -> Result<(), SqlError> {
    let upstream = source(session, name)?;
    let start: StartPosition =
        start.parse().map_err(|error: crate::capture::ParseStartError| {
            SqlError::new(ErrorKind::ER_WRONG_ARGUMENTS, error.to_string())
        })?;
    let told = start.to_string();
    upstream.begin_anew(&session.service.log, start).map_err(|error| refused(&error))?;
    tracing::warn!(source = name, start = told, "ALTER SOURCE: a new timeline was asked for");
    Ok(())
}

/// Has a source that is diverged go on behind the log's last transaction: it is vouched for to hold that in another form. It happens
/// as [`begin_anew`] does; replicas go on.
///
/// # Errors
/// As [`begin_anew`]; 1198 unless the source is diverged, and the log has a transaction of it; 1105 where the log cannot be read.
pub(super) fn go_on(session: &Session, name: &str) -> Result<(), SqlError> {
    let upstream = source(session, name)?;
    let log = &session.service.log;
    let gtid = upstream.continue_behind_last(log).map_err(|error| refused(&error))?;
    tracing::warn!(
        source = name,
        "ALTER SOURCE: the source is vouched for to hold {gtid} in another form"
    );
    Ok(())
}

fn source<'a>(session: &'a Session, name: &str) -> Result<&'a Upstream, SqlError> {
    session.require(&[Privilege::ReplicationSlaveAdmin])?;
    session.service.source(name).map(AsRef::as_ref).ok_or_else(|| {
        let message = format!("There is no source '{name}'");
        SqlError::new(ErrorKind::ER_WRONG_ARGUMENTS, message)
    })
}

fn refused(error: &AlterError) -> SqlError {
    let kind = match error {
        AlterError::NotHeldUp(_) | AlterError::NotDiverged(_) | AlterError::NothingRecorded => {
            ErrorKind::ER_SLAVE_MUST_STOP
        }
        AlterError::Log(_) => ErrorKind::ER_UNKNOWN_ERROR,
        AlterError::NotNoted(_) => ErrorKind::ER_ERROR_ON_WRITE,
    };
    SqlError::new(kind, error.to_string())
}
