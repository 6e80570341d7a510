//! Several sources in one log.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use spillway::capture::{
    self, CaptureHandle, CaptureOptions, CapturedSource, Credentials, StartPosition,
};
use spillway::source::{CaptureState, Upstream};
use spillway_binlog::event::EventType;
use spillway_binlog::event::gtid::GtidEvent;
use spillway_binlog::gtid::Domains;
use spillway_binlog::gtid::mariadb::{Gtid, print_list};
use spillway_binlog::reader::Run;
use spillway_binlog::{Log, LogEnd, LogOptions};
use spillway_metrics::Registry;
use spillway_metrics::source::{SourceFamilies, SourceMetrics};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use crate::upstream::{FakeUpstream, Script, Server, events, events_of, transaction};

/// A source of the tests: what it does, and its domains.
type Source<'a> = (&'a FakeUpstream, Domains);

/// A log, and captures of fake upstreams into it.
struct Capturing {
    log: Arc<Log>,
    sources: Vec<(Arc<Upstream>, SourceMetrics)>,
    stop: CancellationToken,
    handle: Option<CaptureHandle>,
    _dir: TempDir,
}

impl Capturing {
    fn start(sources: &[Source<'_>]) -> Self {
        let dir = TempDir::new().unwrap();
        let log = Arc::new(Log::open(LogOptions::new(dir.path(), 4307)).unwrap());
        let families = SourceFamilies::register(&Registry::new()).unwrap();
        let captured: Vec<_> = sources
            .iter()
            .zip(["a", "b", "c"])
            .map(|((fake, domains), name)| {
                let options = CaptureOptions {
                    server_id: 4307,
                    credentials: Credentials {
                        user: "spillway".into(),
                        password: Box::new(|| Ok("secret".into())),
                    },
                    start: StartPosition::Oldest,
                    domains: domains.clone(),
                    semi_sync: false,
                    heartbeat_period: capture::HEARTBEAT_PERIOD,
                };
                let upstream = Arc::new(Upstream::new(name, fake.address()));
                CapturedSource { options, upstream, metrics: families.of(name) }
            })
            .collect();
        let known =
            |source: &CapturedSource| (Arc::clone(&source.upstream), source.metrics.clone());
        let sources = captured.iter().map(known).collect();
        let stop = CancellationToken::new();
        let handle = Some(capture::start(captured, &log, &stop).unwrap());
        Self { log, sources, stop, handle, _dir: dir }
    }

    fn wait(&self, what: &str, done: impl Fn(&Self) -> bool) {
        let deadline = Instant::now() + Duration::from_secs(30);
        while !done(self) {
            let states: Vec<_> =
                self.sources.iter().map(|(source, _)| source.capture_status()).collect();
            assert!(Instant::now() < deadline, "never {what}: {states:?}, {}", self.position());
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// The log's GTID position, by domain.
    fn position(&self) -> String {
        let mut position = self.log.gtid_state().position();
        position.sort_by_key(|gtid| gtid.domain);
        print_list(&position)
    }

    fn wait_position(&self, position: &str) {
        self.wait(position, |capturing| capturing.position() == position);
    }

    fn wait_skipped(&self, source: usize, count: u64) {
        self.wait("skipped", |capturing| capturing.sources[source].1.skipped.get() == count);
    }

    fn state(&self, source: usize) -> CaptureState {
        self.sources[source].0.capture_status().state
    }

    /// All GTIDs in the log, in its order.
    fn gtids(&self) -> Vec<Gtid> {
        let mut cursor = self.log.cursor(self.log.files()[0].number, 4).unwrap();
        let mut gtids = Vec::new();
        loop {
            match cursor.next_run(1 << 20).unwrap() {
                Run::CaughtUp => return gtids,
                Run::NextFile => {}
                Run::Events(run) => {
                    let events =
                        run.events().filter(|(_, header, _)| header.event_type == EventType::GTID);
                    gtids.extend(events.map(|(_, _, event)| GtidEvent::parse(event).unwrap().gtid));
                }
            }
        }
    }

    fn gtids_of(&self, domain: u32) -> String {
        let of_domain = |gtid: &Gtid| gtid.domain == domain;
        print_list(&self.gtids().into_iter().filter(of_domain).collect::<Vec<_>>())
    }
}

impl Drop for Capturing {
    fn drop(&mut self) {
        self.stop.cancel();
        self.handle.take().into_iter().for_each(CaptureHandle::join);
    }
}

fn only(domain: u32) -> Domains {
    Domains::only([domain])
}

#[test]
fn each_source_records_its_own_domains_in_its_order() {
    let [a1, a2, old_b] = [transaction(1, 1), transaction(1, 2), transaction(2, 7)];
    let [b1, b2, old_a] = [transaction(2, 1), transaction(2, 2), transaction(1, 1)];
    let list = Server { list: "2-1-6,1-1-0", ..Server::default() };
    let a = FakeUpstream::start(vec![Script::oldest(events_of(list, &[&a1, &old_b, &a2, &old_b]))]);
    let b = FakeUpstream::start(vec![Script::oldest(events(&[&old_a, &b1, &old_a, &b2]))]);
    let capturing = Capturing::start(&[(&a, only(1)), (&b, only(2))]);
    capturing.wait_position("1-1-2,2-1-2");
    capturing.wait_skipped(0, 2);
    capturing.wait_skipped(1, 2);
    assert_eq!(capturing.gtids_of(1), "1-1-1,1-1-2");
    assert_eq!(capturing.gtids_of(2), "2-1-1,2-1-2");
    assert!((0..2).all(|source| capturing.state(source) == CaptureState::Streaming));
}

#[test]
fn a_source_alone_takes_over_only_the_part_of_the_state_that_is_its_own() {
    let server = Server { list: "0-1-5,1-1-9,0-2-6", ..Server::default() };
    let script = Script::oldest(events_of(server, &[&transaction(1, 10), &transaction(0, 7)]));
    let fake = FakeUpstream::start(vec![script]);
    let capturing = Capturing::start(&[(&fake, only(0))]);
    capturing.wait_position("0-1-7");
    assert_eq!(print_list(&capturing.log.gtid_state().list()), "0-2-6,0-1-7");
}

#[test]
fn the_log_has_caught_up_once_every_source_has() {
    let [first, second, last] = [(); 3].map(|()| Arc::new(AtomicBool::new(false)));
    // Of domain 2 the first upstream has more than its source will ever send.
    let a = Script::oldest(events(&[&transaction(1, 1)])).at("1-1-1,2-1-9");
    let a = FakeUpstream::start(vec![a.then_gated(&first, transaction(2, 9))]);
    let b = Script::oldest(events(&[&transaction(2, 1)])).at("1-1-9,2-1-2");
    let b = b.then_gated(&second, transaction(2, 2)).then_gated(&last, transaction(1, 1));
    let b = FakeUpstream::start(vec![b]);
    let capturing = Capturing::start(&[(&a, only(1)), (&b, only(2))]);
    capturing.wait_position("1-1-1,2-1-1");
    first.store(true, Ordering::Release);
    capturing.wait_skipped(0, 1);
    assert!(!capturing.log.is_caught_up(), "the second source has sent half");
    second.store(true, Ordering::Release);
    capturing.wait_position("1-1-1,2-1-2");
    // What comes behind the last transaction makes it look again, as a heartbeat does.
    last.store(true, Ordering::Release);
    capturing.wait("caught up", |capturing| capturing.log.is_caught_up());
}

#[test]
fn a_log_without_sources_has_caught_up() {
    let capturing = Capturing::start(&[]);
    assert!(capturing.log.is_caught_up());
    assert_eq!(capturing.log.end(), LogEnd::default());
}

#[test]
fn a_source_of_another_series_is_refused_beside_the_first() {
    let newer = Server { version: "11.8.9-MariaDB-log", ..Server::default() };
    let a = FakeUpstream::start(vec![Script::oldest(events(&[&transaction(1, 1)]))]);
    let b = FakeUpstream::start(vec![Script::oldest(events_of(newer, &[&transaction(2, 1)]))]);
    let capturing = Capturing::start(&[(&a, only(1)), (&b, only(2))]);
    let one_of_each = |capturing: &Capturing| {
        let states = [capturing.state(0), capturing.state(1)];
        states.contains(&CaptureState::Refused) && states.contains(&CaptureState::Streaming)
    };
    capturing.wait("one refused", one_of_each);
    let refused = usize::from(capturing.state(1) == CaptureState::Refused);
    let reason = capturing.sources[refused].0.capture_status().reason;
    assert!(reason.contains("cannot stand in one log file"), "{reason}");
    capturing.wait_position(["2-1-1", "1-1-1"][refused]);
    assert_eq!(capturing.log.files().len(), 1);
}

#[test]
fn starts_of_several_sources_do_not_alternate_in_the_log() {
    let server = |created| Server { created, ..Server::default() };
    let gate = Arc::new(AtomicBool::new(false));
    let scripts = [(1, 11), (2, 22)].map(|(domain, created)| {
        let script = Script::oldest(events_of(server(created), &[&transaction(domain, 1)]));
        FakeUpstream::start(vec![script.then_gated(&gate, transaction(domain, 2))])
    });
    let [a, b] = &scripts;
    let capturing = Capturing::start(&[(a, only(1)), (b, only(2))]);
    capturing.wait_position("1-1-1,2-1-1");
    gate.store(true, Ordering::Release);
    capturing.wait_position("1-1-2,2-1-2");
    assert_eq!(capturing.log.files().len(), 1);
    assert_eq!(capturing.log.format().unwrap().created, 0);
}
