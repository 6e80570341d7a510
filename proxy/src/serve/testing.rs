//! For the tests of this port: a log in a temporary directory with made-up transactions, and a client that speaks packets.

use std::sync::Arc;

use spillway_binlog::event::{
    ChecksumAlgorithm, EventHeader, EventType, FormatDescription, control,
};
use spillway_binlog::gtid::mariadb::{Gtid, GtidState, parse_list};
use spillway_binlog::transaction::Assembled;
use spillway_binlog::{Log, LogOptions};
use spillway_metrics::Registry;
use spillway_metrics::serve::ServeMetrics;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::task::JoinHandle;

use super::account::tests::sign;
use super::account::{Account, NATIVE_PASSWORD, Privilege, Secret};
use super::listener;
use super::service::{ServeOptions, Service};
use super::session::Session;
use crate::source::{Greeting, Upstream};
use crate::wire::capability::{PLUGIN_AUTH, PLUGIN_AUTH_LENENC, PROTOCOL_41, SECURE_CONNECTION};
use crate::wire::handshake::{HandshakeResponse, ServerGreeting};
use crate::wire::packet::put_packet;

pub(super) const SERVER_ID: u32 = 4307;
pub(super) const VERSION: &str = "10.11.19-MariaDB-log";
pub(super) const PASSWORD: &str = "geheim";

/// A log and a service over it.
pub(super) struct Stage {
    pub service: Arc<Service>,
    pub registry: Registry,
    dir: TempDir,
}

/// The layout of events of MariaDB 10.11.
pub(super) fn format() -> FormatDescription {
    let mut post_header_lengths = vec![0; 171];
    post_header_lengths[1] = 13;
    FormatDescription {
        server_version: VERSION.to_owned(),
        created: 7,
        post_header_lengths,
        checksum: ChecksumAlgorithm::Crc32,
    }
}

pub(super) fn gtid(text: &str) -> Gtid {
    text.parse().unwrap()
}

pub(super) fn event(event_type: EventType, server_id: u32, body: &[u8]) -> Vec<u8> {
    let header = EventHeader {
        timestamp: 1,
        event_type,
        server_id,
        event_size: 0,
        end_position: 0,
        flags: 0,
    };
    control::event(header, body, ChecksumAlgorithm::None)
}

pub(super) fn gtid_event(gtid: Gtid, flags2: u8) -> Vec<u8> {
    let mut body = gtid.sequence.to_le_bytes().to_vec();
    body.extend_from_slice(&gtid.domain.to_le_bytes());
    body.push(flags2);
    body.extend_from_slice(&[0; 6]);
    event(EventType::GTID, gtid.server, &body)
}

pub(super) fn query_event(server_id: u32, text: &str) -> Vec<u8> {
    let mut body = vec![0; 14];
    body.extend_from_slice(text.as_bytes());
    event(EventType::QUERY, server_id, &body)
}

/// Annotated, two queries, ended by an Xid: what a transaction of a binlog looks like, without checksums.
pub(super) fn transaction(gtid: Gtid, text: &str) -> Vec<Vec<u8>> {
    vec![
        gtid_event(gtid, 0x0c),
        event(EventType::ANNOTATE_ROWS, gtid.server, text.as_bytes()),
        query_event(gtid.server, text),
        event(EventType::XID, gtid.server, &gtid.sequence.to_le_bytes()),
    ]
}

/// A DDL statement.
pub(super) fn standalone(gtid: Gtid) -> Vec<Vec<u8>> {
    vec![gtid_event(gtid, 0x29), query_event(gtid.server, "create table t (a int)")]
}

impl Stage {
    /// An empty log, with two upstreams that were never seen.
    pub fn empty() -> Self {
        Self::with(1 << 30)
    }

    /// A log whose first file begins at a position.
    pub fn begun(state: &str) -> Self {
        let stage = Self::behind(state);
        stage.service.log.set_caught_up();
        stage
    }

    /// The same, but what its source has is not in the log yet.
    pub fn behind(state: &str) -> Self {
        let stage = Self::with(1 << 30);
        stage.begin(state);
        stage
    }

    /// A log that starts a new file behind every transaction.
    pub fn many_files() -> Self {
        let stage = Self::with(400);
        stage.begin("");
        stage
    }

    /// A port that gives little time to log in.
    pub fn impatient() -> Self {
        let mut stage = Self::begun("");
        let service = Arc::get_mut(&mut stage.service).unwrap();
        service.login_deadline = std::time::Duration::from_millis(20);
        stage
    }

    /// As [`Stage::many_files`], and a client whose file was purged has no time.
    pub fn many_files_and_no_patience() -> Self {
        let mut stage = Self::many_files();
        let service = Arc::get_mut(&mut stage.service).unwrap();
        service.purged_patience = std::time::Duration::from_millis(20);
        stage
    }

    /// Opens the first file.
    pub fn begin(&self, state: &str) {
        let state = GtidState::from_list(&parse_list(state).unwrap());
        self.service.log.submitter().begin(Arc::new(format()), state).wait_durable().unwrap();
    }

    fn with(max_binlog_size: u64) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let options = LogOptions {
            max_binlog_size,
            // No transaction here is a file of its own.
            large_commit_threshold: u64::MAX,
            ..LogOptions::new(dir.path(), SERVER_ID)
        };
        let log = Arc::new(Log::open(options).unwrap());
        let upstream = |name| Arc::new(Upstream::new(name, "127.0.0.1:3306".parse().unwrap()));
        let upstreams = vec![upstream("first"), upstream("second")];
        let registry = Registry::new();
        let metrics = ServeMetrics::register(&registry).unwrap();
        let account = |name: &str, privileges: &[Privilege]| Account {
            name: name.to_owned(),
            secret: Secret::Password(PASSWORD.to_owned()),
            hosts: vec!["127.0.0.0/8".parse().unwrap()],
            privileges: privileges.to_vec(),
        };
        let far = Account { hosts: vec!["10.0.0.0/8".parse().unwrap()], ..account("far", &[]) };
        let hashed = Account {
            secret: Secret::from_authentication_string(&native_verifier()).unwrap(),
            ..account("hashed", &[])
        };
        let accounts = vec![
            account("repl", &[Privilege::ReplicationSlave, Privilege::BinlogMonitor]),
            account("admin", &Privilege::ALL),
            account("nobody", &[]),
            far,
            hashed,
        ];
        let local = "127.0.0.1:4307".parse().unwrap();
        let options = ServeOptions { listen: local, server_id: SERVER_ID, accounts };
        let service = Arc::new(Service::new(options, local, log, upstreams, metrics));
        Self { service, registry, dir }
    }

    /// As if the second upstream had greeted.
    pub fn greet(&self, version: &str) {
        self.greet_from(1, version);
    }

    /// As if an upstream had greeted.
    pub fn greet_from(&self, upstream: usize, version: &str) {
        let greeting = Greeting { version: version.to_owned(), payload: Vec::new() };
        self.service.upstreams[upstream].set_greeting(greeting);
    }

    /// Records a transaction.
    pub fn record(&self, events: &[Vec<u8>]) {
        let source = self.service.log.submitter();
        let mut assembler = source.assembler(Arc::new(format()));
        let mut complete = None;
        for event in events {
            if let Assembled::Complete(transaction) = assembler.push(event).unwrap() {
                complete = Some(transaction);
            }
        }
        source.submit(complete.unwrap()).wait_durable().unwrap();
    }

    /// Records ordinary transactions under these GTIDs.
    pub fn record_all(&self, gtids: &str) {
        for gtid in parse_list(gtids).unwrap() {
            self.record(&transaction(gtid, "insert into t values (1)"));
        }
    }

    /// Writes over a file of the log, as a failing disk would.
    pub fn damage(&self, file: &str, position: u64, bytes: &[u8]) {
        use std::os::unix::fs::FileExt;
        let path = self.dir.path().join(file);
        let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
        file.write_all_at(bytes, position).unwrap();
    }

    /// A session as its owner has it after login.
    pub fn session(&self, user: &str) -> Arc<Session> {
        let entry = self.service.connections.enter("127.0.0.1".parse().unwrap());
        let connection = Arc::clone(&entry.connection);
        // The entry would leave the registry at the end of this function.
        std::mem::forget(entry);
        let salt = *b"12345678901234567890";
        let session = Arc::new(Session::new(Arc::clone(&self.service), connection, salt));
        let response = sign(NATIVE_PASSWORD, PASSWORD, &salt);
        assert!(session.authenticate(user, NATIVE_PASSWORD, &response));
        session
    }

    /// A connection served in a task.
    pub fn connect(&self) -> Client {
        let (client, server) = tokio::io::duplex(1 << 20);
        let service = Arc::clone(&self.service);
        let entry = service.connections.enter("127.0.0.1".parse().unwrap());
        let task = tokio::spawn(async move { listener::serve(service, &entry, server).await });
        Client { stream: client, task, id: 0 }
    }

    /// A connection that is logged in.
    pub async fn login(&self, user: &str) -> Client {
        let mut client = self.connect();
        let reply = client.log_in(user, PASSWORD, NATIVE_PASSWORD).await;
        assert_eq!(reply[0], 0, "{}", String::from_utf8_lossy(&reply));
        client
    }
}

/// What `SELECT PASSWORD('geheim')` says on MariaDB.
fn native_verifier() -> String {
    use sha1::{Digest, Sha1};
    let hash = Sha1::digest(Sha1::digest(PASSWORD.as_bytes()));
    let digits: String = hash.iter().map(|byte| format!("{byte:02X}")).collect();
    format!("*{digits}")
}

/// A client's end of a connection.
pub(super) struct Client {
    pub stream: DuplexStream,
    pub task: JoinHandle<()>,
    /// The connection's id, from the greeting.
    pub id: u32,
}

impl Client {
    pub async fn send(&mut self, sequence: u8, payload: &[u8]) {
        let mut packet = Vec::new();
        put_packet(&mut packet, sequence, payload);
        self.stream.write_all(&packet).await.unwrap();
    }

    /// The next packet, with its sequence number.
    pub async fn packet(&mut self) -> (u8, Vec<u8>) {
        let mut header = [0; 4];
        let deadline = std::time::Duration::from_secs(20);
        tokio::time::timeout(deadline, self.stream.read_exact(&mut header)).await.unwrap().unwrap();
        let len = u32::from_le_bytes([header[0], header[1], header[2], 0]) as usize;
        let mut payload = vec![0; len];
        self.stream.read_exact(&mut payload).await.unwrap();
        (header[3], payload)
    }

    pub async fn receive(&mut self) -> Vec<u8> {
        self.packet().await.1
    }

    /// Whatever is left until the other side closes.
    pub async fn rest(&mut self) -> Vec<u8> {
        let mut rest = Vec::new();
        let deadline = std::time::Duration::from_secs(20);
        let read = self.stream.read_to_end(&mut rest);
        tokio::time::timeout(deadline, read).await.unwrap().unwrap();
        rest
    }

    /// Logs in and answers the last packet of it.
    pub async fn log_in(&mut self, user: &str, password: &str, plugin: &str) -> Vec<u8> {
        let greeting = ServerGreeting::parse(&self.receive().await).unwrap();
        self.id = greeting.thread_id;
        let response = HandshakeResponse {
            capabilities: PROTOCOL_41 | SECURE_CONNECTION | PLUGIN_AUTH | PLUGIN_AUTH_LENENC,
            max_packet: 1 << 24,
            charset: 33,
            user: user.as_bytes().to_vec(),
            auth_response: sign(plugin, password, &greeting.salt),
            auth_plugin: plugin.to_owned(),
            ..HandshakeResponse::default()
        };
        self.send(1, &response.encode()).await;
        self.receive().await
    }

    /// Sends a command and answers its first packet.
    pub async fn command(&mut self, payload: &[u8]) -> Vec<u8> {
        self.send(0, payload).await;
        self.receive().await
    }

    pub async fn query(&mut self, text: &str) -> Vec<u8> {
        self.command(&[b"\x03", text.as_bytes()].concat()).await
    }

    /// A query that gives one row of one column.
    pub async fn single(&mut self, text: &str) -> String {
        assert_eq!(self.query(text).await, [1], "{text}");
        // The column's definition, EOF, the row, EOF.
        let (_, _, row, _) = (
            self.receive().await,
            self.receive().await,
            self.receive().await,
            self.receive().await,
        );
        String::from_utf8(row[1..].to_vec()).unwrap()
    }
}
