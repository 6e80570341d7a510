//! A private MariaDB server in a directory of its own: made, started, ready.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use mysql_async::prelude::Queryable as _;
use mysql_async::{Conn, Opts, OptsBuilder};
use tokio::time::{Instant, sleep};

use super::child::Program;
use crate::exit::Failure;

const READY_TIMEOUT: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(100);
/// Debian keeps the server where ordinary users' PATH does not look.
const MORE_PLACES: [&str; 3] = ["/usr/sbin", "/usr/local/sbin", "/usr/local/bin"];

/// A running server.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) port: u16,
    program: Program,
}

/// How a server is to be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Role {
    pub(super) name: &'static str,
    pub(super) server_id: u32,
    pub(super) arguments: &'static [&'static str],
}

impl Server {
    /// Makes a data directory below `dir`, starts a server on it and waits until it answers.
    pub(super) async fn start(dir: &Path, role: Role) -> Result<Self, Failure> {
        let data = dir.join(role.name);
        let temporary = dir.join(format!("{}-tmp", role.name));
        std::fs::create_dir_all(&temporary).map_err(|error| {
            Failure::fault(format!("cannot make {}: {error}", temporary.display()))
        })?;
        let install = install(&data, &temporary)?;
        tokio::task::spawn_blocking(|| complete(install)).await.map_err(Failure::fault)??;
        let port = free_port().map_err(Failure::fault)?;
        let mut command = command(&data, &temporary, port, role)?;
        let log = dir.join(format!("{}.log", role.name));
        let program = Program::start(role.name, &mut command, &log)
            .map_err(|error| Failure::fault(format!("cannot start mariadbd: {error}")))?;
        let mut server = Self { port, program };
        server.wait_until_ready().await?;
        Ok(server)
    }

    /// A connection as root.
    pub(super) async fn connect(&self) -> mysql_async::Result<Conn> {
        Conn::new(account(self.port, "root", "")).await
    }

    async fn wait_until_ready(&mut self) -> Result<(), Failure> {
        let deadline = Instant::now() + READY_TIMEOUT;
        loop {
            let answer = async { self.connect().await?.ping().await }.await;
            let Err(error) = answer else {
                return Ok(());
            };
            if let Some(status) = self.program.ended() {
                return Err(Failure::fault(self.program.epitaph(status)));
            }
            if Instant::now() > deadline {
                let sentence = format!("the server on port {} does not answer: {error}", self.port);
                return Err(Failure::fault(sentence));
            }
            sleep(POLL).await;
        }
    }
}

/// How to log in over TCP on this machine.
pub(super) fn account(port: u16, user: &str, password: &str) -> Opts {
    OptsBuilder::default()
        .ip_or_hostname("127.0.0.1")
        .tcp_port(port)
        .user(Some(user))
        .pass(Some(password))
        .prefer_socket(false)
        .into()
}

/// A port that is free at this moment.
pub(super) fn free_port() -> std::io::Result<u16> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr().map(|address| address.port())
}

/// The wanted port, or a free one where somebody has it.
pub(super) fn port_or_free(wanted: u16) -> std::io::Result<u16> {
    match TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, wanted))) {
        Ok(_) => Ok(wanted),
        Err(_) => free_port(),
    }
}

/// `temporary` is the server's own: a starting server deletes the temporary tables of all others in the same directory.
fn install(data: &Path, temporary: &Path) -> Result<Command, Failure> {
    let mut command = Command::new(find("mariadb-install-db")?);
    command
        .args(["--no-defaults", "--force", "--skip-name-resolve", "--skip-test-db"])
        .arg("--auth-root-authentication-method=normal")
        .arg(option("--datadir=", data))
        .arg(option("--tmpdir=", temporary))
        .args(as_root())
        .stdin(Stdio::null());
    Ok(command)
}

fn complete(mut command: Command) -> Result<(), Failure> {
    let output = command
        .output()
        .map_err(|error| Failure::fault(format!("cannot run mariadb-install-db: {error}")))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(Failure::fault(format!("mariadb-install-db ended with {}: {said}", output.status)))
}

fn command(data: &Path, temporary: &Path, port: u16, role: Role) -> Result<Command, Failure> {
    let mut command = Command::new(find("mariadbd")?);
    command
        .arg("--no-defaults")
        .arg(option("--datadir=", data))
        .arg(option("--tmpdir=", temporary))
        // Below the data directory, however long its path: socket paths are limited to 107 bytes.
        .args(["--socket=server.sock", "--pid-file=server.pid", "--bind-address=127.0.0.1"])
        .arg(format!("--port={port}"))
        .arg(format!("--server-id={}", role.server_id))
        .args(["--skip-name-resolve", "--innodb-buffer-pool-size=32M", "--gtid-domain-id=0"])
        .args(role.arguments)
        .args(as_root());
    Ok(command)
}

fn option(name: &str, path: &Path) -> std::ffi::OsString {
    let mut option = std::ffi::OsString::from(name);
    option.push(path);
    option
}

/// Root must say that it means it.
fn as_root() -> Option<&'static str> {
    rustix::process::geteuid().is_root().then_some("--user=root")
}

fn find(program: &str) -> Result<PathBuf, Failure> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places = std::env::split_paths(&path).chain(MORE_PLACES.map(PathBuf::from));
    places.map(|place| place.join(program)).find(|file| file.is_file()).ok_or_else(|| {
        Failure::fault(format!(
            "{program} is not installed: the demo needs MariaDB's server and client (Debian: apt-get install mariadb-server-core mariadb-client)"
        ))
    })
}
