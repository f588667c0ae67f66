//! A variant that runs to its end.

use std::io::Read;
use std::process::ChildStdout;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rudy_request::Interrupt;
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

use super::process_tree::{self, Cpu};
use super::{POLL, Process, StartError, wait_until};

/// Maximum size of its output. The longest expected one is a report of `rudy bench`, with about ten KiB.
const STDOUT_BYTES: usize = 1 << 20;

/// Collects the output of a program on a separate thread, so that the program never blocks.
#[derive(Debug)]
pub(super) struct CollectedStdout(JoinHandle<Vec<u8>>);

impl CollectedStdout {
    pub(super) fn collect(mut pipe: ChildStdout) -> Self {
        Self(thread::spawn(move || {
            let mut all = Vec::new();
            // Ignore read errors and use the data so far. An additional byte shows that the output is too
            // long.
            let _ = (&mut pipe).take(STDOUT_BYTES as u64 + 1).read_to_end(&mut all);
            let _ = std::io::copy(&mut pipe, &mut std::io::sink());
            all
        }))
    }
}

/// How a program should end.
#[derive(Debug)]
pub(crate) struct ExpectedEnd<'a> {
    /// The timeout.
    pub(crate) within: Duration,
    /// The exit codes of success.
    pub(crate) exit_codes: &'a [i32],
}

/// A program that ended as it should.
#[derive(Debug)]
pub(crate) struct Finished {
    /// Its output.
    pub(crate) stdout: String,
    /// CPU time of the process and its reaped children.
    pub(crate) cpu: Cpu,
    pub(crate) exit_code: i32,
}

impl Process {
    /// Waits for its end and calls `poll` meanwhile, whose result ends the wait with that reason.
    pub(crate) fn finish(
        &mut self,
        expected_end: &ExpectedEnd,
        interrupt: &Interrupt,
        mut poll: impl FnMut() -> Option<String>,
    ) -> Result<Finished, StartError> {
        let mut why = None;
        let has_ended = wait_until(expected_end.within, || {
            why = poll();
            why.is_some() || interrupt.signal().is_some() || self.is_over()
        });
        if interrupt.signal().is_some() {
            return Err(StartError::Interrupted);
        }
        if let Some(why) = why {
            return Err(StartError::Failed(self.describe(&why)));
        }
        if !has_ended {
            let why = format!("it did not end within {} s", expected_end.within.as_secs_f64());
            return Err(StartError::Failed(self.describe(&why)));
        }
        // Its counters exist until it is reaped.
        let cpu = process_tree::cpu_of(self.child.id());
        let exit_code = match self.child.wait() {
            Ok(status) => match status.code().filter(|code| expected_end.exit_codes.contains(code)) {
                Some(code) => code,
                None => return Err(StartError::Failed(self.describe(&format!("it ended with {status}")))),
            },
            Err(error) => return Err(StartError::Failed(format!("cannot wait for its end: {error}"))),
        };
        let stdout = self.stdout().map_err(|why| StartError::Failed(self.describe(&why)))?;
        Ok(Finished { stdout, cpu, exit_code })
    }

    /// Whether it has ended; does not reap it.
    fn is_over(&self) -> bool {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        matches!(waitid(WaitId::Pid(Pid::from_child(&self.child)), options), Ok(Some(_)) | Err(_))
    }

    fn stdout(&mut self) -> Result<String, String> {
        let Some(stdout) = self.stdout.take() else { return Ok(String::new()) };
        // A child that it left behind may hold its output open forever.
        if !wait_until(POLL * 50, || stdout.0.is_finished()) {
            return Err(
                "it has ended, but a process that it left behind still holds its output open".to_owned()
            );
        }
        let bytes = stdout.0.join().unwrap_or_default();
        if bytes.len() > STDOUT_BYTES {
            return Err(format!("it printed more than {STDOUT_BYTES} bytes"));
        }
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}
