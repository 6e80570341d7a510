//! Two upstreams recorded into one log, and a replica that has both.

use std::fs;
use std::time::{Duration, Instant};

use spillway_integration_tests::client::{Client, Error};
use spillway_integration_tests::dump::{Dump, Event, GTID, Request};
use spillway_integration_tests::load::{self, Plan, Running};
use spillway_integration_tests::logical::{self, Compared, Stream};
use spillway_integration_tests::proxy::Proxy;
use spillway_integration_tests::replica::{self, REPLICA_USER};
use spillway_integration_tests::rng::Rng;
use spillway_integration_tests::servers::{APP_USER, Server};
use spillway_integration_tests::spillway::Spillway;
use spillway_integration_tests::stack::{assert_files_valid, roll_back_prepared};
use spillway_integration_tests::{checksum, wait};

use crate::setting;

const FIRST: &str = "first_load";
const SECOND: &str = "second_load";

/// Upstream `number` has server id and replication domain of that number.
fn upstream(number: u32) -> Server {
    Server::upstream_with(&[
        &format!("--server-id={number}"),
        &format!("--gtid-domain-id={number}"),
    ])
}

/// Writes in the domain of the other upstream, as if this server had been something else once. Never recorded from here.
fn write_elsewhere(server: &Server, domain: u32, what: &str) {
    server.run(&format!(
        "SET SESSION gtid_domain_id = {domain}; CREATE DATABASE {what};
         CREATE TABLE {what}.t (id INT PRIMARY KEY); INSERT INTO {what}.t VALUES (1), (2)"
    ));
}

/// For both upstreams, not started.
fn prepared(first_port: u16, second_port: u16) -> Spillway {
    Spillway::prepared_for_port(first_port)
        .with("[[source]]", "name", "\"first\"")
        .with("[[source]]", "gtid_domains", "[1]")
        .and_source("second", second_port, "[2]")
}

/// The last GTID of the upstream's own domain.
fn own_position(server: &Server, domain: u32) -> String {
    let position = server.gtid_binlog_pos();
    let prefix = format!("{domain}-");
    position.split(',').find(|gtid| gtid.starts_with(&prefix)).unwrap_or_default().to_owned()
}

/// Events of one domain's transactions, and header events.
struct OfDomain {
    dump: Dump,
    prefix: String,
    within: bool,
}

impl OfDomain {
    fn start(port: u16, login: (&str, &str), domain: u32) -> Self {
        let dump = Dump::start(port, login, &Request::everything()).expect("a dump");
        Self { dump, prefix: format!("{domain}-"), within: true }
    }
}

impl Iterator for OfDomain {
    type Item = Result<Event, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let event = match self.dump.next()? {
                Ok(event) => event,
                error => return Some(error),
            };
            if let Some(gtid) = event.gtid() {
                self.within = gtid.starts_with(&self.prefix);
            }
            if self.within {
                return Some(Ok(event));
            }
        }
    }
}

/// Two upstreams, one Spillway, and its replicas, each with the schemas it has to have in the end.
struct Two {
    first: Server,
    second: Server,
    spillway: Spillway,
    replicas: Vec<(Server, &'static [&'static str])>,
}

impl Two {
    /// Each upstream has old events of the other's domain. One replica has all, the other applies the second upstream's domain.
    fn start() -> Self {
        let (first, second) = (upstream(1), upstream(2));
        write_elsewhere(&first, 2, "old_in_first");
        write_elsewhere(&second, 1, "old_in_second");
        let mut spillway = prepared(first.port(), second.port());
        spillway.start();
        let (whole, partial) = (Server::replica(), Server::replica_with(&["--server-id=102"]));
        replica::attach(&whole, spillway.replica_port(), REPLICA_USER);
        replica::attach_for_domain(&partial, spillway.replica_port(), REPLICA_USER, 2);
        let replicas = vec![(whole, &[FIRST, SECOND][..]), (partial, &[SECOND])];
        Self { first, second, spillway, replicas }
    }

    fn position(&self) -> String {
        format!("{},{}", own_position(&self.first, 1), own_position(&self.second, 2))
    }

    /// Waits until everything has arrived everywhere, then compares tables, streams and files.
    fn assert_equal(&self) -> [Compared; 2] {
        roll_back_prepared(&self.first);
        roll_back_prepared(&self.second);
        let position = self.position();
        self.spillway.wait_recorded(&position);
        for (replica, schemas) in &self.replicas {
            replica::wait_applied(replica, &position);
            self.assert_tables_equal(replica, schemas);
        }
        let compared = [(&self.first, 1), (&self.second, 2)].map(|(server, domain)| {
            let upstream = OfDomain::start(server.port(), APP_USER, domain);
            let spillway = OfDomain::start(self.spillway.replica_port(), REPLICA_USER, domain);
            logical::compare(Stream::new(upstream), Stream::new(spillway))
                .unwrap_or_else(|difference| panic!("domain {domain}: {difference}"))
        });
        assert_files_valid(&self.spillway);
        compared
    }

    fn assert_tables_equal(&self, replica: &Server, schemas: &[&str]) {
        let of = |server: &Server, schema: &str| -> Vec<String> {
            let contents = checksum::contents(&mut server.root()).into_iter();
            contents.filter(|line| line.contains(schema)).collect()
        };
        for (server, schema) in [(&self.first, FIRST), (&self.second, SECOND)] {
            let contents = of(server, schema);
            assert!(contents.iter().any(|line| line.starts_with("table ")), "nothing in {schema}");
            let wanted = if schemas.contains(&schema) { contents } else { Vec::new() };
            let difference = checksum::first_difference(&wanted, &of(replica, schema));
            assert_eq!(difference, None, "in {schema}");
        }
        assert_eq!(of(replica, "old_in"), Vec::<String>::new(), "nobody records these");
    }

    /// Restarts one of them, kills Spillway, or stops everything and starts it in another order.
    fn disturb(&mut self, what: Disturbance, rng: &mut Rng) {
        match what {
            Disturbance::Spillway => {
                assert_eq!(self.spillway.stop().code(), Some(0));
                self.spillway.start();
            }
            Disturbance::KillSpillway => {
                self.spillway.kill();
                self.spillway.start();
            }
            Disturbance::Server(server) => restart(self.servers().swap_remove(server)),
            Disturbance::Everything => {
                let mut parts: Vec<Part> =
                    (0..4).map(Part::Server).chain([Part::Spillway]).collect();
                rng.shuffle(&mut parts);
                parts.iter().for_each(|part| self.stop(*part));
                rng.shuffle(&mut parts);
                parts.iter().for_each(|part| self.start_again(*part));
            }
        }
    }

    fn servers(&mut self) -> Vec<&mut Server> {
        let replicas = self.replicas.iter_mut().map(|(server, _)| server);
        [&mut self.first, &mut self.second].into_iter().chain(replicas).collect()
    }

    fn stop(&mut self, part: Part) {
        match part {
            Part::Server(server) => self.servers()[server].stop(),
            Part::Spillway => self.spillway.kill(),
        }
    }

    fn start_again(&mut self, part: Part) {
        match part {
            Part::Server(server) => self.servers()[server].start(),
            Part::Spillway => self.spillway.start(),
        }
    }

    /// Waits until both domains have grown by some transactions.
    fn let_pass(&self, transactions: u64) {
        let sequences = || {
            [own_position(&self.first, 1), own_position(&self.second, 2)].map(|gtid| -> u64 {
                gtid.rsplit('-').next().and_then(|text| text.parse().ok()).unwrap_or(0)
            })
        };
        let before = sequences();
        wait::until("both loads make progress", || {
            let now = sequences();
            now.iter().zip(before).all(|(now, before)| now - before >= transactions).then_some(())
        });
    }
}

/// Something that is stopped and started.
#[derive(Clone, Copy)]
enum Part {
    Server(usize),
    Spillway,
}

/// What happens to the five of them.
#[derive(Clone, Copy, Debug)]
enum Disturbance {
    Spillway,
    KillSpillway,
    Server(usize),
    Everything,
}

impl Disturbance {
    const ALL: [Self; 7] = [
        Self::Spillway,
        Self::KillSpillway,
        Self::Server(0),
        Self::Server(1),
        Self::Server(2),
        Self::Server(3),
        Self::Everything,
    ];
}

fn restart(server: &mut Server) {
    server.stop();
    server.start();
}

#[test]
fn two_sources_under_load_and_restarts_of_everything_arrive_whole_and_once() {
    let mut two = Two::start();
    let ports = [two.spillway.relay_port_of(0), two.spillway.relay_port_of(1)];
    let pause = Duration::from_millis(20);
    let plans = [
        Plan { schema: FIRST, pause, ..Plan::disturbed(31, 2) },
        Plan { schema: SECOND, pause, first_worker: 10, ..Plan::disturbed(32, 2) },
    ];
    let loads: Vec<Running> = ports
        .iter()
        .zip(&plans)
        .map(|(port, plan)| {
            load::prepare(*port, plan);
            Running::start(&[*port], plan)
        })
        .collect();
    let (mut rng, mut to_come) = (Rng::of_this_run(), Vec::new());
    for _ in 0..setting("SPILLWAY_RESTARTS", 7) {
        if to_come.is_empty() {
            to_come.extend(Disturbance::ALL);
            rng.shuffle(&mut to_come);
        }
        two.let_pass(15);
        two.disturb(to_come.pop().expect("it was just filled"), &mut rng);
        loads.iter().for_each(Running::assert_running);
    }
    two.let_pass(15);
    assert!(loads.into_iter().all(|load| load.finish().steps > 0));
    let compared = two.assert_equal();
    assert!(compared.iter().all(|compared| compared.transactions > 50), "{compared:?}");
    // Both are streaming, and nobody has to be told anything.
    wait::until("both are streaming", || {
        let status = two.spillway.status();
        let sources = status["sources"].as_array().unwrap().clone();
        sources.iter().all(|source| source["capture"]["state"] == "streaming").then_some(())
    });
}

#[test]
fn each_source_has_its_relay_its_status_and_its_findings() {
    let (first, second) = (upstream(1), upstream(2));
    let mut spillway = prepared(first.port(), second.port());
    let check = spillway.check().expect_code(0);
    for (name, server) in [("first", &first), ("second", &second)] {
        let line = format!("source {name}: upstream 127.0.0.1:{} is ", server.port());
        assert!(check.stdout.contains(&line), "{}", check.stdout);
    }
    assert!(!check.stdout.contains("does not name"), "{}", check.stdout);
    spillway.start();
    for (source, id) in [(0, "1"), (1, "2")] {
        let port = spillway.relay_port_of(source);
        let mut app = Client::connect(port, APP_USER.0, APP_USER.1).unwrap();
        assert_eq!(app.query("SELECT @@server_id").unwrap().scalar(), id);
    }
    first.run("CREATE DATABASE a");
    second.run("CREATE DATABASE b; CREATE DATABASE c");
    spillway.wait_recorded("1-1-1,2-2-2");
    let status = spillway.status();
    for (source, name, gtid) in [(0, "first", "1-1-1"), (1, "second", "2-2-2")] {
        let source = &status["sources"][source];
        assert_eq!(source["name"], name);
        assert_eq!(source["capture"]["last_gtid"], gtid);
        assert_eq!(source["capture"]["state"], "streaming");
    }
    for (name, count) in [("first", 1), ("second", 2)] {
        let line = format!("spillway_source_transactions_total{{source=\"{name}\"}} {count}");
        assert!(spillway.metrics().lines().any(|l| l == line), "{line}\n{}", spillway.metrics());
    }
}

#[test]
fn a_source_that_is_away_asks_for_a_person_while_the_other_is_recorded() {
    let (first, mut second) = (upstream(1), upstream(2));
    second.stop();
    let mut spillway = prepared(first.port(), second.port());
    spillway.start();
    first.run("CREATE DATABASE a");
    spillway.wait_recorded("1-1-1");
    spillway.wait_says("cannot reach");
    let status = spillway.status();
    let attention: Vec<_> = status["attention"].as_array().unwrap().iter().collect();
    assert_eq!(attention.len(), 1, "{attention:?}");
    assert!(attention[0].as_str().unwrap().contains("source second: "), "{attention:?}");
    second.start();
    second.run("CREATE DATABASE b");
    spillway.wait_recorded("1-1-1,2-2-1");
}

#[test]
fn a_source_alone_may_name_its_domains_too() {
    let upstream = upstream(1);
    let mut spillway = Spillway::prepared(&upstream).with("[[source]]", "gtid_domains", "[1, 4]");
    spillway.start();
    let replica = Server::replica();
    replica::attach(&replica, spillway.replica_port(), REPLICA_USER);
    upstream.run("CREATE DATABASE a; CREATE TABLE a.t (id INT PRIMARY KEY)");
    write_elsewhere(&upstream, 3, "elsewhere");
    write_elsewhere(&upstream, 4, "fourth");
    upstream.run("INSERT INTO a.t VALUES (1)");
    let position = "1-1-3,4-1-3";
    spillway.wait_recorded(position);
    replica::wait_applied(&replica, position);
    let contents = checksum::contents(&mut replica.root());
    assert!(contents.iter().any(|line| line.contains("fourth")));
    assert!(!contents.iter().any(|line| line.contains("elsewhere")), "{contents:?}");
    assert!(spillway.log().contains("transactions of domain 3 are not recorded"));
    assert_eq!(spillway.metric("spillway_source_skipped_transactions_total"), Some(3.0));
    // What was skipped changes nothing for a session that begins anew.
    spillway.stop();
    upstream.run("INSERT INTO a.t VALUES (2)");
    spillway.start();
    replica::wait_applied(&replica, "1-1-4,4-1-3");
    assert_files_valid(&spillway);
}

/// Waits until part of a large transaction is in a cache file.
fn catch_arriving(spillway: &Spillway) {
    let dir = spillway.binlog_dir().join("#binlog_cache_files");
    let begin = Instant::now();
    loop {
        let entries = fs::read_dir(&dir).into_iter().flatten().flatten();
        let mut sizes = entries.filter_map(|entry| Some(entry.metadata().ok()?.len()));
        if sizes.any(|size| size > 2 << 20) {
            return;
        }
        assert!(begin.elapsed() < wait::deadline(), "never seen arriving");
        std::thread::sleep(Duration::from_micros(200));
    }
}

#[test]
fn a_large_transaction_of_one_source_does_not_delay_the_other() {
    let (first, second) = (upstream(1), upstream(2));
    let proxy = Proxy::start(first.port());
    let mut spillway = prepared(proxy.port(), second.port()).with(
        "[binlog]",
        "binlog_large_commit_threshold",
        "\"16MiB\"",
    );
    spillway.start();
    let replica = Server::replica();
    replica::attach(&replica, spillway.replica_port(), REPLICA_USER);
    first.run(&format!(
        "CREATE DATABASE {FIRST}; CREATE TABLE {FIRST}.t (id INT PRIMARY KEY, t LONGTEXT)"
    ));
    second.run(&format!("CREATE DATABASE {SECOND}; CREATE TABLE {SECOND}.t (id INT PRIMARY KEY)"));
    spillway.wait_recorded("1-1-2,2-2-2");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            first.run(&format!(
                "USE {FIRST}; INSERT INTO t SELECT seq, REPEAT('x', 40000) FROM seq_1_to_1000"
            ));
        });
        catch_arriving(&spillway);
        proxy.stall(true);
    });
    // Half of it is here. Those of the other source go through, to the replica too.
    for id in 0..20 {
        second.run(&format!("INSERT INTO {SECOND}.t VALUES ({id})"));
    }
    spillway.wait_recorded("1-1-2,2-2-22");
    replica::wait_applied(&replica, "1-1-2,2-2-22");
    proxy.stall(false);
    spillway.wait_recorded("1-1-3,2-2-22");
    replica::wait_applied(&replica, "1-1-3,2-2-22");
    let two = Two { first, second, spillway, replicas: vec![(replica, &[FIRST, SECOND])] };
    let dump =
        Dump::start(two.spillway.replica_port(), REPLICA_USER, &Request::everything()).unwrap();
    let events = dump.map(Result::unwrap).filter(|event| event.kind == GTID);
    assert_eq!(events.filter_map(|event| event.gtid()).last().as_deref(), Some("1-1-3"));
    two.assert_equal();
}
