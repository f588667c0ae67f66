//! How the connections of an attack ended.

use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};

use rudy_http::{h2, h3};

/// How a connection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum End {
    /// It did not: the server processed all steps.
    Open,
    /// The server closed it without a code, or that was lost.
    Closed,
    /// The server sent GOAWAY with this code.
    GoAway(u32),
    /// The server closed it with this code of HTTP/3.
    Http3(u64),
}

impl Display for End {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open => f.write_str("open"),
            Self::Closed => f.write_str("closed"),
            Self::GoAway(code) => h2::ErrorCode(*code).fmt(f),
            Self::Http3(code) => h3::ErrorCode(*code).fmt(f),
        }
    }
}

/// The connections of an attack.
#[derive(Default)]
pub struct Outcome {
    /// The connections and the steps on them, by their ends.
    ends: BTreeMap<End, (u32, u32)>,
    /// The connections that are open.
    open: Vec<Box<dyn Send>>,
}

impl Outcome {
    /// Adds a connection with this number of steps. It remains open if the server has not ended it.
    pub(super) fn add(&mut self, end: End, steps: u32, connection: impl Send + 'static) {
        let (connections, total) = self.ends.entry(end).or_default();
        *connections += 1;
        *total += steps;
        if end == End::Open {
            self.open.push(Box::new(connection));
        }
    }

    /// The steps on all connections.
    pub fn steps(&self) -> u32 {
        self.ends.values().map(|(_, steps)| steps).sum()
    }

    /// The number of open connections.
    pub fn open(&self) -> usize {
        self.open.len()
    }
}

/// The end of most steps, with their number on each connection.
impl Display for Outcome {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.ends.iter().max_by_key(|(_, (_, steps))| *steps) {
            None | Some((End::Open, _)) => f.write_str("serves all"),
            Some((end, (connections, steps))) => write!(f, "{end} after {}", steps / connections),
        }
    }
}
