//! `rudy metrics`: the metrics of a running server.

use rudy_admin::{Request, Response, RunningServer, ask};
use rudy_server::run::{Exit, cannot, print};
use rudy_units::visible_lines;

/// The options of `rudy metrics`.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    /// The server.
    pub(crate) server: RunningServer,
}

/// Asks the server, and prints its metrics in the text format of Prometheus.
#[must_use]
pub(crate) fn run(options: &Options) -> Exit {
    match ask(&options.server, &Request::Metrics) {
        Ok(Response::Metrics(text)) => print(visible_lines(&text).as_bytes()),
        Ok(other) => cannot(&format!("read the metrics: unexpected response: {other:?}")),
        Err(why) => cannot(&format!("read the metrics: {why}")),
    }
}
