//! Private MySQL servers, of the release that `make test` unpacks where it can, and that release's own tools.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use tempfile::TempDir;

use crate::client::{Client, Reply};
use crate::net::free_port;
use crate::process::{Process, log_text};
use crate::release::unpacked;
use crate::run_dir::{run_dir, temp_dir};
use crate::servers::copy_tree;
use crate::tool::{self, Output};
use crate::wait;

/// The release's series.
const SERIES: &str = "9.7";

/// Accounts every server here has, a statement a line. They are not in its binlog.
const ACCOUNTS: &str = "SET SESSION sql_log_bin = 0;
CREATE USER root@'%';
GRANT ALL PRIVILEGES ON *.* TO root@'%' WITH GRANT OPTION;
CREATE USER spillway@'%' IDENTIFIED BY 'capture-secret';
GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO spillway@'%';
CREATE USER app@'%' IDENTIFIED BY 'app-secret';
GRANT ALL PRIVILEGES ON *.* TO app@'%' WITH GRANT OPTION;
";

/// Options of every server here, beside its places. A test's process dies, its machine does not: nothing is synced.
const OPTIONS: &[&str] = &[
    "--bind-address=127.0.0.1",
    "--skip-name-resolve",
    "--mysqlx=OFF",
    "--performance-schema=OFF",
    "--secure-file-priv=",
    "--max-allowed-packet=1G",
    "--innodb-flush-log-at-trx-commit=2",
    "--sync-binlog=0",
    "--innodb-buffer-pool-size=64M",
    "--innodb-redo-log-capacity=64M",
    "--local-infile=1",
    "--server-id=1",
    "--log-bin=mbin",
];

/// Where the release is.
#[derive(Clone, Debug)]
pub struct MySqlRelease {
    root: PathBuf,
}

/// A server, running or stopped.
pub struct MySql {
    release: MySqlRelease,
    port: u16,
    options: Vec<String>,
    // Before the directory: dropped first, so the log is there to be shown and no file comes back.
    process: Option<Process>,
    dir: TempDir,
}

impl MySqlRelease {
    /// The unpacked one, or `None`, said aloud with the name of the test, where there is none.
    pub fn find() -> Option<Self> {
        let root = unpacked(&format!("mysql-{SERIES}"), "usr/sbin/mysqld", "MySQL 9.7")?;
        Some(Self { root })
    }

    /// Runs one of its client programs to its end.
    pub fn tool(&self, name: &str, args: &[&str]) -> Output {
        tool::run(self.root.join("usr/bin").join(name).to_str().unwrap(), args)
    }

    fn server(&self, data: &Path) -> Command {
        let mut command = Command::new(self.root.join("usr/sbin/mysqld"));
        let usr = self.root.join("usr");
        command.arg("--no-defaults").arg(format!("--basedir={}", usr.display()));
        command.arg(format!("--lc-messages-dir={}", usr.join("share/mysql").display()));
        command.arg(format!("--plugin-dir={}", usr.join("lib/mysql/plugin").display()));
        command.args(OPTIONS).arg(format!("--datadir={}", data.display()));
        if rustix::process::geteuid().is_root() {
            command.arg("--user=root");
        }
        command
    }

    /// A data directory with the accounts, the certificates and the keys that the server makes itself; made once a run.
    fn template(&self) -> &'static Path {
        static TEMPLATE: OnceLock<PathBuf> = OnceLock::new();
        TEMPLATE.get_or_init(|| {
            let (data, accounts) = (run_dir().join("template-mysql"), run_dir().join("accounts"));
            std::fs::write(&accounts, ACCOUNTS).unwrap();
            let mut command = self.server(&data);
            command.args(["--initialize-insecure", "--skip-log-bin"]);
            command.arg(format!("--init-file={}", accounts.display()));
            tool::run_command(&mut command).expect_code(0);
            // A server without one gives itself an identity of its own.
            std::fs::remove_file(data.join("auto.cnf")).unwrap();
            data
        })
    }
}

impl MySql {
    /// A server with an empty row binlog, running; `None`, said aloud, where the release is not there.
    pub fn start_new() -> Option<Self> {
        Some(Self::of(&MySqlRelease::find()?, &[]))
    }

    /// As [`MySql::start_new`], of a release found, with more options.
    pub fn of(release: &MySqlRelease, options: &[&str]) -> Self {
        let dir = temp_dir("mysql");
        copy_tree(release.template(), &dir.path().join("data"));
        let options = options.iter().map(|&option| option.to_owned()).collect();
        let release = release.clone();
        let mut server = Self { release, port: free_port(), options, process: None, dir };
        server.start();
        server
    }

    /// Starts a stopped server again, with the same data and port, and waits until it answers.
    pub fn start(&mut self) {
        assert!(self.process.is_none(), "MySQL runs already");
        let place = |name: &str| self.dir.path().join(name).display().to_string();
        let mut command = self.release.server(&self.data_dir());
        command.arg(format!("--port={}", self.port)).arg(format!("--socket={}", place("s")));
        command.arg(format!("--pid-file={}", place("pid"))).args(&self.options);
        self.process = Some(Process::start("MySQL", &command, &self.log_file()));
        wait::until(&format!("MySQL answers on port {}", self.port), || {
            let end = self.process.as_mut().and_then(Process::ended);
            assert!(end.is_none(), "MySQL ended at start: {end:?}\n{}", self.log());
            Client::connect(self.port, "root", "").ok()
        });
    }

    /// SIGKILL.
    pub fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill();
        }
    }

    /// Its release.
    pub fn release(&self) -> &MySqlRelease {
        &self.release
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

    /// Runs one statement as root on a connection of its own; panics on an error.
    pub fn query(&self, sql: &str) -> Reply {
        self.root().query(sql).unwrap_or_else(|error| panic!("MySQL: {sql}: {error}"))
    }

    /// Runs statements separated by semicolons as root; panics on an error.
    pub fn run(&self, sql: &str) {
        self.root().query_all(sql).unwrap_or_else(|error| panic!("MySQL: {sql}: {error}"));
    }

    fn root(&self) -> Client {
        Client::connect(self.port, "root", "")
            .unwrap_or_else(|error| panic!("MySQL refuses root: {error}\n{}", self.log()))
    }

    fn log_file(&self) -> PathBuf {
        self.dir.path().join("log")
    }
}
