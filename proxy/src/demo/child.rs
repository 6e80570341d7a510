//! A child process that ends with the demo, whatever ends the demo.

use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// A server flushes its pages; more than this is a hang.
const STOP_TIMEOUT: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(20);

/// A started program. Dropping it asks it to end, waits, and insists.
#[derive(Debug)]
pub(super) struct Program {
    name: &'static str,
    child: Child,
    log: PathBuf,
}

impl Program {
    /// Starts it with its output in `log`.
    pub(super) fn start(name: &'static str, command: &mut Command, log: &Path) -> io::Result<Self> {
        let output = File::create(log)?;
        let child = command
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            // Ctrl-C is for the demo alone, which then ends its children in order.
            .process_group(0)
            .spawn()?;
        Ok(Self { name, child, log: log.to_owned() })
    }

    /// How it ended, if it has.
    pub(super) fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// One sentence about a program that ended by itself, with the last lines it wrote.
    pub(super) fn epitaph(&self, status: ExitStatus) -> String {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<_> = text.lines().collect();
        let last = lines.get(lines.len().saturating_sub(5)..).unwrap_or_default().join("\n  ");
        format!("{} ended with {status}; its last words:\n  {last}", self.name)
    }

    /// Asks it to end and waits.
    pub(super) fn stop(&mut self) {
        if self.ended().is_some() {
            return;
        }
        // Of a child that is not waited for yet the id cannot have gone to another process.
        let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
        let deadline = Instant::now() + STOP_TIMEOUT;
        while self.ended().is_none() {
            if Instant::now() > deadline {
                let _ = self.child.kill();
                let _ = self.child.wait();
                return;
            }
            std::thread::sleep(POLL);
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.stop();
    }
}
