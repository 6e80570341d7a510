//! The `spillway` binary under test: its configuration, its process, its HTTP port.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;

use crate::client::{self, Client};
use crate::net::free_port;
use crate::process::{Process, log_text};
use crate::replica::{REPLICA_USER, sorted};
use crate::run_dir::temp_dir;
use crate::servers::{APP_USER, CAPTURE_USER, Server};
use crate::tool::{self, Output};
use crate::wait;

/// The program: `$SPILLWAY_BIN`, else the one cargo built beside this test.
pub fn program() -> PathBuf {
    if let Some(program) = std::env::var_os("SPILLWAY_BIN") {
        return program.into();
    }
    let here = std::env::current_exe().expect("a test knows its own path");
    let found =
        here.ancestors().skip(1).take(2).map(|dir| dir.join("spillway")).find(|p| p.exists());
    found.expect("the binary is not built: run `make test`, or `cargo build -p spillway` first")
}

/// Runs a command of `spillway` to its end.
pub fn run(args: &[&str]) -> Output {
    tool::run(program().to_str().unwrap(), args)
}

/// A configuration, section by section. Values are TOML (strings with their quotes).
#[derive(Clone)]
pub struct Config {
    sections: Vec<(&'static str, BTreeMap<String, String>)>,
}

impl Config {
    /// The usual one for an upstream port: all four ports, a log in `dir`, one replica account.
    fn new(upstream_port: u16, dir: &Path) -> Self {
        let listen = || format!("\"127.0.0.1:{}\"", free_port());
        let text = |text: &str| format!("\"{text}\"");
        let mut config = Self { sections: Vec::new() };
        config
            .set("", "server_id", "4307")
            .set("[[source]]", "name", &text("main"))
            .set("[[source]]", "servers", &format!("[\"127.0.0.1:{upstream_port}\"]"))
            .set("[[source]]", "listen", &listen())
            .set("[[source]]", "user", &text(CAPTURE_USER.0))
            .set("[[source]]", "password", &text(CAPTURE_USER.1))
            .set("[binlog]", "dir", &text(&dir.join("binlog").display().to_string()))
            .set("[replicas]", "listen", &listen())
            .set("[[replicas.user]]", "name", &text(REPLICA_USER.0))
            .set("[[replicas.user]]", "password", &text(REPLICA_USER.1))
            .set("[[replicas.user]]", "privileges", "[\"REPLICATION SLAVE\", \"BINLOG MONITOR\"]")
            .set("[http]", "listen", &listen());
        config
    }

    /// Sets a key of a section (its header as written in the file, "" for the top).
    pub fn set(&mut self, section: &'static str, key: &str, value: &str) -> &mut Self {
        let index = self.sections.iter().position(|(name, _)| *name == section);
        let index = index.unwrap_or_else(|| {
            self.sections.push((section, BTreeMap::new()));
            self.sections.len() - 1
        });
        self.sections[index].1.insert(key.to_owned(), value.to_owned());
        self
    }

    /// Adds a `[[source]]` with a relay of its own; `domains` is its `gtid_domains`. The first one stays what [`Config::set`] sets.
    pub fn add_source(&mut self, name: &str, upstream_port: u16, domains: &str) -> &mut Self {
        let keys = [
            ("name", format!("\"{name}\"")),
            ("servers", format!("[\"127.0.0.1:{upstream_port}\"]")),
            ("listen", format!("\"127.0.0.1:{}\"", free_port())),
            ("user", format!("\"{}\"", CAPTURE_USER.0)),
            ("password", format!("\"{}\"", CAPTURE_USER.1)),
            ("gtid_domains", domains.to_owned()),
        ];
        let keys = keys.map(|(key, value)| (key.to_owned(), value)).into();
        self.sections.push(("[[source]]", keys));
        self
    }

    /// Leaves a key out.
    pub fn unset(&mut self, section: &'static str, key: &str) -> &mut Self {
        for (name, keys) in &mut self.sections {
            if *name == section {
                keys.remove(key);
            }
        }
        self
    }

    /// The port in an address key.
    fn port(&self, section: &str) -> u16 {
        self.nth_port(section, 0)
    }

    /// The same, of the nth section of this name.
    fn nth_port(&self, section: &str, n: usize) -> u16 {
        let mut sections = self.sections.iter().filter(|(name, _)| *name == section);
        let keys = sections.nth(n).map(|(_, keys)| keys);
        let listen = keys.and_then(|keys| keys.get("listen")).map_or("", String::as_str);
        listen.trim_matches('"').rsplit(':').next().unwrap().parse().expect("a port in `listen`")
    }

    /// The file's text.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for (header, keys) in &self.sections {
            writeln!(text, "{header}").unwrap();
            for (key, value) in keys {
                writeln!(text, "{key} = {value}").unwrap();
            }
        }
        text
    }
}

/// A Spillway with its own directory, running or stopped.
pub struct Spillway {
    config: Config,
    // Before the directory: dropped first, so the log is there to be shown and no file comes back.
    process: Option<Process>,
    dir: TempDir,
}

impl Spillway {
    /// For this upstream, not started.
    pub fn prepared(upstream: &Server) -> Self {
        Self::prepared_for_port(upstream.port())
    }

    /// For whatever listens on this port, not started.
    pub fn prepared_for_port(upstream_port: u16) -> Self {
        let dir = temp_dir("spillway");
        let config = Config::new(upstream_port, dir.path());
        Self { dir, config, process: None }
    }

    /// For this upstream, running and ready.
    pub fn started(upstream: &Server) -> Self {
        let mut spillway = Self::prepared(upstream);
        spillway.start();
        spillway
    }

    /// Sets a key of the configuration for the next start.
    #[must_use]
    pub fn with(mut self, section: &'static str, key: &str, value: &str) -> Self {
        self.config.set(section, key, value);
        self
    }

    /// Adds a `[[source]]` for the next start; see [`Config::add_source`].
    #[must_use]
    pub fn and_source(mut self, name: &str, upstream_port: u16, domains: &str) -> Self {
        self.config.add_source(name, upstream_port, domains);
        self
    }

    /// The configuration, for the next start.
    pub fn config(&mut self) -> &mut Config {
        &mut self.config
    }

    /// Starts it and waits for `/readyz`.
    pub fn start(&mut self) {
        self.launch();
        wait::until("spillway is ready", || {
            let end = self.process.as_mut().and_then(Process::ended);
            assert!(end.is_none(), "spillway ended at start: {end:?}\n{}", self.log());
            (self.http("/readyz")?.0 == 200).then_some(())
        });
    }

    /// Starts it and waits for nothing.
    pub fn launch(&mut self) {
        assert!(self.process.is_none(), "spillway runs already");
        let mut command = Command::new(program());
        command.arg("run").arg("-c").arg(self.write_config()).current_dir(self.dir.path());
        self.process = Some(Process::start("spillway", &command, &self.log_file()));
    }

    /// Starts it and waits until it ends by itself.
    pub fn launch_and_wait(&mut self) -> ExitStatus {
        self.launch();
        self.process.take().unwrap().wait()
    }

    /// Runs `spillway check` on the configuration.
    pub fn check(&self) -> Output {
        run(&["check", "-c", self.write_config().to_str().unwrap()])
    }

    /// Writes the configuration again, and SIGHUP.
    pub fn reload(&self) {
        self.write_config();
        self.process().signal(Signal::HUP);
    }

    /// SIGTERM, and its exit.
    pub fn stop(&mut self) -> ExitStatus {
        self.process.take().expect("spillway runs").terminate()
    }

    /// SIGTERM, then starts it again and waits for nothing.
    pub fn restart(&mut self) {
        self.stop();
        self.launch();
    }

    /// SIGKILL.
    pub fn kill(&mut self) {
        self.process.take().expect("spillway runs").kill();
    }

    /// The process.
    pub fn process(&self) -> &Process {
        self.process.as_ref().expect("spillway runs")
    }

    /// Where applications connect.
    pub fn relay_port(&self) -> u16 {
        self.config.port("[[source]]")
    }

    /// Where applications of the nth source connect.
    pub fn relay_port_of(&self, source: usize) -> u16 {
        self.config.nth_port("[[source]]", source)
    }

    /// Where replicas connect.
    pub fn replica_port(&self) -> u16 {
        self.config.port("[replicas]")
    }

    /// Where metrics and status are.
    pub fn status_port(&self) -> u16 {
        self.config.port("[http]")
    }

    /// The directory of the log.
    pub fn binlog_dir(&self) -> PathBuf {
        self.dir.path().join("binlog")
    }

    /// The log's files, in order.
    pub fn binlog_files(&self) -> Vec<PathBuf> {
        binlog_files(&self.binlog_dir())
    }

    /// A connection of an application, through the relay.
    ///
    /// # Errors
    /// When the relay or the upstream refuses.
    pub fn app(&self) -> Result<Client, client::Error> {
        Client::connect(self.relay_port(), APP_USER.0, APP_USER.1)
    }

    /// A connection to the replica port.
    ///
    /// # Errors
    /// When it refuses.
    pub fn replica_client(&self) -> Result<Client, client::Error> {
        Client::connect(self.replica_port(), REPLICA_USER.0, REPLICA_USER.1)
    }

    /// Waits until the log holds everything up to this position.
    pub fn wait_recorded(&self, position: &str) {
        let what = format!("spillway has recorded {position}");
        wait::until_equal(&what, &sorted(position), || {
            let mut client = self.replica_client().ok();
            let reply = client.as_mut().map(|c| c.query("SELECT @@GLOBAL.gtid_binlog_pos"));
            match reply {
                Some(Ok(reply)) => sorted(&reply.scalar()),
                other => vec![format!("{other:?}")],
            }
        });
    }

    /// `/status` as JSON.
    pub fn status(&self) -> Value {
        let (_, body) = self.http("/status").expect("the HTTP port answers");
        serde_json::from_str(&body).unwrap_or_else(|error| panic!("/status: {error}: {body}"))
    }

    /// `/metrics` as text.
    pub fn metrics(&self) -> String {
        self.http("/metrics").expect("the HTTP port answers").1
    }

    /// The value of a metric, summed over its labels; `None` when the family is not there.
    pub fn metric(&self, name: &str) -> Option<f64> {
        let text = self.metrics();
        let values: Vec<f64> = text
            .lines()
            .filter(|line| line.strip_prefix(name).is_some_and(|r| r.starts_with(['{', ' '])))
            .filter_map(|line| line.rsplit(' ').next()?.parse().ok())
            .collect();
        (!values.is_empty()).then(|| values.iter().sum())
    }

    /// GET of a path: status code and body; `None` when the port does not answer.
    pub fn http(&self, path: &str) -> Option<(u16, String)> {
        get(self.status_port(), path)
    }

    /// What it has logged.
    pub fn log(&self) -> String {
        log_text(&self.log_file())
    }

    /// Waits until the log and `/status` both contain `text`.
    pub fn wait_says(&self, text: &str) {
        wait::until(&format!("the log and /status say `{text}`"), || {
            let status = self.http("/status")?.1;
            (self.log().contains(text) && status.contains(text)).then_some(())
        });
    }

    fn write_config(&self) -> PathBuf {
        let file = self.dir.path().join("spillway.toml");
        std::fs::write(&file, self.config.text()).expect("the configuration can be written");
        file
    }

    fn log_file(&self) -> PathBuf {
        self.dir.path().join("log")
    }
}

/// The files of a log directory, in order.
pub fn binlog_files(dir: &Path) -> Vec<PathBuf> {
    let number = |path: &PathBuf| {
        let name = path.file_name()?.to_str()?.strip_prefix("binlog.")?;
        (name.len() >= 6 && name.bytes().all(|byte| byte.is_ascii_digit())).then_some(())
    };
    let entries = std::fs::read_dir(dir).expect("the log's directory is there");
    let mut files: Vec<PathBuf> =
        entries.map(|entry| entry.unwrap().path()).filter(|path| number(path).is_some()).collect();
    files.sort();
    files
}

fn get(port: u16, path: &str) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(10))).ok()?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).ok()?;
    let mut response = String::new();
    stream.read_to_string(&mut response).ok()?;
    let (head, body) = response.split_once("\r\n\r\n")?;
    let code = head.split(' ').nth(1)?.parse().ok()?;
    let chunked = head.to_ascii_lowercase().contains("transfer-encoding: chunked");
    Some((code, if chunked { unchunk(body) } else { body.to_owned() }))
}

fn unchunk(body: &str) -> String {
    let mut rest = body;
    let mut whole = String::new();
    while let Some((size, after)) = rest.split_once("\r\n") {
        let size = usize::from_str_radix(size.trim(), 16).unwrap_or(0);
        if size == 0 || after.len() < size {
            break;
        }
        whole.push_str(&after[..size]);
        rest = after[size..].trim_start_matches("\r\n");
    }
    whole
}
