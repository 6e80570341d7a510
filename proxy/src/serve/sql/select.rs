//! SELECT without a table.

use std::time::{SystemTime, UNIX_EPOCH};

use opensrv_mysql::ErrorKind;
use spillway_binlog::Log;
use spillway_binlog::gtid::mariadb::print_list;

use super::answer::{ColumnKind, Rows, SqlError, Value};
use super::statement::{Expression, SelectItem};
use super::variables;
use crate::serve::session::Session;

/// One row of computed values, or none under the same columns.
pub(super) fn select(
    session: &Session,
    items: Vec<SelectItem>,
    one_row: bool,
) -> Result<Rows, SqlError> {
    let mut rows = Rows::new(&[]);
    let mut row = Vec::new();
    for item in items {
        let value = evaluate(session, &item.expression)?;
        rows.columns.push((item.name, kind(&item.expression, &value)));
        row.push(value);
    }
    if one_row {
        rows.rows.push(row);
    }
    Ok(rows)
}

fn kind(expression: &Expression, value: &Value) -> ColumnKind {
    let long = match expression {
        Expression::UserVariable(_) => true,
        Expression::Call { function, .. } => function == "binlog_gtid_pos",
        _ => false,
    };
    match value {
        Value::Integer(_) => ColumnKind::Integer,
        Value::Unsigned(_) => ColumnKind::Unsigned,
        _ if long => ColumnKind::LongText,
        _ => ColumnKind::Text,
    }
}

/// Computes a value.
///
/// # Errors
/// 1193 for a system variable that is not there, 1305 for a function, 1054 for what would be a column.
pub(super) fn evaluate(session: &Session, expression: &Expression) -> Result<Value, SqlError> {
    match expression {
        Expression::Null => Ok(Value::Null),
        Expression::Integer(number) => Ok(Value::Integer(*number)),
        Expression::Text(text) => Ok(Value::Text(text.clone())),
        Expression::UserVariable(name) => Ok(session.user_variable(name).unwrap_or(Value::Null)),
        Expression::SystemVariable(variable) => variables::value(session, &variable.name),
        Expression::Call { function, arguments } => call(session, function, arguments),
        Expression::Word(word) => {
            let message = format!("Unknown column '{word}' in 'field list'");
            Err(SqlError::new(ErrorKind::ER_BAD_FIELD_ERROR, message))
        }
    }
}

fn call(session: &Session, function: &str, arguments: &[Expression]) -> Result<Value, SqlError> {
    let arguments: Vec<_> =
        arguments.iter().map(|argument| evaluate(session, argument)).collect::<Result<_, _>>()?;
    let peer = session.connection.peer.to_canonical();
    match (function, arguments.as_slice()) {
        ("unix_timestamp", []) => Ok(Value::Integer(unix_seconds())),
        ("now" | "current_timestamp" | "sysdate", []) => Ok(Value::Text(local_time())),
        ("version", []) => Ok(Value::Text(session.service.version())),
        ("database" | "schema", []) => Ok(session.database().map_or(Value::Null, Value::Text)),
        ("connection_id", []) => Ok(Value::Unsigned(u64::from(session.connection.id))),
        ("user" | "session_user" | "system_user", []) => {
            Ok(Value::Text(format!("{}@{peer}", user(session))))
        }
        ("current_user", []) => Ok(Value::Text(format!("{}@%", user(session)))),
        ("concat", parts) => Ok(concat(parts)),
        ("binlog_gtid_pos", [file, position]) => {
            let file = file.to_text().unwrap_or_default();
            let found = gtids_before(&session.service.log, &file, position.to_unsigned());
            Ok(found.map_or(Value::Null, Value::Text))
        }
        _ => {
            let message = format!("FUNCTION {function} does not exist");
            Err(SqlError::new(ErrorKind::ER_SP_DOES_NOT_EXIST, message))
        }
    }
}

/// The GTID position at a place of a file; no file name is the first file. `None` where no event starts there.
fn gtids_before(log: &Log, file: &str, position: u64) -> Option<String> {
    let info =
        if file.is_empty() { log.files().into_iter().next() } else { log.file_by_name(file) };
    let state = log.gtid_state_at(info?.number, position.max(4)).ok()?;
    Some(print_list(&state.position()))
}

fn user(session: &Session) -> String {
    session.account().map(|account| account.name.clone()).unwrap_or_default()
}

/// NULL if any part is.
fn concat(parts: &[Value]) -> Value {
    parts.iter().map(Value::to_text).collect::<Option<String>>().map_or(Value::Null, Value::Text)
}

fn unix_seconds() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_secs()).unwrap_or(i64::MAX)
}

fn local_time() -> String {
    jiff::ZonedDateTime::now().strftime("%Y-%m-%d %H:%M:%S").to_string()
}
