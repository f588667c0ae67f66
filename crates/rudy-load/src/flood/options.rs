//! The options of `rudy flood`.

use std::net::IpAddr;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use rudy_request::{Access, Template};

/// The options of `rudy flood`.
#[derive(Debug, Clone)]
pub struct Options {
    /// The URL to request; `{}` is replaced by the number of the connection.
    pub url: String,
    /// Method and header fields of the request.
    pub template: Template,
    /// Number of connections.
    pub connections: NonZeroU32,
    /// HTTP/2: the number of streams on each connection; `None` is HTTP/1.1.
    pub streams: Option<NonZeroU32>,
    /// The time over which the connections are opened.
    pub ramp: Duration,
    /// The time to hold all connections after the ramp.
    pub hold: Duration,
    /// The expected time between chunks.
    pub interval: Duration,
    /// Number of initial chunks before the schedule of a stream starts.
    pub greetings: u32,
    /// Whether a connection is held after its response is complete.
    pub holds_idle: bool,
    /// The timeout for connecting, and then for the first byte.
    pub timeout: Duration,
    /// The trusted certificates, or a Unix socket.
    pub access: Access,
    /// Local addresses to connect from.
    pub sources: Vec<IpAddr>,
    /// The server process to measure.
    pub server: Option<Server>,
    /// The file for the chart.
    pub plot: Option<PathBuf>,
    /// Whether the report is JSON instead of text.
    pub is_json: bool,
}

impl Options {
    /// The number of streams of all connections; with HTTP/1.1, that of connections.
    pub(super) fn total(&self) -> NonZeroU32 {
        self.connections.saturating_mul(self.streams.unwrap_or(NonZeroU32::MIN))
    }

    /// What is opened and counted.
    pub(super) fn noun(&self) -> &'static str {
        if self.streams.is_some() { "stream" } else { "connection" }
    }
}

/// The server process to measure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Server {
    /// A running process.
    Pid(u32),
    /// A command, started by a shell and stopped at the end.
    Command(String),
}
