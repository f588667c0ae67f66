//! Watches the busy server with `rudy conns --watch`, which must not find a leak.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::binary;

/// A running watch. It is killed when this is dropped.
pub(super) struct LeakWatch {
    child: Child,
    output: PathBuf,
}

impl LeakWatch {
    pub(super) fn start(pid: u32, folder: &Path) -> Result<Self, String> {
        let output = folder.join("conns.txt");
        let file =
            File::create(&output).map_err(|error| format!("cannot write {}: {error}", output.display()))?;
        let child = Command::new(binary())
            .args(["conns", &pid.to_string(), "--watch"])
            .stdin(Stdio::null())
            .stdout(file)
            .spawn()
            .map_err(|error| format!("cannot start `rudy conns`: {error}"))?;
        Ok(Self { child, output })
    }

    /// Ends the watch. Returns its verdict, and an error if it found a leak at any time.
    pub(super) fn end(mut self) -> Result<String, String> {
        kill_process(Pid::from_child(&self.child), Signal::INT)
            .map_err(|error| format!("`rudy conns` has ended: {error}"))?;
        let status = self.child.wait().map_err(|error| error.to_string())?;
        let text = fs::read_to_string(&self.output).map_err(|error| error.to_string())?;
        if let Some(leak) = text.lines().find(|line| line.starts_with("Leak: ")) {
            return Err(format!("`rudy conns --watch` accuses the server: {leak}"));
        }
        let verdict = text.lines().last().unwrap_or_default().to_owned();
        if status.success() { Ok(verdict) } else { Err(format!("`rudy conns --watch` ended with {status}")) }
    }
}

impl Drop for LeakWatch {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
