//! ALTER SOURCE: an operator's way on where a source's history is no longer the log's.

use opensrv_mysql::ErrorKind;

use super::answer::SqlError;
use crate::capture::StartPosition;
use crate::serve::account::Privilege;
use crate::serve::session::Session;
use crate::source::BeginAnewError;

/// Has a source begin a new timeline at `start`, as its key in the configuration: `oldest`, `current`, or a GTID position. It
/// happens at the source's next connect, which is at once, or in the process's next life; status tells how it went. Replicas of the
/// old timeline are refused.
///
/// # Errors
/// 1227 without REPLICATION SLAVE ADMIN; 1210 for a source that there is not, or what is no position; 1198 unless the source is
/// diverged or refused; 1026 where it cannot be noted beside the log.
pub(super) fn alter(session: &Session, name: &str, start: &str) -> Result<(), SqlError> {
    session.require(&[Privilege::ReplicationSlaveAdmin])?;
    let upstream = session.service.source(name).ok_or_else(|| {
        let message = format!("There is no source '{name}'");
        SqlError::new(ErrorKind::ER_WRONG_ARGUMENTS, message)
    })?;
    let start: StartPosition =
        start.parse().map_err(|error: crate::capture::ParseStartError| {
            SqlError::new(ErrorKind::ER_WRONG_ARGUMENTS, error.to_string())
        })?;
    let told = start.to_string();
    upstream.begin_anew(&session.service.log, start).map_err(|error| {
        let kind = match error {
            BeginAnewError::NotHeldUp(_) => ErrorKind::ER_SLAVE_MUST_STOP,
            BeginAnewError::NotNoted(_) => ErrorKind::ER_ERROR_ON_WRITE,
        };
        SqlError::new(kind, error.to_string())
    })?;
    tracing::warn!(source = name, start = told, "ALTER SOURCE: a new timeline was asked for");
    Ok(())
}
