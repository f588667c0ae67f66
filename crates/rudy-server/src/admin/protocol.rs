//! Requests to the admin socket, and their responses.

use serde::{Deserialize, Serialize};

use crate::status::{Filter, StatusReport};
use crate::steps::LimitStatus;

/// The maximum length of a request.
pub(super) const REQUEST_BYTES_MAX: u64 = 64 * 1024;

/// A request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Request {
    /// The certificates of all sites.
    Certificates,
    /// The active requests, the connections, and the busiest clients, paths and hosts.
    Status {
        /// Which active requests.
        filter: Filter,
        /// The maximum number of active requests.
        limit: usize,
        /// Whether paths include their queries.
        queries: bool,
    },
    /// Ends an active request.
    Kill {
        /// Its id in the report.
        id: String,
    },
    /// Ends all active requests of a client.
    KillClient {
        /// Its address, or a network.
        address: String,
    },
    /// The upstreams of all proxies.
    Upstreams,
    /// The counts of all limits by key.
    Limits,
    /// The metrics, for Prometheus.
    Metrics,
    /// Sends no more requests to an upstream.
    DrainUpstream {
        /// Its URL, or its host and port.
        name: String,
    },
    /// Sends requests to a drained upstream again.
    RestoreUpstream {
        /// Its URL, or its host and port.
        name: String,
    },
    /// Purges stored responses.
    CachePurge(PurgeRequest),
    /// How much the caches have stored.
    CacheStats,
    /// The stored responses.
    CacheList {
        /// The beginning of their URLs.
        #[serde(default)]
        prefix: Option<String>,
        /// The maximum number.
        limit: usize,
    },
    /// What is stored for a URL.
    CacheGet {
        /// The URL.
        url: String,
    },
}

/// A request to purge stored responses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PurgeRequest {
    /// What is purged.
    pub(crate) by: Vec<PurgedBy>,
    /// Whether it becomes stale instead of being removed.
    #[serde(default)]
    pub(crate) soft: bool,
}

/// What is purged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PurgedBy {
    /// All responses for a URL.
    Url(String),
    /// All responses for URLs that begin so.
    Prefix(String),
    /// All responses with this tag in `Cache-Tag` or `Surrogate-Key`.
    Tag(String),
}

/// The response to a request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Response {
    /// To [`Request::Certificates`].
    Certificates(Vec<CertificateStatus>),
    /// To [`Request::Status`].
    Status(Box<StatusReport>),
    /// To the requests that end requests: how many were ended.
    Killed(usize),
    /// To the requests about upstreams.
    Upstreams(Vec<UpstreamStatus>),
    /// To [`Request::Limits`].
    Limits(Vec<LimitStatus>),
    /// To [`Request::Metrics`]: the text.
    Metrics(String),
    /// To [`Request::CachePurge`].
    CachePurged,
    /// To [`Request::CacheStats`]: one for each store.
    CacheStats(Vec<CacheStats>),
    /// To the requests for stored responses.
    CacheObjects(Vec<CacheObject>),
    /// Why there is no other response.
    Error(String),
}

/// A store of a running server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CacheStats {
    /// Its folder.
    pub(crate) folder: String,
    /// The number of stored responses.
    pub(crate) objects: u64,
    /// Its maximum.
    pub(crate) objects_max: u64,
    /// The disk space that they use.
    pub(crate) bytes: u64,
    /// Its maximum.
    pub(crate) bytes_max: u64,
    /// The number of responses that are in memory too.
    pub(crate) memory_objects: u64,
    /// The memory that they use.
    pub(crate) memory_bytes: u64,
    /// The memory of compressed copies.
    #[serde(default)]
    pub(crate) compressed_bytes: u64,
    /// Whether this process stores responses. Otherwise another one does.
    pub(crate) is_writer: bool,
    /// Whether the folder was read since the start.
    pub(crate) is_indexed: bool,
    /// The number of responses that made room for others since the start.
    pub(crate) evicted: u64,
    /// The number of damaged files since the start.
    pub(crate) damaged: u64,
    /// The number of responses that could not be read since the start.
    #[serde(default)]
    pub(crate) read_errors: u64,
    /// The number of responses that could not be written since the start.
    pub(crate) write_errors: u64,
    /// The number of purges that are being applied.
    pub(crate) purges_pending: u64,
}

/// A stored response.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CacheObject {
    /// Its URL.
    pub(crate) url: String,
    /// Its status.
    pub(crate) status: u16,
    /// The length of what is stored of its body.
    pub(crate) body_bytes: u64,
    /// Its age in seconds.
    pub(crate) age_s: u32,
    /// For how many seconds it remains fresh; 0 if it is stale.
    pub(crate) fresh_s: u32,
    /// Whether the whole body is stored.
    pub(crate) is_whole: bool,
    /// The fields of requests that it depends on.
    pub(crate) vary: Vec<String>,
    /// Its fields, if they were requested.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) fields: Vec<(String, String)>,
}

/// A certificate of a running server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CertificateStatus {
    /// The names that it is valid for.
    pub(crate) names: Vec<String>,
    /// The name of its issuer. This and the next fields are missing if no authority has signed the certificate yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) issuer: Option<String>,
    /// The first time at which it is valid (RFC 3339).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) not_before: Option<String>,
    /// The last time at which it is valid (RFC 3339).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) not_after: Option<String>,
    /// The type of its key, such as `ECDSA P-256`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) key_type: Option<String>,
    /// Its file, or how it was made.
    pub(crate) source: String,
    /// When it is renewed, or ordered again (RFC 3339).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) next_attempt: Option<String>,
    /// Why it could not be replaced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) last_error: Option<LastError>,
}

/// An upstream of a running server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct UpstreamStatus {
    /// The first host and path of each route that uses it; empty if none does since a reload.
    pub(crate) routes: Vec<String>,
    /// Its URL in the configuration.
    pub(crate) url: String,
    /// The addresses of its host.
    pub(crate) addresses: Vec<String>,
    /// Whether it gets requests.
    pub(crate) state: UpstreamState,
    /// How long it is ejected still, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) ejected_ms: Option<u64>,
    /// The number of requests in progress.
    pub(crate) active: usize,
    /// The number of connections, idle or in use.
    pub(crate) connections: usize,
    /// The number of connections that are tunnels, such as those of `WebSocket`.
    #[serde(default)]
    pub(crate) tunnels: usize,
    /// The number of requests since the start.
    pub(crate) requests: u64,
    /// The number of failed ones.
    pub(crate) failures: u64,
    /// The moving average of the time from a request to its response, in microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) latency_us: Option<u64>,
}

/// Whether an upstream gets requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum UpstreamState {
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

impl UpstreamState {
    /// Its name, as in JSON.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::Ejected => "ejected",
            Self::Unhealthy => "unhealthy",
            Self::Draining => "draining",
            Self::Drained => "drained",
        }
    }
}

/// An error that was not resolved since.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LastError {
    /// When it occurred (RFC 3339).
    pub(crate) time: String,
    /// What it is.
    pub(crate) message: String,
}
