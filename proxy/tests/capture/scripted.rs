//! A scripted MariaDB whose binlog a test changes while it is served. It attaches replicas by the rules of MariaDB 10.11 (facts on
//! the replica protocol, A.7 and G), sends heartbeats when idle, and cuts or corrupts what it sends where it is told to.

use std::collections::{HashMap, VecDeque};
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, SystemTime};

use spillway::source::ServerAddress;
use spillway::wire::packet::put_packet;
use spillway::wire::reply::ErrPacket;
use spillway_binlog::event::{ChecksumAlgorithm, EventHeader, EventType, control};
use spillway_binlog::gtid::mariadb::{Gtid, GtidState, parse_list, print_list};

use super::upstream::{Session, event_of, greeting, header_events, ok, receive, send, send_row};

const PURGED: &str = "Could not find GTID state requested by slave in any binlog files. Probably the slave state is too old and required binlog files have been purged.";

/// A transaction with its GTID.
pub type Group = (Gtid, Vec<Vec<u8>>);

/// `text` is its GTID; two of one GTID differ in `content`.
pub fn group(text: &str, content: &str) -> Group {
    let gtid: Gtid = text.parse().unwrap();
    let mut body = gtid.sequence.to_le_bytes().to_vec();
    body.extend_from_slice(&gtid.domain.to_le_bytes());
    body.extend_from_slice(&[0x0c, 0, 0, 0, 0, 0, 0]);
    let events = vec![
        event_of(gtid.server, 162, &body),
        event_of(gtid.server, 160, content.as_bytes()),
        event_of(gtid.server, 16, &gtid.sequence.to_le_bytes()),
    ];
    (gtid, events)
}

/// Groups of these GTIDs.
pub fn groups(texts: &str, content: &str) -> Vec<Group> {
    texts.split(',').filter(|text| !text.is_empty()).map(|text| group(text, content)).collect()
}

/// What happens to the dump of one connection.
#[derive(Clone, Copy, Debug)]
pub enum Mishap {
    /// The connection ends behind so many bytes of the dump.
    Cut(usize),
    /// This byte of the dump is another; packet headers do not count: with a length too large there is nothing to notice.
    Flip(usize),
}

#[derive(Default)]
struct Binlog {
    /// Counts RESET MASTER and the like: a dump ends with it.
    life: usize,
    /// Dumps of this life and before send heartbeats only, as MariaDB 10.11's do after RESET MASTER.
    silent: Option<usize>,
    /// The state before the first group: what was purged.
    head: GtidState,
    groups: Vec<Group>,
}

impl Binlog {
    fn state(&self) -> GtidState {
        let mut state = self.head.clone();
        self.groups.iter().for_each(|(gtid, _)| state.update(*gtid));
        state
    }
}

/// How the server is semi-synchronous.
#[derive(Clone, Copy)]
pub struct SemiSync {
    /// `rpl_semi_sync_master_enabled`. Each group's last event asks for an acknowledgement.
    pub setting: &'static str,
    /// Where in its file the first group begins.
    pub begins_at: u64,
    /// Packet numbers go on, as over a proxy, instead of starting again at 1.
    pub numbers_go_on: bool,
}

impl Default for SemiSync {
    fn default() -> Self {
        Self { setting: "ON", begins_at: 300, numbers_go_on: false }
    }
}

#[derive(Default)]
struct Shared {
    binlog: Mutex<Binlog>,
    changed: Condvar,
    mishaps: Mutex<VecDeque<Mishap>>,
    /// `@@gtid_binlog_pos`, where it is not the truth.
    claims: Mutex<Option<String>>,
    heartbeats: AtomicUsize,
    /// `@@server_id`, less 1.
    server_id: AtomicUsize,
    /// Answers nothing and sends nothing.
    frozen: AtomicBool,
    /// Sends nothing between groups.
    quiet: AtomicBool,
    semi_sync: Mutex<Option<SemiSync>>,
    /// Acknowledgements: packet number and payload.
    acknowledged: Mutex<Vec<(u8, Vec<u8>)>>,
    /// Statements of all sessions.
    heard: Mutex<Vec<String>>,
    sessions: Mutex<Vec<Session>>,
}

/// See the module's description. Listens as long as the process lives.
#[derive(Clone)]
pub struct ScriptedServer {
    address: SocketAddr,
    shared: Arc<Shared>,
}

impl ScriptedServer {
    pub fn start(groups: Vec<Group>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared::default());
        shared.binlog.lock().unwrap().groups = groups;
        let serving = Arc::clone(&shared);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (stream, shared) = (stream.unwrap(), Arc::clone(&serving));
                // A capture that goes has its reason.
                thread::spawn(move || drop(session(stream, &shared)));
            }
        });
        Self { address, shared }
    }

    pub fn address(&self) -> ServerAddress {
        self.address.to_string().parse().unwrap()
    }

    /// Commits.
    pub fn commit(&self, groups: Vec<Group>) {
        self.shared.binlog.lock().unwrap().groups.extend(groups);
        self.shared.changed.notify_all();
    }

    /// Another binlog from now on; dumps end.
    pub fn replace(&self, head: &str, groups: Vec<Group>) {
        let mut binlog = self.shared.binlog.lock().unwrap();
        let head = GtidState::from_list(&parse_list(head).unwrap());
        *binlog = Binlog { life: binlog.life + 1, silent: None, head, groups };
        self.shared.changed.notify_all();
    }

    /// Another binlog from now on; dumps do not end, and send nothing any more.
    pub fn replace_silently(&self, head: &str, groups: Vec<Group>) {
        let mut binlog = self.shared.binlog.lock().unwrap();
        let head = GtidState::from_list(&parse_list(head).unwrap());
        *binlog = Binlog { life: binlog.life + 1, silent: Some(binlog.life), head, groups };
    }

    /// Removes the oldest groups.
    pub fn purge(&self, count: usize) {
        let mut binlog = self.shared.binlog.lock().unwrap();
        let purged: Vec<_> = binlog.groups.drain(..count).collect();
        purged.iter().for_each(|(gtid, _)| binlog.head.update(*gtid));
    }

    /// Ends all dumps.
    pub fn disconnect(&self) {
        self.shared.binlog.lock().unwrap().life += 1;
        self.shared.changed.notify_all();
    }

    /// What happens to the next connections, one each.
    pub fn mishaps(&self, mishaps: impl IntoIterator<Item = Mishap>) {
        self.shared.mishaps.lock().unwrap().extend(mishaps);
    }

    /// Says this of `@@gtid_binlog_pos`.
    pub fn claims(&self, position: &str) {
        *self.shared.claims.lock().unwrap() = Some(position.to_owned());
    }

    /// Is semi-synchronous in sessions to come.
    pub fn semi_sync(&self, semi_sync: SemiSync) {
        *self.shared.semi_sync.lock().unwrap() = Some(semi_sync);
    }

    /// Stops as a process does at SIGSTOP, or goes on.
    pub fn freeze(&self, frozen: bool) {
        self.shared.frozen.store(frozen, Ordering::SeqCst);
    }

    /// Is the server of this `@@server_id`.
    pub fn set_id(&self, id: usize) {
        self.shared.server_id.store(id - 1, Ordering::SeqCst);
    }

    /// Sends no heartbeats any more.
    pub fn quiet(&self) {
        self.shared.quiet.store(true, Ordering::SeqCst);
    }

    /// What was acknowledged: packet number and payload.
    pub fn acknowledged(&self) -> Vec<(u8, Vec<u8>)> {
        self.shared.acknowledged.lock().unwrap().clone()
    }

    /// Whether a session sent this statement.
    pub fn heard(&self, sql: &str) -> bool {
        self.shared.heard.lock().unwrap().iter().any(|heard| heard == sql)
    }

    /// How many heartbeats were sent.
    pub fn heartbeats(&self) -> usize {
        self.shared.heartbeats.load(Ordering::Relaxed)
    }

    /// The sessions that came as far as a dump.
    pub fn sessions(&self) -> Vec<Session> {
        self.shared.sessions.lock().unwrap().clone()
    }
}

impl Shared {
    fn wait_while_frozen(&self) {
        while self.frozen.load(Ordering::SeqCst) {
            thread::sleep(Duration::from_millis(5));
        }
    }
}

fn session(mut stream: TcpStream, shared: &Arc<Shared>) -> io::Result<()> {
    shared.wait_while_frozen();
    send(&mut stream, 0, &greeting())?;
    receive(&mut stream)?;
    send(&mut stream, 2, &ok())?;
    let mut asked = Session::default();
    loop {
        let command = receive(&mut stream)?;
        shared.wait_while_frozen();
        match command.split_first() {
            Some((0x03, sql)) => {
                let sql = String::from_utf8_lossy(sql).into_owned();
                asked.hear(&sql);
                shared.heard.lock().unwrap().push(sql.clone());
                answer(&mut stream, &sql, shared)?;
            }
            Some((0x12, _)) => break,
            _ => send(&mut stream, 1, &ok())?,
        }
    }
    shared.sessions.lock().unwrap().push(asked.clone());
    let mishap = shared.mishaps.lock().unwrap().pop_front();
    let semi_sync = shared.semi_sync.lock().unwrap().filter(|_| asked.semi_sync);
    if semi_sync.is_some() {
        let (stream, shared) = (stream.try_clone()?, Arc::clone(shared));
        thread::spawn(move || hear_acknowledgements(stream, &shared));
    }
    let position = semi_sync.map_or(0, |semi_sync| semi_sync.begins_at);
    let mut dump =
        Dump { stream, sequence: 1, sent: 0, payload_sent: 0, mishap, semi_sync, position };
    match attach(&shared.binlog.lock().unwrap(), asked.connect_state.as_deref()) {
        Ok(()) => {}
        Err(text) => {
            return dump.packet(&ErrPacket::new(1236, b"HY000", text.as_str()).encode());
        }
    }
    dump.run(shared, asked.connect_state.as_deref())
}

fn answer(stream: &mut TcpStream, sql: &str, shared: &Shared) -> io::Result<()> {
    let state = shared.binlog.lock().unwrap().state();
    let claims = shared.claims.lock().unwrap().clone();
    let position = claims.unwrap_or_else(|| print_list(&state.position()));
    let id = (shared.server_id.load(Ordering::SeqCst) + 1).to_string();
    let setting = shared.semi_sync.lock().unwrap().map(|semi_sync| semi_sync.setting);
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
    let row: &[&str] = match sql {
        "SHOW VARIABLES LIKE 'rpl_semi_sync_master_enabled'" if setting.is_some() => {
            &["rpl_semi_sync_master_enabled", setting.unwrap()]
        }
        "SELECT UNIX_TIMESTAMP()" => &[&now.to_string()],
        _ if sql.contains("'binlog_expire_logs_seconds'") => {
            &["binlog_expire_logs_seconds", "3600"]
        }
        "SELECT @@version" => &["10.11.19-MariaDB-log"],
        "SELECT @@log_bin, @@binlog_format, @@server_id" => &["1", "ROW", &id],
        "SHOW BINARY LOGS" => &["mbin.000001", "1000"],
        "SELECT @master_binlog_checksum" => &["CRC32"],
        "SELECT @@GLOBAL.gtid_binlog_pos" => &[&position],
        "SELECT @@GLOBAL.gtid_slave_pos" => &[""],
        "SELECT @@GLOBAL.gtid_binlog_state" => &[&print_list(&state.list())],
        _ => return send(stream, 1, &ok()),
    };
    send_row(stream, row)
}

/// Whether a replica may attach.
fn attach(binlog: &Binlog, connect_state: Option<&str>) -> Result<(), String> {
    let Some(text) = connect_state else { return Ok(()) };
    let (wanted, state) = (parse_list(text).unwrap(), binlog.state());
    for gtid in &wanted {
        let known = state.last_of(gtid.domain, gtid.server);
        if state.latest(gtid.domain).is_some()
            && known.is_none_or(|known| known.sequence < gtid.sequence)
        {
            return Err(format!(
                "Error: connecting slave requested to start from GTID {gtid}, which is not in the master's binlog"
            ));
        }
    }
    for known in binlog.head.list() {
        let latest = binlog.head.latest(known.domain) == Some(known);
        let has = wanted.iter().find(|gtid| gtid.domain == known.domain).is_some_and(|gtid| {
            gtid.server != known.server
                || gtid.sequence > known.sequence
                || (gtid.sequence == known.sequence && latest)
        });
        if !has {
            return Err(PURGED.to_owned());
        }
    }
    Ok(())
}

fn hear_acknowledgements(mut stream: TcpStream, shared: &Shared) {
    let mut header = [0; 4];
    while stream.read_exact(&mut header).is_ok() {
        let mut payload = vec![0; usize::from(header[0])];
        if stream.read_exact(&mut payload).is_ok() {
            shared.acknowledged.lock().unwrap().push((header[3], payload));
        }
    }
}

struct Dump {
    stream: TcpStream,
    sequence: u8,
    sent: usize,
    payload_sent: usize,
    mishap: Option<Mishap>,
    semi_sync: Option<SemiSync>,
    /// Where the next event begins.
    position: u64,
}

impl Dump {
    fn run(&mut self, shared: &Shared, connect_state: Option<&str>) -> io::Result<()> {
        let (head, life) = {
            let binlog = shared.binlog.lock().unwrap();
            (binlog.head.list(), binlog.life)
        };
        header_events(&head).iter().try_for_each(|event| self.event(event, false))?;
        if self.semi_sync.is_some() {
            // As a server that enters its file by an index.
            let body = control::rotate_body(self.position, "mbin.000007");
            let rotate = control::artificial(EventType::ROTATE, 1, 0);
            self.event(&control::event(rotate, &body, ChecksumAlgorithm::Crc32), false)?;
        }
        let wanted = parse_list(connect_state.unwrap_or_default()).unwrap();
        let wanted = wanted.into_iter().filter(|gtid| !head.contains(gtid));
        let mut pending: HashMap<u32, Gtid> = wanted.map(|gtid| (gtid.domain, gtid)).collect();
        let mut next = 0;
        loop {
            let groups = {
                let idle = Duration::from_millis(100);
                let binlog = shared.binlog.lock().unwrap();
                let quiet =
                    |binlog: &mut Binlog| binlog.life == life && binlog.groups.len() <= next;
                let (binlog, _) = shared.changed.wait_timeout_while(binlog, idle, quiet).unwrap();
                if binlog.silent.is_some_and(|silent| life <= silent) {
                    drop(binlog);
                    thread::sleep(idle);
                    self.heartbeat(shared)?;
                    continue;
                }
                if binlog.life != life {
                    return self.stream.shutdown(Shutdown::Both);
                }
                binlog.groups.get(next..).unwrap_or_default().to_vec()
            };
            next += groups.len();
            shared.wait_while_frozen();
            if groups.is_empty() && !shared.quiet.load(Ordering::SeqCst) {
                self.heartbeat(shared)?;
            }
            for (gtid, events) in &groups {
                if has(&mut pending, *gtid) {
                    // What stands before a group that is passed over is sent nevertheless.
                    let mut riders = events.iter().take_while(|event| event[4] != 162);
                    riders.try_for_each(|event| self.event(event, false))?;
                } else {
                    self.group(events)?;
                }
            }
        }
    }

    fn heartbeat(&mut self, shared: &Shared) -> io::Result<()> {
        shared.heartbeats.fetch_add(1, Ordering::Relaxed);
        self.event(&control::heartbeat(1, 4, "mbin.000001", ChecksumAlgorithm::Crc32), false)
    }

    fn group(&mut self, events: &[Vec<u8>]) -> io::Result<()> {
        for (index, event) in events.iter().enumerate() {
            let asks = index + 1 == events.len();
            match self.semi_sync {
                None => self.event(event, false)?,
                Some(_) => self.event(&self.placed(event), asks)?,
            }
            self.position += event.len() as u64;
        }
        Ok(())
    }

    /// The event with its end position.
    fn placed(&self, event: &[u8]) -> Vec<u8> {
        let (position, header) = (self.position, EventHeader::parse(event).unwrap());
        let end = (position + event.len() as u64) & u64::from(u32::MAX);
        let header = EventHeader { end_position: u32::try_from(end).unwrap(), ..header };
        control::event(header, &event[19..event.len() - 4], ChecksumAlgorithm::Crc32)
    }

    fn event(&mut self, event: &[u8], asks: bool) -> io::Result<()> {
        let Some(semi_sync) = self.semi_sync else {
            return self.packet(&[&[0], event].concat());
        };
        self.packet(&[&[0, 0xef, u8::from(asks)], event].concat())?;
        if asks && !semi_sync.numbers_go_on {
            self.sequence = 1;
        }
        Ok(())
    }

    fn packet(&mut self, payload: &[u8]) -> io::Result<()> {
        let mut bytes = Vec::new();
        self.sequence = put_packet(&mut bytes, self.sequence, payload);
        let (from, payload_from) = (self.sent, self.payload_sent);
        self.sent += bytes.len();
        self.payload_sent += payload.len();
        match self.mishap {
            Some(Mishap::Cut(at)) if at < self.sent => {
                self.stream.write_all(&bytes[..at - from])?;
                self.stream.shutdown(Shutdown::Both)?;
                return Err(io::ErrorKind::ConnectionAborted.into());
            }
            Some(Mishap::Flip(at)) if (payload_from..self.payload_sent).contains(&at) => {
                let header = bytes.len() - payload.len();
                bytes[header + at - payload_from] ^= 0x40;
            }
            _ => {}
        }
        self.stream.write_all(&bytes)
    }
}

/// Whether a replica that is to be passed over `pending` has a group.
fn has(pending: &mut HashMap<u32, Gtid>, gtid: Gtid) -> bool {
    let Some(wanted) = pending.get(&gtid.domain).copied() else { return false };
    if gtid.server != wanted.server || gtid.sequence < wanted.sequence {
        return true;
    }
    pending.remove(&gtid.domain);
    gtid.sequence == wanted.sequence
}

/// Bytes of a dump of these groups from its beginning.
pub fn dump_len(groups: &[Group]) -> usize {
    let events = groups.iter().flat_map(|(_, events)| events);
    let sizes = header_events(&[]).iter().map(Vec::len).sum::<usize>();
    let count = 3 + groups.iter().map(|(_, events)| events.len()).sum::<usize>();
    sizes + events.map(Vec::len).sum::<usize>() + count * 5
}

/// An event type of a log file's own.
pub fn is_header_event(event_type: EventType) -> bool {
    [EventType::FORMAT_DESCRIPTION, EventType::GTID_LIST, EventType::ROTATE].contains(&event_type)
}
