//! Logging in to an upstream: mysql_native_password, client_ed25519, parsec, caching_sha2_password and sha256_password (with RSA
//! where somebody on the way could read the password).

use mysql_common::packets::parse_parsec_salt;
use mysql_common::scramble::{
    create_response_for_ed25519, create_response_for_parsec, scramble_native, scramble_sha256,
};

use x509_parser::pem::parse_x509_pem;
use x509_parser::prelude::FromDer;
use x509_parser::public_key::PublicKey;
use x509_parser::x509::SubjectPublicKeyInfo;

use super::connection::Connection;
use super::fault::Fault;
use crate::wire::capability::{
    CLIENT_MYSQL, CONNECT_ATTRS, LONG_FLAG, PLUGIN_AUTH, PLUGIN_AUTH_LENENC, PROTOCOL_41,
    SECURE_CONNECTION, TRANSACTIONS,
};
use crate::wire::handshake::{AuthMoreData, AuthSwitchRequest, HandshakeResponse, ServerGreeting};

const NATIVE: &str = "mysql_native_password";
const ED25519: &str = "client_ed25519";
const CACHING_SHA2: &str = "caching_sha2_password";
/// Rare as an account's own. But MySQL also asks for it, or for the one before, where there is no such account, so that nobody
/// can tell: only who answers hears that access is denied.
const SHA256: &str = "sha256_password";
/// Its dialogue begins with an empty packet, which is answered with the account's salt.
const PARSEC: &str = "parsec";
/// How the account's salt of parsec begins where a server sends it bare, as the first ones with parsec did.
const PARSEC_SALT: u8 = b'P';
/// MariaDB 11.8 asks for 1024. Up to this many take a second or two; a server that wants more wants to keep us busy.
const MAX_PARSEC_ITERATIONS: u32 = 1 << 20;

const OK: u8 = 0;
const AUTH_MORE: u8 = 1;
const AUTH_SWITCH: u8 = 0xfe;
/// caching_sha2_password: the server knew the password's hash.
const FAST_AUTH_OK: u8 = 3;
/// caching_sha2_password: the server wants the password itself.
const FULL_AUTH: u8 = 4;
/// caching_sha2_password: asks for the server's public key.
const REQUEST_PUBLIC_KEY: u8 = 2;
/// sha256_password: the same.
const REQUEST_SHA256_KEY: u8 = 1;
/// Bytes that sealing (OAEP with SHA-1) adds to a password and its NUL.
const SEAL_OVERHEAD: usize = 2 * 20 + 2;

/// The largest packet we take: replication has events of up to 1 GiB.
const MAX_PACKET: u32 = 1 << 30;

/// Answers the greeting and follows the dialogue to its OK.
pub(super) async fn log_in(
    connection: &mut Connection,
    greeting: &ServerGreeting,
    login: &HandshakeResponse,
    password: &str,
) -> Result<(), Fault> {
    connection.send(&login.encode()).await?;
    let (mut plugin, mut salt) = (login.auth_plugin.clone(), greeting.salt.clone());
    loop {
        let payload = connection.answer_or_error().await?;
        match payload.first() {
            Some(&OK) => return Ok(()),
            Some(&AUTH_SWITCH) => {
                let switch = AuthSwitchRequest::parse(&payload)?;
                (plugin, salt) = (switch.auth_plugin, switch.data);
                let secure = connection.stream.is_secure();
                connection.send(&answer(&plugin, &salt, password, secure)?).await?;
            }
            Some(&AUTH_MORE) if plugin == SHA256 => {
                let key = AuthMoreData::parse(&payload)?.0;
                connection.send(&seal_password(password, &salt, key)?).await?;
            }
            Some(&AUTH_MORE) if plugin == CACHING_SHA2 => {
                let data = AuthMoreData::parse(&payload)?.0.to_vec();
                full_authentication(connection, &data, &salt, password).await?;
            }
            Some(&AUTH_MORE) if plugin == PARSEC => {
                let data = AuthMoreData::parse(&payload)?.0;
                connection.send(&parsec(data, &salt, password)?).await?;
            }
            Some(&PARSEC_SALT) if plugin == PARSEC => {
                connection.send(&parsec(&payload, &salt, password)?).await?;
            }
            _ => return Err(refused("the upstream's login dialogue is not understood")),
        }
    }
}

fn is_known(plugin: &str) -> bool {
    [NATIVE, ED25519, CACHING_SHA2].contains(&plugin)
}

fn refused(sentence: &str) -> Fault {
    Fault::Refused(sentence.to_owned())
}

/// What answers a greeting.
pub(super) fn login_packet(
    greeting: &ServerGreeting,
    user: &str,
    password: &str,
) -> Result<HandshakeResponse, Fault> {
    const WANTED: u64 = CLIENT_MYSQL
        | LONG_FLAG
        | PROTOCOL_41
        | TRANSACTIONS
        | SECURE_CONNECTION
        | PLUGIN_AUTH
        | PLUGIN_AUTH_LENENC
        | CONNECT_ATTRS;
    const UTF8MB4: u8 = 45;
    let plugin = if is_known(&greeting.auth_plugin) { &greeting.auth_plugin } else { NATIVE };
    let attribute = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    Ok(HandshakeResponse {
        capabilities: WANTED & (greeting.capabilities | CLIENT_MYSQL),
        max_packet: MAX_PACKET,
        charset: UTF8MB4,
        user: user.as_bytes().to_vec(),
        auth_response: answer(plugin, &greeting.salt, password, false)?,
        database: Vec::new(),
        auth_plugin: plugin.to_owned(),
        attributes: vec![
            attribute("_client_name", "spillway"),
            attribute("_client_version", env!("CARGO_PKG_VERSION")),
            attribute("_client_role", "binary_log_listener"),
        ],
    })
}

/// A plugin's first answer to a salt; `secure` where nobody on the way can read it.
fn answer(plugin: &str, salt: &[u8], password: &str, secure: bool) -> Result<Vec<u8>, Fault> {
    if plugin == SHA256 {
        let sent = secure || password.is_empty();
        return Ok(if sent { nul_terminated(password) } else { vec![REQUEST_SHA256_KEY] });
    }
    let password = password.as_bytes();
    match plugin {
        NATIVE => Ok(scramble_native(salt, password).map(Vec::from).unwrap_or_default()),
        CACHING_SHA2 => Ok(scramble_sha256(salt, password).map(Vec::from).unwrap_or_default()),
        ED25519 => Ok(create_response_for_ed25519(password, salt).to_vec()),
        PARSEC => Ok(Vec::new()),
        other => Err(Fault::Refused(format!(
            "the account uses the authentication plugin {other}, which capture does not know: give it {NATIVE}, ed25519, {PARSEC} or {CACHING_SHA2}"
        ))),
    }
}

/// Signs the server's salt with a key made from the password and the account's salt.
fn parsec(payload: &[u8], salt: &[u8], password: &str) -> Result<Vec<u8>, Fault> {
    let not_understood = || refused("the upstream's parsec dialogue is not understood");
    let (iterations, own_salt) = parse_parsec_salt(payload).ok_or_else(not_understood)?;
    if iterations > MAX_PARSEC_ITERATIONS {
        return Err(Fault::Refused(format!(
            "the account's parsec wants {iterations} iterations, capture does {MAX_PARSEC_ITERATIONS} at most: set its password anew with fewer"
        )));
    }
    let salt = salt.try_into().map_err(|_| not_understood())?;
    Ok(create_response_for_parsec(password.as_bytes(), salt, iterations, own_salt).to_vec())
}

async fn full_authentication(
    connection: &mut Connection,
    data: &[u8],
    salt: &[u8],
    password: &str,
) -> Result<(), Fault> {
    match data {
        [FAST_AUTH_OK] => Ok(()),
        [FULL_AUTH] if connection.stream.is_secure() => {
            connection.send(&nul_terminated(password)).await
        }
        [FULL_AUTH] => {
            connection.send(&[REQUEST_PUBLIC_KEY]).await?;
            let payload = connection.answer_or_error().await?;
            let key = AuthMoreData::parse(&payload)?.0;
            let sealed = seal_password(password, salt, key)?;
            connection.send(&sealed).await
        }
        _ => Err(refused("the upstream's caching_sha2_password dialogue is not understood")),
    }
}

fn nul_terminated(password: &str) -> Vec<u8> {
    [password.as_bytes(), &[0]].concat()
}

/// The password, NUL-terminated, XORed with the salt and encrypted with the server's key (RSA, OAEP).
fn seal_password(password: &str, salt: &[u8], key: &[u8]) -> Result<Vec<u8>, Fault> {
    let unreadable = || refused("the upstream's public key cannot be read");
    let room = modulus_len(key).ok_or_else(unreadable)?.saturating_sub(SEAL_OVERHEAD);
    let mut text = nul_terminated(password);
    if text.len() > room {
        return Err(Fault::Refused(format!(
            "the upstream wants the password itself, and its public key seals {} bytes at most, fewer than the password has: set ssl_mode = \"REQUIRED\", or give the account a shorter one",
            room.saturating_sub(1)
        )));
    }
    for (byte, salt) in text.iter_mut().zip(salt.iter().cycle()) {
        *byte ^= salt;
    }
    // mysql_common 0.37 panics on a key that is none.
    let sealed = std::panic::catch_unwind(|| mysql_common::crypto::encrypt(&text, key));
    sealed.map_err(|_| unreadable())
}

/// Bytes of an RSA key's modulus; `None` for what is no such key.
fn modulus_len(key: &[u8]) -> Option<usize> {
    let (_, pem) = parse_x509_pem(key).ok()?;
    let (_, info) = SubjectPublicKeyInfo::from_der(&pem.contents).ok()?;
    match info.parsed().ok()? {
        PublicKey::RSA(key) => Some(key.modulus.iter().skip_while(|byte| **byte == 0).count()),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
