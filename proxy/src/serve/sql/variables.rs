//! System variables: what replicas and tools look at, with the values that are true of this port.

use opensrv_mysql::ErrorKind;
use spillway_binlog::gtid::mariadb::print_list;

use super::answer::{SqlError, Value};
use crate::serve::session::Session;

/// What a variable holds; a switch reads as ON/OFF in SHOW and as 1/0 in SELECT.
pub(super) enum Variable {
    Switch(bool),
    Number(u64),
    Text(String),
}

impl Variable {
    /// As SHOW VARIABLES prints it.
    pub fn shown(&self) -> String {
        match self {
            Self::Switch(on) => if *on { "ON" } else { "OFF" }.to_owned(),
            Self::Number(number) => number.to_string(),
            Self::Text(text) => text.clone(),
        }
    }

    fn selected(self) -> Value {
        match self {
            Self::Switch(on) => Value::Integer(i64::from(on)),
            Self::Number(number) => Value::Unsigned(number),
            Self::Text(text) => Value::Text(text),
        }
    }
}

type Reader = fn(&Session) -> Variable;

struct Definition {
    name: &'static str,
    /// A session may set it: it changes nothing here.
    settable: bool,
    read: Reader,
}

const fn fixed(name: &'static str, read: Reader) -> Definition {
    Definition { name, settable: false, read }
}

const fn settable(name: &'static str, read: Reader) -> Definition {
    Definition { name, settable: true, read }
}

fn text(text: &str) -> Variable {
    Variable::Text(text.to_owned())
}

/// The current GTIDs of the log's domains, printed.
fn gtid_position(session: &Session) -> Variable {
    Variable::Text(print_list(&session.service.log.gtid_state().position()))
}

use Variable::{Number, Switch};

/// By name, as SHOW VARIABLES lists them.
static DEFINITIONS: &[Definition] = &[
    fixed("auto_increment_increment", |_| Number(1)),
    fixed("auto_increment_offset", |_| Number(1)),
    settable("autocommit", |_| Switch(true)),
    fixed("binlog_annotate_row_events", |_| Switch(true)),
    fixed("binlog_checksum", |session| text(session.service.log.checksum().as_str())),
    fixed("binlog_format", |_| text("ROW")),
    fixed("binlog_row_image", |_| text("FULL")),
    fixed("binlog_row_metadata", |_| text("NO_LOG")),
    settable("character_set_client", |_| text("utf8mb3")),
    settable("character_set_connection", |_| text("utf8mb3")),
    settable("character_set_database", |_| text("utf8mb3")),
    fixed("character_set_filesystem", |_| text("binary")),
    settable("character_set_results", |_| text("utf8mb3")),
    fixed("character_set_server", |_| text("utf8mb3")),
    fixed("character_set_system", |_| text("utf8mb3")),
    settable("collation_connection", |_| text("utf8mb3_general_ci")),
    settable("collation_database", |_| text("utf8mb3_general_ci")),
    fixed("collation_server", |_| text("utf8mb3_general_ci")),
    fixed("error_count", |_| Number(0)),
    settable("foreign_key_checks", |_| Switch(true)),
    fixed("gtid_binlog_pos", gtid_position),
    fixed("gtid_binlog_state", |session| {
        Variable::Text(print_list(&session.service.log.gtid_state().list()))
    }),
    fixed("gtid_current_pos", gtid_position),
    fixed("gtid_domain_id", |_| Number(0)),
    fixed("gtid_slave_pos", gtid_position),
    fixed("gtid_strict_mode", |_| Switch(false)),
    fixed("have_openssl", |_| text("NO")),
    fixed("have_ssl", |_| text("NO")),
    fixed("hostname", |session| text(&session.service.hostname)),
    fixed("init_connect", |_| text("")),
    settable("interactive_timeout", |_| Number(28_800)),
    fixed("license", |_| text("Apache-2.0")),
    fixed("log_bin", |_| Switch(true)),
    fixed("log_slave_updates", |_| Switch(true)),
    fixed("lower_case_table_names", |_| Number(0)),
    settable("max_allowed_packet", |_| Number(16_777_216)),
    settable("max_execution_time", |_| Number(0)),
    settable("max_statement_time", |_| Number(0)),
    settable("net_buffer_length", |_| Number(16_384)),
    settable("net_read_timeout", |_| Number(30)),
    settable("net_write_timeout", |_| Number(60)),
    fixed("performance_schema", |_| Switch(false)),
    fixed("port", |session| Number(u64::from(session.service.local.port()))),
    fixed("protocol_version", |_| Number(10)),
    fixed("query_cache_size", |_| Number(0)),
    fixed("query_cache_type", |_| Switch(false)),
    fixed("read_only", |_| Switch(true)),
    fixed("rpl_semi_sync_master_enabled", |_| Switch(false)),
    fixed("rpl_semi_sync_slave_enabled", |_| Switch(false)),
    fixed("server_id", |session| Number(u64::from(session.service.server_id))),
    settable("skip_replication", |_| Switch(false)),
    settable("sql_auto_is_null", |_| Switch(false)),
    settable("sql_log_bin", |_| Switch(true)),
    settable("sql_mode", |_| text("")),
    settable("sql_quote_show_create", |_| Switch(true)),
    settable("sql_select_limit", |_| Number(u64::MAX)),
    settable("sql_warnings", |_| Switch(false)),
    fixed("system_time_zone", |_| Variable::Text(local_zone())),
    settable("time_zone", |_| text("SYSTEM")),
    settable("transaction_isolation", |_| text("REPEATABLE-READ")),
    settable("transaction_read_only", |_| Switch(false)),
    settable("tx_isolation", |_| text("REPEATABLE-READ")),
    settable("tx_read_only", |_| Switch(false)),
    settable("unique_checks", |_| Switch(true)),
    fixed("version", |session| Variable::Text(session.service.version())),
    fixed("version_comment", |_| text("Spillway")),
    fixed("version_compile_machine", |_| text(std::env::consts::ARCH)),
    fixed("version_compile_os", |_| text(std::env::consts::OS)),
    settable("wait_timeout", |_| Number(28_800)),
    fixed("warning_count", |session| Number(session.warnings().len() as u64)),
];

fn local_zone() -> String {
    jiff::ZonedDateTime::now().strftime("%Z").to_string()
}

fn find(name: &str) -> Option<&'static Definition> {
    DEFINITIONS.iter().find(|definition| definition.name == name)
}

fn read(session: &Session, definition: &Definition) -> Variable {
    let Some(own) = session.session_variable(definition.name) else {
        return (definition.read)(session);
    };
    match (definition.read)(session) {
        Switch(_) => Switch(["1", "on", "true"].contains(&own.to_lowercase().as_str())),
        Number(_) => own.parse().map_or(Variable::Text(own), Number),
        Variable::Text(_) => Variable::Text(own),
    }
}

/// `@@name`.
///
/// # Errors
/// 1193 for one that is not there.
pub(super) fn value(session: &Session, name: &str) -> Result<Value, SqlError> {
    let definition = find(name).ok_or_else(|| {
        let message = format!("Unknown system variable '{name}'");
        SqlError::new(ErrorKind::ER_UNKNOWN_SYSTEM_VARIABLE, message)
    })?;
    Ok(read(session, definition).selected())
}

/// Whether a session may set it.
pub(super) fn is_settable(name: &str) -> bool {
    find(name).is_some_and(|definition| definition.settable)
}

/// Those whose names pass, with their values as SHOW prints them.
pub(super) fn shown(session: &Session, accepts: impl Fn(&str) -> bool) -> Vec<(String, String)> {
    let passing = DEFINITIONS.iter().filter(|definition| accepts(definition.name));
    passing
        .map(|definition| (definition.name.to_owned(), read(session, definition).shown()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_are_sorted_and_unique() {
        let names: Vec<_> = DEFINITIONS.iter().map(|definition| definition.name).collect();
        assert!(names.is_sorted_by(|left, right| left < right), "{names:?}");
    }
}
