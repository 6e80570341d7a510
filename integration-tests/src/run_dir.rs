//! The directory of one test run. Directories of runs whose process is gone are removed at start, so nothing piles up after
//! a run that was killed.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use tempfile::TempDir;

/// The directory of this process, made on first use.
pub fn run_dir() -> &'static Path {
    static DIR: OnceLock<PathBuf> = OnceLock::new();
    DIR.get_or_init(|| {
        let parent = std::env::temp_dir().join("spillway-tests");
        std::fs::create_dir_all(&parent).expect("the directory for test runs can be made");
        remove_dead_runs(&parent);
        let dir = parent.join(std::process::id().to_string());
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir(&dir).expect("the directory of this run can be made");
        dir
    })
}

/// A fresh directory below [`run_dir`], removed when dropped.
pub fn temp_dir(name: &str) -> TempDir {
    tempfile::Builder::new()
        .prefix(&format!("{name}-"))
        .tempdir_in(run_dir())
        .expect("a directory below the run's can be made")
}

fn remove_dead_runs(parent: &Path) {
    for entry in std::fs::read_dir(parent).into_iter().flatten().flatten() {
        let alive = Path::new("/proc").join(entry.file_name()).exists();
        if !alive {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}
