//! The concurrency models by name.

use std::fmt;
use std::num::NonZeroUsize;
use std::str::FromStr;

/// A concurrency model: how connections map to threads and tasks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Model {
    /// One thread, which serves one connection at a time.
    Serial,
    /// One thread for each connection.
    Thread,
    /// A fixed number of threads, which take connections from a queue.
    Pool(NonZeroUsize),
    /// One task for each connection, on a work-stealing runtime.
    Task,
    /// Like `Task`, but a second task reads the socket and sends messages, one for each credit.
    Mailbox,
    /// One task for each connection, on the runtime of the core that accepted it.
    #[default]
    PerCore,
}

impl Model {
    /// Returns all models, with this number of threads for `pool`.
    #[must_use]
    pub fn all(pool: NonZeroUsize) -> [Self; 6] {
        [Self::Serial, Self::Thread, Self::Pool(pool), Self::Task, Self::Mailbox, Self::PerCore]
    }

    /// Whether each open connection occupies a thread.
    #[must_use]
    pub fn has_thread_per_connection(self) -> bool {
        matches!(self, Self::Serial | Self::Thread | Self::Pool(_))
    }

    /// Whether the number of threads is fixed and each open connection occupies one, so that idle connections
    /// block others.
    #[must_use]
    pub fn has_fixed_threads(self) -> bool {
        matches!(self, Self::Serial | Self::Pool(_))
    }
}

impl fmt::Display for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Serial => f.write_str("serial"),
            Self::Thread => f.write_str("thread"),
            Self::Pool(threads) => write!(f, "pool:{threads}"),
            Self::Task => f.write_str("task"),
            Self::Mailbox => f.write_str("mailbox"),
            Self::PerCore => f.write_str("percore"),
        }
    }
}

/// The error for an unknown engine name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownModel(String);

impl fmt::Display for UnknownModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.strip_prefix("pool") {
            Some("" | ":") => f.write_str("`pool` needs a number of threads: `pool:16`"),
            Some(_) => {
                write!(f, "`{}`: expected a number of threads from 1 to {POOL_MAX}, as in `pool:16`", self.0)
            }
            None => write!(
                f,
                "unknown engine `{}`; expected serial, thread, pool:N, task, mailbox or percore",
                self.0
            ),
        }
    }
}

impl std::error::Error for UnknownModel {}

/// A larger number is probably a mistake: `thread` starts threads on demand.
const POOL_MAX: usize = 10_000;

impl FromStr for Model {
    type Err = UnknownModel;

    fn from_str(name: &str) -> Result<Self, UnknownModel> {
        let unknown = || UnknownModel(name.to_owned());
        Ok(match name {
            "serial" => Self::Serial,
            "thread" => Self::Thread,
            "task" => Self::Task,
            "mailbox" => Self::Mailbox,
            "percore" => Self::PerCore,
            _ => {
                let threads = name.strip_prefix("pool:").ok_or_else(unknown)?;
                let threads = threads.parse().ok().filter(|n: &NonZeroUsize| n.get() <= POOL_MAX);
                Self::Pool(threads.ok_or_else(unknown)?)
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_parses_to_its_model() {
        for model in Model::all(NonZeroUsize::new(16).unwrap()) {
            assert_eq!(model.to_string().parse(), Ok(model));
        }
    }

    #[test]
    fn an_unknown_name_is_rejected_with_the_known_ones() {
        for (name, expected) in [
            ("nginx", "unknown engine `nginx`; expected serial, thread, pool:N, task, mailbox or percore"),
            ("pool", "`pool` needs a number of threads: `pool:16`"),
            ("pool:0", "`pool:0`: expected a number of threads from 1 to 10000, as in `pool:16`"),
            ("pool:10001", "`pool:10001`: expected a number of threads from 1 to 10000, as in `pool:16`"),
        ] {
            assert_eq!(name.parse::<Model>().unwrap_err().to_string(), expected);
        }
    }
}
