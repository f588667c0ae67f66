//! A server process that the flood starts.

use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rudy_request::Remote;
use rustix::process::{Pid, Signal, kill_process_group};

/// Timeout for the server to listen.
const START_TIMEOUT: Duration = Duration::from_secs(30);

/// Timeout for the server to exit.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);

/// Time between checks whether the server listens or has exited.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// A server process. Dropping it stops the process group.
#[derive(Debug)]
pub(super) struct ServerProcess {
    child: Child,
}

impl ServerProcess {
    /// Starts a command with a shell, and waits until it listens at one of the remotes.
    ///
    /// # Errors
    ///
    /// A message, if the process exits before it listens or does not listen in time.
    pub(super) fn new(command: &str, remotes: &[Remote]) -> Result<Self, String> {
        if let Some(remote) = remotes.iter().find(|remote| listens(remote)) {
            return Err(format!(
                "another process already listens at {remote}: stop it, or measure it with --pid"
            ));
        }
        // `exec` replaces the shell, so that the pid is that of the server. Its own process group can be
        // stopped as a whole, and does not receive Ctrl-C before the measurement ends.
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", &format!("exec {command}")]).stdin(Stdio::null()).process_group(0);
        let child = shell.spawn().map_err(|error| format!("cannot start {command:?}: {error}"))?;
        let mut server = Self { child };
        let start = Instant::now();
        while !remotes.iter().any(listens) {
            if let Ok(Some(status)) = server.child.try_wait() {
                return Err(format!("{command:?} exited before it listened: {status}"));
            }
            if start.elapsed() > START_TIMEOUT {
                return Err(format!(
                    "{command:?} does not listen at {} after {} s",
                    remotes[0],
                    START_TIMEOUT.as_secs()
                ));
            }
            thread::sleep(POLL_INTERVAL);
        }
        Ok(server)
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // An error means that the process has already exited.
        let group = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        let signal = |signal| group.map(|group| kill_process_group(group, signal));
        let _ = signal(Signal::TERM);
        let start = Instant::now();
        while matches!(self.child.try_wait(), Ok(None)) {
            if start.elapsed() > STOP_TIMEOUT {
                let _ = signal(Signal::KILL);
                let _ = self.child.wait();
                return;
            }
            thread::sleep(POLL_INTERVAL);
        }
    }
}

/// Whether a server accepts connections at an address.
fn listens(remote: &Remote) -> bool {
    match remote {
        Remote::Ip(address) => TcpStream::connect_timeout(address, Duration::from_secs(1)).is_ok(),
        Remote::Unix(path) => UnixStream::connect(path).is_ok(),
    }
}
