//! SHOW. Column names and types are MariaDB's.

use opensrv_mysql::ErrorKind;

use super::answer::{Answer, ColumnKind, Rows, SqlError, Value};
use super::statement::{Filter, Show};
use super::{EventRows, status, variables};
use crate::serve::account::Privilege;
use crate::serve::registry::Connection;
use crate::serve::session::Session;

use ColumnKind::{Text, Unsigned};

/// Answers a SHOW.
pub(super) fn show(session: &Session, show: Show) -> Result<Answer, SqlError> {
    let rows = match show {
        Show::Variables(filter) => pairs(variables::shown(session, |name| filter.accepts(name))),
        Show::Status(filter) => pairs(status::shown(session, |name| filter.accepts(name))),
        Show::MasterStatus => master_status(session)?,
        Show::BinaryLogs => binary_logs(session)?,
        Show::ReplicaHosts => replica_hosts(session)?,
        Show::BinlogEvents(range) => {
            session.require(&[Privilege::BinlogMonitor])?;
            return EventRows::open(&session.service.log, &range)
                .map(|rows| Answer::Events(Box::new(rows)));
        }
        Show::Warnings => warnings(session),
        Show::WarningCount(name) => {
            let errors = name.ends_with("error_count");
            let count = if errors { 0 } else { session.warnings().len() as u64 };
            single(name, Unsigned, Value::Unsigned(count))
        }
        Show::ProcessList => process_list(session),
        Show::Grants => grants(session),
        Show::Databases(filter) => databases(&filter),
        Show::Tables => {
            let name = session
                .database()
                .ok_or_else(|| SqlError::new(ErrorKind::ER_NO_DB_ERROR, "No database selected"))?;
            Rows::new(&[(&format!("Tables_in_{name}"), Text)])
        }
    };
    Ok(Answer::Rows(rows))
}

fn single(name: &str, kind: ColumnKind, value: Value) -> Rows {
    let mut rows = Rows::new(&[(name, kind)]);
    rows.rows.push(vec![value]);
    rows
}

fn pairs(pairs: Vec<(String, String)>) -> Rows {
    let mut rows = Rows::new(&[("Variable_name", Text), ("Value", Text)]);
    rows.rows = pairs
        .into_iter()
        .map(|(name, value)| vec![Value::Text(name), Value::Text(value)])
        .collect();
    rows
}

/// Those of the statement before.
fn warnings(session: &Session) -> Rows {
    let mut rows = Rows::new(&[("Level", Text), ("Code", Unsigned), ("Message", Text)]);
    let warnings = session.warnings().into_iter();
    rows.rows = warnings
        .map(|warning| {
            vec![
                Value::Text(warning.level.to_owned()),
                Value::Unsigned(warning.code.into()),
                Value::Text(warning.message),
            ]
        })
        .collect();
    rows
}

/// No row while the log has no file.
fn master_status(session: &Session) -> Result<Rows, SqlError> {
    session.require(&[Privilege::BinlogMonitor])?;
    let mut rows = Rows::new(&[
        ("File", Text),
        ("Position", Unsigned),
        ("Binlog_Do_DB", Text),
        ("Binlog_Ignore_DB", Text),
    ]);
    if let Some(file) = session.service.log.files().pop() {
        rows.rows.push(vec![
            Value::Text(file.name),
            Value::Unsigned(file.size),
            Value::Text(String::new()),
            Value::Text(String::new()),
        ]);
    }
    Ok(rows)
}

fn binary_logs(session: &Session) -> Result<Rows, SqlError> {
    session.require(&[Privilege::BinlogMonitor])?;
    let mut rows = Rows::new(&[("Log_name", Text), ("File_size", Unsigned)]);
    let files = session.service.log.files();
    rows.rows = files
        .into_iter()
        .map(|file| vec![Value::Text(file.name), Value::Unsigned(file.size)])
        .collect();
    Ok(rows)
}

fn replica_hosts(session: &Session) -> Result<Rows, SqlError> {
    session.require(&[Privilege::BinlogMonitor])?;
    let mut rows = Rows::new(&[
        ("Server_id", Unsigned),
        ("Host", Text),
        ("Port", Unsigned),
        ("Master_id", Unsigned),
    ]);
    let all = session.service.connections.all();
    let registered = all.iter().filter_map(|connection| connection.registration());
    rows.rows = registered
        .map(|replica| {
            vec![
                Value::Unsigned(u64::from(replica.server_id)),
                Value::Text(replica.host),
                Value::Unsigned(u64::from(replica.port)),
                Value::Unsigned(u64::from(session.service.server_id)),
            ]
        })
        .collect();
    Ok(rows)
}

/// Own connections; all of them with CONNECTION ADMIN.
fn process_list(session: &Session) -> Rows {
    let mut rows = Rows::new(&[
        ("Id", Unsigned),
        ("User", Text),
        ("Host", Text),
        ("db", Text),
        ("Command", Text),
        ("Time", Unsigned),
        ("State", Text),
        ("Info", Text),
    ]);
    let account = session.account();
    let all = account.as_ref().is_some_and(|own| own.has(Privilege::ConnectionAdmin));
    let own = account.map(|own| own.name.clone()).unwrap_or_default();
    let connections = session.service.connections.all();
    rows.rows = connections
        .iter()
        .filter(|connection| all || connection.activity().user == own)
        .map(|connection| process(connection))
        .collect();
    rows
}

fn process(connection: &Connection) -> Vec<Value> {
    let activity = connection.activity();
    vec![
        Value::Unsigned(u64::from(connection.id)),
        Value::Text(activity.user),
        Value::Text(connection.peer.to_canonical().to_string()),
        activity.database.map_or(Value::Null, Value::Text),
        Value::Text(activity.command.to_owned()),
        Value::Unsigned(activity.since.elapsed().as_secs()),
        Value::Text(activity.state.to_owned()),
        activity.info.map_or(Value::Null, Value::Text),
    ]
}

fn grants(session: &Session) -> Rows {
    let account = session.account();
    let name = account.as_ref().map(|account| account.name.clone()).unwrap_or_default();
    let held: Vec<_> = Privilege::ALL
        .into_iter()
        .filter(|privilege| account.as_ref().is_some_and(|account| account.has(*privilege)))
        .map(Privilege::as_str)
        .collect();
    let held = if held.is_empty() { "USAGE".to_owned() } else { held.join(", ") };
    let grant = format!("GRANT {held} ON *.* TO `{name}`@`%`");
    single(&format!("Grants for {name}@%"), Text, Value::Text(grant))
}

fn databases(filter: &Filter) -> Rows {
    let mut rows = Rows::new(&[("Database", Text)]);
    if filter.accepts("information_schema") {
        rows.rows.push(vec![Value::Text("information_schema".to_owned())]);
    }
    rows
}
