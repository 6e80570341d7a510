//! A scripted upstream: says what a MariaDB 10.11 says up to the dump, then sends the events of its script.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use spillway::source::ServerAddress;
use spillway::wire::handshake::ServerGreeting;
use spillway::wire::packet::put_packet;
use spillway::wire::reply::ErrPacket;
use spillway_binlog::event::{
    ChecksumAlgorithm, EventHeader, EventType, FormatDescription, control, gtid_list,
};
use spillway_binlog::gtid::mariadb::{Gtid, parse_list};

/// What one session does.
#[derive(Clone)]
pub struct Script {
    dump: Dump,
    close: bool,
    /// Gates that the test opens, and the events behind each.
    gated: Vec<(Arc<AtomicBool>, Vec<Vec<u8>>)>,
    /// `@@GLOBAL.gtid_binlog_pos`.
    position: String,
}

#[derive(Clone)]
enum Dump {
    Events(Vec<Vec<u8>>),
    Error(u16, String),
    Garbage(Vec<u8>),
    /// Rows without end for the first query.
    Rows,
    /// One event in packets without end.
    Packets,
}

impl Script {
    fn new(dump: Dump, close: bool) -> Self {
        Self { dump, close, gated: Vec::new(), position: String::new() }
    }

    /// Sends these events, then nothing more.
    pub fn oldest(events: Vec<Vec<u8>>) -> Self {
        Self::new(Dump::Events(events), false)
    }

    /// Sends more events once the gate is open.
    pub fn then_gated(mut self, gate: &Arc<AtomicBool>, events: Vec<Vec<u8>>) -> Self {
        self.gated.push((Arc::clone(gate), events));
        self
    }

    /// Says that its binlog ends at this position.
    pub fn at(mut self, position: &str) -> Self {
        position.clone_into(&mut self.position);
        self
    }

    /// Closes the connection after the last event.
    pub fn then_close(mut self) -> Self {
        self.close = true;
        self
    }

    /// Answers the dump with an error.
    pub fn error(code: u16, text: &str) -> Self {
        Self::new(Dump::Error(code, text.to_owned()), true)
    }

    /// Answers the first query with rows that do not end.
    pub fn endless_rows() -> Self {
        Self::new(Dump::Rows, true)
    }

    /// Sends an event that does not end.
    pub fn endless_event() -> Self {
        Self::new(Dump::Packets, true)
    }

    /// Sends these bytes instead of a greeting.
    pub fn garbage(bytes: &[u8]) -> Self {
        Self::new(Dump::Garbage(bytes.to_vec()), true)
    }
}

/// What a session asked for.
#[derive(Clone, Debug, Default)]
pub struct Session {
    /// `@slave_connect_state`.
    pub connect_state: Option<String>,
    /// `@rpl_semi_sync_slave`.
    pub semi_sync: bool,
}

impl Session {
    /// Takes note of a statement.
    pub fn hear(&mut self, sql: &str) {
        if let Some(state) = sql.strip_prefix("SET @slave_connect_state = ") {
            self.connect_state = Some(state.trim_matches('\'').to_owned());
        }
        self.semi_sync |= sql == "SET @rpl_semi_sync_slave = 1";
    }
}

/// Listens until dropped; the nth connection gets the nth script, later ones the last.
pub struct FakeUpstream {
    address: SocketAddr,
    sessions: Arc<Mutex<Vec<Session>>>,
}

impl FakeUpstream {
    pub fn start(scripts: Vec<Script>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let sessions = Arc::new(Mutex::new(Vec::new()));
        let all = Arc::clone(&sessions);
        thread::spawn(move || serve(&listener, &scripts, &all));
        Self { address, sessions }
    }

    /// An address where nobody listens any more.
    pub fn absent() -> Self {
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        Self { address, sessions: Arc::default() }
    }

    pub fn address(&self) -> ServerAddress {
        self.address.to_string().parse().unwrap()
    }

    /// The sessions that came as far as a dump, in order.
    pub fn sessions(&self) -> Vec<Session> {
        self.sessions.lock().unwrap().clone()
    }
}

fn serve(listener: &TcpListener, scripts: &[Script], sessions: &Mutex<Vec<Session>>) {
    for (number, stream) in listener.incoming().enumerate() {
        let script = scripts.get(number).or(scripts.last()).unwrap();
        // A capture that is stopped closes its end: nothing to report.
        let _ended = session(stream.unwrap(), script, sessions);
    }
}

fn session(
    mut stream: TcpStream,
    script: &Script,
    sessions: &Mutex<Vec<Session>>,
) -> io::Result<()> {
    if let Dump::Garbage(bytes) = &script.dump {
        return stream.write_all(bytes);
    }
    send(&mut stream, 0, &greeting())?;
    receive(&mut stream)?;
    send(&mut stream, 2, &ok())?;
    let mut asked = Session::default();
    loop {
        let command = receive(&mut stream)?;
        match command.split_first() {
            Some((0x03, _)) if matches!(script.dump, Dump::Rows) => {
                return endless_rows(&mut stream);
            }
            Some((0x03, sql)) => {
                answer(&mut stream, &String::from_utf8_lossy(sql), script, &mut asked)?;
            }
            Some((0x12, _)) => break,
            _ => send(&mut stream, 1, &ok())?,
        }
    }
    sessions.lock().unwrap().push(asked);
    dump(&mut stream, script)
}

fn dump(stream: &mut TcpStream, script: &Script) -> io::Result<()> {
    let mut sequence = 1;
    match &script.dump {
        Dump::Events(events) => sequence = send_events(stream, sequence, events)?,
        Dump::Error(code, text) => {
            send(stream, sequence, &ErrPacket::new(*code, b"HY000", text.as_str()).encode())?;
        }
        Dump::Packets => return endless_event(stream),
        Dump::Garbage(_) | Dump::Rows => {}
    }
    for (gate, events) in &script.gated {
        while !gate.load(Ordering::Acquire) {
            thread::sleep(Duration::from_millis(1));
        }
        sequence = send_events(stream, sequence, events)?;
    }
    if !script.close {
        // Until the other side goes.
        stream.read_to_end(&mut Vec::new())?;
    }
    Ok(())
}

fn send_events(stream: &mut TcpStream, mut sequence: u8, events: &[Vec<u8>]) -> io::Result<u8> {
    for event in events {
        let mut bytes = Vec::new();
        sequence = put_packet(&mut bytes, sequence, &[&[0], event.as_slice()].concat());
        stream.write_all(&bytes)?;
    }
    Ok(sequence)
}

/// Ends when the other side has had enough.
fn endless_rows(stream: &mut TcpStream) -> io::Result<()> {
    send(stream, 1, &[1])?;
    send(stream, 2, b"\x03def")?;
    send(stream, 3, &eof())?;
    let mut sequence = 4;
    loop {
        let mut bytes = Vec::new();
        for _ in 0..1000 {
            sequence = put_packet(&mut bytes, sequence, b"\x01x");
        }
        stream.write_all(&bytes)?;
    }
}

/// Ends when the other side has had enough.
fn endless_event(stream: &mut TcpStream) -> io::Result<()> {
    let mut bytes = vec![0; 4 + 0xff_ffff];
    bytes[..3].fill(0xff);
    for sequence in (0..=u8::MAX).cycle().skip(1) {
        bytes[3] = sequence;
        stream.write_all(&bytes)?;
    }
    Ok(())
}

fn answer(
    stream: &mut TcpStream,
    sql: &str,
    script: &Script,
    asked: &mut Session,
) -> io::Result<()> {
    asked.hear(sql);
    let row: &[&str] = match sql {
        "SELECT @@version" => &["10.11.19-MariaDB-log"],
        "SELECT @@log_bin, @@binlog_format, @@server_id" => &["1", "ROW", "1"],
        "SELECT @@GLOBAL.gtid_binlog_pos" => &[&script.position],
        "SHOW BINARY LOGS" => &["mbin.000001", "1000"],
        "SELECT @master_binlog_checksum" => &["CRC32"],
        _ => return send(stream, 1, &ok()),
    };
    send_row(stream, row)
}

/// A result of one row.
pub fn send_row(stream: &mut TcpStream, row: &[&str]) -> io::Result<()> {
    let columns = u8::try_from(row.len()).unwrap();
    let mut packets = vec![vec![columns]];
    packets.extend(row.iter().map(|_| b"\x03def".to_vec()));
    packets.push(eof());
    let value = |text: &&str| [&[u8::try_from(text.len()).unwrap()], text.as_bytes()].concat();
    packets.push(row.iter().flat_map(value).collect());
    packets.push(eof());
    for (sequence, packet) in packets.iter().enumerate() {
        send(stream, u8::try_from(sequence + 1).unwrap(), packet)?;
    }
    Ok(())
}

pub fn send(stream: &mut TcpStream, sequence: u8, payload: &[u8]) -> io::Result<()> {
    let mut bytes = Vec::new();
    put_packet(&mut bytes, sequence, payload);
    stream.write_all(&bytes)
}

pub fn receive(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut header = [0; 4];
    stream.read_exact(&mut header)?;
    let length = u32::from_le_bytes([header[0], header[1], header[2], 0]);
    let mut payload = vec![0; length as usize];
    stream.read_exact(&mut payload)?;
    Ok(payload)
}

pub fn ok() -> Vec<u8> {
    vec![0, 0, 0, 2, 0, 0, 0]
}

pub fn eof() -> Vec<u8> {
    vec![0xfe, 0, 0, 2, 0]
}

pub fn greeting() -> Vec<u8> {
    ServerGreeting {
        version: "5.5.5-10.11.19-MariaDB-log".into(),
        thread_id: 7,
        salt: vec![b'a'; 20],
        capabilities: 0x81ff_f7fe,
        charset: 8,
        status: 2,
        auth_plugin: "mysql_native_password".into(),
    }
    .encode()
}

/// An event of server 1 with a checksum.
pub fn event(event_type: u8, body: &[u8]) -> Vec<u8> {
    event_of(1, event_type, body)
}

/// An event of a server with a checksum.
pub fn event_of(server_id: u32, event_type: u8, body: &[u8]) -> Vec<u8> {
    let header = EventHeader {
        timestamp: 1_700_000_000,
        event_type: EventType(event_type),
        server_id,
        event_size: 0,
        end_position: 0,
        flags: 0,
    };
    control::event(header, body, ChecksumAlgorithm::Crc32)
}

/// `0-1-sequence`: a Gtid event and an Xid.
pub fn xid_transaction(sequence: u64) -> Vec<Vec<u8>> {
    transaction(0, sequence)
}

/// `domain-1-sequence`: a Gtid event and an Xid.
pub fn transaction(domain: u32, sequence: u64) -> Vec<Vec<u8>> {
    let mut gtid = sequence.to_le_bytes().to_vec();
    gtid.extend_from_slice(&domain.to_le_bytes());
    gtid.extend_from_slice(&[0x0c, 0, 0, 0, 0, 0, 0]);
    vec![event(162, &gtid), event(16, &sequence.to_le_bytes())]
}

/// Three header events, then the transactions' events.
pub fn events(transactions: &[&Vec<Vec<u8>>]) -> Vec<Vec<u8>> {
    events_of(Server::default(), transactions)
}

/// What a server's files tell of it.
#[derive(Clone, Copy)]
pub struct Server {
    pub version: &'static str,
    /// When it was started; 0 where the file does not tell.
    pub created: u32,
    /// The Gtid_list.
    pub list: &'static str,
}

impl Default for Server {
    fn default() -> Self {
        Self { version: "10.11.19-MariaDB-log", created: 0, list: "" }
    }
}

/// As [`events`], of another server.
pub fn events_of(server: Server, transactions: &[&Vec<Vec<u8>>]) -> Vec<Vec<u8>> {
    let mut all = header_events_of(server, &parse_list(server.list).unwrap());
    all.extend(transactions.iter().flat_map(|events| events.iter().cloned()));
    all
}

/// What a file begins with that has these GTIDs before it.
pub fn header_events(list: &[Gtid]) -> Vec<Vec<u8>> {
    header_events_of(Server::default(), list)
}

fn header_events_of(server: Server, list: &[Gtid]) -> Vec<Vec<u8>> {
    let rotate = control::artificial(EventType::ROTATE, 1, 0);
    let rotate_body = control::rotate_body(4, "mbin.000001");
    let mut post_header_lengths = vec![0; 171];
    post_header_lengths[18] = 8;
    post_header_lengths[22..25].fill(8);
    let format = FormatDescription {
        server_version: server.version.into(),
        created: server.created,
        post_header_lengths,
        checksum: ChecksumAlgorithm::Crc32,
    };
    vec![
        control::event(rotate, &rotate_body, ChecksumAlgorithm::Crc32),
        format.to_event(1_700_000_000, 1, 256),
        event(163, &gtid_list::body(list, 0)),
    ]
}
