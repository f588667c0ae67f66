//! Counters of requests: per route, and per worker, so that cores do not contend for a cache line.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::available_parallelism;
use std::time::Duration;

use super::words::Words;
use crate::exchange::{Finished, RouteName};
use crate::upstream::here;

/// The maximum number of routes with counters of their own: those that have had requests first. All others are counted together.
pub(crate) const ROUTES_MAX: usize = 200;

/// The upper bounds of the buckets of durations, in microseconds. Above the last one is another bucket.
pub(crate) const BOUNDS_US: [u64; 13] = [
    100, 500, 1_000, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 2_500_000,
    10_000_000,
];

/// The number of buckets.
pub(crate) const BUCKETS: usize = BOUNDS_US.len() + 1;

/// Statuses by class, from 1xx to 5xx; the first is for requests without a status, whose clients were gone.
pub(crate) const CLASSES: [&str; 6] = ["none", "1xx", "2xx", "3xx", "4xx", "5xx"];

/// The number of names that caches and limits can have.
const WORDS: usize = 16;

/// The counters of requests. They survive reloads.
#[derive(Debug)]
pub(crate) struct RequestMetrics {
    routes: Mutex<Vec<Arc<RouteCounters>>>,
    others: Arc<RouteCounters>,
    totals: PerWorker<Totals>,
    caches: Words<WORDS>,
    limits: Words<WORDS>,
}

/// The counters of a route.
#[derive(Debug)]
pub(crate) struct RouteCounters {
    labels: Labels,
    workers: PerWorker<Counts>,
}

/// The labels of the series of a route. Routes with the same labels share their counters.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Labels {
    site: String,
    route: String,
}

/// Counters of all requests, on a worker.
#[derive(Debug, Default)]
struct Totals {
    began: AtomicU64,
    ended: AtomicU64,
    caches: [AtomicU64; WORDS],
    limits: [AtomicU64; WORDS],
}

/// Counters of requests of a route, on a worker.
#[derive(Debug, Default)]
struct Counts {
    classes: [AtomicU64; CLASSES.len()],
    buckets: [AtomicU64; BUCKETS],
    duration_us: AtomicU64,
    request_body_bytes: AtomicU64,
    response_body_bytes: AtomicU64,
}

/// What was counted for a route, on all workers.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct RouteSnapshot {
    pub(crate) site: String,
    pub(crate) route: String,
    /// By [`CLASSES`].
    pub(crate) classes: [u64; CLASSES.len()],
    /// By [`BOUNDS_US`]: the number of requests in each bucket.
    pub(crate) buckets: [u64; BUCKETS],
    pub(crate) duration: Duration,
    pub(crate) request_body_bytes: u64,
    pub(crate) response_body_bytes: u64,
}

/// What was counted on all workers.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct RequestSnapshot {
    /// The number of requests in progress.
    pub(crate) in_flight: u64,
    pub(crate) routes: Vec<RouteSnapshot>,
    /// The requests that a cache has handled, by what it did.
    pub(crate) caches: Vec<(String, u64)>,
    /// The requests that a limit has rejected or delayed.
    pub(crate) limits: Vec<(String, u64)>,
}

impl Default for RequestMetrics {
    fn default() -> Self {
        Self {
            routes: Mutex::default(),
            others: Arc::new(RouteCounters::new(Labels::new("other", "other"))),
            totals: PerWorker::default(),
            caches: Words::default(),
            limits: Words::default(),
        }
    }
}

impl RequestMetrics {
    /// Counts the beginning of a request.
    pub(crate) fn began(&self) {
        add(&self.totals.here().began, 1);
    }

    /// Counts the end of a request, also if it has no outcome.
    pub(crate) fn ended(&self) {
        add(&self.totals.here().ended, 1);
    }

    /// Counts a request with its outcome.
    pub(crate) fn count(&self, exchange: &Finished<'_>) {
        let notes = exchange.notes;
        let counters = match &notes.route {
            Some(route) => route.counters.get_or_init(|| self.counters_of(route)),
            None => &self.others,
        };
        counters.workers.here().count(exchange);
        if let Some(status) = notes.cache {
            add(&self.totals.here().caches[self.caches.place(status)], 1);
        }
        if let Some(limit) = &notes.limit {
            add(&self.totals.here().limits[self.limits.place(limit)], 1);
        }
    }

    /// Returns the counters of a route, which may be those of an earlier configuration.
    fn counters_of(&self, route: &RouteName) -> Arc<RouteCounters> {
        let labels = Labels::of(route);
        let mut routes = self.routes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = routes.iter().find(|known| known.labels == labels) {
            return known.clone();
        }
        if routes.len() >= ROUTES_MAX {
            return self.others.clone();
        }
        let counters = Arc::new(RouteCounters::new(labels));
        routes.push(counters.clone());
        counters
    }

    /// Adds up the counters of all workers.
    pub(crate) fn snapshot(&self) -> RequestSnapshot {
        let routes = self.routes.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let words = |words: &Words<WORDS>, counts: fn(&Totals) -> &[AtomicU64; WORDS]| {
            let counted = (0..WORDS).filter_map(|place| {
                let count = self.totals.sum(|totals| &counts(totals)[place]);
                Some((words.name(place)?.to_owned(), count)).filter(|_| count > 0)
            });
            counted.collect()
        };
        // Read `ended` first: a request that ends in between counts as in flight, and the difference is never negative.
        let ended = self.totals.sum(|totals| &totals.ended);
        RequestSnapshot {
            in_flight: self.totals.sum(|totals| &totals.began).saturating_sub(ended),
            routes: routes.iter().chain([&self.others]).map(|route| route.snapshot()).collect(),
            caches: words(&self.caches, |totals| &totals.caches),
            limits: words(&self.limits, |totals| &totals.limits),
        }
    }
}

impl Labels {
    fn new(site: &str, route: &str) -> Self {
        Self { site: site.to_owned(), route: route.to_owned() }
    }

    /// The default site has no host, and responses of the server itself no route.
    fn of(route: &RouteName) -> Self {
        let site = if route.site.is_empty() { "default" } else { &route.site };
        Self::new(site, route.path.as_deref().unwrap_or("none"))
    }
}

impl RouteCounters {
    fn new(labels: Labels) -> Self {
        Self { labels, workers: PerWorker::default() }
    }

    fn snapshot(&self) -> RouteSnapshot {
        let (workers, Labels { site, route }) = (&self.workers, self.labels.clone());
        RouteSnapshot {
            site,
            route,
            classes: std::array::from_fn(|class| workers.sum(|counts| &counts.classes[class])),
            buckets: std::array::from_fn(|bucket| workers.sum(|counts| &counts.buckets[bucket])),
            duration: Duration::from_micros(workers.sum(|counts| &counts.duration_us)),
            request_body_bytes: workers.sum(|counts| &counts.request_body_bytes),
            response_body_bytes: workers.sum(|counts| &counts.response_body_bytes),
        }
    }
}

impl Counts {
    fn count(&self, exchange: &Finished<'_>) {
        let outcome = exchange.outcome;
        let class = outcome.status.map_or(0, |status| usize::from(status.as_u16() / 100));
        add(&self.classes[class.min(CLASSES.len() - 1)], 1);
        let duration_us = u64::try_from(outcome.duration.as_micros()).unwrap_or(u64::MAX);
        add(&self.buckets[BOUNDS_US.partition_point(|bound| *bound < duration_us)], 1);
        add(&self.duration_us, duration_us);
        add(&self.request_body_bytes, exchange.request_body_bytes);
        add(&self.response_body_bytes, outcome.body_bytes);
    }
}

fn add(counter: &AtomicU64, count: u64) {
    if count > 0 {
        counter.fetch_add(count, Ordering::Relaxed);
    }
}

/// A value for each worker, on cache lines of its own.
#[derive(Debug)]
struct PerWorker<T>(Box<[Padded<T>]>);

#[derive(Debug, Default)]
#[repr(align(128))]
struct Padded<T>(T);

impl<T: Default> Default for PerWorker<T> {
    fn default() -> Self {
        let workers = available_parallelism().map_or(1, usize::from);
        Self((0..workers).map(|_| Padded::default()).collect())
    }
}

impl<T> PerWorker<T> {
    /// Returns the value of the current worker.
    fn here(&self) -> &T {
        &self.0[here() % self.0.len()].0
    }

    fn sum(&self, counter: impl Fn(&T) -> &AtomicU64) -> u64 {
        self.0.iter().map(|Padded(value)| counter(value).load(Ordering::Relaxed)).fold(0, u64::wrapping_add)
    }
}

#[cfg(test)]
mod tests {
    use http::StatusCode;
    use rudy_net::{Client, EndReason, ExchangeOutcome, Peer};

    use super::*;
    use crate::exchange::Notes;

    fn count(metrics: &RequestMetrics, route: Option<&Arc<RouteName>>, status: u16, duration: Duration) {
        let notes = Notes {
            route: route.cloned(),
            cache: Some("hit"),
            limit: Some("login".into()),
            ..Notes::default()
        };
        let outcome = ExchangeOutcome {
            status: StatusCode::from_u16(status).ok(),
            body_bytes: 10,
            wait: duration,
            duration,
            end_reason: EndReason::Completed,
        };
        metrics.count(&Finished {
            client: &Client::new(Peer::Unix, 1, 1),
            request: None,
            id: None,
            rejection: None,
            notes: &notes,
            request_body_bytes: 3,
            outcome: &outcome,
        });
    }

    fn route(site: &str, path: Option<&str>) -> Arc<RouteName> {
        Arc::new(RouteName::new(site.to_owned(), path.map(str::to_owned)))
    }

    #[test]
    fn requests_are_counted_by_route_and_class_and_duration() {
        let metrics = RequestMetrics::default();
        let (api, default) = (route("a.org", Some("/api/*")), route("", None));
        count(&metrics, Some(&api), 200, Duration::from_micros(100));
        count(&metrics, Some(&api), 503, Duration::from_micros(101));
        // The same route in the next configuration.
        count(&metrics, Some(&route("a.org", Some("/api/*"))), 204, Duration::from_mins(1));
        count(&metrics, Some(&default), 404, Duration::ZERO);
        count(&metrics, None, 0, Duration::ZERO);
        let RequestSnapshot { routes, caches, limits, .. } = metrics.snapshot();
        let names: Vec<_> = routes.iter().map(|route| (route.site.as_str(), route.route.as_str())).collect();
        assert_eq!(names, [("a.org", "/api/*"), ("default", "none"), ("other", "other")]);
        assert_eq!(routes[0].classes, [0, 0, 2, 0, 0, 1]);
        assert_eq!((routes[0].buckets[..3].to_vec(), routes[0].buckets[13]), (vec![1, 1, 0], 1));
        assert_eq!((routes[0].request_body_bytes, routes[0].response_body_bytes), (9, 30));
        assert_eq!(routes[0].duration, Duration::from_micros(60_000_201));
        assert_eq!((routes[1].classes[4], routes[2].classes[0]), (1, 1));
        assert_eq!((caches, limits), (vec![("hit".to_owned(), 5)], vec![("login".to_owned(), 5)]));
    }

    #[test]
    fn routes_with_the_same_labels_share_their_counters() {
        let metrics = RequestMetrics::default();
        for site in ["", "default"] {
            count(&metrics, Some(&route(site, None)), 200, Duration::ZERO);
        }
        let routes = metrics.snapshot().routes;
        let counted: Vec<_> = routes.iter().map(|route| (&*route.site, route.classes[2])).collect();
        assert_eq!(counted, [("default", 2), ("other", 0)]);
    }

    #[test]
    fn routes_beyond_the_limit_are_counted_together() {
        let metrics = RequestMetrics::default();
        for number in 0..ROUTES_MAX + 7 {
            count(&metrics, Some(&route(&format!("{number}.org"), Some("/*"))), 200, Duration::ZERO);
        }
        let routes = metrics.snapshot().routes;
        assert_eq!(routes.len(), ROUTES_MAX + 1);
        assert_eq!(routes[ROUTES_MAX].classes[2], 7);
    }

    #[test]
    fn requests_in_flight_have_begun_and_not_ended() {
        let metrics = RequestMetrics::default();
        (0..3).for_each(|_| metrics.began());
        metrics.ended();
        assert_eq!(metrics.snapshot().in_flight, 2);
    }
}
