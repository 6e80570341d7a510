//! The demo's Spillway: `spillway run`, as a user would start it, on a file written for the occasion.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use spillway_metrics::http::fetch;
use tokio::time::{Instant, sleep};

use super::child::Program;
use super::server::port_or_free;
use crate::exit::Failure;

const READY_TIMEOUT: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(50);

/// A running `spillway run`.
#[derive(Debug)]
pub(super) struct Proxy {
    pub(super) ports: Ports,
    pub(super) config: PathBuf,
    program: Program,
}

/// Its three ports.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ports {
    pub(super) relay: u16,
    pub(super) serve: u16,
    pub(super) http: u16,
}

impl Ports {
    /// The usual ones where they are free.
    pub(super) fn choose() -> std::io::Result<Self> {
        Ok(Self {
            relay: port_or_free(4306)?,
            serve: port_or_free(4307)?,
            http: port_or_free(4308)?,
        })
    }

    /// Whether each is the usual one.
    pub(super) fn usual(self) -> bool {
        (self.relay, self.serve, self.http) == (4306, 4307, 4308)
    }
}

impl Proxy {
    /// Starts it in front of the server on `upstream` and waits until it is ready.
    pub(super) async fn start(dir: &Path, upstream: u16, ports: Ports) -> Result<Self, Failure> {
        let config = dir.join("spillway.toml");
        std::fs::write(&config, file(dir, upstream, ports)).map_err(|error| {
            Failure::fault(format!("cannot write {}: {error}", config.display()))
        })?;
        let program = std::env::current_exe().map_err(Failure::fault)?;
        let mut command = Command::new(program);
        command.arg("run").arg("-c").arg(&config);
        let program = Program::start("spillway", &mut command, &dir.join("spillway.log"))
            .map_err(|error| Failure::fault(format!("cannot start spillway run: {error}")))?;
        let mut proxy = Self { ports, config, program };
        proxy.wait_until_ready().await?;
        Ok(proxy)
    }

    /// Its HTTP address.
    pub(super) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.ports.http)
    }

    async fn wait_until_ready(&mut self) -> Result<(), Failure> {
        let deadline = Instant::now() + READY_TIMEOUT;
        loop {
            let Err(error) = fetch(&self.url(), "/readyz").await else {
                return Ok(());
            };
            if let Some(status) = self.program.ended() {
                return Err(Failure::fault(self.program.epitaph(status)));
            }
            if Instant::now() > deadline {
                return Err(Failure::fault(format!("Spillway does not become ready: {error}")));
            }
            sleep(POLL).await;
        }
    }
}

fn file(dir: &Path, upstream: u16, ports: Ports) -> String {
    let log = toml::Value::String(dir.join("spillway-data").display().to_string());
    let Ports { relay, serve, http } = ports;
    format!(
        "server_id = 4307

[[source]]
name = \"demo\"
servers = [\"127.0.0.1:{upstream}\"]
listen = \"127.0.0.1:{relay}\"
user = \"spillway\"
password = \"spillway\"

[binlog]
dir = {log}

[replicas]
listen = \"127.0.0.1:{serve}\"

[[replicas.user]]
name = \"repl\"
password = \"repl\"
hosts = [\"127.0.0.0/8\"]
privileges = [\"REPLICATION SLAVE\", \"BINLOG MONITOR\"]

[http]
listen = \"127.0.0.1:{http}\"
"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    #[test]
    fn the_file_written_is_one_spillway_takes() {
        let ports = Ports { relay: 1, serve: 2, http: 3 };
        let text = file(Path::new("/tmp/a \"quoted\" path"), 3306, ports);
        let config = Config::parse(&text, Path::new("f")).unwrap();
        assert_eq!(config.binlog.dir, Path::new("/tmp/a \"quoted\" path/spillway-data"));
        assert_eq!(config.sources[0].listen.map(|address| address.port()), Some(1));
    }
}
