//! Exit codes, and the errors that end the process.

use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;

pub use rudy_command::Exit;
use rudy_config::{Diagnostics, Placeholders};
use rudy_net::listen::ListenError;
use rudy_units::Visible;

/// The reason why the server cannot run.
#[derive(Debug)]
pub(super) enum Failure {
    /// The configuration is invalid.
    Config(Diagnostics),
    /// The folder cannot be served.
    Folder(PathBuf, String),
    /// `--json-log` without an access log.
    JsonLogWithoutAccessLog,
    /// An address cannot be bound.
    Listen(ListenError),
    /// Another failure: "cannot ...".
    Cannot(String),
}

impl Failure {
    /// Returns a function that converts an error into "cannot `what`: error".
    pub(super) fn cannot(what: &str) -> impl FnOnce(io::Error) -> Self {
        let what = what.to_owned();
        move |error| Self::Cannot(format!("{what}: {error}"))
    }

    /// Replaces values from the environment with their placeholders.
    pub(super) fn masked(self, placeholders: &Placeholders) -> Self {
        match self {
            Self::Listen(_) | Self::Cannot(_) => {
                let text = self.summary();
                Self::Cannot(placeholders.mask(text.strip_prefix("cannot ").unwrap_or(&text)).into_owned())
            }
            other => other,
        }
    }

    /// Formats one line, with the number of errors in the configuration.
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

    /// Formats one line, with the first error in the configuration.
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

    /// Prints the error on stderr and returns the exit code.
    pub(super) fn print(&self) -> Exit {
        let mut stderr = io::stderr().lock();
        // If writing to stderr fails, the exit code still reports the error.
        let _ = match self {
            Self::Config(diagnostics) => {
                let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
                stderr.write_all(diagnostics.render(stderr.is_terminal() && !no_color).as_bytes())
            }
            _ => writeln!(Visible(stderr), "error: {}", self.summary()),
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
    fn errors_show_placeholders() {
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
