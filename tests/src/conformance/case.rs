//! What a case holds, and what a run of it yields.

use std::fmt;
use std::time::Duration;

use rudy_http::Limits;

/// One conversation with a server.
#[derive(Debug, Clone)]
pub struct Case {
    /// What it shows.
    pub name: String,
    /// The file and line where it begins.
    pub place: String,
    /// The limits under which the server runs.
    pub limits: Limits,
    /// What the client does, in order.
    pub steps: Vec<Step>,
    /// What it must receive.
    pub expected: Expected,
    /// What the service must be told, where the case says so.
    pub saw: Option<Vec<String>>,
    /// What becomes of the connection.
    pub end: End,
}

/// What the client does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Sends bytes.
    Send(Vec<u8>),
    /// Lets time pass.
    Wait(Duration),
    /// Says that it will send nothing more.
    EndOfInput,
}

/// What the client must receive.
#[derive(Debug, Clone)]
pub enum Expected {
    /// Exactly these bytes, with the date of [`super::site::DATE`].
    Bytes(Vec<u8>),
    /// These answers, however they are framed.
    Answers(Vec<ExpectedAnswer>),
}

/// One answer, as far as a case cares.
#[derive(Debug, Clone, Default)]
pub struct ExpectedAnswer {
    /// The status.
    pub status: u16,
    /// Fields it must have, names in lower case.
    pub fields: Vec<(String, String)>,
    /// Fields it must not have.
    pub absent: Vec<String>,
    /// Its body.
    pub body: Option<Vec<u8>>,
    /// Whether it answers a HEAD that the service has not seen.
    pub to_head: bool,
    /// Words that its body must contain.
    pub says: Option<String>,
}

/// What becomes of the connection at the end of a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// It waits for more.
    Open,
    /// The server has closed it in order.
    Closed,
    /// The server has cut it, because an answer that had begun could not be finished.
    Cut,
    /// Another protocol is spoken on it.
    Upgraded,
}

/// What a run yields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// The bytes received.
    pub output: Vec<u8>,
    /// What the service was told.
    pub saw: Vec<String>,
    /// What became of the connection.
    pub end: End,
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { output, saw, end } = self;
        write!(f, "came:\n{}\nthe service saw {saw:?}, and the connection is {end:?}", lines(output))
    }
}

/// Bytes with all but printable characters escaped, a line of text for each of theirs.
pub(super) fn lines(bytes: &[u8]) -> String {
    bytes.escape_ascii().to_string().replace("\\r\\n", "\\r\\n\n")
}
