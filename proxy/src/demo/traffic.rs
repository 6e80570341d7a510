//! The demo's traffic: an app that writes through the relay, a replica that is looked at.

use std::time::Duration;

use mysql_async::Conn;
use mysql_async::prelude::Queryable as _;
use tokio::time::{Instant, sleep};

use super::server::{Server, account};
use crate::exit::Failure;

const CATCH_UP_TIMEOUT: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(5);

const ACCOUNTS: [&str; 5] = [
    "CREATE USER spillway@'127.0.0.1' IDENTIFIED BY 'spillway'",
    "GRANT REPLICATION SLAVE, BINLOG MONITOR ON *.* TO spillway@'127.0.0.1'",
    "CREATE DATABASE demo",
    "CREATE USER app@'127.0.0.1' IDENTIFIED BY 'app'",
    "GRANT ALL ON demo.* TO app@'127.0.0.1'",
];
const TABLE: &str = "CREATE TABLE demo.visits (id INT PRIMARY KEY AUTO_INCREMENT, at DATETIME(3) NOT NULL DEFAULT \
     CURRENT_TIMESTAMP(3), note VARCHAR(100) NOT NULL)";

/// Makes the accounts and the app's database.
pub(super) async fn prepare_primary(primary: &Server) -> Result<(), Failure> {
    let work = async {
        let mut conn = primary.connect().await?;
        for statement in ACCOUNTS {
            conn.query_drop(statement).await?;
        }
        conn.disconnect().await
    };
    work.await.map_err(|error| Failure::fault(format!("the primary refused an account: {error}")))
}

/// Attaches the replica to Spillway's replica port.
pub(super) async fn attach_replica(replica: &Server, serve: u16) -> Result<(), Failure> {
    let change = format!(
        "CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT={serve}, MASTER_USER='repl', MASTER_PASSWORD='repl', \
         MASTER_USE_GTID=slave_pos, MASTER_SSL=0, MASTER_CONNECT_RETRY=1"
    );
    let work = async {
        let mut conn = replica.connect().await?;
        conn.query_drop(change).await?;
        conn.query_drop("START SLAVE").await?;
        conn.disconnect().await
    };
    work.await.map_err(|error| Failure::fault(format!("the replica refused to attach: {error}")))
}

/// An app connected through the relay, with a look at primary and replica on the side.
#[derive(Debug)]
pub(super) struct Traffic {
    app: Conn,
    primary: Conn,
    replica: Conn,
}

/// A row that made the whole way.
#[derive(Clone, Debug)]
pub(super) struct Arrival {
    pub(super) id: u64,
    pub(super) note: String,
    pub(super) took: Duration,
}

impl Traffic {
    /// Connects, and makes the app's table through the relay.
    pub(super) async fn start(
        relay: u16,
        primary: &Server,
        replica: &Server,
    ) -> Result<Self, Failure> {
        let mut app = Conn::new(account(relay, "app", "app")).await.map_err(|error| {
            Failure::fault(format!("the app cannot log in through the relay: {error}"))
        })?;
        app.query_drop(TABLE).await.map_err(|error| through_relay(&error))?;
        let primary = primary.connect().await.map_err(Failure::fault)?;
        let replica = replica.connect().await.map_err(Failure::fault)?;
        Ok(Self { app, primary, replica })
    }

    /// Writes a row through the relay and waits until the replica has it.
    pub(super) async fn write(&mut self) -> Result<Arrival, Failure> {
        let insert =
            "INSERT INTO demo.visits (note) VALUES (CONCAT('written by ', CURRENT_USER()))";
        self.app.query_drop(insert).await.map_err(|error| through_relay(&error))?;
        let id = self.app.last_insert_id().unwrap_or_default();
        let written = Instant::now();
        let select = format!("SELECT note FROM demo.visits WHERE id = {id}");
        loop {
            // The table itself may not have arrived yet.
            let row = self.replica.query_first::<String, _>(&select).await;
            if let Ok(Some(note)) = row {
                return Ok(Arrival { id, note, took: written.elapsed() });
            }
            if written.elapsed() > CATCH_UP_TIMEOUT {
                return Err(self.not_arrived(id).await);
            }
            sleep(POLL).await;
        }
    }

    async fn not_arrived(&mut self, id: u64) -> Failure {
        let status = self.replica.query_first::<mysql_async::Row, _>("SHOW SLAVE STATUS").await;
        let row = status.ok().flatten();
        let said = |name: &str| {
            let text = row.as_ref().and_then(|row| row.get_opt::<String, _>(name));
            text.and_then(Result::ok).unwrap_or_default()
        };
        Failure::fault(format!(
            "row {id} did not arrive on the replica within {CATCH_UP_TIMEOUT:?}: IO thread {} {}, SQL thread {} {}",
            said("Slave_IO_Running"),
            said("Last_IO_Error"),
            said("Slave_SQL_Running"),
            said("Last_SQL_Error")
        ))
    }

    /// The checksums of the app's table on the primary and on the replica.
    pub(super) async fn checksums(&mut self) -> Result<(u64, u64), Failure> {
        let primary = checksum(&mut self.primary).await?;
        let replica = checksum(&mut self.replica).await?;
        Ok((primary, replica))
    }
}

async fn checksum(conn: &mut Conn) -> Result<u64, Failure> {
    let answer = conn.query_first::<(String, Option<u64>), _>("CHECKSUM TABLE demo.visits").await;
    let row = answer.map_err(Failure::fault)?;
    row.and_then(|(_, checksum)| checksum)
        .ok_or_else(|| Failure::fault("a server has no checksum for demo.visits"))
}

fn through_relay(error: &mysql_async::Error) -> Failure {
    Failure::fault(format!("a statement through the relay failed: {error}"))
}
