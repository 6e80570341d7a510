//! Recording what an upstream already has: Spillway against `mariadb-binlog --raw`, which checks and repacks nothing.

use std::path::Path;
use std::time::{Duration, Instant};

use spillway_integration_tests::client::Client;
use spillway_integration_tests::run_dir::temp_dir;
use spillway_integration_tests::servers::{CAPTURE_USER, Server};
use spillway_integration_tests::spillway::Spillway;
use spillway_integration_tests::stack::assert_files_valid;
use spillway_integration_tests::tool;

use crate::report::{Row, median};
use crate::setting;

const POLL: Duration = Duration::from_millis(5);

struct Work {
    name: &'static str,
    upstream: Server,
    /// What one run records, in units.
    amount: f64,
    unit: &'static str,
}

/// All rounds of both candidates on both binlogs.
pub fn measure() -> Vec<Row> {
    [large_rows(), small_transactions()].iter().flat_map(rounds).collect()
}

/// 100 transactions of 1,000 rows of 5,000 bytes, in rows events of 8 KiB: each has to be repacked.
fn large_rows() -> Work {
    println!("preparing 500 MB of large rows");
    let upstream = Server::upstream_with(&["--innodb-buffer-pool-size=256M"]);
    upstream.run("CREATE DATABASE b; CREATE TABLE b.t (id INT AUTO_INCREMENT PRIMARY KEY, t TEXT)");
    let mut client = upstream.root();
    client.query("USE b").unwrap();
    for _ in 0..100 {
        client.query("INSERT INTO t (t) SELECT REPEAT('x', 5000) FROM seq_1_to_1000").unwrap();
    }
    let amount = binlog_bytes(&upstream) / 1e6;
    Work { name: "500 MB of large rows", upstream, amount, unit: "MB/s" }
}

fn small_transactions() -> Work {
    println!("preparing 300,000 one-row transactions");
    let upstream = Server::upstream_with(&["--innodb-buffer-pool-size=256M"]);
    upstream.run("CREATE DATABASE b; CREATE TABLE b.t (id INT PRIMARY KEY, t VARCHAR(20))");
    let count = 300_000;
    upstream.query(
        "CREATE PROCEDURE b.fill(many INT) BEGIN
           DECLARE i INT DEFAULT 0;
           WHILE i < many DO INSERT INTO b.t VALUES (i, 'one small row'); SET i = i + 1; END WHILE;
         END",
    );
    upstream.query(&format!("CALL b.fill({count})"));
    Work {
        name: "300,000 one-row transactions",
        upstream,
        amount: f64::from(count),
        unit: "transactions/s",
    }
}

fn rounds(work: &Work) -> Vec<Row> {
    let (mut tool_rates, mut spillway_rates) = (Vec::new(), Vec::new());
    for round in 1..=setting("BENCH_ROUNDS", 5) {
        let took = mariadb_binlog(&work.upstream);
        tool_rates.push(work.amount / took);
        println!("{} round {round}: {took:.2} s, mariadb-binlog --raw", work.name);
        let took = spillway(&work.upstream);
        spillway_rates.push(work.amount / took);
        println!("{} round {round}: {took:.2} s, Spillway", work.name);
    }
    let baseline = median(&tool_rates);
    let row = |candidate: &str, rounds| Row {
        work: work.name.to_owned(),
        candidate: candidate.to_owned(),
        rounds,
        unit: work.unit,
        baseline,
        baseline_name: "mariadb-binlog",
    };
    vec![row("mariadb-binlog --raw", tool_rates), row("Spillway, level 1", spillway_rates)]
}

fn mariadb_binlog(upstream: &Server) -> f64 {
    let dir = temp_dir("raw");
    settle_disk(dir.path());
    let begin = Instant::now();
    tool::run(
        "mariadb-binlog",
        &[
            "--no-defaults",
            "--host=127.0.0.1",
            &format!("--port={}", upstream.port()),
            &format!("--user={}", CAPTURE_USER.0),
            &format!("--password={}", CAPTURE_USER.1),
            "--raw",
            "--read-from-remote-server",
            "--to-last-log",
            &format!("--result-file={}/", dir.path().display()),
            "mbin.000001",
        ],
    )
    .expect_code(0);
    begin.elapsed().as_secs_f64()
}

/// From the start of the process, with an empty log, until the log has the upstream's last GTID at level 1.
fn spillway(upstream: &Server) -> f64 {
    let wanted = upstream.gtid_binlog_pos();
    let mut spillway = Spillway::prepared(upstream).with("[[source]]", "start", "\"oldest\"");
    settle_disk(&std::env::temp_dir());
    let begin = Instant::now();
    spillway.launch();
    let mut client: Option<Client> = None;
    loop {
        let seen = client.as_mut().map(|c| c.query("SELECT @@GLOBAL.gtid_binlog_pos"));
        match seen {
            Some(Ok(reply)) if reply.scalar() == wanted => break,
            Some(Ok(_)) => {}
            Some(Err(_)) | None => client = spillway.replica_client().ok(),
        }
        assert!(
            begin.elapsed() < Duration::from_secs(300),
            "spillway does not record:\n{}",
            spillway.log()
        );
        std::thread::sleep(POLL);
    }
    let took = begin.elapsed().as_secs_f64();
    assert_files_valid(&spillway);
    took
}

/// What an earlier run left for the disk is written before the next one is timed.
fn settle_disk(dir: &Path) {
    let dir = std::fs::File::open(dir).expect("the directory opens");
    rustix::fs::syncfs(&dir).expect("syncfs");
}

fn binlog_bytes(upstream: &Server) -> f64 {
    let sizes = upstream.query("SHOW BINARY LOGS").rows.into_iter();
    sizes.filter_map(|row| row.get(1)?.as_ref()?.parse::<f64>().ok()).sum()
}
