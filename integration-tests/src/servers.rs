//! Private MariaDB servers: own data directory, own port on 127.0.0.1, killed when dropped.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use rustix::process::Signal;
use tempfile::TempDir;

use crate::client::{Client, Reply};
use crate::net::free_port;
use crate::process::{Process, log_text};
use crate::run_dir::{run_dir, temp_dir};
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
    /// The file system it runs in, where that is another.
    root: Option<PathBuf>,
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
        Self::start_new("upstream", &[UPSTREAM, options].concat())
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

    /// An upstream of MariaDB 11.8 from the file system in `$SPILLWAY_MARIADB_11_8_ROOT`, which is entered by chroot; `None` where
    /// there is none, or this is not root.
    pub fn upstream_11_8() -> Option<Self> {
        let root =
            PathBuf::from(std::env::var_os("SPILLWAY_MARIADB_11_8_ROOT").unwrap_or_default());
        if !root.join("usr/sbin/mariadbd").exists() || !rustix::process::geteuid().is_root() {
            eprintln!(
                "not tested: $SPILLWAY_MARIADB_11_8_ROOT has no MariaDB, or this is not root"
            );
            return None;
        }
        let dir = tempfile::Builder::new().prefix("spillway-tests-").tempdir_in(root.join("tmp"));
        let dir = dir.expect("a directory within the other file system");
        let server = Self::prepared("upstream 11.8", UPSTREAM, dir, Some(root));
        let mut install = server.program("mariadb-install-db");
        install.args(["--no-defaults", "--force", "--skip-name-resolve", "--skip-test-db"]);
        install.args(["--auth-root-authentication-method=normal", "--user=root"]);
        install.arg(format!("--datadir={}", server.seen(&server.data_dir()).display()));
        tool::run_command(&mut install).expect_code(0);
        Some(server.begin())
    }

    /// A server to be made a replica, running.
    pub fn replica() -> Self {
        Self::replica_with(&[])
    }

    /// As [`Server::replica`], with more server options.
    pub fn replica_with(options: &[&str]) -> Self {
        Self::start_new("replica", &[REPLICA, options].concat())
    }

    fn start_new(name: &str, options: &[&str]) -> Self {
        let server = Self::prepared(name, options, temp_dir(name), None);
        copy_tree(template(), &server.data_dir());
        server.begin()
    }

    fn prepared(name: &str, options: &[&str], dir: TempDir, root: Option<PathBuf>) -> Self {
        std::fs::create_dir(dir.path().join("tmp")).expect("a directory for temporary tables");
        let options = options.iter().map(|&option| option.to_owned()).collect();
        Self { name: name.to_owned(), root, dir, port: free_port(), options, process: None }
    }

    fn begin(mut self) -> Self {
        self.start();
        self.root().query_all(ACCOUNTS).expect("the accounts can be made");
        self
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
        let mut command = self.program(mariadbd().to_str().unwrap());
        let inside = |name: &str| self.seen(&self.dir.path().join(name)).display().to_string();
        command.args(COMMON).arg(format!("--port={}", self.port));
        command.arg(format!("--datadir={}", inside("data")));
        // Its own: a starting server deletes the temporary tables of all others in the same directory.
        command.arg(format!("--tmpdir={}", inside("tmp")));
        command.arg(format!("--socket={}", inside("s")));
        command.arg(format!("--pid-file={}", inside("pid")));
        command.args(&self.options);
        if rustix::process::geteuid().is_root() {
            command.arg("--user=root");
        }
        command
    }

    /// A program of the file system it runs in.
    fn program(&self, name: &str) -> Command {
        let Some(root) = &self.root else { return Command::new(name) };
        let mut command = Command::new("chroot");
        command.arg(root).arg(name);
        command
    }

    /// A path as the server sees it.
    fn seen(&self, path: &Path) -> PathBuf {
        let root = self.root.as_deref().unwrap_or(Path::new("/"));
        Path::new("/").join(path.strip_prefix(root).unwrap_or(path))
    }

    fn log_file(&self) -> PathBuf {
        self.dir.path().join("log")
    }
}

/// The server program: on `$PATH`, or where Debian puts it, which is not on every user's path.
pub fn mariadbd() -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path)
        .chain([PathBuf::from("/usr/sbin")])
        .map(|dir| dir.join("mariadbd"))
        .find(|program| program.exists());
    found.expect("MariaDB is not installed: `apt-get install mariadb-server-core mariadb-client`")
}

/// Whether the installed server is of the series the tests are written for; fails the run otherwise.
pub fn require_series(series: &str) {
    let version = tool::run(mariadbd().to_str().unwrap(), &["--version"]).stdout;
    assert!(version.contains(series), "these tests need MariaDB {series}, found: {version}");
}

/// A data directory as `mariadb-install-db` leaves it, made once a run.
fn template() -> &'static Path {
    static TEMPLATE: OnceLock<PathBuf> = OnceLock::new();
    TEMPLATE.get_or_init(|| {
        require_series("10.11");
        let dir = run_dir().join("template");
        let temporary = temp_dir("template-tmp");
        let mut command = Command::new("mariadb-install-db");
        command.args(["--no-defaults", "--force", "--skip-name-resolve", "--skip-test-db"]);
        command.args(["--auth-root-authentication-method=normal", "--innodb-log-file-size=10M"]);
        command.arg(format!("--datadir={}", dir.display()));
        command.arg(format!("--tmpdir={}", temporary.path().display()));
        if rustix::process::geteuid().is_root() {
            command.arg("--user=root");
        }
        tool::run_command(&mut command).expect_code(0);
        dir
    })
}

fn copy_tree(from: &Path, to: &Path) {
    let mut command = Command::new("cp");
    tool::run_command(command.args(["-a", "--reflink=auto"]).arg(from).arg(to)).expect_code(0);
}
