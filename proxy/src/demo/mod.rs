//! `spillway demo`: a private primary, Spillway and a private replica, from the installed MariaDB.
//!
//! Everything runs below one directory and ends with the demo. Spillway is started as a user would start it: `spillway run`
//! on a configuration file.

mod child;
mod proxy;
mod server;
mod traffic;

use std::future::Future;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::exit::{Failure, Outcome};
use crate::signals::{Signals, Wanted};
use proxy::{Ports, Proxy};
use server::{Role, Server};
use traffic::Traffic;

/// Rows written with `--once`.
const ROWS: u64 = 20;
/// Between rows, while somebody watches.
const PAUSE: Duration = Duration::from_secs(1);

const PRIMARY: Role = Role {
    name: "primary",
    server_id: 1,
    arguments: &["--log-bin=primary-bin", "--binlog-format=ROW"],
};
const REPLICA: Role =
    Role { name: "replica", server_id: 2, arguments: &["--read-only", "--slave-net-timeout=10"] };

/// Runs the demo until Ctrl-C; with `once` until primary and replica were compared.
///
/// # Errors
/// MariaDB is not installed, `dir` is in use, or a part does not do what it should: one sentence.
pub fn demo(once: bool, dir: Option<PathBuf>) -> Result<Outcome, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Failure::fault)?;
    let place = Place::new(dir)?;
    let outcome = runtime.block_on(async {
        let mut signals = Signals::new().map_err(Failure::fault)?;
        let stopped = async { while signals.next().await == Wanted::Reload {} };
        // The servers end when `play` is dropped: in either arm, before the directory goes.
        tokio::select! {
            result = play(place.path(), once) => result,
            () = stopped => {
                println!("\nending the servers");
                Ok(if once { Outcome::Fault } else { Outcome::Fine })
            }
        }
    });
    // Waits for an installation that was interrupted: it still writes into the directory.
    drop(runtime);
    place.leave();
    outcome
}

async fn play(dir: &Path, once: bool) -> Result<Outcome, Failure> {
    println!("Spillway {} demo in {}", env!("CARGO_PKG_VERSION"), dir.display());
    let servers = async { tokio::join!(Server::start(dir, PRIMARY), Server::start(dir, REPLICA)) };
    let (primary, replica) = step("a private primary and a private replica", servers).await;
    let (primary, replica) = (primary?, replica?);
    traffic::prepare_primary(&primary).await?;
    let ports = Ports::choose().map_err(Failure::fault)?;
    if !ports.usual() {
        println!("  a usual port (4306, 4307, 4308) is taken: using others");
    }
    let proxy = step("spillway run", Proxy::start(dir, primary.port, ports)).await?;
    traffic::attach_replica(&replica, ports.serve).await?;
    let mut traffic = Traffic::start(ports.relay, &primary, &replica).await?;
    print!("{}", commands(&proxy, &primary, &replica));
    if once { compare(&mut traffic, ports).await } else { write_on(&mut traffic, ports).await }
}

/// Does something that takes a while, and says how long it took.
async fn step<T>(what: &str, work: impl Future<Output = T>) -> T {
    println!("  starting {what} …");
    let begun = Instant::now();
    let result = work.await;
    println!("  {what}: {:.1} s", begun.elapsed().as_secs_f64());
    result
}

async fn write_on(traffic: &mut Traffic, ports: Ports) -> Result<Outcome, Failure> {
    println!("A row a second is written through the relay. Ctrl-C ends everything.");
    loop {
        write(traffic, ports).await?;
        tokio::time::sleep(PAUSE).await;
    }
}

async fn compare(traffic: &mut Traffic, ports: Ports) -> Result<Outcome, Failure> {
    for _ in 0..ROWS {
        write(traffic, ports).await?;
    }
    let (primary, replica) = traffic.checksums().await?;
    if primary != replica {
        println!("CHECKSUM TABLE demo.visits differs: primary {primary}, replica {replica}");
        return Ok(Outcome::Fault);
    }
    println!("CHECKSUM TABLE demo.visits is {primary} on primary and replica: they are equal");
    Ok(Outcome::Fine)
}

async fn write(traffic: &mut Traffic, ports: Ports) -> Result<(), Failure> {
    let arrival = traffic.write().await?;
    println!(
        "row {} written through port {}, read on the replica {:.0} ms later: {}",
        arrival.id,
        ports.relay,
        arrival.took.as_secs_f64() * 1000.0,
        arrival.note
    );
    Ok(())
}

/// Commands to paste into another terminal.
fn commands(proxy: &Proxy, primary: &Server, replica: &Server) -> String {
    let Ports { relay, serve, .. } = proxy.ports;
    let url = proxy.url();
    let config = proxy.config.display();
    let spillway = std::env::current_exe().unwrap_or_else(|_| "spillway".into());
    let spillway = spillway.display();
    let client = "mariadb --no-defaults --skip-ssl -h127.0.0.1";
    let count = "-e 'SELECT COUNT(*) FROM demo.visits'";
    format!(
        "
  apps ──► relay {relay} ──► primary {}
                             │ row binlog
                             ▼
  replica {} ◄── serve {serve} ◄── Spillway's log

Try, in another terminal:
  # write through the relay, read on the replica
  {client} -P{relay} -uapp -papp demo -e \"INSERT INTO visits (note) VALUES ('by hand')\"
  {client} -P{} -uroot {count}
  # read Spillway's log as a replica would
  mariadb-binlog --no-defaults --skip-ssl --read-from-remote-server -h127.0.0.1 -P{serve} -urepl -prepl binlog.000001
  # how it is doing, and whether the configuration is sound
  {spillway} status --url {url}
  {spillway} check -c '{config}'
  curl {url}/metrics        # and {url}/ in a browser

",
        primary.port, replica.port, replica.port
    )
}

/// Where the demo lives.
enum Place {
    Temporary(TempDir),
    Kept(PathBuf),
}

impl Place {
    fn new(dir: Option<PathBuf>) -> Result<Self, Failure> {
        let Some(dir) = dir else {
            let made = tempfile::Builder::new().prefix("spillway-demo.").tempdir();
            return made.map(Self::Temporary).map_err(|error| {
                Failure::fault(format!("cannot make a temporary directory: {error}"))
            });
        };
        let dir = std::path::absolute(dir).map_err(Failure::usage)?;
        std::fs::create_dir_all(&dir)
            .map_err(|error| Failure::usage(format!("cannot make {}: {error}", dir.display())))?;
        let empty = std::fs::read_dir(&dir).map(|mut entries| entries.next().is_none());
        match empty {
            Ok(true) => Ok(Self::Kept(dir)),
            Ok(false) => Err(Failure::usage(format!(
                "{} is not empty: name a new directory for the demo",
                dir.display()
            ))),
            Err(error) => Err(Failure::usage(format!("cannot read {}: {error}", dir.display()))),
        }
    }

    fn path(&self) -> &Path {
        match self {
            Self::Temporary(dir) => dir.path(),
            Self::Kept(dir) => dir,
        }
    }

    fn leave(self) {
        match self {
            Self::Kept(dir) => println!("everything is ended; {} is kept", dir.display()),
            Self::Temporary(dir) => match dir.close() {
                Ok(()) => println!("everything is ended, its directory is removed"),
                Err(error) => eprintln!("spillway: cannot remove the demo's directory: {error}"),
            },
        }
    }
}
