//! One connection's own state: who it is, its variables, and what it asked for.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use opensrv_mysql::ErrorKind;

use super::account::{Account, NATIVE_PASSWORD, Privilege, SALT_LEN};
use super::guard::Login;
use super::registry::{Connection, EndReason, Registration, lock};
use super::service::Service;
use super::sql::{SqlError, Value};

/// User variables a session may set. Replicas set nine; a client that sets thousands is mistaken or hostile.
const MAX_USER_VARIABLES: usize = 128;
/// Bytes of a session's user variables, names included. A GTID position of ten thousand domains has 300 KiB.
const MAX_USER_VARIABLE_BYTES: usize = 1 << 20;
/// Statements a session may have prepared at a time.
const MAX_STATEMENTS: usize = 256;

/// A connection's state. Everything on it runs in one task; the lock is never waited for.
pub(super) struct Session {
    pub service: Arc<Service>,
    pub connection: Arc<Connection>,
    pub salt: [u8; SALT_LEN],
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    login: Option<Login>,
    account: Option<Arc<Account>>,
    login_error: Option<SqlError>,
    user_variables: BTreeMap<String, Value>,
    session_variables: BTreeMap<String, String>,
    database: Option<String>,
    statements: HashMap<u32, String>,
    last_statement: u32,
    warnings: Vec<Warning>,
    dump: Option<Vec<u8>>,
}

/// What a statement says beside its answer: a row of SHOW WARNINGS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Warning {
    pub level: &'static str,
    pub code: u16,
    pub message: String,
}

impl Session {
    pub fn new(service: Arc<Service>, connection: Arc<Connection>, salt: [u8; SALT_LEN]) -> Self {
        Self { service, connection, salt, state: Mutex::default() }
    }

    // Login.

    /// Remembers what the client said about itself.
    pub fn set_login(&self, login: Login) {
        lock(&self.state).login = Some(login);
    }

    /// The plugin the client's answer has to be judged by: its own where the account allows it, else the one to switch to.
    pub fn login_plugin(&self) -> &'static str {
        let state = lock(&self.state);
        let Some(login) = &state.login else { return NATIVE_PASSWORD };
        login.plugin_for(self.find_account(&login.user).as_deref())
    }

    /// The account of this name, if the client may use it from where it is.
    pub fn find_account(&self, user: &str) -> Option<Arc<Account>> {
        let accounts = self.service.accounts();
        let account = accounts.iter().find(|account| account.name == user)?;
        account.admits(self.connection.peer).then(|| Arc::clone(account))
    }

    /// Judges the client's answer to the greeting. A failure is kept for the error packet and counted.
    pub fn authenticate(&self, user: &str, plugin: &str, response: &[u8]) -> bool {
        let account = self.find_account(user);
        // Who does not exist takes as long as who does.
        let nobody = super::account::Secret::Password("\0".to_owned());
        let secret = account.as_ref().map_or(&nobody, |account| &account.secret);
        let proven = secret.verify(plugin, &self.salt, response);
        match account.filter(|_| proven) {
            Some(account) => {
                self.accept(account);
                true
            }
            None => {
                self.refuse(user, !response.is_empty());
                false
            }
        }
    }

    fn accept(&self, account: Arc<Account>) {
        self.connection.set_activity(|activity| {
            activity.user.clone_from(&account.name);
            activity.command = "Sleep";
            activity.state = "";
        });
        lock(&self.state).account = Some(account);
    }

    fn refuse(&self, user: &str, with_password: bool) {
        let peer = self.connection.peer.to_canonical();
        let with = if with_password { "YES" } else { "NO" };
        let message = format!("Access denied for user '{user}'@'{peer}' (using password: {with})");
        tracing::warn!(user, %peer, "replica port: access denied");
        self.service.metrics.login_refused("access_denied");
        lock(&self.state).login_error =
            Some(SqlError::new(ErrorKind::ER_ACCESS_DENIED_ERROR, message));
    }

    /// The refusal to send in place of the library's own, once.
    pub fn take_login_error(&self) -> Option<SqlError> {
        lock(&self.state).login_error.take()
    }

    pub fn is_logged_in(&self) -> bool {
        lock(&self.state).account.is_some()
    }

    pub fn account(&self) -> Option<Arc<Account>> {
        lock(&self.state).account.clone()
    }

    /// Refuses unless the account has one of these.
    ///
    /// # Errors
    /// 1227 with the name of the first.
    pub fn require(&self, any_of: &[Privilege]) -> Result<(), SqlError> {
        let account = self.account();
        if account.is_some_and(|account| any_of.iter().any(|privilege| account.has(*privilege))) {
            return Ok(());
        }
        let names: Vec<_> = any_of.iter().map(|privilege| privilege.as_str()).collect();
        Err(SqlError::missing_privilege(&names.join(", ")))
    }

    // Variables.

    pub fn user_variable(&self, name: &str) -> Option<Value> {
        lock(&self.state).user_variables.get(name).cloned()
    }

    /// Sets `@name`.
    ///
    /// # Errors
    /// Too many variables, or too many bytes of them.
    pub fn set_user_variable(&self, name: &str, value: Value) -> Result<(), SqlError> {
        let mut state = lock(&self.state);
        let others = state.user_variables.iter().filter(|(other, _)| other.as_str() != name);
        let bytes = others.fold(size(name, &value), |sum, (name, value)| sum + size(name, value));
        let full = state.user_variables.len() >= MAX_USER_VARIABLES
            && !state.user_variables.contains_key(name);
        if bytes > MAX_USER_VARIABLE_BYTES || full {
            let message = format!("@{name} is beyond what a session of this port may keep");
            return Err(SqlError::new(ErrorKind::ER_WRONG_VALUE_FOR_VAR, message));
        }
        state.user_variables.insert(name.to_owned(), value);
        Ok(())
    }

    pub fn session_variable(&self, name: &str) -> Option<String> {
        lock(&self.state).session_variables.get(name).cloned()
    }

    /// Sets a session variable that changes nothing here, so that it reads back; `None` is its default again.
    pub fn set_session_variable(&self, name: &str, value: Option<String>) {
        let mut state = lock(&self.state);
        match value {
            Some(value) => state.session_variables.insert(name.to_owned(), value),
            None => state.session_variables.remove(name),
        };
    }

    pub fn database(&self) -> Option<String> {
        lock(&self.state).database.clone()
    }

    pub fn set_database(&self, name: &str) {
        lock(&self.state).database = Some(name.to_owned());
        self.connection.set_activity(|activity| activity.database = Some(name.to_owned()));
    }

    // Warnings.

    /// Adds to the statement's warnings.
    pub fn warn(&self, warning: Warning) {
        lock(&self.state).warnings.push(warning);
    }

    /// Those of the last statement that was not about warnings.
    pub fn warnings(&self) -> Vec<Warning> {
        lock(&self.state).warnings.clone()
    }

    /// A new statement begins.
    pub fn forget_warnings(&self) {
        lock(&self.state).warnings.clear();
    }

    // Prepared statements.

    /// Keeps a statement for execution.
    ///
    /// # Errors
    /// Too many are kept.
    pub fn keep_statement(&self, text: &str) -> Result<u32, SqlError> {
        let mut state = lock(&self.state);
        if state.statements.len() >= MAX_STATEMENTS {
            let message = format!("more than {MAX_STATEMENTS} prepared statements in one session");
            return Err(SqlError::new(ErrorKind::ER_UNSUPPORTED_PS, message));
        }
        state.last_statement = state.last_statement.wrapping_add(1);
        let id = state.last_statement;
        state.statements.insert(id, text.to_owned());
        Ok(id)
    }

    pub fn statement(&self, id: u32) -> Option<String> {
        lock(&self.state).statements.get(&id).cloned()
    }

    pub fn drop_statement(&self, id: u32) {
        lock(&self.state).statements.remove(&id);
    }

    // Commands.

    /// COM_RESET_CONNECTION: as after login.
    pub fn reset(&self) {
        let mut state = lock(&self.state);
        state.user_variables.clear();
        state.session_variables.clear();
        state.statements.clear();
    }

    /// COM_REGISTER_SLAVE.
    ///
    /// # Errors
    /// 1227 without REPLICATION SLAVE.
    pub fn register_replica(&self, registration: Registration) -> Result<(), SqlError> {
        self.require(&[Privilege::ReplicationSlave])?;
        self.connection.register(registration);
        Ok(())
    }

    /// COM_BINLOG_DUMP: the connection is taken over once the guard has let go of it.
    ///
    /// # Errors
    /// 1227 without REPLICATION SLAVE.
    pub fn request_dump(&self, packet: Vec<u8>) -> Result<(), SqlError> {
        self.require(&[Privilege::ReplicationSlave])?;
        lock(&self.state).dump = Some(packet);
        Ok(())
    }

    pub fn take_dump(&self) -> Option<Vec<u8>> {
        lock(&self.state).dump.take()
    }

    /// KILL. `query_only` ends a dump, which is the only thing that runs long, and spares a connection without one.
    ///
    /// # Errors
    /// 1094 for an id that is not there, 1095 for somebody else's without CONNECTION ADMIN.
    pub fn kill(&self, id: u64, query_only: bool) -> Result<(), SqlError> {
        let Some(victim) = self.service.connections.find(id) else {
            let message = format!("Unknown thread id: {id}");
            return Err(SqlError::new(ErrorKind::ER_NO_SUCH_THREAD, message));
        };
        let account = self.account();
        let own = account.as_ref().is_some_and(|own| own.name == victim.activity().user);
        if !own && !account.is_some_and(|account| account.has(Privilege::ConnectionAdmin)) {
            let message = format!("You are not owner of thread {id}");
            return Err(SqlError::new(ErrorKind::ER_KILL_DENIED_ERROR, message));
        }
        if !query_only || victim.dump().is_some() {
            victim.end(EndReason::Killed);
        }
        Ok(())
    }

    /// For SHOW PROCESSLIST: a statement begins.
    pub fn begin_statement(&self, text: &str) {
        let shown: String = text.trim().chars().take(1024).collect();
        self.connection.set_activity(|activity| {
            activity.command = "Query";
            activity.info = Some(shown);
            activity.since = Instant::now();
        });
    }

    /// A statement has ended.
    pub fn end_statement(&self) {
        self.connection.set_activity(|activity| {
            activity.command = "Sleep";
            activity.info = None;
        });
    }
}

/// Bytes a user variable is counted with.
fn size(name: &str, value: &Value) -> usize {
    match value {
        Value::Text(text) => name.len() + text.len(),
        _ => name.len(),
    }
}
