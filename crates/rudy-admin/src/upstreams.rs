//! The states of upstreams.

use serde::{Deserialize, Serialize};

/// An upstream of a running server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UpstreamStatus {
    /// The first host and path of each route that uses it; empty if none does since a reload.
    pub routes: Vec<String>,
    /// Its URL in the configuration.
    pub url: String,
    /// The addresses of its host.
    pub addresses: Vec<String>,
    /// Whether it gets requests.
    pub state: UpstreamState,
    /// Whether it gets requests only while no other upstream does.
    #[serde(default)]
    pub backup: bool,
    /// How long it is ejected still, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ejected_ms: Option<u64>,
    /// The number of requests in progress.
    pub active: usize,
    /// The number of connections, idle or in use.
    pub connections: usize,
    /// The number of connections that are tunnels, such as those of `WebSocket`.
    #[serde(default)]
    pub tunnels: usize,
    /// The number of requests since the start.
    pub requests: u64,
    /// The number of failed ones.
    pub failures: u64,
    /// The moving average of the time from a request to its response, in microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_us: Option<u64>,
}

/// Whether an upstream gets requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UpstreamState {
    /// It gets requests.
    Up,
    /// It gets none for a while, because requests have failed.
    Ejected,
    /// It gets none, because its health checks fail.
    Unhealthy,
    /// It finishes its requests and gets no new ones.
    Draining,
    /// It gets no requests and has none.
    Drained,
}

impl UpstreamStatus {
    /// Returns its role, which follows its state where people read it.
    #[must_use]
    pub fn role(&self) -> &'static str {
        if self.backup { " (backup)" } else { "" }
    }
}

impl UpstreamState {
    /// Returns its name, as in JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::Ejected => "ejected",
            Self::Unhealthy => "unhealthy",
            Self::Draining => "draining",
            Self::Drained => "drained",
        }
    }
}
