//! How the process ends: why it could not go on, in words, and its exit code.

use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use rudy_net::listen::ListenError;

use crate::config::{Diagnostics, Placeholders};

/// The exit codes of Rudy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// 0: done what was asked.
    Done,
    /// 1: could not run.
    CannotRun,
    /// 2: bad arguments or a bad configuration.
    BadInput,
    /// 128 and the signal's number, as a shell has it: ended at once by a second signal, with work under way.
    Signal(u8),
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(match exit {
            Exit::Done => 0,
            Exit::CannotRun => 1,
            Exit::BadInput => 2,
            Exit::Signal(number) => 128 + number,
        })
    }
}

/// Why the server does not run.
#[derive(Debug)]
pub(super) enum Failure {
    /// The configuration is wrong.
    Config(Diagnostics),
    /// The folder cannot be served.
    Folder(PathBuf, String),
    /// `--json-log` without an access log.
    JsonLogWithoutAccessLog,
    /// Nobody can listen there.
    Listen(ListenError),
    /// Something else cannot be done, and why.
    Cannot(String),
}

impl Failure {
    /// What cannot be done, and the system's word for why.
    pub(super) fn cannot(what: &str) -> impl FnOnce(io::Error) -> Self {
        let what = what.to_owned();
        move |error| Self::Cannot(format!("{what}: {error}"))
    }

    /// Without values that came from the environment.
    pub(super) fn masked(self, placeholders: &Placeholders) -> Self {
        match self {
            Self::Listen(_) | Self::Cannot(_) => {
                let text = self.summary();
                Self::Cannot(placeholders.mask(text.strip_prefix("cannot ").unwrap_or(&text)).into_owned())
            }
            other => other,
        }
    }

    /// In one line; a configuration's errors are only counted.
    pub(super) fn summary(&self) -> String {
        match self {
            Self::Config(diagnostics) => match diagnostics.count() {
                1 => "1 error in the configuration".to_owned(),
                count => format!("{count} errors in the configuration"),
            },
            Self::Folder(path, problem) => format!("cannot serve {}: {problem}", path.display()),
            Self::JsonLogWithoutAccessLog => {
                "--json-log needs an access log: add --access-log PATH, or --access-log - for standard output"
                    .to_owned()
            }
            Self::Listen(error) => error.to_string(),
            Self::Cannot(what) => format!("cannot {what}"),
        }
    }

    /// In one line, with the first of a configuration's errors.
    pub(super) fn first_line(&self) -> String {
        match self {
            Self::Config(diagnostics) => {
                let text = diagnostics.render(false);
                format!(
                    "{}; {}",
                    self.summary(),
                    text.lines().take(2).map(str::trim).collect::<Vec<_>>().join(" ")
                )
            }
            _ => self.summary(),
        }
    }

    /// Says it on stderr, and as an exit code.
    pub(super) fn print(&self) -> Exit {
        let mut stderr = io::stderr().lock();
        // Nobody is left to tell if stderr cannot be written to; the exit code says it too.
        let _ = match self {
            Self::Config(diagnostics) => {
                let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
                stderr.write_all(diagnostics.render(stderr.is_terminal() && !no_color).as_bytes())
            }
            _ => writeln!(stderr, "error: {}", self.summary()),
        };
        match self {
            Self::Config(_) | Self::Folder(..) | Self::JsonLogWithoutAccessLog => Exit::BadInput,
            Self::Listen(_) | Self::Cannot(_) => Exit::CannotRun,
        }
    }
}

#[cfg(test)]
mod tests {
    use rudy_net::listen::{InheritedSockets, Listener};

    use super::*;

    #[test]
    fn what_cannot_be_done_keeps_placeholders() {
        let mut placeholders = Placeholders::default();
        placeholders.add("secret", "${NAME}");
        let listen =
            Listener::bind(&"unix:/nonexistent/secret".parse().unwrap(), 1, &InheritedSockets::default());
        for (failure, shown) in [
            (Failure::Listen(listen.unwrap_err()), "cannot listen on unix:/nonexistent/${NAME}: "),
            (Failure::Cannot("run as `secret`".to_owned()), "cannot run as `${NAME}`"),
        ] {
            let summary = failure.masked(&placeholders).summary();
            assert!(summary.starts_with(shown), "{summary}");
        }
    }
}
