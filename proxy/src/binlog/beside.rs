//! Other logs in the directory of the one that is configured: what is left there when `log_bin` is changed.

use std::fmt;
use std::path::{Path, PathBuf};

use spillway_binlog::gtid::mariadb::Gtid;

use super::files::Target;
use super::list;

/// A log that is not the configured one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Beside {
    dir: PathBuf,
    /// `log_bin` as it is set.
    log_bin: String,
    /// As it would have to be set for this one.
    name: String,
    files: usize,
    last: Option<Gtid>,
}

impl fmt::Display for Beside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { dir, log_bin, name, files, last } = self;
        let dir = dir.display();
        let last = last.map_or("no GTID".to_owned(), |gtid| format!("last GTID {gtid}"));
        write!(
            f,
            "another log, {name}, lies in {dir} ({files} files, {last}), and log_bin is {log_bin:?}: nothing of it is served or gone on \
             with; set log_bin = {name:?} to go on in it, or move it to another directory"
        )
    }
}

/// The logs in a directory but `log_bin`. One that cannot be read is not a log here: whoever starts finds that in another way.
pub(crate) fn beside(dir: &Path, log_bin: &str) -> Vec<Beside> {
    let others = Target::open(dir).unwrap_or_default().into_iter().filter(|target| {
        target.name != log_bin && target.files.iter().any(|file| file.path.is_file())
    });
    let beside = |target: Target| Beside {
        dir: dir.to_owned(),
        log_bin: log_bin.to_owned(),
        last: list::last_gtid(&target),
        files: target.files.len(),
        name: target.name,
    };
    others.map(beside).collect()
}
