//! The whole path: an upstream, Spillway, and a replica attached to Spillway.

use crate::dump::{Dump, Request};
use crate::logical::{Compared, Stream};
use crate::replica::REPLICA_USER;
use crate::servers::{APP_USER, Server};
use crate::spillway::{self, Spillway};
use crate::{checksum, files, logical, replica, tool, wait};

/// The three of them.
pub struct Stack {
    /// The real primary.
    pub upstream: Server,
    /// Between them.
    pub spillway: Spillway,
    /// A real server, replica of Spillway.
    pub replica: Server,
}

impl Stack {
    /// All running, the replica attached.
    pub fn start() -> Self {
        Self::start_with(|spillway| spillway)
    }

    /// As [`Stack::start`], with a changed configuration.
    pub fn start_with(configure: impl FnOnce(Spillway) -> Spillway) -> Self {
        let upstream = Server::upstream();
        let mut spillway = configure(Spillway::prepared(&upstream));
        spillway.start();
        let server = Server::replica();
        replica::attach(&server, spillway.replica_port(), REPLICA_USER);
        Self { upstream, spillway, replica: server }
    }

    /// Waits until everything has arrived everywhere, then compares tables, streams and files. Panics with the first
    /// difference.
    pub fn assert_equal(&self) -> Compared {
        self.assert_tables_equal();
        assert_log_equal(&self.upstream, &self.spillway)
    }

    /// As [`Stack::assert_equal`], for an upstream that was killed. Such a server refuses to dump a file that ends within an
    /// event, so its files are read instead.
    pub fn assert_equal_after_kill(&self) -> Compared {
        self.assert_tables_equal();
        let upstream = Stream::new(files::events(&self.upstream));
        let dump = Dump::start(self.spillway.replica_port(), REPLICA_USER, &Request::everything());
        let spillway = Stream::new(dump.expect("the replica port starts a dump"));
        let compared = logical::compare(upstream, spillway);
        assert_files_valid(&self.spillway);
        compared.unwrap_or_else(|difference| panic!("{difference}"))
    }

    fn assert_tables_equal(&self) {
        wait_idle(&self.upstream);
        let position = self.upstream.gtid_binlog_pos();
        self.spillway.wait_recorded(&position);
        replica::wait_applied(&self.replica, &position);
        checksum::assert_equal(&self.upstream, &self.replica);
    }
}

/// Waits until Spillway has recorded all, then compares the streams and verifies the files.
pub fn assert_log_equal(upstream: &Server, spillway: &Spillway) -> Compared {
    let compared = assert_streams_equal(upstream, spillway);
    assert_files_valid(spillway);
    compared
}

/// The streams alone.
pub fn assert_streams_equal(upstream: &Server, spillway: &Spillway) -> Compared {
    spillway.wait_recorded(&upstream.gtid_binlog_pos());
    let first = (upstream.port(), APP_USER);
    let second = (spillway.replica_port(), REPLICA_USER);
    logical::assert_same_stream(first, second, "")
}

/// `mariadb-binlog` reads every file with its checksums, and `spillway binlog verify` agrees.
pub fn assert_files_valid(spillway: &Spillway) {
    for file in spillway.binlog_files() {
        let file = file.to_str().unwrap();
        let arguments = ["--no-defaults", "--verify-binlog-checksum", file];
        let output = tool::run_quietly("mariadb-binlog", &arguments).expect_code(0);
        assert!(!output.stderr.contains("ERROR"), "{file}: {}", output.stderr);
    }
    let dir = spillway.binlog_dir();
    spillway::run(&["binlog", "verify", dir.to_str().unwrap()]).expect_code(0);
}

/// Waits until no application's statement runs any more: one whose connection was cut still goes on to its end, and commits.
pub fn wait_idle(upstream: &Server) {
    let busy = format!(
        "SELECT COUNT(*) FROM information_schema.processlist WHERE user = '{}'",
        APP_USER.0
    );
    wait::until_equal("the upstream is idle", &"0".to_owned(), || upstream.query(&busy).scalar());
}

/// Rolls back what a lost connection left prepared, so that no lock and no open XA transaction is left.
pub fn roll_back_prepared(upstream: &Server) {
    wait_idle(upstream);
    for row in upstream.query("XA RECOVER").rows {
        let xid = row[3].clone().unwrap_or_default();
        upstream.run(&format!("XA ROLLBACK '{xid}'"));
    }
}
