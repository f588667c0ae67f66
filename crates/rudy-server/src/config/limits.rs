//! The `limits` table, with bounds for each value. The upper bounds prevent mistakes such as a head of 1 GB, which would let any
//! client exhaust the memory; with the lower bounds, the server still works with browsers.

use std::time::Duration;

use rudy_config::{Int, Location, Maximum, Problem, Setting, Table};
use rudy_service::Limits;
use rudy_units::{Size, Time, Timeout};

const MIB: u64 = 1 << 20;

/// Lists the keys, each with its type and the field of [`Limits`] that it sets, whose default is that of the key.
macro_rules! limits_table {
    ($($(#[$attribute:meta])* $key:ident: $kind:ty => $($field:ident).+,)+) => {
        /// Limits and timeouts for clients.
        #[derive(Debug, Clone, PartialEq, Eq, Table)]
        #[setting(default)]
        pub struct LimitsTable {
            $($(#[$attribute])* #[setting(default = Limit::of(Limits::default().$($field).+))] pub $key: $kind,)+
        }

        impl LimitsTable {
            /// Writes each limit as in the table, with its key. `None` is no limit.
            pub(super) fn written(limits: &Limits) -> Vec<(&'static str, Option<String>)> {
                vec![$((stringify!($key), <$kind as Limit<_>>::of(limits.$($field).+).written())),+]
            }
        }

        impl From<LimitsTable> for Limits {
            fn from(table: LimitsTable) -> Self {
                let mut limits = Self::default();
                $(limits.$($field).+ = Limit::value(table.$key);)+
                limits
            }
        }
    };
}

limits_table! {
    /// Maximum size of the head of a request: request line and header fields. A larger one gets 431.
    head_bytes: Size<512, MIB> => http.head_bytes,
    /// Maximum number of fields in a header or trailer section. A request with more gets 431.
    head_fields: Int<1, 1000> => http.head_fields,
    /// Maximum length of the request target (path and query). A longer one gets 414.
    target_bytes: Size<64, MIB> => http.target_bytes,
    /// Maximum size of a request body. A larger one gets 413. Raise it for uploads.
    body_bytes: Size => http.body_bytes,
    /// Maximum total size of the chunk extensions in one request body. A body with more gets 400.
    chunk_extension_bytes: Size<0, MIB> => http.chunk_extension_bytes,
    /// Maximum size of an unread request body that Rudy discards to keep the connection open. If more is left, the
    /// connection is closed after the response.
    drain_bytes: Size<0, { 64 * MIB }> => http.drain_bytes,
    /// Time for receiving the head of a request, from its first byte. A slower request gets 408.
    head_timeout: Timeout => http.head_timeout,
    /// Time from accepting a connection to the first byte of a request. After it, the connection is closed without a
    /// response.
    first_request_timeout: Timeout => http.first_request_timeout,
    /// Time that an idle connection stays open between two requests (keep-alive timeout). After it, the connection is
    /// closed without a response.
    idle_timeout: Timeout => http.idle_timeout,
    /// Minimum average rate of a request body, in bytes per second, once `rate_grace` is over. A slower one gets 408.
    /// 0 disables the check.
    body_rate_min: u32 => http.body_rate_min,
    /// Minimum average rate at which a client reads a response, in bytes per second, once `rate_grace` is over. The
    /// connection of a slower client is closed. 0 disables the check.
    send_rate_min: u32 => http.send_rate_min,
    /// Time during which a body may be slower than its minimum rate. A client that was faster before may pause for up
    /// to three times as long.
    rate_grace: Timeout => http.rate_grace,
    /// Maximum time without progress in sending a response. After it, the connection is closed.
    send_stall_timeout: Timeout => http.send_stall_timeout,
    /// Time that a request may take after its client has closed its sending side, while no byte of the response can
    /// be sent. After it, the request is cancelled.
    half_close_timeout: Timeout => http.half_close_timeout,
    /// Maximum number of requests per connection. Then the connection is closed. The default is no limit.
    #[setting(example = 1000)]
    requests_per_connection: Option<Maximum> => http.requests_per_connection,
    /// Maximum number of concurrent streams on an HTTP/2 or HTTP/3 connection. Further requests are refused, and clients repeat them.
    http2_streams: Int<1, 10_000> => http.http2.streams,
    /// Maximum number of streams that an HTTP/2 or HTTP/3 client cancels, or that Rudy resets because of an error of the client. A tenth of
    /// it recovers each second, and one with each completed response. Above it, the connection is closed.
    http2_resets: Int<1, 1_000_000> => http.http2.resets,
    /// Maximum number of HTTP/2 or HTTP/3 frames without purpose, such as PING and SETTINGS. A tenth of it recovers each second, and some
    /// with each request and response. Above it, the connection is closed. Packets of fewer than 256 bytes that complete no frame
    /// are counted separately, up to the same number.
    http2_control_frames: Int<100, 1_000_000> => http.http2.control_frames,
    /// Amount of data in request bodies that an HTTP/2 or HTTP/3 client may send ahead on a new connection.
    http2_connection_window: Size<65_535, { 1024 * MIB }> => http.http2.connection_window_bytes,
    /// Maximum amount of data in a request body that an HTTP/2 client may send ahead. It grows up to here while the client and
    /// the service are fast.
    http2_stream_window_max: Size<65_535, { 1024 * MIB }> => http.http2.stream_window_bytes_max,
    /// Maximum amount of data in the request bodies of all HTTP/2 and HTTP/3 connections together that has arrived and that no service has
    /// read. Above it, these amounts do not grow, and a connection that has more than 16 KiB of it waits: Rudy reads nothing from it
    /// until its services read, or the others store less. So HTTP/2 clients occupy this memory and 16 KiB each, at most.
    http2_windows_total: Size => http.http2.windows_total_bytes,
    /// Number of unfinished handshakes of a worker thread from which on a client of HTTP/3 must first show that it receives at its address,
    /// which takes a round trip: addresses of attackers are mostly false.
    http3_retry: Int<0, { u64::MAX }> => http3_retry,
    /// Maximum amount of data that all HTTP/3 connections together may have sent without an acknowledgement, beyond 64 KiB each. Above it,
    /// the windows of connections do not grow.
    http3_in_transit: Size => http3_in_transit,
    /// Maximum number of open connections. Beyond it, a new connection replaces the longest-idle one of the address
    /// that has most; if none is idle, the new one gets 503. The default depends on the limit of open file
    /// descriptors.
    #[setting(example = 10_000)]
    connections: Option<Maximum> => connections,
    /// Maximum number of open connections per client address. The default is no limit, because many clients can share
    /// an address.
    #[setting(example = 100)]
    connections_per_address: Option<Maximum> => connections_per_address,
    /// Maximum number of unfinished TLS handshakes of a worker thread. Above it, the oldest one is closed: clients that
    /// connect and stay silent cannot keep others out.
    handshakes: Int<1, { u64::MAX }> => handshakes,
    /// Time to keep reading from a client after closing the sending side of a connection, so that the client receives
    /// the whole response (lingering close). It begins when the client has acknowledged the whole response; until then,
    /// the limits of a slow client apply.
    linger_timeout: Timeout => linger_timeout,
    /// Maximum amount of data to read and discard during a lingering close.
    linger_bytes: Size<0, { 64 * MIB }> => linger_bytes,
    /// Time for receiving the PROXY protocol header, from accepting a connection. After it, the connection is closed.
    proxy_header_timeout: Timeout => proxy_header_timeout,
}

/// Returns the problem of limits that the types cannot express.
pub(crate) fn problem(limits: &Limits) -> Option<Problem> {
    let rudy_http::Limits { target_bytes, head_bytes, .. } = limits.http;
    if target_bytes <= head_bytes {
        return None;
    }
    let location = Location::file(0).key("limits");
    let [target, head] = [target_bytes, head_bytes].map(|bytes| <Size>::from(bytes as u64));
    let problem = Problem::value(
        &location.key("target_bytes"),
        format!("target_bytes ({target}) is more than head_bytes ({head})"),
    );
    let problem = problem.label("the target is part of the head");
    Some(problem.unless_invalid(&location.key("target_bytes")).unless_invalid(&location.key("head_bytes")))
}

/// A value of the table, as a limit of type `T`.
trait Limit<T>: Sized {
    fn of(limit: T) -> Self;
    fn value(self) -> T;
}

/// Implements [`Limit`] for the types of integers that limits have. The bounds of each value are within those of its limit.
macro_rules! limit {
    ($kind:ident: $($limit:ty),+) => {
        $(limit!(@ [] $kind: $limit);)+
    };
    ($kind:ident<MIN, MAX>: $($limit:ty),+) => {
        $(limit!(@ [const MIN: u64, const MAX: u64] $kind<MIN, MAX>: $limit);)+
    };
    (@ [$($bounds:tt)*] $kind:ty: $limit:ty) => {
        impl<$($bounds)*> Limit<$limit> for $kind {
            fn of(limit: $limit) -> Self {
                Self(u64::try_from(limit).unwrap_or(u64::MAX))
            }

            fn value(self) -> $limit {
                <$limit>::try_from(self.0).unwrap_or(<$limit>::MAX)
            }
        }
    };
}

limit!(Size<MIN, MAX>: usize, u32, u64);
limit!(Int<MIN, MAX>: usize, u32, u64);
limit!(Maximum: usize, u64);

impl<T, L: Limit<T>> Limit<Option<T>> for Option<L> {
    fn of(limit: Option<T>) -> Self {
        limit.map(L::of)
    }

    fn value(self) -> Option<T> {
        self.map(L::value)
    }
}

impl Limit<Duration> for Timeout {
    fn of(limit: Duration) -> Self {
        Time(limit)
    }

    fn value(self) -> Duration {
        self.0
    }
}

impl Limit<Self> for u32 {
    fn of(limit: Self) -> Self {
        limit
    }

    fn value(self) -> Self {
        self
    }
}
