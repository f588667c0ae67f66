//! What `rudy status` shows, as the admin socket transfers it.

use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::top::TopLists;
use crate::admin::UpstreamStatus;
use crate::client_address::Network;

/// The state of a server.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct StatusReport {
    /// The version of Rudy.
    pub(crate) version: String,
    /// The process.
    pub(crate) pid: u32,
    /// The time since the start, in milliseconds.
    pub(crate) uptime_ms: u64,
    /// Requests since the start, including rejected ones.
    pub(crate) requests: u64,
    /// Requests that violate the protocol or a limit.
    pub(crate) rejected: u64,
    /// Bytes sent since the start.
    pub(crate) sent_bytes: u64,
    /// Bytes received since the start.
    pub(crate) received_bytes: u64,
    /// Connections by state.
    pub(crate) connections: Connections,
    /// The workers that have not responded within a second: their active requests are the last known ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) busy_workers: Vec<usize>,
    /// The number of active requests that the filter selects.
    pub(crate) active_requests: usize,
    /// The active requests that the filter selects, the oldest first, up to the limit of the request.
    pub(crate) active: Vec<ActiveRequest>,
    /// The clients with the most active requests.
    pub(crate) holders: Vec<Holder>,
    /// The most frequent clients, paths and hosts.
    pub(crate) top: TopLists,
    /// The upstreams of all proxies.
    pub(crate) upstreams: Vec<UpstreamStatus>,
    /// The finished requests, if they are counted. For the dashboard; others read the metrics.
    #[serde(skip)]
    pub(crate) outcomes: Option<Outcomes>,
}

/// Finished requests since the start.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Outcomes {
    /// By the class of their status; the first is for requests without one.
    pub(crate) classes: Vec<u64>,
    /// By duration, in the buckets of the metrics.
    pub(crate) buckets: Vec<u64>,
    /// Those that a cache has handled: not forwarded, and forwarded.
    pub(crate) cached: Vec<u64>,
}

/// A client with active requests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Holder {
    /// Its address.
    pub(crate) client: String,
    /// The number of its active requests.
    pub(crate) active: usize,
    /// The age of the oldest one, in milliseconds.
    pub(crate) oldest_ms: u64,
}

/// The number of connections and requests by state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Connections {
    /// Open connections.
    pub(crate) open: u64,
    /// Those that wait for a request.
    pub(crate) idle: u64,
    /// Those whose TLS handshake is not complete.
    pub(crate) handshaking: u64,
    /// Active requests whose body is received.
    pub(crate) receiving: usize,
    /// Active requests that wait for an application, an upstream or a disk.
    pub(crate) waiting: usize,
    /// Active requests whose response is sent.
    pub(crate) sending: usize,
    /// Tunnels, such as those of WebSocket.
    pub(crate) tunnels: usize,
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

    /// Its name.
    pub(crate) fn name(self) -> &'static str {
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
pub(crate) struct ActiveRequest {
    /// The number of the connection, and that of the request on it: `4711.3`.
    pub(crate) id: String,
    /// The time since its head was complete, in milliseconds.
    pub(crate) age_ms: u64,
    /// What it waits for.
    pub(crate) phase: Phase,
    /// The address of the client.
    pub(crate) client: String,
    /// The method.
    pub(crate) method: String,
    /// The host, as requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) host: Option<String>,
    /// The path, and the query if it was asked for.
    pub(crate) path: String,
    /// The version of the protocol.
    pub(crate) version: String,
    /// The first host and path of its route.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) route: Option<String>,
    /// The upstream that has the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) upstream: Option<String>,
    /// The authenticated user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) user: Option<String>,
    /// Bytes of the request body received so far.
    pub(crate) received_bytes: u64,
    /// Bytes of the response body sent so far.
    pub(crate) sent_bytes: u64,
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
    /// Whether it selects this request.
    pub(crate) fn matches(&self, request: &ActiveRequest) -> bool {
        let of = |value: &Option<String>| value.clone().unwrap_or_default();
        self.phase.is_none_or(|phase| phase == request.phase)
            && request.age_ms >= self.min_age_ms
            && self.client.as_ref().is_none_or(|client| is_of_client(&request.client, client))
            && self.host.as_ref().is_none_or(|host| of(&request.host).eq_ignore_ascii_case(host))
            && self.path.as_ref().is_none_or(|path| request.path.starts_with(path))
            && self.upstream.as_ref().is_none_or(|upstream| of(&request.upstream).contains(upstream))
    }

    /// The minimum age.
    pub fn set_min_age(&mut self, age: Duration) {
        self.min_age_ms = u64::try_from(age.as_millis()).unwrap_or(u64::MAX);
    }
}

/// Whether a client has an address, or one in a network.
pub(crate) fn is_of_client(client: &str, address: &str) -> bool {
    let (Ok(ip), Ok(network)) = (client.parse(), address.parse::<Network>()) else {
        return client == address;
    };
    network.contains(ip)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request() -> ActiveRequest {
        ActiveRequest {
            id: "7.1".to_owned(),
            age_ms: 1000,
            phase: Phase::Waiting,
            client: "192.0.2.7".to_owned(),
            method: "GET".to_owned(),
            host: Some("Example.org".to_owned()),
            path: "/api/slow".to_owned(),
            version: "HTTP/1.1".to_owned(),
            route: None,
            upstream: Some("http://10.0.0.1:3000".to_owned()),
            user: None,
            received_bytes: 0,
            sent_bytes: 0,
        }
    }

    #[test]
    fn all_parts_of_a_filter_must_match() {
        let text = |text: &str| Some(text.to_owned());
        let none = Filter::default();
        for (filter, expected) in [
            (none.clone(), true),
            (Filter { client: text("192.0.2.7"), ..none.clone() }, true),
            (Filter { client: text("192.0.2.0/24"), ..none.clone() }, true),
            (Filter { client: text("192.0.2.8"), ..none.clone() }, false),
            (Filter { client: text("unix:"), ..none.clone() }, false),
            (Filter { host: text("example.ORG"), path: text("/api/"), ..none.clone() }, true),
            (Filter { host: text("example.org"), path: text("/other"), ..none.clone() }, false),
            (Filter { upstream: text("10.0.0.1"), phase: Some(Phase::Waiting), ..none.clone() }, true),
            (Filter { phase: Some(Phase::Sending), ..none.clone() }, false),
            (Filter { min_age_ms: 1001, ..none }, false),
        ] {
            assert_eq!(filter.matches(&request()), expected, "{filter:?}");
        }
    }

    #[test]
    fn a_phase_has_the_same_name_everywhere() {
        for (phase, name) in Phase::ALL {
            assert_eq!(name.parse(), Ok(phase));
            assert_eq!(serde_json::to_value(phase).unwrap(), name);
        }
        assert!("other".parse::<Phase>().is_err());
    }
}
