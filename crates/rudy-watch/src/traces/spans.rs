//! The spans of a finished exchange, with the attributes of the semantic conventions of OpenTelemetry for HTTP (version 1.38).

use std::net::IpAddr;
use std::time::{Duration, Instant, SystemTime};

use http::{Method, header};
use rudy_pipeline::digits::{IP_BYTES_MAX, write_ip};
use rudy_pipeline::exchange::trace::Trace;
use rudy_pipeline::exchange::{Finished, RequestInfo, RouteName, Span as Part, UpstreamName, Work};
use rudy_service::EndReason;
use rudy_trace::otlp::{Attributes, Kind, Span, write_span};

use crate::access_log::ended_word;

/// The methods that spans show; all others are one (`http.request.method`).
static METHODS: [Method; 9] = [
    Method::CONNECT,
    Method::DELETE,
    Method::GET,
    Method::HEAD,
    Method::OPTIONS,
    Method::PATCH,
    Method::POST,
    Method::PUT,
    Method::TRACE,
];

/// Converts times of the monotonic clock into nanoseconds since 1970.
#[derive(Clone, Copy)]
struct Times {
    now: Instant,
    now_ns: u64,
    /// When the exchange has begun: a part of it cannot have begun earlier, although the time of a worker is that of its last poll.
    start_ns: u64,
}

impl Times {
    fn at(self, instant: Instant) -> u64 {
        let ago = nanos(self.now.saturating_duration_since(instant));
        self.now_ns.saturating_sub(ago).max(self.start_ns)
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Appends the spans of an exchange that ends now. Returns their number.
pub(super) fn write(exchange: &Finished<'_>, now: Instant, utc: SystemTime, out: &mut Vec<u8>) -> u64 {
    let (Some(trace), Some(spans)) = (exchange.trace, &exchange.notes.spans) else { return 0 };
    let now_ns = nanos(utc.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default());
    let start_ns = now_ns.saturating_sub(nanos(exchange.outcome.duration));
    let times = Times { now, now_ns, start_ns };
    write_server(exchange, trace, times, out);
    let mut attempts = 0;
    for part in &spans.children {
        let is_attempt = matches!(part.what, Work::Upstream(_));
        write_part(exchange, trace, part, attempts, times, out);
        attempts += u32::from(is_attempt);
    }
    1 + spans.children.len() as u64
}

/// The span of the exchange itself.
fn write_server(exchange: &Finished<'_>, trace: &Trace, times: Times, out: &mut Vec<u8>) {
    let Finished { outcome, notes, .. } = exchange;
    let status = outcome.status.map_or(0, |status| status.as_u16());
    let was_cut = matches!(outcome.end_reason, EndReason::Aborted | EndReason::ServerStopped);
    let route = notes.route.as_deref().and_then(|route| route.path.as_deref());
    let span = Span {
        own: trace.own,
        parent: trace.parent,
        has_remote_parent: trace.parent.is_some(),
        state: &trace.state,
        name: &name_of(method(exchange), route),
        kind: Kind::Server,
        start_ns: times.start_ns,
        end_ns: times.now_ns,
        // Errors of clients are none of the server.
        has_failed: status >= 500 || was_cut,
    };
    let redirects = notes.spans.iter().flat_map(|spans| &spans.redirects);
    write_span(
        &span,
        |to| write_attributes(exchange, status, to),
        |events| {
            for (time, route) in redirects {
                let attributes = |to: &mut Attributes<'_, '_>| write_route(route, to);
                events.event(times.at(*time), "internal redirect", attributes);
            }
        },
        out,
    );
}

fn write_attributes(exchange: &Finished<'_>, status: u16, to: &mut Attributes<'_, '_>) {
    let Finished { client, request, notes, outcome, .. } = exchange;
    write_method(exchange, to);
    to.text("url.scheme", client.scheme().as_str().as_bytes());
    if let Some(request) = request {
        to.text("url.path", request.path());
        to.text("network.protocol.version", version(request.protocol()));
        if let Some(host) = request.field(&header::HOST) {
            write_host(host, to);
        }
        if let Some(agent) = request.field(&header::USER_AGENT) {
            to.text("user_agent.original", agent);
        }
    }
    if let Some(ip) = client.address().ip() {
        write_address("client.address", ip, to);
    }
    if let Some(ip) = client.forwarded.as_ref().and_then(|_| client.peer.ip()) {
        write_address("network.peer.address", ip, to);
    }
    if status > 0 {
        to.number("http.response.status_code", status.into());
    }
    to.number("http.response.body.size", outcome.body_bytes);
    if exchange.request_body_bytes > 0 {
        to.number("http.request.body.size", exchange.request_body_bytes);
    }
    if let Some(route) = &notes.route {
        write_route(route, to);
    }
    if let Some(id) = exchange.id {
        to.text("rudy.request_id", id.as_bytes());
    }
    if let Some(limit) = &notes.limit {
        to.text("rudy.limit", limit.as_bytes());
    }
    if outcome.end_reason != EndReason::Completed {
        to.text("error.type", ended_word(outcome.end_reason).as_bytes());
    } else if status >= 500 {
        to.text("error.type", status.to_string().as_bytes());
    }
}

/// A span within the exchange; `resent` attempts came before it.
fn write_part(
    exchange: &Finished<'_>,
    trace: &Trace,
    part: &Part,
    resent: u32,
    times: Times,
    out: &mut Vec<u8>,
) {
    let (name, kind) = match part.what {
        Work::Authorization => ("authorization", Kind::Client),
        Work::Cache => ("cache", Kind::Internal),
        Work::Upstream("http") => (method(exchange).0, Kind::Client),
        Work::Upstream(protocol) => (protocol, Kind::Client),
    };
    let status = part.status.map_or(0, |status| status.as_u16());
    let span = Span {
        own: trace.own.with_span(part.id),
        parent: Some(part.parent),
        has_remote_parent: false,
        state: &trace.state,
        name,
        kind,
        start_ns: times.at(part.begun),
        // What has not ended before its exchange is not needed any longer.
        end_ns: part.ended.map_or(times.now_ns, |ended| times.at(ended)),
        // A client has failed if the server does not do what it has asked for. An authorizer may say no.
        has_failed: part.error.is_some()
            || status >= if part.what == Work::Authorization { 500 } else { 400 },
    };
    let attributes = |to: &mut Attributes<'_, '_>| {
        match part.what {
            Work::Upstream("http") => write_method(exchange, to),
            Work::Upstream(protocol) => to.text("network.protocol.name", protocol.as_bytes()),
            Work::Cache => to.text("rudy.cache.status", exchange.notes.cache.unwrap_or_default().as_bytes()),
            Work::Authorization => {}
        }
        if let (Work::Upstream(_), 1..) = (part.what, resent) {
            to.number("http.request.resend_count", resent.into());
        }
        match &part.address {
            Some(UpstreamName::Ip(address)) => {
                write_address("server.address", address.ip(), to);
                to.number("server.port", address.port().into());
            }
            Some(UpstreamName::Other(name)) => to.text("server.address", name.to_string().as_bytes()),
            None => {}
        }
        if status > 0 {
            to.number("http.response.status_code", status.into());
        }
        match &part.error {
            Some(error) => to.text("error.type", error.as_bytes()),
            None if span.has_failed => to.text("error.type", status.to_string().as_bytes()),
            None => {}
        }
    };
    write_span(&span, attributes, |_| (), out);
}

/// The method for the name of a span, and for its attribute.
fn method(exchange: &Finished<'_>) -> (&'static str, &'static str) {
    let method = exchange.request.map(RequestInfo::method);
    let known = method.and_then(|method| METHODS.iter().find(|known| *known == method));
    known.map_or(("HTTP", "_OTHER"), |known| (known.as_str(), known.as_str()))
}

fn write_method(exchange: &Finished<'_>, to: &mut Attributes<'_, '_>) {
    let (_, name) = method(exchange);
    to.text("http.request.method", name.as_bytes());
    if let Some(request) = exchange.request.filter(|_| name == "_OTHER") {
        to.text("http.request.method_original", request.method().as_str().as_bytes());
    }
}

fn name_of((method, _): (&str, &str), route: Option<&str>) -> String {
    route.map_or_else(|| method.to_owned(), |route| [method, " ", route].concat())
}

fn write_route(route: &RouteName, to: &mut Attributes<'_, '_>) {
    if let Some(path) = &route.path {
        to.text("http.route", path.as_bytes());
    }
    if !route.site.is_empty() {
        to.text("rudy.site", route.site.as_bytes());
    }
}

/// Writes a host and its port.
fn write_host(host: &[u8], to: &mut Attributes<'_, '_>) {
    // The colons of an IPv6 address are in brackets.
    let colon = host.iter().rposition(|byte| *byte == b':').filter(|colon| !host[*colon..].contains(&b']'));
    let (name, port) = colon.map_or((host, None), |colon| (&host[..colon], Some(&host[colon + 1..])));
    to.text("server.address", name);
    if let Some(port) = port.and_then(|port| std::str::from_utf8(port).ok()?.parse::<u16>().ok()) {
        to.number("server.port", port.into());
    }
}

fn write_address(key: &str, ip: IpAddr, to: &mut Attributes<'_, '_>) {
    let mut text = [0; IP_BYTES_MAX];
    let mut rest = &mut text[..];
    // There is room for every address.
    if write_ip(ip.to_canonical(), &mut rest).is_ok() {
        let length = IP_BYTES_MAX - rest.len();
        to.text(key, &text[..length]);
    }
}

/// The version of a protocol as in a request line.
fn version(protocol: &str) -> &[u8] {
    match protocol {
        "HTTP/2.0" => b"2",
        "HTTP/3.0" => b"3",
        other => other.strip_prefix("HTTP/").unwrap_or(other).as_bytes(),
    }
}
