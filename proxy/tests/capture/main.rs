//! Capture against a scripted upstream: what it sends is exactly what a test wants, byte by byte.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod alignment;
mod continued;
mod kinds;
mod many;
mod scripted;
mod semi_sync;
mod status;
mod timelines;
mod too_large;
mod upstream;

use std::sync::Arc;
use std::time::{Duration, Instant};

use spillway::capture::{
    self, CaptureHandle, CaptureOptions, CapturedSource, Credentials, StartPosition,
};
use spillway::source::{AlterError, CaptureState, ServerAddress, Upstream};
use spillway_binlog::gtid::Domains;
use spillway_binlog::gtid::mariadb::Gtid;
use spillway_binlog::{Log, LogEnd, LogOptions};
use spillway_metrics::Registry;
use spillway_metrics::source::SourceFamilies;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;
use upstream::{FakeUpstream, Script, events, xid_transaction};

/// A log, and a capture of a fake upstream into it.
struct Capturing {
    log: Arc<Log>,
    upstream: Arc<Upstream>,
    registry: Arc<Registry>,
    stop: CancellationToken,
    handle: Option<CaptureHandle>,
    change: fn(&mut CaptureOptions),
    dir: Option<TempDir>,
}

impl Capturing {
    fn start(fake: &FakeUpstream) -> Self {
        Self::start_at(fake.address())
    }

    fn start_at(address: ServerAddress) -> Self {
        Self::start_with(address, |_| {})
    }

    fn start_with(address: ServerAddress, change: fn(&mut CaptureOptions)) -> Self {
        Self::open(TempDir::new().unwrap(), address, change)
    }

    fn open(dir: TempDir, address: ServerAddress, change: fn(&mut CaptureOptions)) -> Self {
        let options = LogOptions::new(dir.path(), 4307);
        Self::open_log(dir, options, address, change)
    }

    fn open_log(
        dir: TempDir,
        options: LogOptions,
        address: ServerAddress,
        change: fn(&mut CaptureOptions),
    ) -> Self {
        let max_cache_size = options.max_cache_size.or(Some(1 << 20));
        let options = LogOptions { max_cache_size, ..options };
        let log = Arc::new(Log::open(options).unwrap());
        let upstream = Arc::new(Upstream::new("main", address));
        let registry = Arc::new(Registry::new());
        let metrics = SourceFamilies::register(&registry).unwrap().of("main");
        let mut options = CaptureOptions {
            server_id: 4307,
            credentials: Credentials {
                user: "spillway".into(),
                password: Box::new(|| Ok("secret".into())),
            },
            start: StartPosition::Oldest,
            domains: Domains::all(),
            semi_sync: false,
            heartbeat_period: capture::HEARTBEAT_PERIOD,
        };
        change(&mut options);
        let stop = CancellationToken::new();
        let source = CapturedSource { options, upstream: Arc::clone(&upstream), metrics };
        let handle = capture::start(vec![source], &log, &stop).unwrap();
        Self { log, upstream, registry, stop, handle: Some(handle), change, dir: Some(dir) }
    }

    /// Stops, closes the log, and hands out its directory.
    fn stop_and_keep(mut self) -> TempDir {
        self.stop.cancel();
        self.handle.take().into_iter().for_each(CaptureHandle::join);
        self.log.close();
        self.dir.take().unwrap()
    }

    /// The same in a new life of the process.
    fn restart(self) -> Self {
        let (address, change) = (self.upstream.address().clone(), self.change);
        Self::open(self.stop_and_keep(), address, change)
    }

    /// ALTER SOURCE.
    fn begin_anew(&self, start: StartPosition) -> Result<(), AlterError> {
        self.upstream.begin_anew(&self.log, start)
    }

    /// Has the source looked at again, and waits for that, so many times.
    fn retry(&self, server: &scripted::ScriptedServer, times: usize) {
        for _ in 0..times {
            let sessions = server.sessions().len();
            self.wait("another session", |this| {
                this.upstream.retry_now();
                server.sessions().len() > sessions
            });
        }
    }

    /// ALTER SOURCE CONTINUE.
    fn continue_behind_last(&self) -> Result<Gtid, AlterError> {
        self.upstream.continue_behind_last(&self.log)
    }

    fn wait(&self, what: &str, done: impl Fn(&Self) -> bool) {
        let deadline = Instant::now() + Duration::from_secs(30);
        while !done(self) {
            let status = self.upstream.capture_status();
            assert!(Instant::now() < deadline, "never {what}: {status:?}, {}", self.position());
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    fn wait_position(&self, position: &str) {
        self.wait(position, |capturing| capturing.position() == position);
    }

    fn position(&self) -> String {
        spillway_binlog::gtid::mariadb::print_list(&self.log.gtid_state().position())
    }

    fn reason(&self) -> String {
        self.upstream.capture_status().reason
    }

    fn reconnects(&self, reason: &str) -> bool {
        let text = String::from_utf8(self.registry.text().unwrap()).unwrap();
        let label = format!("reason=\"{reason}\"");
        text.lines().any(|line| line.contains("reconnects_total") && line.contains(&label))
    }

    /// The value of a metric without labels but its source.
    fn metric(&self, name: &str) -> u64 {
        let text = String::from_utf8(self.registry.text().unwrap()).unwrap();
        let line = text.lines().find(|line| line.starts_with(name)).unwrap();
        line.rsplit(' ').next().unwrap().parse().unwrap()
    }
}

impl Drop for Capturing {
    fn drop(&mut self) {
        self.stop.cancel();
        self.handle.take().into_iter().for_each(CaptureHandle::join);
    }
}

/// The first session sends `broken` after transaction 0-1-1, the second all of it; the log has each transaction once.
fn recovers_from(broken: &[u8], label: &str) {
    let good = events(&[&xid_transaction(1), &xid_transaction(2)]);
    let mut first = events(&[&xid_transaction(1)]);
    first.push(broken.to_vec());
    let fake = FakeUpstream::start(vec![Script::oldest(first), Script::oldest(good)]);
    let capturing = Capturing::start(&fake);
    capturing.wait(label, |capturing| capturing.reconnects(label));
    capturing.wait_position("0-1-2");
    capturing.wait("streaming", |capturing| {
        capturing.upstream.capture_status().state == CaptureState::Streaming
    });
    let sessions = fake.sessions();
    // The last transaction is asked for once more.
    assert_eq!(sessions[1].connect_state.as_deref(), Some(""));
}

#[test]
fn an_event_with_a_wrong_checksum_is_fetched_again() {
    let mut event = xid_transaction(2).remove(0);
    let last = event.len() - 1;
    event[last] ^= 1;
    recovers_from(&event, "event");
}

#[test]
fn an_event_shorter_than_its_header_is_an_error() {
    recovers_from(&[1, 2, 3], "event");
    recovers_from(&[], "event");
}

#[test]
fn events_that_form_no_transaction_are_an_error() {
    let xid = xid_transaction(2).remove(1);
    recovers_from(&xid, "transaction");
}

#[test]
fn half_a_transaction_leaves_no_trace() {
    let half = xid_transaction(2).remove(0);
    let mut first = events(&[&xid_transaction(1)]);
    first.push(half);
    let good = events(&[&xid_transaction(1), &xid_transaction(2)]);
    let fake = FakeUpstream::start(vec![Script::oldest(first).then_close(), Script::oldest(good)]);
    let capturing = Capturing::start(&fake);
    capturing.wait_position("0-1-2");
    assert!(capturing.reconnects("lost"));
}

#[test]
fn a_transaction_over_the_cache_limit_is_refused_by_name() {
    let mut large = xid_transaction(1);
    large.insert(1, upstream::event(160, &vec![b'x'; 2 << 20]));
    let fake = FakeUpstream::start(vec![Script::oldest(events(&[&large]))]);
    let capturing = Capturing::start(&fake);
    capturing.wait("refused", |capturing| {
        capturing.upstream.capture_status().state == CaptureState::Refused
    });
    assert!(capturing.reason().contains("max_binlog_cache_size"), "{}", capturing.reason());
    assert_eq!(capturing.position(), "");
}

#[test]
fn an_upstream_that_purged_or_diverged_is_named_as_such() {
    for (text, state) in [
        (
            "Could not find GTID state requested by slave in any binlog files. Probably the slave state is too old and required binlog files have been purged.",
            CaptureState::Refused,
        ),
        (
            "Error: connecting slave requested to start from GTID 0-1-1, which is not in the master's binlog",
            CaptureState::Diverged,
        ),
    ] {
        let first = Script::oldest(events(&[&xid_transaction(1)])).then_close();
        let fake = FakeUpstream::start(vec![first, Script::error(1236, text)]);
        let capturing = Capturing::start(&fake);
        capturing
            .wait(state.as_str(), |capturing| capturing.upstream.capture_status().state == state);
        assert_eq!(capturing.position(), "0-1-1");
    }
}

#[test]
fn garbage_instead_of_a_greeting_is_an_error_and_nothing_is_recorded() {
    let fake = FakeUpstream::start(vec![
        Script::garbage(b"HTTP/1.1 400 Bad Request\r\n\r\n"),
        Script::oldest(events(&[&xid_transaction(1)])),
    ]);
    let capturing = Capturing::start(&fake);
    capturing.wait_position("0-1-1");
    assert!(capturing.reconnects("lost") || capturing.reconnects("protocol"));
}

#[test]
fn an_answer_without_end_is_not_kept() {
    let good = Script::oldest(events(&[&xid_transaction(1)]));
    let fake = FakeUpstream::start(vec![Script::endless_rows(), good]);
    let capturing = Capturing::start(&fake);
    capturing.wait_position("0-1-1");
    assert!(capturing.reconnects("protocol"));
}

#[test]
fn an_event_without_end_is_not_kept() {
    let fake = FakeUpstream::start(vec![Script::endless_event()]);
    let capturing = Capturing::start(&fake);
    capturing.wait("refused", |capturing| capturing.reconnects("refused"));
    assert!(capturing.reason().contains("max_binlog_cache_size"), "{}", capturing.reason());
}

#[test]
fn an_upstream_that_is_away_is_waited_for() {
    let fake = FakeUpstream::absent();
    let capturing = Capturing::start(&fake);
    capturing.wait("a reason", |capturing| capturing.reason().contains("cannot reach"));
    assert_eq!(capturing.log.end(), LogEnd::default());
    assert_eq!(capturing.upstream.capture_status().state, CaptureState::Connecting);
}
