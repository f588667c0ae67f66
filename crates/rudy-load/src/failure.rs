//! What can become of a request that gets no answer.

use std::fmt;
use std::io;

use rudy_http::h1::client::Fault;

/// Why a request has no whole answer.
#[derive(Debug)]
pub enum Failure {
    /// No connection came to stand.
    Connect(io::Error),
    /// The connection stood, and TLS did not.
    Tls(io::Error),
    /// The connection broke while the answer was awaited or came.
    Read(io::Error),
    /// The connection broke while the request was sent, and there was no answer to read.
    Write(io::Error),
    /// The server closed the connection before the answer was whole.
    Short(Fault),
    /// What came is no HTTP.
    Malformed(Fault),
    /// It took longer than the time for it, counted from the send.
    Timeout,
    /// It took longer than the time for it, counted from the moment when it was due.
    Deadline,
}

/// The kinds of [`Failure`], for counting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FailureKind {
    /// [`Failure::Connect`]
    Connect,
    /// [`Failure::Tls`]
    Tls,
    /// [`Failure::Write`]
    Write,
    /// [`Failure::Read`]
    Read,
    /// [`Failure::Short`]
    Short,
    /// [`Failure::Malformed`]
    Malformed,
    /// [`Failure::Timeout`]
    Timeout,
    /// [`Failure::Deadline`]
    Deadline,
}

impl FailureKind {
    /// In the order in which a request can meet them.
    pub const ALL: [Self; 8] = [
        Self::Connect,
        Self::Tls,
        Self::Write,
        Self::Read,
        Self::Short,
        Self::Malformed,
        Self::Timeout,
        Self::Deadline,
    ];

    /// What it is called in a report, for people and for programs.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::Tls => "tls",
            Self::Write => "write",
            Self::Read => "read",
            Self::Short => "short_body",
            Self::Malformed => "malformed",
            Self::Timeout => "timeout",
            Self::Deadline => "deadline",
        }
    }
}

impl Failure {
    /// Which kind it is.
    #[must_use]
    pub fn kind(&self) -> FailureKind {
        match self {
            Self::Connect(_) => FailureKind::Connect,
            Self::Tls(_) => FailureKind::Tls,
            Self::Write(_) => FailureKind::Write,
            Self::Read(_) => FailureKind::Read,
            Self::Short(_) => FailureKind::Short,
            Self::Malformed(_) => FailureKind::Malformed,
            Self::Timeout => FailureKind::Timeout,
            Self::Deadline => FailureKind::Deadline,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connect(error) => write!(f, "could not connect: {}", plain(error)),
            Self::Tls(error) => write!(f, "TLS failed: {}", plain(error)),
            Self::Read(error) => {
                write!(f, "the connection broke before the whole answer had come: {}", plain(error))
            }
            Self::Write(error) => {
                write!(f, "the connection broke while the request was sent: {}", plain(error))
            }
            Self::Short(fault) | Self::Malformed(fault) => write!(f, "{fault}"),
            Self::Timeout => f.write_str("no whole answer within the time for it"),
            Self::Deadline => f.write_str("no whole answer by its deadline"),
        }
    }
}

impl std::error::Error for Failure {}

/// An error of the system without its number, which says nothing to most people.
fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    match text.find(" (os error") {
        Some(end) => text[..end].to_lowercase(),
        None => text,
    }
}
