//! Starts `rudy serve` on a free port for a test.

use std::ffi::OsStr;
use std::fmt::Display;
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::{Connection, Files as _, Folder, Output, PATIENCE, Response, Rudy, binary};

/// A running `rudy serve`. It is killed when this is dropped.
pub struct Server {
    child: Child,
    addresses: Vec<String>,
    lines: Receiver<String>,
    seen: Vec<String>,
    reader: Option<JoinHandle<()>>,
    folder: Option<Folder>,
}

/// Configures and starts a server.
pub struct Builder {
    command: Command,
    folder: Option<Folder>,
}

impl Server {
    /// Serves the folder `path` on a free port of 127.0.0.1.
    pub fn folder(path: &Path) -> Self {
        Self::build().arg(path).args(["--listen", "127.0.0.1:0"]).start()
    }

    /// Serves a new folder with these files in it, each a name and its content.
    pub fn files(files: &[(&str, &[u8])]) -> Self {
        Self::build().files(files).start()
    }

    /// Serves the configuration `text`, which should contain `listen = ["127.0.0.1:0"]`. It is `rudy.toml` in a new folder.
    pub fn config(text: &str) -> Self {
        Self::build().config(text).start()
    }

    /// Returns a builder for other arguments, files or environment variables.
    pub fn build() -> Builder {
        Self::build_command("serve")
    }

    /// Returns a builder for another command that serves: `mirror`.
    #[must_use]
    pub fn build_command(name: &str) -> Builder {
        let mut command = with_plain_environment(Command::new(binary()));
        command.arg(name);
        Builder { command, folder: None }
    }

    /// Returns the address of the first listener.
    pub fn address(&self) -> SocketAddr {
        self.address_of(0)
    }

    /// Returns the address of a listener, by its number in the order of the configuration.
    pub fn address_of(&self, listener: usize) -> SocketAddr {
        let url = &self.addresses[listener];
        let host = url.split_once("://").map(|(_, rest)| rest.trim_end_matches('/'));
        host.and_then(|host| host.parse().ok()).unwrap_or_else(|| panic!("{url} is no TCP address"))
    }

    /// Returns the printed addresses: `http://127.0.0.1:40123/`, `unix:/run/rudy.sock`.
    pub fn addresses(&self) -> &[String] {
        &self.addresses
    }

    /// Returns the URL of `path`, which begins with a slash.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address())
    }

    /// Returns the folder created by [`Self::files`] or [`Self::config`].
    pub fn path(&self) -> &Path {
        self.folder.as_ref().expect("this server has a temporary folder").path()
    }

    /// Returns the process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Opens a connection to the first listener.
    pub fn connect(&self) -> Connection {
        Connection::open(self.address())
    }

    /// Sends `request` unchanged on a new connection.
    pub fn send(&self, request: impl AsRef<[u8]>) -> Connection {
        let mut connection = self.connect();
        connection.send(request.as_ref());
        connection
    }

    /// Sends `request` unchanged on a new connection, and reads until the server closes it.
    pub fn exchange(&self, request: &[u8]) -> Vec<u8> {
        self.send(request).read_to_end()
    }

    /// Sends a GET for `target` on a new connection.
    pub fn get(&self, target: &str) -> Response {
        self.get_with(target, &["Host: localhost", "Connection: close"])
    }

    /// Sends a GET with these field lines on a new connection. Without a Host among them, it is `test`.
    pub fn get_with(&self, target: &str, fields: &[&str]) -> Response {
        self.request("GET", target, fields)
    }

    /// Sends a request without a body, as [`Self::get_with`].
    pub fn request(&self, method: &str, target: &str, fields: &[&str]) -> Response {
        self.connect().exchange(method, target, fields)
    }

    /// Sends a request with a body on a new connection.
    pub fn send_body(&self, method: &str, target: &str, body: &str) -> Response {
        let length = body.len();
        let head = format!("{method} {target} HTTP/1.1\r\nHost: test\r\nContent-Length: {length}\r\n\r\n");
        self.send(head + body).response()
    }

    /// Returns the JSON at a path.
    pub fn json(&self, target: &str) -> Value {
        serde_json::from_slice(&self.get(target).body).expect("the body is JSON")
    }

    /// Runs a command of `rudy` with the process id of this server.
    pub fn rudy(&self, arguments: &[&str]) -> Output {
        Rudy::command(arguments).args(["--pid", &self.pid().to_string()]).output()
    }

    /// Sends a signal to the server.
    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("the server runs");
    }

    /// Reloads the configuration, and waits for a line on stderr that contains `outcome`.
    pub fn reload(&mut self, outcome: &str) -> String {
        self.forget_lines();
        self.signal(Signal::HUP);
        self.wait_for_line(outcome)
    }

    /// Replaces the configuration, which is in the folder of the server, and reloads it.
    pub fn reload_with(&mut self, config: &str, outcome: &str) -> String {
        self.path().write("rudy.toml", config);
        self.reload(outcome)
    }

    /// Changes the configuration, which is in the folder of the server, and reloads it.
    pub fn reload_changed(&mut self, change: impl Fn(String) -> String, outcome: &str) -> String {
        let text = self.path().read("rudy.toml");
        self.reload_with(&change(text), outcome)
    }

    /// Stops the server with SIGTERM, and waits as [`Self::exits_with`] until it exits with code 0.
    pub fn stop(&mut self) -> String {
        self.signal(Signal::TERM);
        self.exits_with(0)
    }

    /// Waits until the server exits with this code. Returns its stderr.
    pub fn exits_with(&mut self, code: i32) -> String {
        let (status, stderr) = self.wait();
        assert_eq!(status.code(), Some(code), "{stderr}");
        stderr
    }

    /// Waits for a line on stderr that contains `part`, and returns it. Earlier lines count too.
    pub fn wait_for_line(&mut self, part: &str) -> String {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(line) = self.seen.iter().find(|line| line.contains(part)) {
                return line.clone();
            }
            let left = deadline.saturating_duration_since(Instant::now());
            let next = self.lines.recv_timeout(left);
            let line = next.unwrap_or_else(|_| {
                panic!("no line on stderr contains {part:?}:\n{}", self.seen.join("\n"));
            });
            self.seen.push(line);
        }
    }

    /// Forgets the lines seen so far, so that [`Self::wait_for_line`] waits for a new one.
    pub fn forget_lines(&mut self) {
        self.seen.extend(self.lines.try_iter());
        self.seen.clear();
    }

    /// Returns the lines on stderr since the last call, or since the start. [`Self::wait_for_line`] no longer finds them.
    pub fn take_lines(&mut self) -> Vec<String> {
        self.seen.extend(self.lines.try_iter());
        std::mem::take(&mut self.seen)
    }

    /// Returns whether the process still runs.
    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().expect("the child is ours").is_none()
    }

    /// Waits until the server exits. Returns its exit status and its stderr.
    pub fn wait(&mut self) -> (ExitStatus, String) {
        let deadline = Instant::now() + PATIENCE;
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("the child is ours") {
                break status;
            }
            assert!(Instant::now() < deadline, "the server does not exit; stderr:\n{}", self.seen.join("\n"));
            thread::sleep(Duration::from_millis(5));
        };
        if let Some(reader) = self.reader.take() {
            reader.join().expect("the reader does not panic");
        }
        self.seen.extend(self.lines.try_iter());
        (status, self.seen.join("\n"))
    }
}

impl Drop for Server {
    #[expect(clippy::print_stderr, reason = "the server's output explains why the test failed")]
    fn drop(&mut self) {
        // Both fail only if the server has already exited.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if thread::panicking() {
            self.seen.extend(self.lines.try_iter());
            eprintln!("stderr of the server:\n{}", self.seen.join("\n"));
        }
    }
}

impl Builder {
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

    /// Selects the engine.
    pub fn engine(self, model: impl Display) -> Self {
        self.args(["--engine", &model.to_string()])
    }

    /// Redirects stdout. The default is `/dev/null`.
    pub fn stdout(mut self, stdout: impl Into<Stdio>) -> Self {
        self.command.stdout(stdout);
        self
    }

    /// Redirects stdin. The default is `/dev/null`.
    pub fn stdin(mut self, stdin: impl Into<Stdio>) -> Self {
        self.command.stdin(stdin);
        self
    }

    /// Runs `script` with `sh`, with the command and its arguments so far as `"$@"`. Removes environment variables and stdin that
    /// were set before.
    pub fn through_shell(mut self, script: &str) -> Self {
        let mut shell = Command::new("sh");
        shell.args(["-c", script, "sh"]).arg(self.command.get_program()).args(self.command.get_args());
        self.command = with_plain_environment(shell);
        self
    }

    /// Passes a listening socket to the server, as systemd does. Removes environment variables that were set before.
    pub fn inheriting(self, socket: TcpListener) -> Self {
        // The shell sets LISTEN_PID to its own process id, which `exec` keeps.
        self.through_shell("exec 3<&0 </dev/null; LISTEN_FDS=1 LISTEN_PID=$$ exec \"$@\"")
            .stdin(OwnedFd::from(socket))
    }

    /// Serves a new folder with these files on a free port of 127.0.0.1.
    pub fn files(mut self, files: &[(&str, &[u8])]) -> Self {
        let folder = self.folder.insert(Folder::with(files)).to_owned();
        self.arg(folder).args(["--listen", "127.0.0.1:0"])
    }

    /// Serves the configuration `text`, written to `rudy.toml` in a new folder.
    pub fn config(self, text: &str) -> Self {
        self.config_of(Folder::with(&[("rudy.toml", text)]))
    }

    /// Serves the configuration `rudy.toml` of this folder.
    pub fn config_of(mut self, folder: Folder) -> Self {
        let path = self.folder.insert(folder).join("rudy.toml");
        self.arg("--config").arg(path)
    }

    /// Runs the server until it exits, because it cannot start.
    pub fn output(mut self) -> Output {
        Output::of(self.command.stdout(Stdio::piped()))
    }

    /// Returns the command instead of starting it.
    pub fn command(self) -> Command {
        self.command
    }

    /// Starts the server and waits until it has printed its addresses.
    pub fn start(mut self) -> Server {
        let mut child = self.command.spawn().expect("rudy can be started");
        let stderr = child.stderr.take().expect("stderr is a pipe");
        let (reader, lines) = read_lines(stderr);
        let mut server = Server {
            child,
            addresses: Vec::new(),
            lines,
            seen: Vec::new(),
            reader: Some(reader),
            folder: self.folder,
        };
        server.wait_for_addresses();
        server
    }
}

impl Server {
    /// Reads the addresses: lines indented by two spaces, until the first other line.
    fn wait_for_addresses(&mut self) {
        let starts = ["  http://", "  https://", "  tcp://", "  tls://", "  unix:"];
        let is_address = |line: &str| starts.iter().any(|start| line.starts_with(start));
        while self.addresses.is_empty() || self.seen.last().is_some_and(|line| is_address(line)) {
            let Ok(line) = self.lines.recv_timeout(PATIENCE) else {
                panic!("the server did not print its addresses:\n{}", self.seen.join("\n"));
            };
            if is_address(&line) {
                self.addresses.push(line.split_whitespace().next().unwrap_or_default().to_owned());
            }
            self.seen.push(line);
        }
    }
}

/// Sets an environment in which the output of a server does not depend on the machine.
fn with_plain_environment(mut command: Command) -> Command {
    command.env("TZ", "UTC").env_remove("NOTIFY_SOCKET").env_remove("LISTEN_FDS");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    command
}

/// Reads all lines, even if the test does not receive them, so that the server never blocks on stderr.
fn read_lines(stderr: ChildStderr) -> (JoinHandle<()>, Receiver<String>) {
    let (sender, lines) = mpsc::channel();
    let reader = thread::spawn(move || {
        for line in BufReader::new(stderr).split(b'\n').map_while(Result::ok) {
            // If the receiver is gone, keep reading, so that the pipe does not fill up.
            let _ = sender.send(String::from_utf8_lossy(&line).into_owned());
        }
    });
    (reader, lines)
}
