//! Limits as they are written, with the bounds within which they make sense. The upper bounds keep a slip of the pen (a GB for a
//! head) from giving the memory to any client; the lower ones leave the server able to respond to a browser.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::values::{Int, Size, Time, Timeout};
use super::{Place, Problem};

const MIB: u64 = 1 << 20;

type Positive = Int<1, { u64::MAX }>;

/// What a peer may send, how slowly, and for how long.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LimitsTable {
    /// Bytes of a request's head (431).
    pub head_bytes: Size<512, MIB>,
    /// Fields in a head or a trailer section (431).
    pub head_fields: Int<1, 1000>,
    /// Bytes of the request target (414).
    pub target_bytes: Size<64, MIB>,
    /// Bytes of a request's body (413).
    pub body_bytes: Size,
    /// Bytes of chunk extensions in one body (400).
    pub chunk_extension_bytes: Size<0, MIB>,
    /// Bytes of a request's body that are read and thrown away after an early answer, so that the connection can go on.
    pub drain_bytes: Size<0, { 64 * MIB }>,
    /// From the first byte of a head to its end (408).
    pub head_timeout: Timeout,
    /// From the accept to the first byte of the first request (closed silently).
    pub first_request_timeout: Timeout,
    /// Between a response and the next request (closed silently).
    pub idle_timeout: Timeout,
    /// Bytes a second that a request's body must bring on average once `rate_grace` is over (408). 0: no minimum.
    pub body_rate_min: u32,
    /// Bytes a second that a peer must take of an answer on average once `rate_grace` is over (cut). 0: no minimum.
    pub send_rate_min: u32,
    /// How long a body or an answer may be slower than its minimum rate. One that was faster before may pause for three
    /// times as long, and no longer.
    pub rate_grace: Timeout,
    /// How long an answer may make no progress at all (cut).
    pub send_stall_timeout: Timeout,
    /// How long a request may wait after its client has closed its sending side, without a byte of the response written
    /// (cancelled).
    pub half_close_timeout: Timeout,
    /// Requests answered on one connection before it is closed. No limit if absent.
    #[schemars(example = 1000)]
    pub requests_per_connection: Option<Positive>,
    /// Connections open at once. Beyond it the longest-idle connection of the address that has most is closed for a new one; if
    /// none is idle, the new one is answered 503. If absent, as many as the descriptor limit leaves room for.
    #[schemars(example = 10_000)]
    pub connections: Option<Positive>,
    /// Connections open at once from one address. No limit if absent, because many people share one.
    #[schemars(example = 100)]
    pub connections_per_address: Option<Positive>,
    /// How long a connection that is being closed may go on sending before it is dropped.
    pub linger_timeout: Timeout,
    /// How many bytes it may go on sending.
    pub linger_bytes: Size<0, { 64 * MIB }>,
    /// From the accept to the end of the PROXY protocol header, where one is required (closed).
    pub proxy_header_timeout: Timeout,
}

impl LimitsTable {
    /// What a type cannot say. What is `wrong` was left out.
    pub(super) fn problem(&self, place: &Place, wrong: &[Place]) -> Option<Problem> {
        let compared = ["target_bytes", "head_bytes"].map(|key| place.key(key));
        if wrong.iter().any(|wrong| compared.contains(wrong)) || self.target_bytes.0 <= self.head_bytes.0 {
            return None;
        }
        let title =
            format!("target_bytes ({}) is more than head_bytes ({})", self.target_bytes, self.head_bytes);
        let problem = Problem::value(&place.key("target_bytes"), title);
        Some(problem.label("the target is a part of the head"))
    }
}

impl Default for LimitsTable {
    fn default() -> Self {
        (&rudy_net::Limits::default()).into()
    }
}

impl From<&rudy_net::Limits> for LimitsTable {
    fn from(limits: &rudy_net::Limits) -> Self {
        // Every field is named, so that a limit that is added below does not compile until it can be set.
        let rudy_net::Limits {
            http,
            connections,
            connections_per_address,
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
        } = http;
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
            connections: connections.map(positive),
            connections_per_address: connections_per_address.map(positive),
            linger_timeout: Time(*linger_timeout),
            linger_bytes: Size(*linger_bytes),
            proxy_header_timeout: Time(*proxy_header_timeout),
        }
    }
}

impl From<LimitsTable> for rudy_net::Limits {
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
            },
            connections: table.connections.map(Int::as_usize),
            connections_per_address: table.connections_per_address.map(Int::as_usize),
            linger_timeout: table.linger_timeout.0,
            linger_bytes: table.linger_bytes.0,
            proxy_header_timeout: table.proxy_header_timeout.0,
        }
    }
}

fn positive(count: usize) -> Positive {
    Int(count as u64)
}
