//! Requests to the admin socket, and their responses.

use serde::{Deserialize, Serialize};

use crate::limits::LimitStatus;
use crate::report::{Filter, StatusReport};
use crate::upstreams::UpstreamStatus;

/// The maximum length of a request.
pub const REQUEST_BYTES_MAX: u64 = 64 * 1024;

/// A request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
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
pub struct PurgeRequest {
    /// What is purged.
    pub by: Vec<PurgedBy>,
    /// Whether it becomes stale instead of being removed.
    #[serde(default)]
    pub soft: bool,
    /// Whether the response follows when the files of all purged responses are gone, as [`Response::CacheSwept`].
    #[serde(default)]
    pub wait: bool,
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
pub enum Response {
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
    /// To [`Request::CachePurge`] with `wait`: the number of responses that this purge and earlier ones have removed or made stale, since it
    /// was sent.
    CacheSwept(u64),
    /// To [`Request::CacheStats`]: one for each store.
    CacheStats(Vec<CacheStats>),
    /// To the requests for stored responses.
    CacheObjects(Vec<CacheObject>),
    /// Why there is no other response.
    Error(String),
}

/// A store of a running server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheStats {
    /// Its folder.
    pub folder: String,
    /// The number of stored responses.
    pub objects: u64,
    /// Its maximum.
    pub objects_max: u64,
    /// The disk space that they use.
    pub bytes: u64,
    /// Its maximum.
    pub bytes_max: u64,
    /// The number of responses that are in memory too.
    pub memory_objects: u64,
    /// The memory that they use.
    pub memory_bytes: u64,
    /// The memory of compressed copies.
    #[serde(default)]
    pub compressed_bytes: u64,
    /// Whether this process stores responses. Otherwise another one does.
    pub is_writer: bool,
    /// Whether the folder was read since the start.
    pub is_indexed: bool,
    /// The number of responses that made room for others since the start.
    pub evicted: u64,
    /// The number of damaged files since the start.
    pub damaged: u64,
    /// The number of responses that could not be read since the start.
    #[serde(default)]
    pub read_errors: u64,
    /// The number of responses that could not be written since the start.
    pub write_errors: u64,
    /// Whether requests pass it by, because its disk fails.
    #[serde(default)]
    pub is_suspended: bool,
    /// The number of purges that are being applied.
    pub purges_pending: u64,
    /// The number of purged tags whose files are not removed yet. They are not used.
    #[serde(default)]
    pub tags_unswept: u64,
}

/// A stored response.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheObject {
    /// Its URL.
    pub url: String,
    /// Its status.
    pub status: u16,
    /// The length of what is stored of its body.
    pub body_bytes: u64,
    /// Its age in seconds.
    pub age_s: u32,
    /// For how many seconds it remains fresh; 0 if it is stale.
    pub fresh_s: u32,
    /// Whether the whole body is stored.
    pub is_whole: bool,
    /// The fields of requests that it depends on.
    pub vary: Vec<String>,
    /// Its fields, if they were requested.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<(String, String)>,
}

/// A certificate of a running server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CertificateStatus {
    /// The names that it is valid for.
    pub names: Vec<String>,
    /// The name of its issuer. This and the next fields are missing if no authority has signed the certificate yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub issuer: Option<String>,
    /// The first time at which it is valid (RFC 3339).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_before: Option<String>,
    /// The last time at which it is valid (RFC 3339).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_after: Option<String>,
    /// The type of its key, such as `ECDSA P-256`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_type: Option<String>,
    /// Its file, or how it was made.
    pub source: String,
    /// When it is renewed, or ordered again (RFC 3339).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_attempt: Option<String>,
    /// Why it could not be replaced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<LastError>,
}

/// An error that was not resolved since.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastError {
    /// When it occurred (RFC 3339).
    pub time: String,
    /// What it is.
    pub message: String,
}
