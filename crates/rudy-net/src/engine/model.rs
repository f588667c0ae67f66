//! The names of the engines.

use std::fmt;
use std::num::NonZeroUsize;
use std::str::FromStr;

/// The concurrency model: how a connection waits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Model {
    /// One thread, which serves one connection after the other.
    Serial,
    /// A thread for each connection.
    Thread,
    /// A fixed number of threads that take connections from a queue.
    Pool(NonZeroUsize),
    /// A task for each connection on a work-stealing runtime.
    Task,
    /// As `Task`, and a second task reads the socket and hands over messages, one for each credit.
    Mailbox,
    /// A task for each connection on the runtime of the core that accepted it.
    #[default]
    PerCore,
}

impl Model {
    /// Every one, `pool` with this many threads: for whoever tries them all.
    #[must_use]
    pub fn all(pool: NonZeroUsize) -> [Self; 6] {
        [Self::Serial, Self::Thread, Self::Pool(pool), Self::Task, Self::Mailbox, Self::PerCore]
    }

    /// Whether a connection holds a thread for as long as it is open.
    #[must_use]
    pub fn has_thread_per_connection(self) -> bool {
        matches!(self, Self::Serial | Self::Thread | Self::Pool(_))
    }

    /// Whether there are so few threads, each held by one connection, that one which idles keeps others waiting.
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

/// A name that no engine has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownModel(String);

impl fmt::Display for UnknownModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.strip_prefix("pool") {
            Some("" | ":") => f.write_str("`pool` needs its number of threads: `pool:16`"),
            Some(_) => {
                write!(f, "`{}`: expected a number of threads from 1 to {POOL_MAX}, as in `pool:16`", self.0)
            }
            None => write!(
                f,
                "no engine is called `{}`; there are serial, thread, pool:N, task, mailbox, percore",
                self.0
            ),
        }
    }
}

impl std::error::Error for UnknownModel {}

/// More threads than this are a mistake: `thread` makes as many as are needed.
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
    fn a_name_reads_as_it_is_written() {
        for model in Model::all(NonZeroUsize::new(16).unwrap()) {
            assert_eq!(model.to_string().parse(), Ok(model));
        }
    }

    #[test]
    fn what_is_no_engine_is_told_with_what_there_is() {
        for (name, expected) in [
            (
                "nginx",
                "no engine is called `nginx`; there are serial, thread, pool:N, task, mailbox, percore",
            ),
            ("pool", "`pool` needs its number of threads: `pool:16`"),
            ("pool:0", "`pool:0`: expected a number of threads from 1 to 10000, as in `pool:16`"),
            ("pool:10001", "`pool:10001`: expected a number of threads from 1 to 10000, as in `pool:16`"),
        ] {
            assert_eq!(name.parse::<Model>().unwrap_err().to_string(), expected);
        }
    }
}
