//! Private MariaDB servers: own data directory, own port on 127.0.0.1, killed when dropped.

use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::Signal;
use tempfile::TempDir;

use crate::client::{Client, Reply};
use crate::net::free_port;
use crate::process::{Process, log_text};
use crate::release::Release;
use crate::run_dir::temp_dir;
use crate::{tool, wait};

/// The account Spillway attaches with: exactly the privileges it asks for.
pub const CAPTURE_USER: (&str, &str) = ("spillway", "capture-secret");
/// The account applications and tests use, with all privileges.
pub const APP_USER: (&str, &str) = ("app", "app-secret");

/// Accounts every server here has. They are not in its binlog, so a test's own first statement is GTID 0-1-1.
const ACCOUNTS: &str = "SET SESSION sql_log_bin = 0;
    CREATE USER spillway@'%' IDENTIFIED BY 'capture-secret';
    GRANT REPLICATION SLAVE, BINLOG MONITOR ON *.* TO spillway@'%';
    CREATE USER app@'%' IDENTIFIED BY 'app-secret';
    GRANT ALL PRIVILEGES ON *.* TO app@'%' WITH GRANT OPTION;";

/// Options of every server here. A test's process dies, its machine does not: nothing is synced, which costs no exactness.
const COMMON: &[&str] = &[
    "--no-defaults",
    "--bind-address=127.0.0.1",
    "--skip-name-resolve",
    "--max-allowed-packet=1G",
    "--innodb-flush-log-at-trx-commit=2",
    "--sync-binlog=0",
    "--innodb-buffer-pool-size=64M",
    "--innodb-log-file-size=64M",
    "--innodb-fast-shutdown=1",
    "--character-set-server=utf8mb4",
    "--local-infile=1",
];

/// The role's options for an upstream: a row binlog of its own.
const UPSTREAM: &[&str] = &["--server-id=1", "--log-bin=mbin", "--binlog-format=ROW"];
/// The role's options for a replica: with a binlog of its own in strict mode it refuses a transaction that comes twice.
const REPLICA: &[&str] = &[
    "--server-id=101",
    "--slave-net-timeout=20",
    "--log-bin=rbin",
    "--log-slave-updates",
    "--gtid-strict-mode=1",
];

/// A server, running or stopped.
pub struct Server {
    name: String,
    release: Release,
    port: u16,
    options: Vec<String>,
    // Before the directory: dropped first, so the log is there to be shown and no file comes back.
    process: Option<Process>,
    dir: TempDir,
}

impl Server {
    /// An upstream with an empty row binlog, running.
    pub fn upstream() -> Self {
        Self::upstream_with(&[])
    }

    /// As [`Server::upstream`], with more server options; of an option given twice the last counts.
    pub fn upstream_with(options: &[&str]) -> Self {
        Self::upstream_of(&Release::installed(), options)
    }

    /// As [`Server::upstream_with`], of a release.
    pub fn upstream_of(release: &Release, options: &[&str]) -> Self {
        Self::start_new("upstream", release, &[UPSTREAM, options].concat())
    }

    /// An upstream with the ed25519 plugin of `$SPILLWAY_PLUGIN_DIR` (`make test` fetches it), or `None` where it is not.
    pub fn upstream_with_ed25519() -> Option<Self> {
        let dir = PathBuf::from(std::env::var_os("SPILLWAY_PLUGIN_DIR")?);
        if !dir.join("auth_ed25519.so").exists() {
            eprintln!("not tested: there is no auth_ed25519.so in {}", dir.display());
            return None;
        }
        let options = [format!("--plugin-dir={}", dir.display())];
        let server = Self::upstream_with(&[&options[0], "--plugin-load-add=auth_ed25519"]);
        Some(server)
    }

    /// A server to be made a replica, running.
    pub fn replica() -> Self {
        Self::replica_with(&[])
    }

    /// As [`Server::replica`], with more server options.
    pub fn replica_with(options: &[&str]) -> Self {
        Self::replica_of(&Release::installed(), options)
    }

    /// As [`Server::replica_with`], of a release.
    pub fn replica_of(release: &Release, options: &[&str]) -> Self {
        Self::start_new("replica", release, &[REPLICA, options].concat())
    }

    fn start_new(name: &str, release: &Release, options: &[&str]) -> Self {
        let dir = temp_dir(name);
        copy_tree(release.template(), &dir.path().join("data"));
        std::fs::create_dir(dir.path().join("tmp")).expect("a directory for temporary tables");
        let options = options.iter().map(|&option| option.to_owned()).collect();
        let (name, release) = (name.to_owned(), release.clone());
        let mut server = Self { name, release, dir, port: free_port(), options, process: None };
        server.start();
        server.root().query_all(ACCOUNTS).expect("the accounts can be made");
        server
    }

    /// Starts a stopped server again, with the same data and port, and waits until it answers.
    pub fn start(&mut self) {
        assert!(self.process.is_none(), "{} runs already", self.name);
        let process = Process::start(&self.name, &self.command(), &self.log_file());
        self.process = Some(process);
        let what = format!("{} answers on port {}", self.name, self.port);
        wait::until(&what, || {
            let end = self.process.as_mut().and_then(Process::ended);
            assert!(end.is_none(), "{} ended at start: {end:?}\n{}", self.name, self.log());
            Client::connect(self.port, "root", "").ok()
        });
    }

    /// Stops it in good order.
    pub fn stop(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.terminate();
        }
    }

    /// SIGKILL.
    pub fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill();
        }
    }

    /// Sends its process a signal.
    pub fn signal(&self, signal: Signal) {
        self.process.as_ref().expect("the server runs").signal(signal);
    }

    /// A copy of a stopped server's data.
    pub fn copy_data(&self) -> TempDir {
        let copy = temp_dir("copy");
        copy_tree(&self.data_dir(), &copy.path().join("data"));
        copy
    }

    /// Gives a stopped server other data, as [`Server::copy_data`] made it; answers what it had.
    pub fn swap_data(&mut self, data: &TempDir) -> TempDir {
        assert!(self.process.is_none(), "{} runs", self.name);
        let old = temp_dir("copy");
        let (here, there) = (self.data_dir(), data.path().join("data"));
        std::fs::rename(&here, old.path().join("data")).expect("the data can be moved away");
        std::fs::rename(there, here).expect("the data can be moved here");
        old
    }

    /// Starts a stopped server again as one of a newer release, with the same data, and upgrades its system tables.
    pub fn upgrade(&mut self, release: &Release) {
        self.release = release.clone();
        self.start();
        let mut command = Command::new(release.client("mariadb-upgrade"));
        command.args(["--no-defaults", "--user=root"]);
        command.arg(format!("--socket={}", self.socket().display()));
        tool::run_command(&mut command).expect_code(0);
    }

    /// Options for its next starts.
    pub fn add_option(&mut self, option: &str) {
        self.options.push(option.to_owned());
    }

    /// Where it listens.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its data directory.
    pub fn data_dir(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    /// Its unix socket.
    pub fn socket(&self) -> PathBuf {
        self.dir.path().join("s")
    }

    /// What it has logged.
    pub fn log(&self) -> String {
        log_text(&self.log_file())
    }

    /// A connection as root.
    pub fn root(&self) -> Client {
        Client::connect(self.port, "root", "")
            .unwrap_or_else(|error| panic!("{} refuses root: {error}\n{}", self.name, self.log()))
    }

    /// Runs one statement as root on a connection of its own; panics on an error.
    pub fn query(&self, sql: &str) -> Reply {
        self.root().query(sql).unwrap_or_else(|error| panic!("{}: {sql}: {error}", self.name))
    }

    /// Runs statements separated by semicolons as root; panics on an error.
    pub fn run(&self, sql: &str) {
        self.root().query_all(sql).unwrap_or_else(|error| panic!("{}: {sql}: {error}", self.name));
    }

    /// The last GTID of each domain in its binlog.
    pub fn gtid_binlog_pos(&self) -> String {
        self.query("SELECT @@GLOBAL.gtid_binlog_pos").scalar()
    }

    /// Names of its binlog files, in order.
    pub fn binlog_files(&self) -> Vec<String> {
        let rows = self.query("SHOW BINARY LOGS").rows;
        rows.into_iter().filter_map(|row| row.into_iter().next().flatten()).collect()
    }

    fn command(&self) -> Command {
        let mut command = Command::new(self.release.mariadbd());
        command.args(COMMON).args(self.release.options()).arg(format!("--port={}", self.port));
        command.arg(format!("--datadir={}", self.data_dir().display()));
        // Its own: a starting server deletes the temporary tables of all others in the same directory.
        command.arg(format!("--tmpdir={}", self.dir.path().join("tmp").display()));
        command.arg(format!("--socket={}", self.socket().display()));
        command.arg(format!("--pid-file={}", self.dir.path().join("pid").display()));
        command.args(&self.options);
        if rustix::process::geteuid().is_root() {
            command.arg("--user=root");
        }
        command
    }

    fn log_file(&self) -> PathBuf {
        self.dir.path().join("log")
    }
}

/// Copies a directory.
pub(crate) fn copy_tree(from: &Path, to: &Path) {
    let mut command = Command::new("cp");
    tool::run_command(command.args(["-a", "--reflink=auto"]).arg(from).arg(to)).expect_code(0);
}
