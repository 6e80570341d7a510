//! The client's answer to the greeting: read here too, because the library keeps the client's plugin to itself.

use crate::serve::account::{Account, CACHING_SHA2_PASSWORD, NATIVE_PASSWORD};
use crate::wire::WireError;
use crate::wire::capability::SSL;
use crate::wire::handshake::HandshakeResponse;

/// Who the client says it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::serve) struct Login {
    pub user: String,
    plugin: String,
}

impl Login {
    /// The plugin by which the client's answer is judged: its own if the account allows it, else the one it is asked to switch
    /// to. MySQL 9 clients do not have `mysql_native_password` any more.
    pub fn plugin_for(&self, account: Option<&Account>) -> &'static str {
        let allowed = |plugin: &str| account.is_none_or(|account| account.secret.allows(plugin));
        match self.plugin.as_str() {
            CACHING_SHA2_PASSWORD if allowed(CACHING_SHA2_PASSWORD) => CACHING_SHA2_PASSWORD,
            _ => NATIVE_PASSWORD,
        }
    }

    /// Whether the answer was made by another plugin than it will be judged by.
    fn must_switch(&self, account: Option<&Account>) -> bool {
        !self.plugin.is_empty() && self.plugin != self.plugin_for(account)
    }
}

/// Reads the packet. Where the client has to switch plugins its answer is taken out: the library asks for a switch only then.
///
/// # Errors
/// The packet is broken, or asks for TLS, which was not offered.
pub(super) fn read(
    payload: &[u8],
    find: impl FnOnce(&str) -> Option<std::sync::Arc<Account>>,
) -> Result<(Login, Vec<u8>), WireError> {
    let mut response = HandshakeResponse::parse(payload)?;
    if response.capabilities & SSL != 0 {
        let fault = "asks for TLS, which this port does not offer";
        return Err(WireError::Malformed { packet: "login packet", fault });
    }
    let login = Login {
        user: String::from_utf8_lossy(&response.user).into_owned(),
        plugin: response.auth_plugin.clone(),
    };
    let account = find(&login.user);
    if !login.must_switch(account.as_deref()) {
        return Ok((login, payload.to_vec()));
    }
    response.auth_response.clear();
    Ok((login, response.encode()))
}
