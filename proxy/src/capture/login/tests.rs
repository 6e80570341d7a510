//! Logins against a server that plays its part of the dialogue, in the clear and under TLS.

use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::Arc;

use rustls::ServerConfig;
use tempfile::NamedTempFile;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::*;
use crate::source::Upstream;
use crate::tls::testing::{Authority, server_config};
use crate::tls::{SslMode, TlsOptions};
use crate::wire::capability::SSL;
use crate::wire::handshake::SslRequest;
use crate::wire::packet::{HEADER_LEN, Header, put_packet};
use crate::wire::reply::ErrPacket;

const SALT: [u8; 20] = *b"abcdefghijklmnopqrst";
const OK_PACKET: &[u8] = &[0, 0, 0, 2, 0, 0, 0];

trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<S: AsyncRead + AsyncWrite + Unpin + Send> Stream for S {}

/// The server's end of a login.
struct Peer {
    stream: Box<dyn Stream>,
    sequence: u8,
}

impl Peer {
    async fn send(&mut self, payload: &[u8]) {
        let mut bytes = Vec::new();
        self.sequence = put_packet(&mut bytes, self.sequence, payload);
        self.stream.write_all(&bytes).await.unwrap();
        self.stream.flush().await.unwrap();
    }

    async fn receive(&mut self) -> Vec<u8> {
        let mut header = [0; HEADER_LEN];
        self.stream.read_exact(&mut header).await.unwrap();
        let header = Header::parse(header);
        assert_eq!(header.sequence, self.sequence);
        self.sequence += 1;
        let mut payload = vec![0; header.length];
        self.stream.read_exact(&mut payload).await.unwrap();
        payload
    }

    /// Greets, does the handshake where TLS is offered, and takes the login.
    async fn login(&mut self, plugin: &str, tls: Option<Arc<ServerConfig>>) -> HandshakeResponse {
        self.send(&greeting(plugin, tls.is_some()).encode()).await;
        let Some(tls) = tls else {
            return HandshakeResponse::parse(&self.receive().await).unwrap();
        };
        let request = SslRequest::parse(&self.receive().await).unwrap();
        let plain = std::mem::replace(&mut self.stream, Box::new(tokio::io::empty()));
        self.stream = Box::new(TlsAcceptor::from(tls).accept(plain).await.unwrap());
        let login = HandshakeResponse::parse(&self.receive().await).unwrap();
        assert_eq!(login.capabilities, request.capabilities);
        assert_eq!(login.max_packet, request.max_packet);
        login
    }
}

fn greeting(plugin: &str, tls: bool) -> ServerGreeting {
    ServerGreeting {
        version: "9.7.0".into(),
        thread_id: 7,
        salt: SALT.to_vec(),
        capabilities: PROTOCOL_41
            | SECURE_CONNECTION
            | PLUGIN_AUTH
            | PLUGIN_AUTH_LENENC
            | CONNECT_ATTRS
            | CLIENT_MYSQL
            | if tls { SSL } else { 0 },
        charset: 45,
        status: 2,
        auth_plugin: plugin.into(),
    }
}

/// Logs in as `u` with `secret` to a server that does what `dialogue` says.
async fn log_in_to<D>(mode: SslMode, dialogue: impl FnOnce(Peer) -> D) -> Result<(), Fault>
where
    D: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string().parse().unwrap();
    let upstream = Upstream::new("main", address);
    let upstream = upstream.with_tls(TlsOptions { mode, ..TlsOptions::default() });
    let opening = tokio::spawn(async move { Connection::open(&upstream, "u", "secret").await });
    let stream = Box::new(listener.accept().await.unwrap().0);
    let server = tokio::spawn(dialogue(Peer { stream, sequence: 0 }));
    let opened = opening.await.unwrap();
    server.await.unwrap();
    opened.map(drop)
}

fn certificate() -> Arc<ServerConfig> {
    let authority = Authority::new("ca");
    server_config(&authority.issue(&["127.0.0.1"]), None)
}

/// A server's RSA key, as MySQL makes one at its first start.
struct RsaKey {
    private: NamedTempFile,
    public: Vec<u8>,
}

impl RsaKey {
    fn new() -> Self {
        let private = NamedTempFile::new().unwrap();
        let path = private.path().to_str().unwrap();
        openssl(&["genrsa", "-out", path, "2048"], b"");
        let public = openssl(&["rsa", "-in", path, "-pubout"], b"");
        Self { private, public }
    }

    /// What the server makes of a sealed password.
    fn unseal(&self, sealed: &[u8], salt: &[u8]) -> Vec<u8> {
        let path = self.private.path().to_str().unwrap();
        let padding = "rsa_padding_mode:oaep";
        let text = openssl(&["pkeyutl", "-decrypt", "-inkey", path, "-pkeyopt", padding], sealed);
        text.iter().zip(salt.iter().cycle()).map(|(byte, salt)| byte ^ salt).collect()
    }
}

fn openssl(args: &[&str], input: &[u8]) -> Vec<u8> {
    let mut command = Command::new("openssl");
    command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut openssl = command.spawn().expect("openssl is installed");
    openssl.stdin.take().unwrap().write_all(input).unwrap();
    let output = openssl.wait_with_output().unwrap();
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

#[tokio::test]
async fn a_password_the_server_knows_is_never_sent() {
    let dialogue = |mut peer: Peer| async move {
        let login = peer.login(CACHING_SHA2, None).await;
        assert_eq!((login.user.as_slice(), login.auth_plugin.as_str()), (&b"u"[..], CACHING_SHA2));
        assert_eq!(login.auth_response, scramble_sha256(&SALT, b"secret").unwrap());
        peer.send(&[AUTH_MORE, FAST_AUTH_OK]).await;
        peer.send(OK_PACKET).await;
    };
    log_in_to(SslMode::Preferred, dialogue).await.unwrap();
}

#[tokio::test]
async fn full_authentication_in_the_clear_seals_the_password_with_the_servers_key() {
    let dialogue = |mut peer: Peer| async move {
        peer.login(CACHING_SHA2, None).await;
        peer.send(&[AUTH_MORE, FULL_AUTH]).await;
        assert_eq!(peer.receive().await, [REQUEST_PUBLIC_KEY]);
        let key = RsaKey::new();
        peer.send(&AuthMoreData(&key.public).encode()).await;
        assert_eq!(key.unseal(&peer.receive().await, &SALT), b"secret\0");
        peer.send(OK_PACKET).await;
    };
    log_in_to(SslMode::Disabled, dialogue).await.unwrap();
}

#[tokio::test]
async fn full_authentication_under_tls_sends_the_password_itself() {
    let dialogue = |mut peer: Peer| async move {
        peer.login(CACHING_SHA2, Some(certificate())).await;
        peer.send(&[AUTH_MORE, FULL_AUTH]).await;
        assert_eq!(peer.receive().await, b"secret\0");
        peer.send(OK_PACKET).await;
    };
    log_in_to(SslMode::Required, dialogue).await.unwrap();
}

#[tokio::test]
async fn a_switch_of_plugin_brings_its_own_salt() {
    const OTHER: [u8; 20] = *b"ABCDEFGHIJKLMNOPQRST";
    let dialogue = |mut peer: Peer| async move {
        let login = peer.login("sha256_password", None).await;
        assert_eq!(login.auth_plugin, NATIVE);
        let switch = AuthSwitchRequest { auth_plugin: CACHING_SHA2.into(), data: OTHER.to_vec() };
        peer.send(&switch.encode()).await;
        assert_eq!(peer.receive().await, scramble_sha256(&OTHER, b"secret").unwrap());
        peer.send(&[AUTH_MORE, FULL_AUTH]).await;
        assert_eq!(peer.receive().await, [REQUEST_PUBLIC_KEY]);
        let key = RsaKey::new();
        peer.send(&AuthMoreData(&key.public).encode()).await;
        assert_eq!(key.unseal(&peer.receive().await, &OTHER), b"secret\0");
        peer.send(OK_PACKET).await;
    };
    log_in_to(SslMode::Disabled, dialogue).await.unwrap();
}

#[tokio::test]
async fn sha256_password_sends_the_password_sealed_or_under_tls() {
    let switched = |tls: Option<Arc<ServerConfig>>| {
        |mut peer: Peer| async move {
            let secure = tls.is_some();
            peer.login(NATIVE, tls).await;
            let switch = AuthSwitchRequest { auth_plugin: SHA256.into(), data: SALT.to_vec() };
            peer.send(&switch.encode()).await;
            let answer = peer.receive().await;
            if secure {
                assert_eq!(answer, b"secret\0");
            } else {
                assert_eq!(answer, [REQUEST_SHA256_KEY]);
                let key = RsaKey::new();
                peer.send(&AuthMoreData(&key.public).encode()).await;
                assert_eq!(key.unseal(&peer.receive().await, &SALT), b"secret\0");
            }
            peer.send(OK_PACKET).await;
        }
    };
    log_in_to(SslMode::Disabled, switched(None)).await.unwrap();
    log_in_to(SslMode::Required, switched(Some(certificate()))).await.unwrap();
    assert_eq!(answer(SHA256, &SALT, "", false).unwrap(), [0]);
}

#[test]
fn a_password_too_long_for_the_key_is_refused_with_the_way_out() {
    let key = RsaKey::new();
    let longest = "x".repeat(213);
    let sealed = seal_password(&longest, &SALT, &key.public).unwrap();
    assert_eq!(key.unseal(&sealed, &SALT), format!("{longest}\0").into_bytes());
    for length in [214, 215, 256, 1000] {
        let fault = seal_password(&"x".repeat(length), &SALT, &key.public).unwrap_err();
        assert!(matches!(fault, Fault::Refused(_)));
        let sentence = fault.to_string();
        assert!(sentence.contains("213 bytes at most") && sentence.contains("ssl_mode"));
    }
}

#[tokio::test]
async fn parsec_signs_with_a_key_made_from_the_password() {
    use ring::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
    let dialogue = |prefix: &'static [u8]| {
        move |mut peer: Peer| async move {
            peer.login(NATIVE, None).await;
            let nonce = vec![7; 32];
            let switch = AuthSwitchRequest { auth_plugin: PARSEC.into(), data: nonce.clone() };
            peer.send(&switch.encode()).await;
            assert!(peer.receive().await.is_empty());
            peer.send(&[prefix, b"P\x01", &[9; 18]].concat()).await;
            let answer = peer.receive().await;
            let (theirs, signature) = answer.split_at(32);
            let mut seed = [0; 32];
            let algorithm = ring::pbkdf2::PBKDF2_HMAC_SHA512;
            let iterations = std::num::NonZeroU32::new(2048).unwrap();
            ring::pbkdf2::derive(algorithm, iterations, &[9; 18], b"secret", &mut seed);
            let key = Ed25519KeyPair::from_seed_unchecked(&seed).unwrap();
            let public = UnparsedPublicKey::new(&ED25519, key.public_key());
            public.verify(&[&nonce, theirs].concat(), signature).unwrap();
            peer.send(OK_PACKET).await;
        }
    };
    for prefix in [&[AUTH_MORE][..], b""] {
        log_in_to(SslMode::Preferred, dialogue(prefix)).await.unwrap();
    }
}

#[test]
fn a_parsec_that_would_take_forever_or_makes_no_sense_is_refused() {
    let payload = |factor| [&[b'P', factor], &[9; 18][..]].concat();
    assert_eq!(parsec(&payload(0), &[7; 32], "x").unwrap().len(), 96);
    let forever = parsec(&payload(11), &[7; 32], "x").unwrap_err().to_string();
    assert!(forever.contains("2097152 iterations"), "{forever}");
    for (payload, salt) in [(payload(255), 32), (payload(0), 20), (b"P".to_vec(), 32)] {
        assert!(parsec(&payload, &vec![7; salt], "x").is_err());
    }
}

#[tokio::test]
async fn bytes_before_tls_are_not_taken_for_bytes_within_it() {
    let dialogue = |mut peer: Peer| async move {
        let mut bytes = Vec::new();
        put_packet(&mut bytes, 0, &greeting(NATIVE, true).encode());
        put_packet(&mut bytes, 2, OK_PACKET);
        peer.stream.write_all(&bytes).await.unwrap();
        peer.stream.read_to_end(&mut Vec::new()).await.unwrap();
    };
    let fault = log_in_to(SslMode::Required, dialogue).await.unwrap_err();
    assert!(fault.to_string().contains("bytes before TLS began"), "{fault}");
}

#[tokio::test]
async fn a_refused_login_says_what_else_it_may_be() {
    let refusing = |tls: Option<Arc<ServerConfig>>| {
        |mut peer: Peer| async move {
            peer.login(NATIVE, tls).await;
            peer.send(&ErrPacket::new(1045, b"28000", "Access denied").encode()).await;
        }
    };
    let plain = log_in_to(SslMode::Disabled, refusing(None)).await.unwrap_err().to_string();
    assert!(plain.contains("requires an encrypted connection"), "{plain}");
    let tls = refusing(Some(certificate()));
    let encrypted = log_in_to(SslMode::Preferred, tls).await.unwrap_err().to_string();
    assert!(encrypted.contains("requires a client's certificate"), "{encrypted}");
}

#[test]
fn an_empty_password_is_an_empty_answer() {
    for plugin in [NATIVE, CACHING_SHA2] {
        assert!(answer(plugin, &[1; 20], "", false).unwrap().is_empty());
        assert!(!answer(plugin, &[1; 20], "x", false).unwrap().is_empty());
    }
    assert_eq!(answer(ED25519, &[1; 32], "x", false).unwrap().len(), 64);
    assert!(answer("dialog", &[], "x", true).unwrap_err().to_string().contains("dialog"));
}

#[test]
fn a_public_key_that_is_none_is_an_error() {
    for key in [b"".as_slice(), b"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n"] {
        assert!(seal_password("secret", &[1; 20], key).is_err());
    }
}
