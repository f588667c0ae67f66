//! Runs a helper program of the lab: a compiler, or a program that prints its version.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use rudy_request::Interrupt;

use super::{ExpectedEnd, Process, StartError, leftovers, spawn, wait_until};

/// The result of a helper program.
#[derive(Debug)]
pub(crate) struct Used {
    /// Whether it ended with exit code 0 in time; if not, a message with its output.
    pub(crate) ended: Result<(), StartError>,
    /// The last lines of its output.
    pub(crate) output: String,
    /// A message about processes that it left behind, which were ended.
    pub(crate) notes: Vec<String>,
}

/// Runs it to its end in this folder. Like a variant, it does not receive Ctrl-C, and its remaining processes
/// are ended.
pub(crate) fn run(command: &[String], folder: &Path, within: Duration, interrupt: &Interrupt) -> Used {
    let (child, output) = match spawn::spawn(command, &[], folder, "", false) {
        Ok(started) => started,
        Err(error) => {
            let ended = Err(StartError::cannot(&format!("start {:?}", command[0]), &error));
            return Used { ended, output: String::new(), notes: Vec::new() };
        }
    };
    let nowhere = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let mut tool = Process { child, output, stdout: None, address: nowhere };
    let ended = tool.finish(&ExpectedEnd { within, exit_codes: &[0] }, interrupt, || None).map(drop);
    // The last output may not be read yet.
    wait_until(leftovers::WORKER_EXIT_TIMEOUT, || tool.output.is_over());
    let output = tool.output.text();
    Used { ended, output, notes: tool.stop(&[]) }
}
