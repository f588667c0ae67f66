//! The `limits` table, with bounds for each value. The upper bounds prevent mistakes such as a head of 1 GB, which would let any
//! client exhaust the memory; with the lower bounds, the server still works with browsers.

use rudy_config::{Int, Location, Problem};
use rudy_units::{Size, Time, Timeout};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

const MIB: u64 = 1 << 20;

type Positive = Int<1, { u64::MAX }>;

/// Limits and timeouts for clients.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LimitsTable {
    /// Maximum size of the head of a request: request line and header fields. A larger one gets 431.
    pub head_bytes: Size<512, MIB>,
    /// Maximum number of fields in a header or trailer section. A request with more gets 431.
    pub head_fields: Int<1, 1000>,
    /// Maximum length of the request target (path and query). A longer one gets 414.
    pub target_bytes: Size<64, MIB>,
    /// Maximum size of a request body. A larger one gets 413. Raise it for uploads.
    pub body_bytes: Size,
    /// Maximum total size of the chunk extensions in one request body. A body with more gets 400.
    pub chunk_extension_bytes: Size<0, MIB>,
    /// Maximum size of an unread request body that Rudy discards to keep the connection open. If more is left, the
    /// connection is closed after the response.
    pub drain_bytes: Size<0, { 64 * MIB }>,
    /// Time for receiving the head of a request, from its first byte. A slower request gets 408.
    pub head_timeout: Timeout,
    /// Time from accepting a connection to the first byte of a request. After it, the connection is closed without a
    /// response.
    pub first_request_timeout: Timeout,
    /// Time that an idle connection stays open between two requests (keep-alive timeout). After it, the connection is
    /// closed without a response.
    pub idle_timeout: Timeout,
    /// Minimum average rate of a request body, in bytes per second, once `rate_grace` is over. A slower one gets 408.
    /// 0 disables the check.
    pub body_rate_min: u32,
    /// Minimum average rate at which a client reads a response, in bytes per second, once `rate_grace` is over. The
    /// connection of a slower client is closed. 0 disables the check.
    pub send_rate_min: u32,
    /// Time during which a body may be slower than its minimum rate. A client that was faster before may pause for up
    /// to three times as long.
    pub rate_grace: Timeout,
    /// Maximum time without progress in sending a response. After it, the connection is closed.
    pub send_stall_timeout: Timeout,
    /// Time that a request may take after its client has closed its sending side, while no byte of the response can
    /// be sent. After it, the request is cancelled.
    pub half_close_timeout: Timeout,
    /// Maximum number of requests per connection. Then the connection is closed. The default is no limit.
    #[schemars(example = 1000)]
    pub requests_per_connection: Option<Positive>,
    /// Maximum number of concurrent streams on an HTTP/2 connection. Further requests are refused, and clients repeat them.
    pub http2_streams: Int<1, 10_000>,
    /// Maximum number of streams that an HTTP/2 client cancels, or that Rudy resets because of an error of the client. A tenth of
    /// it recovers each second, and one with each completed response. Above it, the connection is closed.
    pub http2_resets: Int<1, 1_000_000>,
    /// Maximum number of HTTP/2 frames without purpose, such as PING and SETTINGS. A tenth of it recovers each second, and some
    /// with each request and response. Above it, the connection is closed. Packets of fewer than 256 bytes that complete no frame
    /// are counted separately, up to the same number.
    pub http2_control_frames: Int<100, 1_000_000>,
    /// Amount of data in request bodies that an HTTP/2 client may send ahead on a new connection.
    pub http2_connection_window: Size<65_535, { 1024 * MIB }>,
    /// Maximum amount of data in a request body that an HTTP/2 client may send ahead. It grows up to here while the client and
    /// the service are fast.
    pub http2_stream_window_max: Size<65_535, { 1024 * MIB }>,
    /// Maximum amount of data in the request bodies of all HTTP/2 connections together that has arrived and that no service has
    /// read. Above it, these amounts do not grow, and a connection that has more than 16 KiB of it waits: Rudy reads nothing from it
    /// until its services read, or the others store less. So HTTP/2 clients occupy this memory and 16 KiB each, at most.
    pub http2_windows_total: Size,
    /// Maximum number of open connections. Beyond it, a new connection replaces the longest-idle one of the address
    /// that has most; if none is idle, the new one gets 503. The default depends on the limit of open file
    /// descriptors.
    #[schemars(example = 10_000)]
    pub connections: Option<Positive>,
    /// Maximum number of open connections per client address. The default is no limit, because many clients can share
    /// an address.
    #[schemars(example = 100)]
    pub connections_per_address: Option<Positive>,
    /// Maximum number of unfinished TLS handshakes of a worker thread. Above it, the oldest one is closed: clients that
    /// connect and stay silent cannot keep others out.
    pub handshakes: Positive,
    /// Time to keep reading from a client after closing the sending side of a connection, so that the client receives
    /// the whole response (lingering close). It begins when the client has acknowledged the whole response; until then,
    /// the limits of a slow client apply.
    pub linger_timeout: Timeout,
    /// Maximum amount of data to read and discard during a lingering close.
    pub linger_bytes: Size<0, { 64 * MIB }>,
    /// Time for receiving the PROXY protocol header, from accepting a connection. After it, the connection is closed.
    pub proxy_header_timeout: Timeout,
}

impl LimitsTable {
    /// Problems that the types cannot express. Values in `invalid` were skipped.
    pub(super) fn problem(&self, location: &Location, invalid: &[Location]) -> Option<Problem> {
        let compared = ["target_bytes", "head_bytes"].map(|key| location.key(key));
        if invalid.iter().any(|invalid| compared.contains(invalid))
            || self.target_bytes.0 <= self.head_bytes.0
        {
            return None;
        }
        let title =
            format!("target_bytes ({}) is more than head_bytes ({})", self.target_bytes, self.head_bytes);
        let problem = Problem::value(&location.key("target_bytes"), title);
        Some(problem.label("the target is part of the head"))
    }
}

impl Default for LimitsTable {
    fn default() -> Self {
        (&rudy_service::Limits::default()).into()
    }
}

impl From<&rudy_service::Limits> for LimitsTable {
    fn from(limits: &rudy_service::Limits) -> Self {
        // Naming every field makes the compiler require a setting for each new limit.
        let rudy_service::Limits {
            http,
            connections,
            connections_per_address,
            handshakes,
            linger_timeout,
            linger_bytes,
            proxy_header_timeout,
        } = limits;
        let rudy_http::Limits {
            head_bytes,
            head_fields,
            target_bytes,
            body_bytes,
            chunk_extension_bytes,
            drain_bytes,
            head_timeout,
            first_request_timeout,
            idle_timeout,
            body_rate_min,
            send_rate_min,
            rate_grace,
            send_stall_timeout,
            half_close_timeout,
            requests_per_connection,
            http2,
        } = http;
        let rudy_http::h2::Limits {
            streams,
            resets,
            control_frames,
            connection_window_bytes,
            stream_window_bytes: _,
            stream_window_bytes_max,
            windows_total_bytes,
        } = *http2;
        Self {
            head_bytes: Size(*head_bytes as u64),
            head_fields: Int(*head_fields as u64),
            target_bytes: Size(*target_bytes as u64),
            body_bytes: Size(*body_bytes),
            chunk_extension_bytes: Size(*chunk_extension_bytes as u64),
            drain_bytes: Size(*drain_bytes),
            head_timeout: Time(*head_timeout),
            first_request_timeout: Time(*first_request_timeout),
            idle_timeout: Time(*idle_timeout),
            body_rate_min: *body_rate_min,
            send_rate_min: *send_rate_min,
            rate_grace: Time(*rate_grace),
            send_stall_timeout: Time(*send_stall_timeout),
            half_close_timeout: Time(*half_close_timeout),
            requests_per_connection: requests_per_connection.map(Int),
            http2_streams: Int(streams.into()),
            http2_resets: Int(resets.into()),
            http2_control_frames: Int(control_frames.into()),
            http2_connection_window: Size(connection_window_bytes.into()),
            http2_stream_window_max: Size(stream_window_bytes_max.into()),
            http2_windows_total: Size(windows_total_bytes),
            connections: connections.map(positive),
            connections_per_address: connections_per_address.map(positive),
            handshakes: positive(*handshakes),
            linger_timeout: Time(*linger_timeout),
            linger_bytes: Size(*linger_bytes),
            proxy_header_timeout: Time(*proxy_header_timeout),
        }
    }
}

impl From<LimitsTable> for rudy_service::Limits {
    fn from(table: LimitsTable) -> Self {
        Self {
            http: rudy_http::Limits {
                head_bytes: table.head_bytes.as_usize(),
                head_fields: table.head_fields.as_usize(),
                target_bytes: table.target_bytes.as_usize(),
                body_bytes: table.body_bytes.0,
                chunk_extension_bytes: table.chunk_extension_bytes.as_usize(),
                drain_bytes: table.drain_bytes.0,
                head_timeout: table.head_timeout.0,
                first_request_timeout: table.first_request_timeout.0,
                idle_timeout: table.idle_timeout.0,
                body_rate_min: table.body_rate_min,
                send_rate_min: table.send_rate_min,
                rate_grace: table.rate_grace.0,
                send_stall_timeout: table.send_stall_timeout.0,
                half_close_timeout: table.half_close_timeout.0,
                requests_per_connection: table.requests_per_connection.map(|most| most.0),
                http2: rudy_http::h2::Limits {
                    streams: narrow(table.http2_streams.0),
                    resets: narrow(table.http2_resets.0),
                    control_frames: narrow(table.http2_control_frames.0),
                    connection_window_bytes: narrow(table.http2_connection_window.0),
                    stream_window_bytes: rudy_http::h2::Limits::DEFAULT.stream_window_bytes,
                    stream_window_bytes_max: narrow(table.http2_stream_window_max.0),
                    windows_total_bytes: table.http2_windows_total.0,
                },
            },
            connections: table.connections.map(Int::as_usize),
            connections_per_address: table.connections_per_address.map(Int::as_usize),
            handshakes: table.handshakes.as_usize(),
            linger_timeout: table.linger_timeout.0,
            linger_bytes: table.linger_bytes.0,
            proxy_header_timeout: table.proxy_header_timeout.0,
        }
    }
}

/// Converts a value whose type bounds it to less than 32 bits.
fn narrow(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

fn positive(count: usize) -> Positive {
    Int(count as u64)
}
