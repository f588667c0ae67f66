//! `rudy metrics`: the metrics of a running server.

use std::path::PathBuf;

use crate::admin::{Request, Response, ask};
use crate::run::{Exit, cannot, print};

/// The options of `rudy metrics`.
#[derive(Debug, Clone)]
pub struct Options {
    /// The admin socket; the default is that of the process.
    pub socket: Option<PathBuf>,
    /// The process id; the default is the only `rudy serve` of this user.
    pub pid: Option<u32>,
}

/// Asks the server, and prints its metrics in the text format of Prometheus.
#[must_use]
pub fn run(options: &Options) -> Exit {
    match ask(options.socket.as_deref(), options.pid, &Request::Metrics) {
        Ok(Response::Metrics(text)) => print(text.as_bytes()),
        Ok(other) => cannot(&format!("read the metrics: unexpected response: {other:?}")),
        Err(why) => cannot(&format!("read the metrics: {why}")),
    }
}
