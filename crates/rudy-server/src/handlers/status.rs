//! The `status` handler: the server's counters as JSON.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime};

use http::{HeaderValue, StatusCode, header};
use rudy_config::Problem;
use rudy_net::engine::Model;
use rudy_net::{ConnectionStates, Counters, Reply, Request, Response, Worker};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{BuildContext, Call, Handler, HandlerConfig};
use crate::client_address::AllowedClients;
use crate::exchange::RouteName;
use crate::methods::respond_unless_read;
use crate::metrics::{RequestMetrics, RequestSnapshot};
use crate::routes::{Context, Routes};

/// The metrics of the process. They survive reloads.
#[derive(Debug)]
pub struct Metrics {
    started: Instant,
    start_time: SystemTime,
    engine: OnceLock<(Model, Vec<Arc<Worker>>)>,
    requests: RequestMetrics,
    /// Whether a configuration counts requests by route.
    counts_requests: AtomicBool,
}

impl Metrics {
    /// Starts the uptime now, for one worker.
    #[must_use]
    pub fn new() -> Self {
        Self::of_workers(1)
    }

    /// Starts the uptime now, for an engine with this number of workers.
    #[must_use]
    pub fn of_workers(workers: usize) -> Self {
        Self {
            started: Instant::now(),
            start_time: SystemTime::now(),
            engine: OnceLock::new(),
            requests: RequestMetrics::new(workers),
            counts_requests: AtomicBool::new(false),
        }
    }

    /// Sets the engine and its workers. Only the first call has an effect.
    pub fn set_engine(&self, model: Model, workers: Vec<Arc<Worker>>) {
        let _already_set = self.engine.set((model, workers));
    }

    /// Returns the workers, after the start of the engine.
    pub(crate) fn workers(&self) -> &[Arc<Worker>] {
        self.engine.get().map_or(&[], |(_, workers)| workers)
    }

    /// Returns the time since the start.
    pub(crate) fn uptime(&self) -> Duration {
        self.started.elapsed()
    }

    /// Returns the engine after its start.
    pub(crate) fn engine(&self) -> Option<Model> {
        self.engine.get().map(|(model, _)| *model)
    }

    /// Returns the time of its creation, at the start of the process.
    pub(crate) fn start_time(&self) -> SystemTime {
        self.start_time
    }

    /// Returns the sum of a counter over the workers.
    pub(crate) fn sum(&self, count: fn(&Counters) -> u64) -> u64 {
        self.workers().iter().map(|worker| count(&worker.counters)).sum()
    }

    /// Returns the number of connections of all workers by state.
    pub(crate) fn connection_states(&self) -> ConnectionStates {
        let states = self.workers().iter().map(|worker| worker.connection_states());
        states.fold(ConnectionStates::default(), |sum, states| ConnectionStates {
            open: sum.open + states.open,
            idle: sum.idle + states.idle,
            handshaking: sum.handshaking + states.handshaking,
        })
    }

    /// Returns the number of requests so far, including those in progress.
    pub(super) fn requests(&self) -> u64 {
        self.sum(|counters| counters.requests.get())
    }

    /// Returns the counters of requests by route, from now on in use.
    pub(crate) fn count_requests(&self) -> &RequestMetrics {
        self.counts_requests.store(true, Ordering::Relaxed);
        &self.requests
    }

    /// Goes on with the counters of the routes that a configuration has, too.
    pub(crate) fn keep_routes<'r>(&self, routes: impl Iterator<Item = &'r RouteName>) {
        self.requests.keep(routes);
    }

    /// Returns what was counted by route; `None` if no configuration counts.
    pub(crate) fn requests_by_route(&self) -> Option<RequestSnapshot> {
        self.counts_requests.load(Ordering::Relaxed).then(|| self.requests.snapshot())
    }

    /// Returns the sums of all counters over the workers.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let sum = |count: fn(&Counters) -> u64| self.sum(count);
        json!({
            "version": env!("CARGO_PKG_VERSION"),
            "uptime_s": self.started.elapsed().as_secs(),
            "engine": self.engine().map(|model| model.to_string()),
            "workers": self.workers().len(),
            "connections": {
                "open": self.connection_states().open,
                "accepted": sum(|counters| counters.accepted.get()),
                "queued": sum(|counters| counters.queued.get()),
                "over_limit": sum(|counters| counters.over_limit.get()),
                "evicted": sum(|counters| counters.evicted.get()),
                "dropped": sum(|counters| counters.dropped.get()),
            },
            "handshakes": {
                "completed": sum(|counters| counters.handshakes.get()),
                "resumed": sum(|counters| counters.resumed_handshakes.get()),
                "failed": sum(|counters| counters.failed_handshakes.get()),
            },
            "requests": {
                "received": sum(|counters| counters.requests.get()),
                "rejected": sum(|counters| counters.rejected.get()),
                "panicked": sum(|counters| counters.panics.get()),
            },
            "bytes": {
                "sent": sum(|counters| counters.sent_bytes.get()),
                "received": sum(|counters| counters.received_bytes.get()),
            },
            "memory": { "resident_bytes": resident_bytes() },
        })
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

/// Returns the second number of statm, which counts pages (proc(5)). `smaps_rollup` would separate shared pages, but it walks every
/// page table, which blocks the worker for milliseconds.
fn resident_bytes() -> Option<u64> {
    let statm = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = statm.split_ascii_whitespace().nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}

/// Shows the counters of the server as JSON: connections, requests, bytes, memory; and its certificates.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("examples" = [{ "allow": "loopback" }]))]
pub struct StatusTable {
    /// Clients that can see it. Clients with another address get 403. Use `"loopback"` (this machine, without a
    /// proxy), addresses, networks, or `"anyone"`.
    #[schemars(example = &"loopback")]
    pub allow: AllowedClients,
}

impl HandlerConfig for StatusTable {
    fn describe(&self) -> String {
        format!("for {}", self.allow)
    }

    fn build(&self, _: &BuildContext<'_>) -> Result<Box<dyn Handler>, Vec<Problem>> {
        Ok(Box::new(Status::new(self)))
    }
}

impl Handler for Status {
    fn call(&self, request: Request<'_>, call: Call<'_>) -> Reply {
        self.respond(&request, call.context).into()
    }
}

/// The handler with its allowed clients.
#[derive(Debug)]
pub(crate) struct Status {
    allowed: AllowedClients,
}

impl Status {
    pub(crate) fn new(table: &StatusTable) -> Self {
        Self { allowed: table.allow.clone() }
    }

    /// Responds to a request.
    pub(crate) fn respond(&self, request: &Request<'_>, context: Context<'_>) -> Response {
        let Routes { metrics, tls, .. } = &**context.routes;
        if let Some(rejection) =
            respond_unless_read(request).or_else(|| self.allowed.reject(request, context))
        {
            return rejection;
        }
        let mut status = metrics.to_json();
        status["certificates"] = json!(tls.certificates());
        let text = format!("{status}\n");
        let mut response = Response::text(StatusCode::OK, "application/json", text);
        response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        response
    }
}

#[cfg(test)]
mod tests {
    use rudy_net::{Body, Client, Peer, RequestBody};

    use super::*;
    use crate::config::from_text;

    fn request(allow: &str, peer: Peer, metrics: &Arc<Metrics>) -> Response {
        let request = http::Request::get("/status").header(header::HOST, "localhost");
        let routes = Arc::new(Routes { metrics: metrics.clone(), ..Routes::none() });
        let (request, client) =
            (request.body(RequestBody::empty()).map(Request::from).unwrap(), Client::new(peer, 1, 1));
        let status = Status::new(&from_text(&format!("allow = '{allow}'")).unwrap());
        status.respond(&request, Context::new(&client, &routes))
    }

    #[test]
    fn the_counters_of_all_workers_are_added_up() {
        let (one, two) = (Arc::new(Worker::default()), Arc::new(Worker::default()));
        one.counters.accepted.add(5);
        two.counters.accepted.add(2);
        one.counters.closed.add(3);
        two.counters.dropped.add(9);
        one.counters.evicted.add(1);
        two.counters.evicted.add(3);
        two.counters.requests.add(11);
        two.counters.sent_bytes.add(1000);
        let metrics = Arc::new(Metrics::new());
        metrics.set_engine(Model::PerCore, vec![one, two]);
        let response = request("loopback", Peer::Unix, &metrics);
        let Body::Bytes(body) = response.body else { panic!("a body") };
        let json: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(
            json["connections"],
            json!({ "open": 4, "accepted": 7, "queued": 0, "over_limit": 0, "evicted": 4, "dropped": 9 })
        );
        assert_eq!(json["requests"]["received"], 11);
        assert_eq!(json["bytes"]["sent"], 1000);
        assert!(json["memory"]["resident_bytes"].as_u64().unwrap() > 100_000);
    }

    #[test]
    fn other_clients_get_403() {
        let metrics = Arc::new(Metrics::new());
        let near = Peer::Ip(([127, 0, 0, 1], 1).into());
        let far = Peer::Ip(([192, 0, 2, 1], 1).into());
        assert_eq!(request("loopback", near, &metrics).status(), 200);
        assert_eq!(request("loopback", Peer::Unix, &metrics).status(), 200);
        assert_eq!(request("loopback", far, &metrics).status(), 403);
        assert_eq!(request("anyone", far, &metrics).status(), 200);
    }
}
