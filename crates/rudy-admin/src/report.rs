//! What `rudy status` shows, as the admin socket transfers it.

use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::upstreams::UpstreamStatus;

/// The state of a server.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct StatusReport {
    /// The version of Rudy.
    pub version: String,
    /// The process.
    pub pid: u32,
    /// The time since the start, in milliseconds.
    pub uptime_ms: u64,
    /// Requests since the start, including rejected ones.
    pub requests: u64,
    /// Requests that violate the protocol or a limit.
    pub rejected: u64,
    /// Bytes sent since the start.
    pub sent_bytes: u64,
    /// Bytes received since the start.
    pub received_bytes: u64,
    /// UDP datagrams that the kernel has dropped since the start, because a receive buffer was full.
    #[serde(default)]
    pub dropped_datagrams: u64,
    /// Connections by state.
    pub connections: Connections,
    /// The workers that have not responded within a second: their active requests are the last known ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub busy_workers: Vec<usize>,
    /// The number of active requests that the filter selects.
    pub active_requests: usize,
    /// The active requests that the filter selects, the oldest first, up to the limit of the request.
    pub active: Vec<ActiveRequest>,
    /// The clients with the most active requests.
    pub holders: Vec<Holder>,
    /// The most frequent clients, paths and hosts.
    pub top: TopLists,
    /// The upstreams of all proxies.
    pub upstreams: Vec<UpstreamStatus>,
    /// The finished requests, if they are counted. For the dashboard; others read the metrics.
    #[serde(skip)]
    pub outcomes: Option<Outcomes>,
}

/// Finished requests since the start.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outcomes {
    /// By the class of their status; the first is for requests without one.
    pub classes: Vec<u64>,
    /// By duration, in the buckets of the metrics.
    pub buckets: Vec<u64>,
    /// Those that a cache has handled: not forwarded, and forwarded.
    pub cached: Vec<u64>,
}

/// A client with active requests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// Its address.
    pub client: String,
    /// The number of its active requests.
    pub active: usize,
    /// The age of the oldest one, in milliseconds.
    pub oldest_ms: u64,
}

/// The number of connections and requests by state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Connections {
    /// Open connections.
    pub open: u64,
    /// Those that wait for a request.
    pub idle: u64,
    /// Those whose TLS handshake is not complete.
    pub handshaking: u64,
    /// Active requests whose body is received.
    pub receiving: usize,
    /// Active requests that wait for an application, an upstream or a disk.
    pub waiting: usize,
    /// Active requests whose response is sent.
    pub sending: usize,
    /// Tunnels, such as those of WebSocket.
    pub tunnels: usize,
}

/// What an active request waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// The client sends the body.
    Receiving,
    /// An application, an upstream or a disk has not responded.
    Waiting,
    /// The response is sent.
    Sending,
    /// The connection has changed to another protocol.
    Tunnel,
}

impl Phase {
    const ALL: [(Self, &'static str); 4] = [
        (Self::Receiving, "receiving"),
        (Self::Waiting, "waiting"),
        (Self::Sending, "sending"),
        (Self::Tunnel, "tunnel"),
    ];

    /// Returns its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(phase, _)| *phase == self).map_or("", |(_, name)| name)
    }
}

impl FromStr for Phase {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.iter().find(|(_, name)| *name == text);
        found
            .map(|(phase, _)| *phase)
            .ok_or_else(|| "expected receiving, waiting, sending or tunnel".to_owned())
    }
}

/// A request in progress that has had to wait.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActiveRequest {
    /// The number of the connection, and that of the request on it: `4711.3`.
    pub id: String,
    /// The time since its head was complete, in milliseconds.
    pub age_ms: u64,
    /// What it waits for.
    pub phase: Phase,
    /// The address of the client.
    pub client: String,
    /// The method.
    pub method: String,
    /// The host, as requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// The path, and the query if it was asked for.
    pub path: String,
    /// The version of the protocol.
    pub version: String,
    /// The first host and path of its route.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub route: Option<String>,
    /// The upstream that has the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upstream: Option<String>,
    /// The authenticated user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Bytes of the request body received so far.
    pub received_bytes: u64,
    /// Bytes of the response body sent so far.
    pub sent_bytes: u64,
}

/// Which active requests to show. Each part that is given must match.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Filter {
    /// The address of the client, or its network.
    pub client: Option<String>,
    /// The requested host.
    pub host: Option<String>,
    /// The start of the path.
    pub path: Option<String>,
    /// A part of the name of the upstream.
    pub upstream: Option<String>,
    /// What the request waits for.
    pub phase: Option<Phase>,
    /// The minimum age, in milliseconds.
    pub min_age_ms: u64,
}

impl Filter {
    /// Sets the minimum age.
    pub fn set_min_age(&mut self, age: Duration) {
        self.min_age_ms = u64::try_from(age.as_millis()).unwrap_or(u64::MAX);
    }
}

/// The most frequent clients, paths and hosts of the last seconds.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TopLists {
    /// How many seconds they cover.
    pub seconds: f64,
    /// Addresses. Those of IPv6 are networks of 64 bits.
    pub clients: Vec<TopEntry>,
    /// Paths, without queries.
    pub paths: Vec<TopEntry>,
    /// Hosts, as requested.
    pub hosts: Vec<TopEntry>,
}

/// A frequent value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TopEntry {
    /// The value.
    pub name: String,
    /// Its requests per second, at least.
    pub requests_per_s: f64,
    /// Its share of all requests, from 0 to 1.
    pub share: f64,
}

/// What happened between two reports.
#[derive(Debug, Clone, Copy, Default)]
pub struct Rates {
    /// Requests per second.
    pub requests_per_s: f64,
    /// Bytes sent per second.
    pub sent_per_s: f64,
    /// Bytes received per second.
    pub received_per_s: f64,
}

impl Rates {
    /// Returns the rates from the start until now, or from another report until now.
    #[must_use]
    pub fn of(now: &StatusReport, before: Option<&StatusReport>) -> Self {
        let zero = StatusReport::default();
        let before = before.unwrap_or(&zero);
        let time = Duration::from_millis(now.uptime_ms.saturating_sub(before.uptime_ms));
        let per_second = |now: u64, before: u64| rudy_units::per_second(now.saturating_sub(before), time);
        Self {
            requests_per_s: per_second(now.requests, before.requests),
            sent_per_s: per_second(now.sent_bytes, before.sent_bytes),
            received_per_s: per_second(now.received_bytes, before.received_bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_phase_has_the_same_name_everywhere() {
        for (phase, name) in Phase::ALL {
            assert_eq!(name.parse(), Ok(phase));
            assert_eq!(serde_json::to_value(phase).unwrap(), name);
        }
        assert!("other".parse::<Phase>().is_err());
    }
}
