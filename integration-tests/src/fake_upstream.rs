//! A scripted upstream: says what a MariaDB 10.11 says up to the dump, then sends transaction 0-1-1, small, 0-1-2, of any size, and
//! 0-1-3, small. It makes what it sends as it goes, so that a transaction may be larger than any memory.

use std::io::{self, BufWriter, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;

use crate::client::COM_BINLOG_DUMP;
use crate::dump::{FORMAT_DESCRIPTION, GTID, GTID_LIST, HEADER, ROTATE};

const TABLE_MAP: u8 = 19;
/// WRITE_ROWS_EVENT_V1.
pub const WRITE_ROWS: u8 = 23;
const XID: u8 = 16;
const COM_QUERY: u8 = 3;

/// Bytes of a rows event before its rows: table id, flags, column count, columns present.
pub const ROWS_HEAD: usize = 10;
/// Bytes of one row, and rows of one event as it is sent.
const ROW: usize = 1000;
const ROWS: usize = 64;

/// Listens as long as the process lives.
pub struct FakeUpstream {
    port: u16,
    rows_events: u64,
}

impl FakeUpstream {
    /// Its second transaction has at least `bytes` bytes of rows.
    pub fn start(bytes: u64) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
        let port = listener.local_addr().unwrap().port();
        let rows_events = bytes.div_ceil((ROW * ROWS) as u64);
        let script = Arc::new(Script::new(rows_events));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let script = Arc::clone(&script);
                // Whoever goes away in the middle has its reason.
                std::thread::spawn(move || drop(session(stream, &script)));
            }
        });
        Self { port, rows_events }
    }

    /// Where it listens.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Bytes of rows in the second transaction.
    pub fn row_bytes(&self) -> u64 {
        self.rows_events * (ROW * ROWS) as u64
    }
}

struct Script {
    rows_events: u64,
    head: Vec<Vec<u8>>,
    table_map: Vec<u8>,
    rows: Vec<u8>,
    last_row: Vec<u8>,
}

impl Script {
    fn new(rows_events: u64) -> Self {
        let rotate = [&4_u64.to_le_bytes()[..], b"mbin.000001"].concat();
        let head = vec![
            event(ROTATE, 0x20, &rotate),
            event(FORMAT_DESCRIPTION, 0, &format_description()),
            event(GTID_LIST, 0, &[0; 6]),
        ];
        let table_map =
            event(TABLE_MAP, 0, b"\x07\0\0\0\0\0\x01\0\x01d\0\x01t\0\x01\x0f\x02\xd0\x07\x01");
        Self { rows_events, head, table_map, rows: rows(0, ROWS), last_row: rows(1, ROWS) }
    }

    /// Sends all transactions behind `0-1-after`.
    fn send(&self, out: &mut Packets, after: u64) -> io::Result<()> {
        self.head.iter().try_for_each(|event| out.event(event))?;
        for sequence in after + 1..=3 {
            let mut gtid = sequence.to_le_bytes().to_vec();
            gtid.extend_from_slice(&[0, 0, 0, 0, 0x0c, 0, 0, 0, 0, 0, 0]);
            out.event(&event(GTID, 0, &gtid))?;
            out.event(&self.table_map)?;
            let count = if sequence == 2 { self.rows_events } else { 1 };
            for _ in 1..count {
                out.event(&self.rows)?;
            }
            out.event(&self.last_row)?;
            out.event(&event(XID, 0, &sequence.to_le_bytes()))?;
        }
        out.stream.flush()
    }
}

fn session(mut stream: TcpStream, script: &Script) -> io::Result<()> {
    stream.set_nodelay(true)?;
    send(&mut stream, 0, &greeting())?;
    receive(&mut stream)?;
    send(&mut stream, 2, &OK)?;
    let mut after = 0;
    loop {
        let command = receive(&mut stream)?;
        match command.split_first() {
            Some((&COM_QUERY, sql)) => {
                let sql = String::from_utf8_lossy(sql);
                if let Some(state) = sql.strip_prefix("SET @slave_connect_state = '0-1-") {
                    after = state.trim_end_matches('\'').parse().unwrap_or(0);
                }
                answer(&mut stream, &sql)?;
            }
            Some((&COM_BINLOG_DUMP, _)) => break,
            _ => send(&mut stream, 1, &OK)?,
        }
    }
    let buffered = BufWriter::with_capacity(1 << 20, stream.try_clone()?);
    script.send(&mut Packets { stream: buffered, sequence: 1 }, after)?;
    // Until the other side goes.
    stream.read_to_end(&mut Vec::new())?;
    Ok(())
}

struct Packets {
    stream: BufWriter<TcpStream>,
    sequence: u8,
}

impl Packets {
    fn event(&mut self, event: &[u8]) -> io::Result<()> {
        let length = u32::try_from(event.len() + 1).unwrap().to_le_bytes();
        self.stream.write_all(&[length[0], length[1], length[2], self.sequence, 0])?;
        self.sequence = self.sequence.wrapping_add(1);
        self.stream.write_all(event)
    }
}

fn answer(stream: &mut TcpStream, sql: &str) -> io::Result<()> {
    let row: &[&str] = match sql {
        "SELECT @@version" => &["10.11.19-MariaDB-log"],
        "SELECT @@log_bin, @@binlog_format, @@server_id" => &["1", "ROW", "1"],
        "SHOW BINARY LOGS" => &["mbin.000001", "1000"],
        "SELECT @master_binlog_checksum" => &["CRC32"],
        _ => return send(stream, 1, &OK),
    };
    let mut packets = vec![vec![u8::try_from(row.len()).unwrap()]];
    packets.extend(row.iter().map(|_| b"\x03def".to_vec()));
    packets.push(EOF.to_vec());
    let value = |text: &&str| [&[u8::try_from(text.len()).unwrap()], text.as_bytes()].concat();
    packets.push(row.iter().flat_map(value).collect());
    packets.push(EOF.to_vec());
    for (sequence, packet) in (1..).zip(&packets) {
        send(stream, sequence, packet)?;
    }
    Ok(())
}

const OK: [u8; 7] = [0, 0, 0, 2, 0, 0, 0];
const EOF: [u8; 5] = [0xfe, 0, 0, 2, 0];

fn send(stream: &mut TcpStream, sequence: u8, payload: &[u8]) -> io::Result<()> {
    let length = u32::try_from(payload.len()).unwrap().to_le_bytes();
    let head = [length[0], length[1], length[2], sequence];
    stream.write_all(&[&head, payload].concat())
}

fn receive(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut header = [0; 4];
    stream.read_exact(&mut header)?;
    let length = u32::from_le_bytes([header[0], header[1], header[2], 0]);
    let mut payload = vec![0; length as usize];
    stream.read_exact(&mut payload)?;
    Ok(payload)
}

fn greeting() -> Vec<u8> {
    let mut packet = vec![10];
    packet.extend_from_slice(b"5.5.5-10.11.19-MariaDB-log\0");
    packet.extend_from_slice(&7_u32.to_le_bytes());
    packet.extend_from_slice(b"aaaaaaaa\0");
    packet.extend_from_slice(&[0xfe, 0xf7, 8, 2, 0, 0xff, 0x81, 21]);
    packet.extend_from_slice(&[0; 10]);
    packet.extend_from_slice(b"aaaaaaaaaaaa\0mysql_native_password\0");
    packet
}

fn format_description() -> Vec<u8> {
    let mut body = 4_u16.to_le_bytes().to_vec();
    let mut version = b"10.11.19-MariaDB-log".to_vec();
    version.resize(50, 0);
    body.extend_from_slice(&version);
    body.extend_from_slice(&[0, 0, 0, 0, 19]);
    let mut lengths = [0; 171];
    // Of the types that are sent; a length of a type is at its number less one.
    for (kind, length) in [(ROTATE, 8), (TABLE_MAP, 8), (WRITE_ROWS, 8), (GTID, 19), (GTID_LIST, 4)]
    {
        lengths[usize::from(kind) - 1] = length;
    }
    body.extend_from_slice(&lengths);
    // CRC32.
    body.push(1);
    body
}

fn rows(flags: u16, count: usize) -> Vec<u8> {
    let mut body = vec![7, 0, 0, 0, 0, 0];
    body.extend_from_slice(&flags.to_le_bytes());
    body.extend_from_slice(&[1, 0xff]);
    for row in 0..count {
        body.push(0xfe);
        body.extend_from_slice(&u16::try_from(ROW - 3).unwrap().to_le_bytes());
        body.extend((0..ROW - 3).map(|at| b'a' + u8::try_from((row + at) % 23).unwrap()));
    }
    event(WRITE_ROWS, 0, &body)
}

/// An event of server 1 with its checksum. Its end position is 0, as newer servers leave it inside of transactions.
fn event(kind: u8, flags: u16, body: &[u8]) -> Vec<u8> {
    let size = u32::try_from(HEADER + body.len() + 4).unwrap();
    let timestamp = if flags == 0 { 1_700_000_000_u32 } else { 0 };
    let mut event = timestamp.to_le_bytes().to_vec();
    event.push(kind);
    event.extend_from_slice(&1_u32.to_le_bytes());
    event.extend_from_slice(&size.to_le_bytes());
    event.extend_from_slice(&0_u32.to_le_bytes());
    event.extend_from_slice(&flags.to_le_bytes());
    event.extend_from_slice(body);
    let checksum = crc32fast::hash(&event).to_le_bytes();
    event.extend_from_slice(&checksum);
    event
}
