//! The server of a flood, where the flood starts it.

use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use crate::Remote;

/// How long a server may take until it listens.
const START: Duration = Duration::from_secs(30);

/// How long it may take to end.
const STOP: Duration = Duration::from_secs(5);

/// How often it is tried whether it listens, or has ended.
const TRY: Duration = Duration::from_millis(20);

/// A server that was started. It is ended when this is dropped.
#[derive(Debug)]
pub(super) struct Started {
    child: Child,
}

impl Started {
    /// Starts a command by a shell, and waits until something listens at one of the remotes.
    ///
    /// # Errors
    ///
    /// It ends before it listens, or does not listen in time; in words.
    pub(super) fn new(command: &str, remotes: &[Remote]) -> Result<Self, String> {
        if let Some(remote) = remotes.iter().find(|remote| listens(remote)) {
            return Err(format!("something listens at {remote} already: end it, or look at it with --pid"));
        }
        // With `exec` there is no shell left whose process would be looked at in its place. A group of its own is ended
        // whole, and does not see Ctrl-C before we are done with it.
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", &format!("exec {command}")]).stdin(Stdio::null()).process_group(0);
        let child = shell.spawn().map_err(|error| format!("cannot start {command:?}: {error}"))?;
        let mut started = Self { child };
        let begun = Instant::now();
        while !remotes.iter().any(listens) {
            if let Ok(Some(status)) = started.child.try_wait() {
                return Err(format!("{command:?} ended before it listened: {status}"));
            }
            if begun.elapsed() > START {
                return Err(format!(
                    "{command:?} does not listen at {} after {} s",
                    remotes[0],
                    START.as_secs()
                ));
            }
            thread::sleep(TRY);
        }
        Ok(started)
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        // Only a process that has ended already cannot be reached.
        let group = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        let signal = |signal| group.map(|group| kill_process_group(group, signal));
        let _ = signal(Signal::TERM);
        let begun = Instant::now();
        while matches!(self.child.try_wait(), Ok(None)) {
            if begun.elapsed() > STOP {
                let _ = signal(Signal::KILL);
                let _ = self.child.wait();
                return;
            }
            thread::sleep(TRY);
        }
    }
}

fn listens(remote: &Remote) -> bool {
    match remote {
        Remote::Ip(address) => TcpStream::connect_timeout(address, Duration::from_secs(1)).is_ok(),
        Remote::Unix(path) => UnixStream::connect(path).is_ok(),
    }
}
