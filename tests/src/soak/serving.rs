//! The process that serves: another one after each upgrade.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::process::{Pid, Signal, kill_process};

use crate::binary;

/// The id of the process, which is killed when this is dropped.
#[derive(Debug)]
pub(super) struct Serving(AtomicU32);

impl Serving {
    pub(super) fn new(pid: u32) -> Self {
        Self(AtomicU32::new(pid))
    }

    pub(super) fn pid(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }

    pub(super) fn is_running(&self) -> bool {
        Path::new("/proc").join(self.pid().to_string()).exists()
    }

    /// Sends a signal. Fails if the process has ended.
    pub(super) fn signal(&self, signal: Signal) -> bool {
        Pid::from_raw(self.pid().cast_signed()).is_some_and(|pid| kill_process(pid, signal).is_ok())
    }

    /// Replaces the process by a new one, and waits until that serves. The old one ends with its last connection.
    pub(super) fn upgrade(&self) -> Result<(), String> {
        let mut command = Command::new(binary());
        command.args(["reload", "--binary", "--pid", &self.pid().to_string()]).stdin(Stdio::null());
        let output = command.output().map_err(|error| format!("cannot start `rudy reload`: {error}"))?;
        // "process 8 has replaced process 7"
        let text = String::from_utf8_lossy(&output.stdout);
        let Some(pid) = text.split_whitespace().nth(1).and_then(|pid| pid.parse().ok()) else {
            let error = String::from_utf8_lossy(&output.stderr);
            return Err(format!("an upgrade fails: {text}{error}"));
        };
        self.0.store(pid, Ordering::Relaxed);
        Ok(())
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}
