//! A program that the lab needs for itself: a compiler, or one that is asked for its version.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use rudy_load::Interrupt;

use super::{Process, StartError, left, spawn, wait_until};

/// What one did.
#[derive(Debug)]
pub(crate) struct Used {
    /// Whether it ended with exit code 0 in its time, and if not, why, with what it said.
    pub(crate) ended: Result<(), StartError>,
    /// The end of what it said.
    pub(crate) said: String,
    /// What there is to say of what it left behind, which is ended.
    pub(crate) notes: Vec<String>,
}

/// Runs it to its end in this folder: as subjects are run, so that no Ctrl-C on our terminal ends it in our place, and nothing that
/// it leaves is counted to one of them.
pub(crate) fn run(command: &[String], folder: &Path, within: Duration, interrupt: &Interrupt) -> Used {
    let (child, output) = match spawn::spawn(command, &[], folder, "", false) {
        Ok(started) => started,
        Err(error) => {
            let ended = Err(StartError::cannot(&format!("start {:?}", command[0]), &error));
            return Used { ended, said: String::new(), notes: Vec::new() };
        }
    };
    let nowhere = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let mut tool = Process { child, output, printed: None, address: nowhere };
    let ended = tool.finish(within, interrupt, || None).map(drop);
    // What it said last may not be read yet.
    wait_until(left::GO, || tool.output.is_over());
    let said = tool.output.text();
    Used { ended, said, notes: tool.stop(&[]) }
}
