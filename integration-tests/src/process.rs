//! Child processes that cannot outlive the test process.
//!
//! A child is killed when its [`Process`] is dropped. It also asks the kernel to be killed when its parent dies (through
//! `setpriv --pdeathsig`, which needs no unsafe code here). The kernel means the parent *thread* by that, hence all children
//! are started by one thread that lives as long as the process.

use std::fs::File;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, OnceLock, mpsc};

use rustix::process::{Pid, Signal, kill_process};

use crate::wait;

/// How many lines of a process's log are shown when the test that started it fails.
const LOG_LINES_SHOWN: usize = 60;

/// A running child with its log file. Killed when dropped.
pub struct Process {
    name: String,
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts `program` with `args`; standard output and error go to the end of the file `log`.
    pub fn start(name: &str, command: &Command, log: &Path) -> Self {
        let file = File::options().create(true).append(true).open(log).expect("log file opens");
        let mut wrapped = die_with_parent(command);
        wrapped.stdin(Stdio::null());
        wrapped.stdout(file.try_clone().expect("log file can be shared"));
        wrapped.stderr(file);
        let child = spawn(wrapped).unwrap_or_else(|error| panic!("{name} cannot start: {error}"));
        Self { name: name.to_owned(), child, log: log.to_owned() }
    }

    /// The process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.id()).unwrap()).unwrap();
        let _ = kill_process(pid, signal);
    }

    /// Waits for the end with the usual deadline.
    pub fn wait(&mut self) -> ExitStatus {
        let what = format!("{} (pid {}) ends", self.name, self.id());
        let child = &mut self.child;
        wait::until(&what, || child.try_wait().unwrap())
    }

    /// SIGKILL, then waits.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// SIGTERM, then waits.
    pub fn terminate(&mut self) -> ExitStatus {
        self.signal(Signal::TERM);
        self.wait()
    }

    /// How it ended, or `None` while it runs.
    pub fn ended(&mut self) -> Option<String> {
        self.child.try_wait().unwrap().map(describe)
    }

    /// Everything it has logged so far.
    pub fn log_text(&self) -> String {
        log_text(&self.log)
    }

    /// Resident memory of its own in bytes: mapped files do not count, the kernel can drop those.
    pub fn anonymous_bytes(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
        let kib: u64 = line.trim().trim_end_matches(" kB").parse().unwrap();
        kib * 1024
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let text = self.log_text();
            let lines: Vec<&str> = text.lines().collect();
            let tail = lines[lines.len().saturating_sub(LOG_LINES_SHOWN)..].join("\n");
            eprintln!("--- end of the log of {} ---\n{tail}\n---", self.name);
        }
        self.kill();
    }
}

/// The text of a log file, with what is not UTF-8 replaced.
pub fn log_text(log: &Path) -> String {
    String::from_utf8_lossy(&std::fs::read(log).unwrap_or_default()).into_owned()
}

fn describe(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (_, Some(signal)) => format!("signal {signal}"),
        _ => "unknown end".to_owned(),
    }
}

/// `setpriv` replaces itself by the program, so the process id is the program's.
fn die_with_parent(command: &Command) -> Command {
    let mut wrapped = Command::new("setpriv");
    wrapped.args(["--pdeathsig", "KILL", "--"]);
    wrapped.arg(command.get_program()).args(command.get_args());
    for (key, value) in command.get_envs() {
        match value {
            Some(value) => wrapped.env(key, value),
            None => wrapped.env_remove(key),
        };
    }
    if let Some(dir) = command.get_current_dir() {
        wrapped.current_dir(dir);
    }
    wrapped
}

type Order = (Command, mpsc::Sender<std::io::Result<Child>>);

fn spawn(command: Command) -> std::io::Result<Child> {
    static SPAWNER: OnceLock<Mutex<mpsc::Sender<Order>>> = OnceLock::new();
    let spawner = SPAWNER.get_or_init(|| {
        let (orders, inbox) = mpsc::channel::<Order>();
        std::thread::spawn(move || {
            for (mut command, reply) in inbox {
                let _ = reply.send(command.spawn());
            }
        });
        Mutex::new(orders)
    });
    let (reply, answer) = mpsc::channel();
    spawner.lock().unwrap().send((command, reply)).unwrap();
    answer.recv().unwrap()
}
