//! What a running server knows about its active requests and its busiest clients, paths and hosts.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use http::header::HOST;
use rudy_admin::{ActiveRequest, Connections, Filter, Holder, Outcomes, Phase, StatusReport};
use rudy_message::RequestHead;
use rudy_net::{ActiveExchange, ConnectionStates, ExchangePhase, Worker};
use rudy_pipeline::exchange::{self, ExchangeRecord};
use rudy_runtime::clock;
use rudy_service::Client;

use super::filter::{is_of_client, selects};
use super::top::Top;
use crate::metrics::{Metrics, RequestSnapshot};

/// Maximum length of a path, host or user in a report, in characters.
const TEXT_MAX: usize = 300;

/// Number of clients in the list of those with the most active requests.
const HOLDERS: usize = 20;

/// What a cache notes about requests that it does not forward.
const CACHED: [&str; 3] = ["hit", "collapsed", "only-if-cached"];

/// How long to wait for the answers of a worker. A worker that serves requests answers within milliseconds.
const PATIENCE: Duration = Duration::from_secs(1);

/// Whether a server keeps account of its requests, and the counts of the last seconds. A process has one.
pub struct Activity {
    is_on: Arc<AtomicBool>,
    top: Top,
    /// Makes a report with what only the running server knows.
    source: OnceLock<Box<Source>>,
}

type Source = dyn Fn(Selection<'_>) -> StatusReport + Send + Sync;

impl Default for Activity {
    fn default() -> Self {
        Self { is_on: Arc::default(), top: Top::new(), source: OnceLock::new() }
    }
}

impl fmt::Debug for Activity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Activity").field("is_on", &self.is_on).finish_non_exhaustive()
    }
}

/// Which active requests a report has, and how.
#[derive(Debug, Clone, Copy)]
pub struct Selection<'a> {
    /// Which requests are listed.
    pub filter: &'a Filter,
    /// The maximum number of active requests in the report.
    pub limit: usize,
    /// Whether paths include their queries, which may contain secrets.
    pub queries: bool,
}

impl Activity {
    /// Keeps account of requests from here on: something can show them.
    pub fn turn_on(&self) {
        self.is_on.store(true, Ordering::Relaxed);
    }

    /// Sets what makes the reports of [`Self::current`]. Only the first call has an effect.
    pub fn set_source(&self, source: impl Fn(Selection<'_>) -> StatusReport + Send + Sync + 'static) {
        let _already_set = self.source.set(Box::new(source));
    }

    /// Returns the state of the server, with its upstreams. `None` in a process that does not serve. Waits for workers, so it must not be
    /// called on the thread of one.
    pub fn current(&self, selection: Selection<'_>) -> Option<StatusReport> {
        self.source.get().map(|source| source(selection))
    }

    /// Returns the switch of [`Self::turn_on`].
    pub fn switch(&self) -> &Arc<AtomicBool> {
        &self.is_on
    }

    /// Whether active requests need a record.
    pub fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    /// Counts a request among those of its client, path and host.
    pub fn count(&self, head: &RequestHead<'_>, client: &Client<'_>) {
        if self.is_on() {
            self.top.count(head, client);
        }
    }

    /// Returns the state of the server. The upstreams are left to the caller.
    pub fn report(&self, metrics: &Metrics, selection: Selection<'_>) -> StatusReport {
        let workers = metrics.workers();
        let sum = |count: fn(&Worker) -> u64| workers.iter().map(|worker| count(worker)).sum::<u64>();
        let answers = ask(workers);
        let now = clock::now();
        let busy_workers = (1..).zip(&answers).filter(|(_, (_, is_complete))| !is_complete);
        let busy_workers = busy_workers.map(|(number, _)| number).collect();
        let all: Vec<_> = answers.into_iter().flat_map(|(exchanges, _)| exchanges).collect();
        let mut active: Vec<_> =
            all.iter().filter_map(|exchange| request(exchange, now, selection.queries)).collect();
        let connections = connections(metrics.connection_states(), &all);
        let holders = holders(&active);
        active.retain(|request| selects(selection.filter, request));
        active.sort_by_key(|request| std::cmp::Reverse(request.age_ms));
        let active_requests = active.len();
        active.truncate(selection.limit);
        StatusReport {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            uptime_ms: u64::try_from(metrics.uptime().as_millis()).unwrap_or(u64::MAX),
            requests: sum(|worker| worker.counters.requests.get()),
            rejected: sum(|worker| worker.counters.rejected.get()),
            sent_bytes: sum(|worker| worker.counters.sent_bytes.get()),
            received_bytes: sum(|worker| worker.counters.received_bytes.get()),
            dropped_datagrams: sum(|worker| worker.counters.http3.dropped_datagrams.get()),
            connections,
            busy_workers,
            active_requests,
            active,
            holders,
            top: self.top.lists(),
            upstreams: Vec::new(),
            outcomes: metrics.requests_by_route().map(|requests| outcomes(&requests)),
        }
    }

    /// Ends the active request with this id. Returns the number of requests that were ended.
    pub fn kill(metrics: &Metrics, id: &str) -> usize {
        kill_where(metrics, |record| id_of(record) == id)
    }

    /// Ends all active requests of a client, or of all clients in a network.
    pub fn kill_client(metrics: &Metrics, address: &str) -> usize {
        kill_where(metrics, |record| is_of_client(&address_of(record), address))
    }
}

fn kill_where(metrics: &Metrics, is_selected: impl Fn(&ExchangeRecord) -> bool) -> usize {
    let (mut killed, workers) = (0, metrics.workers());
    for (worker, (exchanges, _)) in workers.iter().zip(ask(workers)) {
        for exchange in exchanges {
            let is_selected = exchange::of(exchange.observer()).is_some_and(&is_selected);
            killed += usize::from(is_selected && worker.kill(&exchange));
        }
    }
    killed
}

/// Asks all workers what their connections wait for. Returns the exchanges of each, and whether the worker has answered.
fn ask(workers: &[Arc<Worker>]) -> Vec<(Vec<Arc<ActiveExchange>>, bool)> {
    let questions: Vec<_> = workers.iter().map(|worker| worker.ask()).collect();
    let until = clock::now() + PATIENCE;
    questions.into_iter().map(|question| question.answers(until)).collect()
}

fn connections(states: ConnectionStates, active: &[Arc<ActiveExchange>]) -> Connections {
    let ConnectionStates { open, idle, handshaking } = states;
    let count = |phase| active.iter().filter(|exchange| exchange.phase() == phase).count();
    Connections {
        open,
        idle,
        handshaking,
        receiving: count(ExchangePhase::Receiving),
        waiting: count(ExchangePhase::Waiting),
        sending: count(ExchangePhase::Sending),
        tunnels: count(ExchangePhase::Tunnel),
    }
}

/// Adds up the finished requests of all routes.
fn outcomes(requests: &RequestSnapshot) -> Outcomes {
    let mut sum = Outcomes { cached: vec![0; 2], ..Outcomes::default() };
    for (word, count) in &requests.caches {
        sum.cached[usize::from(!CACHED.contains(&word.as_str()))] += count;
    }
    for route in &requests.routes {
        for (sum, more) in [(&mut sum.classes, &route.classes[..]), (&mut sum.buckets, &route.buckets[..])] {
            sum.resize(more.len(), 0);
            sum.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
        }
    }
    sum
}

/// Returns the clients with the most active requests.
fn holders(active: &[ActiveRequest]) -> Vec<Holder> {
    let mut clients: HashMap<String, Holder> = HashMap::new();
    for request in active {
        let holder = clients.entry(request.client.clone()).or_insert_with(|| Holder {
            client: request.client.clone(),
            active: 0,
            oldest_ms: 0,
        });
        holder.active += 1;
        holder.oldest_ms = holder.oldest_ms.max(request.age_ms);
    }
    let mut holders: Vec<_> = clients.into_values().collect();
    holders.sort_unstable_by(|a, b| b.active.cmp(&a.active).then_with(|| a.client.cmp(&b.client)));
    holders.truncate(HOLDERS);
    holders
}

/// Returns the id of a request for the operator: the numbers of its connection, and of the request on it.
fn id_of(record: &ExchangeRecord) -> String {
    let client = record.client();
    format!("{}.{}", client.connection_number, client.request_number)
}

/// Returns the address of the client, without its port.
fn address_of(record: &ExchangeRecord) -> String {
    let address = record.client().address();
    address.ip().map_or_else(|| address.to_string(), |ip| ip.to_string())
}

/// Describes an active request.
fn request(exchange: &ActiveExchange, now: Instant, queries: bool) -> Option<ActiveRequest> {
    let record = exchange::of(exchange.observer())?;
    let (info, phase) = (record.request()?, exchange.phase());
    let path = if queries { info.target() } else { info.path() };
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).chars().take(TEXT_MAX).collect::<String>();
    let notes = record.notes();
    let upstream = notes.upstream.as_ref().and_then(|upstream| upstream.address.as_ref());
    let age = now.saturating_duration_since(exchange.since());
    Some(ActiveRequest {
        id: id_of(record),
        age_ms: u64::try_from(age.as_millis()).unwrap_or(u64::MAX),
        phase: match phase {
            ExchangePhase::Receiving => Phase::Receiving,
            ExchangePhase::Waiting => Phase::Waiting,
            ExchangePhase::Sending => Phase::Sending,
            ExchangePhase::Tunnel => Phase::Tunnel,
        },
        client: address_of(record),
        method: info.method().to_string(),
        host: info.field(&HOST).map(text),
        path: text(path),
        version: info.protocol().to_owned(),
        route: notes.route.as_ref().map(ToString::to_string),
        upstream: upstream.map(ToString::to_string),
        user: notes.user.as_deref().map(|user| user.chars().take(TEXT_MAX).collect()),
        received_bytes: record.request_body_bytes() + exchange.received_bytes(),
        sent_bytes: exchange.sent_bytes(),
    })
}
