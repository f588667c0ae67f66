//! Where requests come from. Parsers are pure: text in, requests out.

mod har;
mod json;
mod links;
mod log;
mod pattern;
mod urls;

pub use har::har;
pub(crate) use links::links;
pub use log::{Format, Log};
pub use pattern::{Pattern, PatternError};
pub use urls::urls;

use std::fmt;

use crate::{Place, Request};

/// Maximum number of requests of a source. They are in memory, about a kilobyte each, and take five hours at 10 a second.
pub const REQUESTS_MAX: usize = 200_000;

/// Maximum length of a line, in bytes: servers accept heads of 8 to 64 KiB.
pub(crate) const LINE_BYTES_MAX: usize = 256 << 10;

/// A line or an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Line {
    /// A request.
    Request(Box<Request>),
    /// What was received was no request: a port scan, a TLS handshake on a plain port, a closed connection.
    NoRequest,
}

/// The error of a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceError {
    /// The line or the number of the entry; `None` for the whole source.
    pub place: Option<Place>,
    /// What is wrong, and what is expected.
    pub problem: String,
}

impl SourceError {
    pub(crate) fn at(place: Place, problem: impl Into<String>) -> Self {
        Self { place: Some(place), problem: problem.into() }
    }
}

/// Adds a request to those of a list.
pub(crate) fn push(requests: &mut Vec<Request>, request: Request) -> Result<(), SourceError> {
    if requests.len() >= REQUESTS_MAX {
        let problem = format!("there are more than {REQUESTS_MAX} requests: split the file");
        return Err(SourceError::at(request.place, problem));
    }
    requests.push(request);
    Ok(())
}

impl fmt::Display for SourceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.place {
            Some(place) => write!(f, "{place}: {}", self.problem),
            None => f.write_str(&self.problem),
        }
    }
}

impl std::error::Error for SourceError {}
