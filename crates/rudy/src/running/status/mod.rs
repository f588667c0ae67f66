//! `rudy status`: the active requests of a running server, its connections, and its busiest clients, paths and hosts.

mod live;
mod text;

use std::time::Duration;

use rudy_admin::{Filter, Rates, Request, Response, RunningServer, StatusReport, ask};
use rudy_server::run::Exit;
use rudy_units::counted;
use serde_json::json;

use super::{json_line, print_result};

/// The options of `rudy status`.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    /// The server.
    pub(crate) server: RunningServer,
    /// Which active requests are shown.
    pub(crate) filter: Filter,
    /// The maximum number of active requests that are shown.
    pub(crate) limit: usize,
    /// Whether paths include their queries.
    pub(crate) queries: bool,
    /// Prints JSON.
    pub(crate) json: bool,
    /// Repeats the report at this interval, on a terminal in place.
    pub(crate) live: Option<Duration>,
    /// Appends each report, even on a terminal.
    pub(crate) plain: bool,
    /// What to end, instead of a report.
    pub(crate) kill: Option<Kill>,
}

/// What to end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Kill {
    /// The active request with this id.
    Request(String),
    /// All active requests of a client, or of the clients in a network.
    Client(String),
}

/// Asks the server, and prints its state.
#[must_use]
pub(crate) fn run(options: &Options) -> Exit {
    let result = match (&options.kill, options.live) {
        (Some(kill), _) => end(options, kill),
        (None, Some(interval)) => return live::run(options, interval),
        (None, None) => report(options).map(|report| show(options, &report, None)),
    };
    print_result(result)
}

/// Asks for a report.
fn report(options: &Options) -> Result<StatusReport, String> {
    let Options { filter, limit, queries, .. } = options.clone();
    match ask(&options.server, &Request::Status { filter, limit, queries })? {
        Response::Status(report) => Ok(*report),
        other => Err(format!("unexpected response: {other:?}")),
    }
}

/// Formats a report. `before` is the last one.
fn show(options: &Options, report: &StatusReport, before: Option<&StatusReport>) -> String {
    if options.json {
        return json_line(&json!(report));
    }
    text::text(report, Rates::of(report, before))
}

fn end(options: &Options, kill: &Kill) -> Result<String, String> {
    let (request, none) = match kill {
        Kill::Request(id) => (Request::Kill { id: id.clone() }, format!("no active request is {id}")),
        Kill::Client(address) => {
            (Request::KillClient { address: address.clone() }, format!("no active request is from {address}"))
        }
    };
    match ask(&options.server, &request)? {
        Response::Killed(0) => Err(none),
        Response::Killed(count) if options.json => Ok(json_line(&json!({ "killed": count }))),
        Response::Killed(count) => Ok(format!("ended {}\n", counted(count, "request"))),
        other => Err(format!("unexpected response: {other:?}")),
    }
}
