//! The MariaDB releases the tests run: the installed one, and a newer one that `make test` unpacks where it can. Where MySQL is.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::run_dir::{run_dir, temp_dir};
use crate::tool;

/// The series of the newer release, and its directory's name below `$SPILLWAY_SERVERS_DIR`.
const NEWER: &str = "11.8";

/// Where the programs of a release are.
#[derive(Clone, Debug)]
pub struct Release {
    /// What stands before `usr/sbin/mariadbd`; `None` is the installed release.
    root: Option<PathBuf>,
}

impl Release {
    /// The series the tests are written for, as it is installed.
    pub fn installed() -> Self {
        Self { root: None }
    }

    /// MariaDB 11.8, or `None`, said aloud with the name of the test, where it is not.
    pub fn newer() -> Option<Self> {
        unpacked(NEWER, "usr/sbin/mariadbd", &format!("MariaDB {NEWER}")).map(Self::below)
    }

    fn below(root: PathBuf) -> Self {
        Self { root: Some(root) }
    }

    /// Its server program.
    pub fn mariadbd(&self) -> PathBuf {
        match &self.root {
            Some(root) => root.join("usr/sbin/mariadbd"),
            None => installed_mariadbd(),
        }
    }

    /// One of its client programs.
    pub fn client(&self, name: &str) -> PathBuf {
        match &self.root {
            Some(root) => root.join("usr/bin").join(name),
            None => name.into(),
        }
    }

    /// Options that all its servers need.
    pub(crate) fn options(&self) -> Vec<String> {
        let base = |root: &PathBuf| format!("--basedir={}", root.join("usr").display());
        self.root.iter().map(base).collect()
    }

    /// A data directory as its `mariadb-install-db` leaves it, made once a run.
    pub(crate) fn template(&self) -> &'static Path {
        static INSTALLED: OnceLock<PathBuf> = OnceLock::new();
        static NEWER: OnceLock<PathBuf> = OnceLock::new();
        match self.root {
            Some(_) => NEWER.get_or_init(|| self.install("template-newer")),
            None => INSTALLED.get_or_init(|| {
                require_series("10.11");
                self.install("template")
            }),
        }
    }

    fn install(&self, name: &str) -> PathBuf {
        let dir = run_dir().join(name);
        let temporary = temp_dir("template-tmp");
        let mut command = Command::new(self.client("mariadb-install-db"));
        command.args(["--no-defaults", "--force", "--skip-name-resolve", "--skip-test-db"]);
        command.args(["--auth-root-authentication-method=normal", "--innodb-log-file-size=10M"]);
        command.args(self.options());
        command.arg(format!("--datadir={}", dir.display()));
        command.arg(format!("--tmpdir={}", temporary.path().display()));
        if rustix::process::geteuid().is_root() {
            command.arg("--user=root");
        }
        tool::run_command(&mut command).expect_code(0);
        dir
    }
}

/// The directory of an unpacked server below `$SPILLWAY_SERVERS_DIR`, or `None`, said aloud with the name of the test, where
/// it is not.
pub(crate) fn unpacked(name: &str, program: &str, server: &str) -> Option<PathBuf> {
    let dir = std::env::var_os("SPILLWAY_SERVERS_DIR").map(PathBuf::from).unwrap_or_default();
    let root = dir.join(name);
    if root.join(program).exists() {
        return Some(root);
    }
    let test = std::thread::current().name().unwrap_or_default().to_owned();
    // Past the test harness, which keeps what a passing test prints to itself.
    let message = format!("NOT TESTED: {test}: there is no {server} ({root:?})\n");
    let _ = std::io::stderr().write_all(message.as_bytes());
    None
}

/// On `$PATH`, or where Debian puts it, which is not on every user's path.
fn installed_mariadbd() -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path)
        .chain([PathBuf::from("/usr/sbin")])
        .map(|dir| dir.join("mariadbd"))
        .find(|program| program.exists());
    found.expect("MariaDB is not installed: `apt-get install mariadb-server-core mariadb-client`")
}

/// Whether the installed server is of the series the tests are written for; fails the run otherwise.
fn require_series(series: &str) {
    let version = tool::run(installed_mariadbd().to_str().unwrap(), &["--version"]).stdout;
    assert!(version.contains(series), "these tests need MariaDB {series}, found: {version}");
}
