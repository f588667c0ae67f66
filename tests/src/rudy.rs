//! Runs commands of `rudy`, and returns what they print.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::{Folder, binary};

/// Variables of the environment of the machine that would change what a command does or prints.
const VARIABLES: [&str; 11] = [
    "http_proxy",
    "https_proxy",
    "HTTPS_PROXY",
    "all_proxy",
    "ALL_PROXY",
    "no_proxy",
    "NO_PROXY",
    "COLUMNS",
    "NOTIFY_SOCKET",
    "LISTEN_FDS",
    "SSLKEYLOGFILE",
];

/// A command of `rudy`, in an environment that does not depend on the machine. Its stdin is empty.
pub struct Rudy {
    command: Command,
}

impl Rudy {
    /// Runs `rudy` with these arguments.
    pub fn run<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Output {
        Self::command(arguments).output()
    }

    /// Runs `rudy check` with a configuration.
    pub fn check(config: &str) -> Output {
        Self::command(["check", "rudy.toml"]).folder(&Folder::with(&[("rudy.toml", config)])).output()
    }

    /// Returns a command with these arguments that does not run yet.
    pub fn command<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Self {
        let mut command = Command::new(binary());
        command.args(arguments).env("TZ", "UTC");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        for name in VARIABLES {
            command.env_remove(name);
        }
        Self { command }
    }

    /// Adds an argument.
    pub fn arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.command.arg(argument);
        self
    }

    /// Adds arguments.
    pub fn args<S: AsRef<OsStr>>(mut self, arguments: impl IntoIterator<Item = S>) -> Self {
        self.command.args(arguments);
        self
    }

    /// Sets a variable of the environment.
    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Runs the command in this folder.
    pub fn folder(mut self, folder: &Path) -> Self {
        self.command.current_dir(folder);
        self
    }

    /// Redirects stdin.
    pub fn stdin(mut self, stdin: impl Into<Stdio>) -> Self {
        self.command.stdin(stdin);
        self
    }

    /// Redirects stdout.
    pub fn stdout(mut self, stdout: impl Into<Stdio>) -> Self {
        self.command.stdout(stdout);
        self
    }

    /// Discards stderr, which would fill the pipe of a command that is not read.
    pub fn without_stderr(mut self) -> Self {
        self.command.stderr(Stdio::null());
        self
    }

    /// Runs the command, and waits until it exits.
    pub fn output(mut self) -> Output {
        Output::of(&mut self.command)
    }

    /// Starts the command. Its stdout and stderr are pipes.
    pub fn spawn(mut self) -> Child {
        self.command.spawn().expect("rudy can be started")
    }

    /// Returns the command, for operations that are not here.
    pub fn into_command(self) -> Command {
        self.command
    }
}

/// What a command has printed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    /// The exit code; `None` if a signal has ended the command.
    pub code: Option<i32>,
    /// What is on stdout.
    pub stdout: String,
    /// What is on stderr.
    pub stderr: String,
}

impl Output {
    /// Runs a command, and waits until it exits.
    /// Panics if it prints what is not UTF-8.
    pub fn of(command: &mut Command) -> Self {
        command.output().expect("the program can be started").into()
    }

    /// Waits until a child exits.
    pub fn wait(child: Child) -> Self {
        child.wait_with_output().expect("the child is ours").into()
    }

    /// Returns what is on stdout.
    /// Panics if the command has failed.
    #[track_caller]
    pub fn succeeded(self) -> String {
        self.with_code(0).stdout
    }

    /// Returns what is on stderr.
    /// Panics if the command has not failed with this exit code.
    #[track_caller]
    pub fn failed_with(self, code: i32) -> String {
        self.with_code(code).stderr
    }

    /// Returns the output. Panics if the command has not exited with this code.
    #[track_caller]
    pub fn with_code(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{}{}", self.stdout, self.stderr);
        self
    }

    /// Returns whether the command has succeeded.
    pub fn is_success(&self) -> bool {
        self.code == Some(0)
    }

    /// Returns the exit code, and what is on stderr.
    pub fn error(self) -> (Option<i32>, String) {
        (self.code, self.stderr)
    }

    /// Returns all that is on stdout and stderr.
    pub fn text(&self) -> String {
        format!("{}{}", self.stdout, self.stderr)
    }

    /// Returns what is on stdout, parsed as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Returns the lines on stdout, each parsed as JSON.
    pub fn json_lines(&self) -> Vec<Value> {
        let parse = |line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        self.stdout.lines().map(parse).collect()
    }
}

impl From<std::process::Output> for Output {
    fn from(output: std::process::Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).expect("the output is UTF-8");
        Self { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
    }
}
