//! Where the benches put their logs, settings from the environment, and figures.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use spillway_binlog::gtid::mariadb::GtidState;
use spillway_binlog::{Log, LogOptions, Submitter};

use crate::shapes;

pub const MIB: u64 = 1 << 20;

/// A directory, removed when dropped: below `$LOG_BENCH_DIR`, else the system's for temporary files.
pub struct Place(PathBuf);

impl Place {
    pub fn new(name: &str) -> Self {
        let base = std::env::var_os("LOG_BENCH_DIR").map_or_else(std::env::temp_dir, PathBuf::from);
        let dir = base.join(format!("spillway-log-bench-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("a directory for the bench can be made");
        Self(dir)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The defaults of the configuration.
    pub fn options(&self) -> LogOptions {
        LogOptions::new(&self.0, 4307)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// An open log with its first file.
pub fn begun(options: LogOptions) -> Arc<Log> {
    let log = Log::open(options).expect("the log opens");
    let source = log.submitter();
    let ticket = source.begin(shapes::format(), GtidState::default());
    ticket.wait_durable().expect("the log begins");
    Arc::new(log)
}

/// Fills a log with `bytes` of transactions of 100 KB; answers how many.
pub fn fill(source: &Submitter, domain: u32, bytes: u64) -> u64 {
    let mut maker = shapes::Maker::new(source, domain);
    let (mut done, mut count) = (0, 0);
    while done < bytes {
        let transaction = maker.large(100_000);
        done += transaction.size();
        count += 1;
        let ticket = source.submit(transaction);
        if count % 200 == 0 || done >= bytes {
            ticket.wait_durable().expect("the log records");
        }
    }
    count
}

/// A number from the environment, for longer or shorter runs.
pub fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().map_or(default, |text| {
        text.parse().unwrap_or_else(|_| panic!("{name} must be a number, it is `{text}`"))
    })
}

pub fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

/// The middle value.
pub fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut sorted: Vec<f64> = values.into_iter().collect();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}

#[allow(clippy::cast_precision_loss)]
pub fn float(number: u64) -> f64 {
    number as f64
}

/// Load average of the last minute: what the figures are worth.
pub fn load() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().unwrap_or("?").to_owned()
}
