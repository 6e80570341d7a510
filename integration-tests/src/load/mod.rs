//! A mixed load, the same for the same seed: many statement kinds from several connections at once through one port.
//!
//! Every step of every worker is numbered and noted in the worker's own table, in the transaction of the step where there
//! is one. A disturbed load goes on through lost connections; any other error the server gives ends it with a panic.

mod schema;
mod steps;
mod types;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Error, OptsBuilder, WhiteListFsHandler};
use tempfile::TempDir;

use crate::rng::Rng;
use crate::run_dir::temp_dir;
use crate::servers::APP_USER;
use crate::wait::deadline;

/// The schema the load works in where its plan does not say another.
pub const SCHEMA: &str = "load_test";

const PAUSE: Duration = Duration::from_millis(20);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);
/// Deadlock, lock wait time-out, changed record: a client's ordinary life.
const CONFLICTS: &[u16] = &[1205, 1213, 1020];
/// Unknown or duplicate XA id, prepared XA in the way: what a lost connection leaves behind.
const AFTER_LOSS: &[u16] = &[1397, 1399, 1400, 1402, 1440];

/// What to run.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Same seed, same statements of each worker.
    pub seed: u64,
    /// The schema to work in.
    pub schema: &'static str,
    /// Number of the first worker: loads whose statements end on one server have workers of different numbers.
    pub first_worker: u64,
    /// Connections at once.
    pub workers: u64,
    /// Steps of each.
    pub steps: u64,
    /// Between a worker's steps: a replica that applies one transaction after another is to keep up.
    pub pause: Duration,
    /// Whether connections may get lost.
    pub disturbed: bool,
    /// Rows of 20 and 40 MiB, from the first worker.
    pub big_rows: bool,
    /// When set, workers end after their current step.
    pub stop: Arc<AtomicBool>,
    /// Statements whose crash safety MariaDB itself does not promise: MyISAM, XA, DDL.
    pub crash_unsafe: bool,
}

impl Plan {
    /// Everything, on connections that live.
    pub fn everything(seed: u64, workers: u64, steps: u64) -> Self {
        let stop = Arc::default();
        Self {
            seed,
            schema: SCHEMA,
            first_worker: 0,
            workers,
            steps,
            pause: Duration::ZERO,
            disturbed: false,
            big_rows: true,
            stop,
            crash_unsafe: true,
        }
    }

    /// Everything but the big rows, on connections that may get lost, until stopped.
    pub fn disturbed(seed: u64, workers: u64) -> Self {
        Self { disturbed: true, big_rows: false, ..Self::everything(seed, workers, u64::MAX) }
    }

    fn worker_ids(&self) -> std::ops::Range<u64> {
        self.first_worker..self.first_worker + self.workers
    }
}

/// What was done.
#[derive(Debug, Default, Clone, Copy)]
pub struct Done {
    /// Steps that went through.
    pub steps: u64,
    /// Connections that got lost.
    pub lost: u64,
    /// Steps given up because of a conflict with another worker.
    pub conflicts: u64,
}

/// Makes the tables, procedures and triggers the load needs.
pub fn prepare(port: u16, plan: &Plan) {
    runtime().block_on(async {
        let dir = temp_dir("load");
        let mut conn =
            connect(port, &dir).await.expect("the port takes the load's first connection");
        for sql in schema::statements(plan) {
            conn.query_drop(&sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
        }
        conn.disconnect().await.expect("the connection closes");
    });
}

/// A load in the background.
pub struct Running {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Done>,
}

impl Running {
    /// Starts the workers of the plan, in turn on each of the ports. [`prepare`] comes first.
    pub fn start(ports: &[u16], plan: &Plan) -> Self {
        let (stop, ports, plan) = (Arc::clone(&plan.stop), ports.to_vec(), plan.clone());
        Self { stop, thread: std::thread::spawn(move || run_on(&ports, &plan)) }
    }

    /// Panics when the load has ended already: then something was not tested under load.
    pub fn assert_running(&self) {
        assert!(!self.thread.is_finished(), "the load has ended too early");
    }

    /// Ends the load and gives what it did. Panics when one of its workers did.
    pub fn finish(self) -> Done {
        self.stop.store(true, Ordering::SeqCst);
        self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

/// Runs the load to its end. [`prepare`] comes first.
pub fn run(port: u16, plan: &Plan) -> Done {
    run_on(&[port], plan)
}

fn run_on(ports: &[u16], plan: &Plan) -> Done {
    let runtime = runtime();
    let turns = ports.iter().cycle();
    let tasks: Vec<_> = plan
        .worker_ids()
        .zip(turns)
        .map(|(id, port)| runtime.spawn(Worker::new(*port, id, plan.clone()).work()))
        .collect();
    let mut total = Done::default();
    for task in tasks {
        let done = runtime.block_on(task).expect("a worker of the load failed");
        total.steps += done.steps;
        total.lost += done.lost;
        total.conflicts += done.conflicts;
    }
    total
}

fn runtime() -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(1).enable_all().build().expect("a runtime")
}

async fn connect(port: u16, dir: &TempDir) -> Result<Conn, Error> {
    let options = OptsBuilder::default()
        .ip_or_hostname("127.0.0.1")
        .tcp_port(port)
        // Or the client would leave the relay for the server's unix socket.
        .prefer_socket(false)
        .user(Some(APP_USER.0))
        .pass(Some(APP_USER.1))
        .max_allowed_packet(Some(1 << 30))
        .local_infile_handler(Some(WhiteListFsHandler::new([dir.path().join("load.csv")])));
    Conn::new(options).await
}

struct Worker {
    port: u16,
    id: u64,
    step: u64,
    plan: Plan,
    rng: Rng,
    dir: TempDir,
    done: Done,
}

impl Worker {
    fn new(port: u16, id: u64, plan: Plan) -> Self {
        let rng = Rng::new(plan.seed.wrapping_mul(1009).wrapping_add(id));
        Self { port, id, step: 0, plan, rng, dir: temp_dir("load"), done: Done::default() }
    }

    async fn work(mut self) -> Done {
        let mut conn = self.reconnect().await;
        while self.step < self.plan.steps && !self.plan.stop.load(Ordering::SeqCst) {
            self.step += 1;
            if !self.plan.pause.is_zero() {
                tokio::time::sleep(self.plan.pause).await;
            }
            match self.take_step(&mut conn).await {
                Ok(()) => self.done.steps += 1,
                Err(error) if code(&error).is_some_and(|code| CONFLICTS.contains(&code)) => {
                    self.done.conflicts += 1;
                    if conn.query_drop("ROLLBACK").await.is_err() {
                        conn = self.reconnect().await;
                    }
                }
                Err(error) if self.plan.disturbed && is_loss(&error) => {
                    self.done.lost += 1;
                    conn = self.reconnect().await;
                }
                Err(error) => panic!("worker {} step {}: {error}", self.id, self.step),
            }
        }
        let _ = conn.disconnect().await;
        self.done
    }

    /// A connection, with what an earlier one left prepared rolled back.
    async fn reconnect(&mut self) -> Conn {
        let begin = std::time::Instant::now();
        loop {
            // A connection that reached a listener just before that was killed may stay open on this side alone.
            let attempt = tokio::time::timeout(CONNECT_TIMEOUT, self.try_connect()).await;
            let error = match attempt {
                Ok(Ok(conn)) => return conn,
                Ok(Err(error)) => error.to_string(),
                Err(_) => format!("no greeting within {CONNECT_TIMEOUT:?}"),
            };
            let patient = self.plan.disturbed && begin.elapsed() < deadline();
            assert!(patient, "worker {} cannot connect: {error}", self.id);
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn try_connect(&mut self) -> Result<Conn, Error> {
        let mut conn = connect(self.port, &self.dir).await?;
        conn.query_drop(format!("USE {}", self.plan.schema)).await?;
        conn.query_drop("SET SESSION innodb_lock_wait_timeout = 5").await?;
        let recovered: Vec<(i64, usize, usize, String)> = conn.query("XA RECOVER").await?;
        for (_, length, _, data) in recovered {
            let xid = data.get(..length).unwrap_or(&data).to_owned();
            if xid.starts_with(&format!("w{}-", self.id)) {
                conn.query_drop(format!("XA ROLLBACK '{xid}'")).await?;
            }
        }
        Ok(conn)
    }
}

fn code(error: &Error) -> Option<u16> {
    match error {
        Error::Server(error) => Some(error.code),
        _ => None,
    }
}

/// A broken connection, an error of class 08, the server going down, or what follows from an earlier loss.
fn is_loss(error: &Error) -> bool {
    match error {
        Error::Io(_) | Error::Driver(_) => true,
        Error::Server(error) => {
            let shutdown = [1053, 1927, 1184, 1159, 1158];
            error.state.starts_with("08")
                || AFTER_LOSS.contains(&error.code)
                || shutdown.contains(&error.code)
        }
        _ => false,
    }
}
