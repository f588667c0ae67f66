//! Cases and their results.

use std::fmt;
use std::time::Duration;

use rudy_http::Limits;

/// One conversation with a server.
#[derive(Debug, Clone)]
pub struct Case {
    /// The behaviour that it shows.
    pub name: String,
    /// The file and line of its start.
    pub place: String,
    /// The limits of the server.
    pub limits: Limits,
    /// The actions of the client, in order.
    pub steps: Vec<Step>,
    /// What the client must receive.
    pub expected: Expected,
    /// The requests that the service must receive, if the case lists them.
    pub saw: Option<Vec<String>>,
    /// The state of the connection at the end.
    pub end: End,
    /// What is different over HTTP/2 and HTTP/3.
    pub http2: Http2,
}

/// What is different about a case over HTTP/2 and HTTP/3.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Http2 {
    /// Only that the connection stays open, and that a response that is cut is a stream that is reset.
    #[default]
    Same,
    /// The last request is malformed: its stream is reset instead of a response (RFC 9113 §8.1.1).
    Malformed,
    /// The case is about this part of HTTP/1.1, which HTTP/2 and HTTP/3 do not have.
    Without(String),
}

/// An action of the client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Sends bytes.
    Send(Vec<u8>),
    /// Waits.
    Wait(Duration),
    /// Closes its sending side.
    EndOfInput,
}

/// What the client must receive.
#[derive(Debug, Clone)]
pub enum Expected {
    /// Exactly these bytes, with the date of [`super::site::DATE`].
    Bytes(Vec<u8>),
    /// These responses, however they are framed.
    Responses(Vec<ExpectedResponse>),
}

/// The expected properties of one response.
#[derive(Debug, Clone, Default)]
pub struct ExpectedResponse {
    /// The status.
    pub status: u16,
    /// Fields it must have, names in lower case.
    pub fields: Vec<(String, String)>,
    /// Fields it must not have.
    pub absent: Vec<String>,
    /// Its body.
    pub body: Option<Vec<u8>>,
    /// Whether it is the response to a HEAD request that the service has not received.
    pub to_head: bool,
    /// Text that its body must contain.
    pub contains: Option<String>,
}

/// The state of a connection at the end of a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The connection is open.
    Open,
    /// The server has closed it gracefully.
    Closed,
    /// The server has closed it before the end of a response.
    Cut,
    /// The connection uses another protocol.
    Upgraded,
}

/// The result of running a case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transcript {
    /// The bytes received.
    pub output: Vec<u8>,
    /// The requests that the service received.
    pub saw: Vec<String>,
    /// The state of the connection at the end.
    pub end: End,
}

impl fmt::Display for Transcript {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { output, saw, end } = self;
        write!(f, "received:\n{}\nthe service saw {saw:?}, and the connection is {end:?}", lines(output))
    }
}

/// Escapes bytes, with a line break after each CRLF.
pub(super) fn lines(bytes: &[u8]) -> String {
    bytes.escape_ascii().to_string().replace("\\r\\n", "\\r\\n\n")
}
