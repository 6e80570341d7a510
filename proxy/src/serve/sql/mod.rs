//! What replicas, tools and people ask of a binlog server, answered from the log and the session. No sockets here.

mod answer;
mod events;
mod parse;
mod parser;
mod purge;
mod select;
mod set;
mod show;
mod source;
mod statement;
mod status;
mod token;
mod variables;

pub(super) use answer::{Answer, ColumnKind, Rows, SqlError, Value, describe};
pub(super) use events::EventRows;

use opensrv_mysql::ErrorKind;

use super::session::Session;
use parser::ParseError;
use statement::{Show, Statement};

/// Executes one statement.
///
/// # Errors
/// What the client is told: broken, not ours, not allowed, unknown.
pub(super) fn execute(session: &Session, text: &str) -> Result<Answer, SqlError> {
    let statement = parse::parse(text).map_err(|error| explain(&error, text))?;
    if !is_diagnostic(&statement) {
        session.forget_warnings();
    }
    match statement {
        Statement::Select { items, one_row } => {
            select::select(session, items, one_row).map(Answer::Rows)
        }
        Statement::Set(assignments) => set::set(session, assignments).map(|()| Answer::Ok),
        Statement::Show(show) => show::show(session, show),
        Statement::Purge(up_to) => purge::purge(session, &up_to).map(|()| Answer::Ok),
        Statement::FlushLogs => purge::flush(session).map(|()| Answer::Ok),
        Statement::AlterSource { name, start } => {
            source::begin_anew(session, &name, &start).map(|()| Answer::Ok)
        }
        Statement::ContinueSource { name } => source::go_on(session, &name).map(|()| Answer::Ok),
        Statement::ResetLog => purge::reset(session).map(|()| Answer::Ok),
        Statement::Kill { id, query_only } => session.kill(id, query_only).map(|()| Answer::Ok),
        Statement::Use(name) => {
            session.set_database(&name);
            Ok(Answer::Ok)
        }
        Statement::Transaction => Ok(Answer::Ok),
    }
}

/// Those that ask about the warnings of the one before.
fn is_diagnostic(statement: &Statement) -> bool {
    let shows = matches!(statement, Statement::Show(Show::Warnings | Show::WarningCount(_)));
    shows || matches!(statement, Statement::Select { .. })
}

/// The columns a prepared statement will have; none for one that gives no rows. What changes something is not carried out.
///
/// # Errors
/// As [`execute`].
pub(super) fn columns(
    session: &Session,
    text: &str,
) -> Result<Vec<(String, ColumnKind)>, SqlError> {
    match parse::parse(text).map_err(|error| explain(&error, text))? {
        Statement::Select { .. } | Statement::Show(_) => match execute(session, text)? {
            Answer::Ok => Ok(Vec::new()),
            Answer::Rows(rows) => Ok(rows.columns),
            Answer::Events(_) => Ok(Rows::new(&EventRows::COLUMNS).columns),
        },
        _ => Ok(Vec::new()),
    }
}

fn explain(error: &ParseError, text: &str) -> SqlError {
    match error {
        ParseError::Unsupported => SqlError::unsupported(),
        ParseError::Empty => SqlError::new(ErrorKind::ER_EMPTY_QUERY, "Query was empty"),
        ParseError::Syntax(at) => {
            let near: String = text.get(*at..).unwrap_or_default().chars().take(80).collect();
            let message =
                format!("You have an error in your SQL syntax near '{near}'; {}", answer::PURPOSE);
            SqlError::new(ErrorKind::ER_PARSE_ERROR, message)
        }
    }
}

#[cfg(test)]
mod tests;
