//! sysbench through nothing, HAProxy in TCP mode, and Spillway's relay.

use std::process::Command;

use spillway_integration_tests::net::free_port;
use spillway_integration_tests::process::Process;
use spillway_integration_tests::run_dir::temp_dir;
use spillway_integration_tests::servers::{APP_USER, Server};
use spillway_integration_tests::spillway::Spillway;
use spillway_integration_tests::{tool, wait};
use tempfile::TempDir;

use crate::report::{Row, median};
use crate::setting;

const WORKLOADS: [&str; 2] = ["oltp_point_select", "oltp_read_write"];
const BASELINE: usize = 1;

/// All rounds of all candidates.
pub fn measure() -> Vec<Row> {
    let upstream =
        Server::upstream_with(&["--innodb-buffer-pool-size=512M", "--max-connections=200"]);
    upstream.run("CREATE DATABASE sb");
    sysbench(upstream.port(), WORKLOADS[1], &["prepare"]);
    let haproxy = Haproxy::start(upstream.port());
    let relay_only = relay(&upstream, false);
    let recording = relay(&upstream, true);
    let candidates = [
        ("direct", upstream.port()),
        ("HAProxy, mode tcp, 2 threads", haproxy.port),
        ("Spillway, relay only", relay_only.relay_port()),
        ("Spillway, relay and capture", recording.relay_port()),
    ];
    WORKLOADS.iter().flat_map(|workload| rounds(workload, &candidates)).collect()
}

fn rounds(workload: &str, candidates: &[(&str, u16)]) -> Vec<Row> {
    let mut figures = vec![Vec::new(); candidates.len()];
    for round in 1..=setting("BENCH_ROUNDS", 5) {
        for (index, (name, port)) in candidates.iter().enumerate() {
            let tps = sysbench(*port, workload, &["run"]);
            println!("{workload} round {round}: {tps:.0} tps, {name}");
            figures[index].push(tps);
        }
    }
    let baseline = median(&figures[BASELINE]);
    let rows = candidates.iter().zip(figures).map(|((name, _), rounds)| Row {
        work: workload.to_owned(),
        candidate: (*name).to_owned(),
        rounds,
        unit: "tps",
        baseline,
        baseline_name: "HAProxy",
    });
    rows.collect()
}

fn relay(upstream: &Server, capture: bool) -> Spillway {
    let mut spillway = Spillway::prepared(upstream)
        .with("[[source]]", "capture", &capture.to_string())
        .with("[[source]]", "start", "\"current\"");
    spillway.start();
    spillway
}

/// Transactions per second; 0 for `prepare`.
fn sysbench(port: u16, workload: &str, command: &[&str]) -> f64 {
    let fixed = ["--mysql-host=127.0.0.1", "--mysql-db=sb", "--tables=4", "--table-size=25000"];
    let mut arguments: Vec<String> = vec![workload.to_owned()];
    arguments.extend(fixed.map(str::to_owned));
    arguments.extend([
        format!("--mysql-port={port}"),
        format!("--mysql-user={}", APP_USER.0),
        format!("--mysql-password={}", APP_USER.1),
        "--threads=16".to_owned(),
        format!("--time={}", setting("BENCH_SECONDS", 5)),
    ]);
    let arguments: Vec<&str> =
        arguments.iter().map(String::as_str).chain(command.iter().copied()).collect();
    let output = tool::run("sysbench", &arguments).expect_code(0).stdout;
    let line = output.lines().find(|line| line.trim_start().starts_with("transactions:"));
    let rate = line.and_then(|line| line.split('(').nth(1)?.split(' ').next()?.parse().ok());
    rate.unwrap_or(0.0)
}

struct Haproxy {
    port: u16,
    _process: Process,
    _dir: TempDir,
}

impl Haproxy {
    fn start(target: u16) -> Self {
        let (dir, port) = (temp_dir("haproxy"), free_port());
        let file = dir.path().join("haproxy.cfg");
        let text = format!(
            "global\n  nbthread 2\n  maxconn 4096\n\
             defaults\n  mode tcp\n  timeout connect 5s\n  timeout client 1m\n  timeout server 1m\n\
             frontend front\n  bind 127.0.0.1:{port}\n  default_backend back\n\
             backend back\n  server upstream 127.0.0.1:{target}\n"
        );
        std::fs::write(&file, text).expect("the configuration can be written");
        let mut command = Command::new("haproxy");
        command.arg("-db").arg("-f").arg(&file).env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
        let process = Process::start("haproxy", &command, &dir.path().join("log"));
        wait::until("haproxy listens", || std::net::TcpStream::connect(("127.0.0.1", port)).ok());
        Self { port, _process: process, _dir: dir }
    }
}
