//! Who is connected: for KILL, SHOW PROCESSLIST, SHOW SLAVE HOSTS, and so that one server id has one dump.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use tokio_util::sync::CancellationToken;

/// Why a connection ends though its client did not ask for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EndReason {
    /// KILL, or COM_PROCESS_KILL.
    Killed,
    /// Another dump came with the same server id.
    SameServerId,
    /// Spillway stops.
    Shutdown,
}

/// What a connection is doing, as SHOW PROCESSLIST tells it.
#[derive(Clone, Debug)]
pub(super) struct Activity {
    pub user: String,
    pub database: Option<String>,
    pub command: &'static str,
    pub state: &'static str,
    pub info: Option<String>,
    pub since: Instant,
}

/// A replica as it registered itself with COM_REGISTER_SLAVE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Registration {
    pub server_id: u32,
    pub host: String,
    pub port: u16,
}

/// How far a dump has come. Written by the dump for each batch, read by metrics and status.
#[derive(Debug)]
pub(super) struct DumpProgress {
    pub server_id: u32,
    pub started: Instant,
    pub file: AtomicU64,
    pub position: AtomicU64,
    pub sent_bytes: AtomicU64,
}

/// One connection.
#[derive(Debug)]
pub(super) struct Connection {
    pub id: u32,
    pub peer: IpAddr,
    activity: Mutex<Activity>,
    registration: Mutex<Option<Registration>>,
    dump: Mutex<Option<Arc<DumpProgress>>>,
    ended: Mutex<Option<EndReason>>,
    stop: CancellationToken,
}

impl Connection {
    pub fn activity(&self) -> Activity {
        lock(&self.activity).clone()
    }

    /// Changes the activity; its clock starts again.
    pub fn set_activity(&self, change: impl FnOnce(&mut Activity)) {
        let mut activity = lock(&self.activity);
        activity.since = Instant::now();
        change(&mut activity);
    }

    pub fn register(&self, registration: Registration) {
        *lock(&self.registration) = Some(registration);
    }

    pub fn registration(&self) -> Option<Registration> {
        lock(&self.registration).clone()
    }

    pub fn dump(&self) -> Option<Arc<DumpProgress>> {
        lock(&self.dump).clone()
    }

    /// Its dump is over.
    pub fn end_dump(&self) {
        *lock(&self.dump) = None;
    }

    /// Asks the connection to end. The first reason stands.
    pub fn end(&self, reason: EndReason) {
        lock(&self.ended).get_or_insert(reason);
        self.stop.cancel();
    }

    /// Resolves once the connection has been asked to end.
    pub async fn ended(&self) -> EndReason {
        self.stop.cancelled().await;
        self.end_reason().unwrap_or(EndReason::Shutdown)
    }

    pub fn end_reason(&self) -> Option<EndReason> {
        *lock(&self.ended)
    }
}

/// All connections of the port.
#[derive(Debug, Default)]
pub(super) struct Registry {
    last_id: AtomicU32,
    connections: Mutex<BTreeMap<u32, Arc<Connection>>>,
}

impl Registry {
    /// Takes in a connection; it leaves when the guard is dropped.
    pub fn enter(self: &Arc<Self>, peer: IpAddr) -> Entry {
        let id = self.last_id.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        let activity = Activity {
            user: "unauthenticated user".to_owned(),
            database: None,
            command: "Connect",
            state: "login",
            info: None,
            since: Instant::now(),
        };
        let connection = Arc::new(Connection {
            id,
            peer,
            activity: Mutex::new(activity),
            registration: Mutex::new(None),
            dump: Mutex::new(None),
            ended: Mutex::new(None),
            stop: CancellationToken::new(),
        });
        lock(&self.connections).insert(id, Arc::clone(&connection));
        Entry { registry: Arc::clone(self), connection }
    }

    /// All connections, by id.
    pub fn all(&self) -> Vec<Arc<Connection>> {
        lock(&self.connections).values().cloned().collect()
    }

    pub fn find(&self, id: u64) -> Option<Arc<Connection>> {
        u32::try_from(id).ok().and_then(|id| lock(&self.connections).get(&id).cloned())
    }

    /// Asks every connection to end.
    pub fn end_all(&self, reason: EndReason) {
        self.all().iter().for_each(|connection| connection.end(reason));
    }

    /// Notes that a connection dumps as `server_id`, and ends the other dumps of that id: a replica that lost its connection
    /// without its source noticing must not be locked out by its own ghost. 0 (a tool reading to the end) is nobody's id.
    pub fn start_dump(&self, connection: &Connection, server_id: u32) -> Arc<DumpProgress> {
        let progress = Arc::new(DumpProgress {
            server_id,
            started: Instant::now(),
            file: AtomicU64::new(0),
            position: AtomicU64::new(0),
            sent_bytes: AtomicU64::new(0),
        });
        let all = lock(&self.connections);
        for other in all.values().filter(|other| other.id != connection.id && server_id != 0) {
            if other.dump().is_some_and(|dump| dump.server_id == server_id) {
                other.end(EndReason::SameServerId);
            }
        }
        *lock(&connection.dump) = Some(Arc::clone(&progress));
        progress
    }
}

/// A connection's place in the registry.
pub(super) struct Entry {
    registry: Arc<Registry>,
    pub connection: Arc<Connection>,
}

impl Drop for Entry {
    fn drop(&mut self) {
        lock(&self.registry.connections).remove(&self.connection.id);
    }
}

/// A panic while one of these was held cannot leave it half written: each guarded write is a plain assignment.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PEER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    #[test]
    fn a_second_dump_of_a_server_id_ends_the_first() {
        let registry = Arc::new(Registry::default());
        let (first, second, tool) =
            (registry.enter(PEER), registry.enter(PEER), registry.enter(PEER));
        registry.start_dump(&first.connection, 7);
        registry.start_dump(&tool.connection, 0);
        registry.start_dump(&second.connection, 7);
        assert_eq!(first.connection.end_reason(), Some(EndReason::SameServerId));
        assert_eq!(second.connection.end_reason(), None);
        registry.start_dump(&second.connection, 0);
        assert_eq!(tool.connection.end_reason(), None);
    }

    #[test]
    fn who_left_is_not_found() {
        let registry = Arc::new(Registry::default());
        let entry = registry.enter(PEER);
        let id = u64::from(entry.connection.id);
        assert!(registry.find(id).is_some());
        assert!(registry.find(id + (1 << 32)).is_none());
        drop(entry);
        assert!(registry.find(id).is_none());
    }
}
