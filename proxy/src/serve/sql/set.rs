//! SET: user variables are kept, harmless session variables too, everything else is refused.

use opensrv_mysql::ErrorKind;

use super::answer::{SqlError, Value};
use super::statement::{Assignment, Expression, SystemName};
use super::{select, variables};
use crate::serve::session::Session;

/// Carries out the assignments in their order; the first that fails ends it.
pub(super) fn set(session: &Session, assignments: Vec<Assignment>) -> Result<(), SqlError> {
    for assignment in assignments {
        match assignment {
            Assignment::User { name, value } => {
                let value = assigned(session, &value)?;
                session.set_user_variable(&name, value)?;
            }
            Assignment::System { variable, value } => set_system(session, &variable, &value)?,
            Assignment::Names(charset) => set_names(session, &charset),
            Assignment::Transaction => {}
        }
    }
    Ok(())
}

/// A bare word is its own text, as in `SET NAMES`-like settings.
fn assigned(session: &Session, value: &Expression) -> Result<Value, SqlError> {
    match value {
        Expression::Word(word) => Ok(Value::Text(word.clone())),
        other => select::evaluate(session, other),
    }
}

fn set_system(
    session: &Session,
    variable: &SystemName,
    value: &Expression,
) -> Result<(), SqlError> {
    let name = variable.name.as_str();
    // Its value would be unknown otherwise; so that `SET no_such = 1` is told.
    variables::value(session, name)?;
    if variable.global {
        return Err(SqlError::missing_privilege("SUPER"));
    }
    if !variables::is_settable(name) {
        let message =
            format!("Variable '{name}' is a read only variable on Spillway's replica port");
        return Err(SqlError::new(ErrorKind::ER_INCORRECT_GLOBAL_LOCAL_VAR, message));
    }
    let value = match value {
        Expression::Word(word) if word.eq_ignore_ascii_case("default") => None,
        other => assigned(session, other)?.to_text(),
    };
    session.set_session_variable(name, value);
    Ok(())
}

fn set_names(session: &Session, charset: &str) {
    for name in ["character_set_client", "character_set_connection", "character_set_results"] {
        session.set_session_variable(name, Some(charset.to_owned()));
    }
}
