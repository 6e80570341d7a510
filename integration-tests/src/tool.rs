//! Command line tools run to their end: `mariadb-binlog`, `mariadb`, `spillway` itself.

use std::process::{Command, Stdio};

use crate::run_dir::run_dir;

/// What a tool printed and how it ended.
#[derive(Debug)]
pub struct Output {
    /// Exit code; -1 when a signal ended it.
    pub code: i32,
    /// Standard output, lossily as text.
    pub stdout: String,
    /// Standard error, lossily as text.
    pub stderr: String,
}

impl Output {
    /// The same output, having checked that the exit code is `wanted`.
    pub fn expect_code(self, wanted: i32) -> Self {
        assert_eq!(
            self.code, wanted,
            "exit code\n--- stdout\n{}\n--- stderr\n{}",
            self.stdout, self.stderr
        );
        self
    }
}

/// Runs a program to its end. The `timeout` tool ends one that hangs (exit code 124).
pub fn run(program: &str, args: &[&str]) -> Output {
    run_command(Command::new("timeout").args(["--kill-after=1", "120", program]).args(args))
}

/// As [`run`], for a program whose output is too much to keep: standard output is thrown away.
pub fn run_quietly(program: &str, args: &[&str]) -> Output {
    let mut command = Command::new("timeout");
    command.args(["--kill-after=1", "300", program]).args(args).stdin(Stdio::null());
    // mariadb-binlog leaves the files of LOAD DATA statements there.
    command.env("TMPDIR", run_dir());
    let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let output = child.wait_with_output().unwrap();
    Output {
        code: output.status.code().unwrap_or(-1),
        stdout: String::new(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// Runs a prepared command to its end.
pub fn run_command(command: &mut Command) -> Output {
    let output = command
        .stdin(Stdio::null())
        .env("TMPDIR", run_dir())
        .output()
        .unwrap_or_else(|error| panic!("{command:?} cannot run: {error}"));
    Output {
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}
