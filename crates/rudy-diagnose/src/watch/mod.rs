//! The common parts of the commands that watch: when to sample, and where to write.

mod keyboard;
mod output;
mod ticker;

use std::io::{self, Write};
use std::path::PathBuf;

pub use self::keyboard::Keyboard;
pub use self::output::{Destination, Output, write};
pub use self::ticker::{Ticker, Wake};
use rudy_command::Exit;
use rudy_observe::{Error, Processes};
use rudy_units::visible;

/// Why a watch ends early.
#[derive(Debug)]
pub enum Stop {
    /// The process cannot be read, or has ended.
    Process(Error),
    /// The reader of the output has gone.
    Output(io::Error),
    /// Signals cannot be caught, or waiting fails.
    Waiting(io::Error),
    /// A thread dump cannot be had.
    Dump(String),
    /// What is watched cannot be had for another reason.
    Failed(String),
    /// The file of a chart cannot be written.
    Plot(PathBuf, io::Error),
}

/// The process with whose end a watch ends at once. Of several, the next sample shows the end.
#[must_use]
pub fn alone(processes: &Processes) -> Option<u32> {
    (processes.pids().count() == 1).then(|| processes.pid())
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Process(error)
    }
}

impl Stop {
    /// Prints the reason, unless it is expected.
    #[must_use]
    pub fn print(&self) -> Exit {
        match self {
            Self::Process(error) if error.is_end() => {
                say("notice", &error.to_string());
                Exit::Done
            }
            // The reader has read enough, as in `rudy top 7 | head`.
            Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => Exit::Done,
            Self::Process(error) => fail(&error.to_string()),
            Self::Output(error) => fail(&format!("cannot write to standard output: {error}")),
            Self::Dump(why) | Self::Failed(why) => fail(why),
            Self::Plot(path, error) => fail(&format!("cannot write {}: {error}", path.display())),
            Self::Waiting(error) => fail(&format!("cannot wait for the next update: {error}")),
        }
    }
}

fn fail(why: &str) -> Exit {
    say("error", why);
    Exit::CannotRun
}

/// Prints a message on stderr.
pub(crate) fn say(kind: &str, what: &str) {
    // An error of stderr cannot be reported.
    let _ = writeln!(io::stderr(), "{kind}: {}", visible(what));
}
