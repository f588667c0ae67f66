//! What the commands that watch have in common: when to look again, and where to write what was seen.

mod output;
mod ticker;

use std::io::{self, Write};

pub(crate) use self::output::{Output, Place, write};
pub(crate) use self::ticker::{Ticker, Wake};
use crate::text::visible;
use crate::{Error, Exit};

/// Why a watch ends before it is done.
pub(crate) enum Stop {
    /// The process cannot be seen, or no longer.
    Process(Error),
    /// Nobody takes what is written.
    Output(io::Error),
    /// Signals cannot be caught, or waiting fails.
    Waiting(io::Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Process(error)
    }
}

impl Stop {
    /// Says why, where that is news.
    pub(crate) fn tell(&self) -> Exit {
        match self {
            Self::Process(error) if error.is_end() => {
                say("notice", &error.to_string());
                Exit::Done
            }
            // Whoever read has what they wanted: `rudy top 7 | head`.
            Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => Exit::Done,
            Self::Process(error) => fail(&error.to_string()),
            Self::Output(error) => fail(&format!("cannot write to standard output: {error}")),
            Self::Waiting(error) => fail(&format!("cannot wait for the next look: {error}")),
        }
    }
}

fn fail(why: &str) -> Exit {
    say("error", why);
    Exit::CannotRun
}

fn say(kind: &str, what: &str) {
    // Nobody is left to tell if stderr cannot be written to.
    let _ = writeln!(io::stderr(), "{kind}: {}", visible(what));
}
