//! Writes all metrics.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use rudy_admin::{UpstreamState, UpstreamStatus};
use rudy_client::buffer::Buffers;
use rudy_log::lost_lines;
use rudy_net::{ConnectionStates, Counters, http2_stored_bytes};

use super::Metrics;
use super::exposition::{Exposition, Format, Kind};
use super::process;
use super::requests::{BOUNDS_US, BUCKETS, CLASSES, RequestSnapshot};
use crate::traces::{Counts, Exporters};

/// What the metrics are read from.
pub struct Sources<'a> {
    /// The counters of the workers and of requests.
    pub metrics: &'a Metrics,
    /// What is stored of bodies.
    pub buffers: &'a Buffers,
    /// The upstreams of the configuration.
    pub upstreams: Vec<UpstreamStatus>,
    /// Failed reads and writes of the cache, if there is one.
    pub cache_errors: Option<[u64; 2]>,
    /// The requests that each limit has rejected.
    pub limits: BTreeMap<String, u64>,
    /// What exports spans.
    pub exporters: &'a Exporters,
}

/// Writes the metrics. Takes milliseconds for thousands of series: never on a worker.
#[must_use]
pub fn render(sources: &Sources<'_>, format: Format) -> String {
    let mut out = Exposition::new(format);
    let metrics = sources.metrics;
    out.begin("rudy_build_info", Kind::Gauge, "The version of Rudy, and its engine. The value is 1.");
    let engine = metrics.engine().map(|engine| engine.to_string()).unwrap_or_default();
    out.sample("rudy_build_info", &[("version", env!("CARGO_PKG_VERSION")), ("engine", &engine)], 1);
    process::write(&mut out, metrics.start_time());
    connections(&mut out, metrics);
    http3(&mut out, metrics);
    if let Some(requests) = metrics.requests_by_route() {
        write_requests(&mut out, &requests);
    }
    let name = "rudy_limited_requests_total";
    out.begin(name, Kind::Counter, "Requests that a limit has rejected.");
    for (limit, count) in &sources.limits {
        out.sample(name, &[("limit", limit)], count);
    }
    upstreams(&mut out, &sources.upstreams);
    out.begin("rudy_buffered_body_bytes", Kind::Gauge, "Bytes of buffered bodies.");
    for (place, bytes) in [("memory", sources.buffers.in_memory()), ("disk", sources.buffers.on_disk())] {
        out.sample("rudy_buffered_body_bytes", &[("place", place)], bytes);
    }
    if let Some(errors) = sources.cache_errors {
        let name = "rudy_cache_disk_errors_total";
        out.begin(name, Kind::Counter, "Errors of the disk of the cache. Each is a miss.");
        for (operation, count) in ["read", "write"].into_iter().zip(errors) {
            out.sample(name, &[("operation", operation)], count);
        }
    }
    if let Some(counts) = sources.exporters.counts() {
        let name = "rudy_trace_spans_total";
        out.begin(name, Kind::Counter, "Spans by what became of them.");
        let Counts { exported, dropped, rejected, failed } = counts;
        for (result, count) in
            [("exported", exported), ("dropped", dropped), ("rejected", rejected), ("failed", failed)]
        {
            out.sample(name, &[("result", result)], count.load(Ordering::Relaxed));
        }
    }
    let help = "Log lines lost because writing was too slow or failed.";
    out.single("rudy_log_lines_lost_total", Kind::Counter, help, lost_lines());
    out.finish()
}

/// A counter of the workers: its name, what it counts, and its value on a worker.
type SingleCounter = (&'static str, &'static str, fn(&Counters) -> u64);

/// Writes the counters of connections.
fn connections(out: &mut Exposition, metrics: &Metrics) {
    let ConnectionStates { open, idle, handshaking } = metrics.connection_states();
    // A connection in a handshake has no request.
    let idle = (idle + handshaking).min(open);
    out.begin("rudy_connections", Kind::Gauge, "Open connections of clients: idle, or with a request.");
    for (state, count) in [("idle", idle), ("active", open - idle)] {
        out.sample("rudy_connections", &[("state", state)], count);
    }
    let counters: [SingleCounter; 11] = [
        ("rudy_connections_accepted_total", "Accepted connections.", |counters| counters.accepted.get()),
        ("rudy_connections_over_limit_total", "Connections rejected because of a limit.", |counters| {
            counters.over_limit.get()
        }),
        (
            "rudy_connections_evicted_total",
            "Idle connections closed to make room for new ones.",
            |counters| counters.evicted.get(),
        ),
        ("rudy_connections_queued_total", "Connections that waited for a free thread.", |counters| {
            counters.queued.get()
        }),
        ("rudy_stream_clients_dropped_total", "Clients that fell too far behind a stream.", |counters| {
            counters.dropped.get()
        }),
        (
            "rudy_http2_pauses_total",
            "Pauses of HTTP/2 and HTTP/3 connections because all of them store too much of request bodies.",
            |counters| counters.paused.get(),
        ),
        ("rudy_received_bytes_total", "Bytes received from clients.", |counters| {
            counters.received_bytes.get()
        }),
        ("rudy_sent_bytes_total", "Bytes sent to clients.", |counters| counters.sent_bytes.get()),
        ("rudy_http_requests_received_total", "Requests received, of all routes.", |counters| {
            counters.requests.get()
        }),
        (
            "rudy_http_requests_rejected_total",
            "Requests that violated the protocol or a limit of it.",
            |counters| counters.rejected.get(),
        ),
        ("rudy_panics_total", "Panics. Each is a bug in Rudy.", |counters| counters.panics.get()),
    ];
    for (name, help, count) in counters {
        out.single(name, Kind::Counter, help, metrics.sum(count));
    }
    let name = "rudy_http2_stored_bytes";
    out.single(
        name,
        Kind::Gauge,
        "Bytes of HTTP/2 and HTTP/3 request bodies that no handler has read.",
        http2_stored_bytes(),
    );
    let resumed = metrics.sum(|counters| counters.resumed_handshakes.get());
    let full = metrics.sum(|counters| counters.handshakes.get()).saturating_sub(resumed);
    let failed = metrics.sum(|counters| counters.failed_handshakes.get());
    out.begin("rudy_tls_handshakes_total", Kind::Counter, "TLS handshakes by their result.");
    for (result, count) in [("full", full), ("resumed", resumed), ("failed", failed)] {
        out.sample("rudy_tls_handshakes_total", &[("result", result)], count);
    }
}

/// Writes the counters of HTTP/3.
fn http3(out: &mut Exposition, metrics: &Metrics) {
    let sum = |count| metrics.sum(count);
    let connections = sum(|counters| counters.http3.connections.get());
    let help = "HTTP/3 connections whose handshake was completed.";
    out.single("rudy_http3_connections_total", Kind::Counter, help, connections);
    let help = "Clients that first had to show that they receive at their address (Retry).";
    out.single("rudy_http3_retries_total", Kind::Counter, help, sum(|counters| counters.http3.retries.get()));
    let name = "rudy_http3_datagrams_total";
    out.begin(name, Kind::Counter, "UDP datagrams by what became of them.");
    for (result, count) in [
        ("received", sum(|counters| counters.http3.received_datagrams.get())),
        ("sent", sum(|counters| counters.http3.sent_datagrams.get())),
        ("dropped", sum(|counters| counters.http3.dropped_datagrams.get())),
        ("passed_on", sum(|counters| counters.http3.passed_datagrams.get())),
        ("not_passed_on", sum(|counters| counters.http3.unpassed_datagrams.get())),
    ] {
        out.sample(name, &[("result", result)], count);
    }
    let lost = sum(|counters| counters.http3.lost_packets.get());
    out.single("rudy_http3_lost_packets_total", Kind::Counter, "Sent packets that were lost.", lost);
}

/// Writes the counters of requests by route.
fn write_requests(out: &mut Exposition, requests: &RequestSnapshot) {
    let help = "Requests in progress.";
    out.single("rudy_http_requests_in_flight", Kind::Gauge, help, requests.in_flight);
    let name = "rudy_http_requests_total";
    out.begin(name, Kind::Counter, "Finished requests by site, route and class of their status.");
    for route in &requests.routes {
        for (class, count) in CLASSES.iter().zip(route.classes).filter(|(_, count)| *count > 0) {
            out.sample(name, &[("site", &route.site), ("route", &route.route), ("status", class)], count);
        }
    }
    let name = "rudy_http_request_duration_seconds";
    out.begin(name, Kind::Histogram, "Time from the head of a request to the last byte of its response.");
    #[expect(clippy::cast_precision_loss, reason = "the bounds are small")]
    let bounds = BOUNDS_US.map(|bound| bound as f64 / 1e6);
    for route in requests.routes.iter().filter(|route| route.buckets != [0; BUCKETS]) {
        let labels = [("site", route.site.as_str()), ("route", &route.route)];
        out.histogram(name, &labels, &bounds, &route.buckets, route.duration.as_secs_f64());
    }
    for (name, help, bytes) in [
        ("rudy_http_request_body_bytes_total", "Bytes of request bodies.", 0),
        ("rudy_http_response_body_bytes_total", "Bytes of response bodies.", 1),
    ] {
        out.begin(name, Kind::Counter, help);
        for route in requests.routes.iter().filter(|route| route.buckets != [0; BUCKETS]) {
            let bytes = [route.request_body_bytes, route.response_body_bytes][bytes];
            out.sample(name, &[("site", &route.site), ("route", &route.route)], bytes);
        }
    }
    let name = "rudy_cache_requests_total";
    out.begin(name, Kind::Counter, "Requests that the cache has handled.");
    for (word, count) in &requests.caches {
        out.sample(name, &[("result", word)], count);
    }
}

/// Writes the state of the upstreams. Those of several pools with the same route and URL are added up.
fn upstreams(out: &mut Exposition, all: &[UpstreamStatus]) {
    let mut by_name: BTreeMap<(&str, &str), Vec<&UpstreamStatus>> = BTreeMap::new();
    for upstream in all {
        let route = upstream.routes.first().map_or("", String::as_str);
        by_name.entry((route, &upstream.url)).or_default().push(upstream);
    }
    let sum = |of: fn(&UpstreamStatus) -> u64| {
        let add =
            move |upstreams: &[&UpstreamStatus]| upstreams.iter().map(|upstream| of(upstream)).sum::<u64>();
        Box::new(add) as Box<dyn Fn(&[&UpstreamStatus]) -> u64>
    };
    let is_up = |upstream: &UpstreamStatus| u64::from(upstream.state == UpstreamState::Up);
    for (name, kind, help, value) in [
        ("rudy_upstream_up", Kind::Gauge, "1 if the upstream gets requests.", sum(is_up)),
        ("rudy_upstream_active_requests", Kind::Gauge, "Requests in progress.", sum(|one| one.active as u64)),
        (
            "rudy_upstream_open_connections",
            Kind::Gauge,
            "Connections to the upstream, idle or in use.",
            sum(|one| one.connections as u64),
        ),
        ("rudy_upstream_requests_total", Kind::Counter, "Requests to the upstream.", sum(|one| one.requests)),
        ("rudy_upstream_failures_total", Kind::Counter, "Failed requests.", sum(|one| one.failures)),
    ] {
        out.begin(name, kind, help);
        for ((route, url), upstreams) in &by_name {
            out.sample(name, &[("route", route), ("upstream", url)], value(upstreams));
        }
    }
    let name = "rudy_upstream_latency_seconds";
    out.begin(name, Kind::Gauge, "Moving average of the time from a request to its response.");
    for ((route, url), upstreams) in &by_name {
        if let Some(latency_us) = upstreams.iter().filter_map(|upstream| upstream.latency_us).max() {
            let latency = std::time::Duration::from_micros(latency_us).as_secs_f64();
            out.sample(name, &[("route", route), ("upstream", url)], latency);
        }
    }
}
