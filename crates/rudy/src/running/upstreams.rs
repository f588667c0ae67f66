//! `rudy upstreams`: the upstreams of a running server.

use std::time::Duration;

use rudy_admin::{Request, Response, RunningServer, UpstreamState, UpstreamStatus};
use rudy_server::run::Exit;
use rudy_units::{count, duration, visible};
use serde_json::json;

use super::{json_line, print_response};

/// The options of `rudy upstreams`.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    /// The server.
    pub(crate) server: RunningServer,
    /// Prints JSON.
    pub(crate) json: bool,
    /// What to change first.
    pub(crate) change: Option<Change>,
}

/// A change of an upstream, which is named by its URL, or by its host and port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Change {
    /// It finishes its requests and gets no new ones.
    Drain(String),
    /// It gets requests again.
    Up(String),
}

/// Asks the server, and prints the state of its upstreams.
#[must_use]
pub(crate) fn run(options: &Options) -> Exit {
    let request = match &options.change {
        None => Request::Upstreams,
        Some(Change::Drain(name)) => Request::DrainUpstream { name: name.clone() },
        Some(Change::Up(name)) => Request::RestoreUpstream { name: name.clone() },
    };
    print_response(&options.server, &request, |response| match response {
        Response::Upstreams(all) if options.json => Ok(json_line(&json!({ "upstreams": all }))),
        Response::Upstreams(all) => Ok(text(&all)),
        other => Err(other),
    })
}

/// The names of the columns. Those of numbers are aligned to the right.
const COLUMNS: [(&str, bool); 9] = [
    ("UPSTREAM", false),
    ("ADDRESS", false),
    ("STATE", false),
    ("ACTIVE", true),
    ("CONNECTIONS", true),
    ("TUNNELS", true),
    ("REQUESTS", true),
    ("FAILURES", true),
    ("LATENCY", true),
];

/// Instead of the routes of a pool that a reload has replaced.
const EARLIER: &str = "of earlier configurations";

/// Formats a table, with a line above the upstreams of a pool that names the routes. The server's words are shown without control
/// characters.
fn text(all: &[UpstreamStatus]) -> String {
    if all.is_empty() {
        return "no route of this server is a proxy\n".to_owned();
    }
    let rows: Vec<_> = all.iter().map(cells).collect();
    let header = COLUMNS.map(|(name, _)| name.to_owned());
    let width = |column: usize| {
        let cells = rows.iter().chain([&header]).map(|row: &[String; 9]| row[column].chars().count());
        cells.max().unwrap_or(0)
    };
    let widths: [usize; 9] = std::array::from_fn(width);
    let mut lines = vec![line(&header, &widths)];
    let mut routes = None;
    for (status, row) in all.iter().zip(&rows) {
        if routes != Some(&status.routes) {
            routes = Some(&status.routes);
            let has_none = status.routes.is_empty();
            lines.push(if has_none { EARLIER.to_owned() } else { visible(&status.routes.join(", ")) });
        }
        lines.push(line(row, &widths));
    }
    lines.join("\n") + "\n"
}

fn line(cells: &[String; 9], widths: &[usize; 9]) -> String {
    let padded = cells.iter().zip(widths).zip(COLUMNS).map(|((cell, width), (_, is_number))| {
        if is_number { format!("{cell:>width$}") } else { format!("{cell:<width$}") }
    });
    let line = format!("  {}", padded.collect::<Vec<_>>().join("  "));
    line.trim_end().to_owned()
}

fn cells(status: &UpstreamStatus) -> [String; 9] {
    let state = match (status.state, status.ejected_ms.unwrap_or(0)) {
        (UpstreamState::Ejected, 0) => "ejected, on trial".to_owned(),
        (UpstreamState::Ejected, left) => format!("ejected for {}", duration(Duration::from_millis(left))),
        (state, _) => state.name().to_owned(),
    };
    let addresses =
        if status.addresses.is_empty() { "unknown".to_owned() } else { status.addresses.join(" ") };
    let latency = status.latency_us.map_or_else(|| "-".to_owned(), |us| duration(Duration::from_micros(us)));
    [
        visible(&status.url),
        visible(&addresses),
        state + status.role(),
        count(status.active as u64),
        count(status.connections as u64),
        count(status.tunnels as u64),
        count(status.requests),
        count(status.failures),
        latency,
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_has_the_same_name_everywhere() {
        for state in [
            UpstreamState::Up,
            UpstreamState::Ejected,
            UpstreamState::Unhealthy,
            UpstreamState::Draining,
            UpstreamState::Drained,
        ] {
            assert_eq!(serde_json::to_value(state).unwrap(), state.name());
        }
    }

    #[test]
    fn upstreams_are_a_table_by_route() {
        let up = UpstreamStatus {
            routes: vec!["example.org/api/*".to_owned()],
            url: "http://app:3000".to_owned(),
            addresses: vec!["10.0.0.1:3000".to_owned(), "10.0.0.2:3000".to_owned()],
            state: UpstreamState::Up,
            backup: false,
            ejected_ms: None,
            active: 2,
            connections: 12,
            tunnels: 1,
            requests: 12_345,
            failures: 1,
            latency_us: Some(1230),
        };
        let ejected = UpstreamStatus {
            url: "unix:/a\x1b".to_owned(),
            addresses: Vec::new(),
            state: UpstreamState::Ejected,
            backup: true,
            ejected_ms: Some(1500),
            latency_us: None,
            ..up.clone()
        };
        let draining = UpstreamStatus { routes: Vec::new(), state: UpstreamState::Draining, ..up.clone() };
        let expected = "  UPSTREAM         ADDRESS                      STATE                        ACTIVE  CONNECTIONS  TUNNELS  REQUESTS  FAILURES  LATENCY
example.org/api/*
  http://app:3000  10.0.0.1:3000 10.0.0.2:3000  up                                2           12        1    12,345         1  1.23 ms
  unix:/a\\u{1b}    unknown                      ejected for 1.50 s (backup)       2           12        1    12,345         1        -
of earlier configurations
  http://app:3000  10.0.0.1:3000 10.0.0.2:3000  draining                          2           12        1    12,345         1  1.23 ms
";
        assert_eq!(text(&[up, ejected, draining]), expected);
        assert_eq!(text(&[]), "no route of this server is a proxy\n");
    }
}
