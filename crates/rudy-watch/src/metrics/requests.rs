//! Counters of requests: per route, and per worker, so that cores do not contend for a cache line.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use rudy_client::here;
use rudy_pipeline::exchange::{Finished, RouteName};

use super::words::Words;

/// The maximum number of routes of a configuration with counters of their own: those that have had requests first. All others are
/// counted together.
pub(super) const ROUTES_MAX: usize = 200;

/// The upper bounds of the buckets of durations, in microseconds. Above the last one is another bucket.
pub const BOUNDS_US: [u64; 13] = [
    100, 500, 1_000, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 2_500_000,
    10_000_000,
];

/// The number of buckets.
pub(super) const BUCKETS: usize = BOUNDS_US.len() + 1;

/// Statuses by class, from 1xx to 5xx; the first is for requests without a status, whose clients were gone.
pub(super) const CLASSES: [&str; 6] = ["none", "1xx", "2xx", "3xx", "4xx", "5xx"];

/// The number of words for what caches do.
const WORDS: usize = 16;

/// The counters of requests. Those of a route survive a reload that keeps the route, and end with its last configuration.
#[derive(Debug)]
pub struct RequestMetrics {
    /// The number of workers of the engine.
    workers: usize,
    routes: Mutex<BTreeMap<Labels, Weak<RouteCounters>>>,
    others: Arc<RouteCounters>,
    totals: PerWorker<Totals>,
    caches: Words<WORDS>,
}

/// The counters of a route.
#[derive(Debug)]
pub(super) struct RouteCounters(PerWorker<Counts>);

/// The labels of the series of a route. Routes with the same labels share their counters.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
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
pub struct RouteSnapshot {
    pub site: String,
    pub route: String,
    /// By [`CLASSES`].
    pub classes: [u64; CLASSES.len()],
    /// By [`BOUNDS_US`]: the number of requests in each bucket.
    pub buckets: [u64; BUCKETS],
    pub duration: Duration,
    pub request_body_bytes: u64,
    pub response_body_bytes: u64,
}

/// What was counted on all workers.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RequestSnapshot {
    /// The number of requests in progress.
    pub in_flight: u64,
    /// The counters of each route.
    pub routes: Vec<RouteSnapshot>,
    /// The requests that a cache has handled, by what it did.
    pub caches: Vec<(String, u64)>,
}

impl RequestMetrics {
    /// Creates the counters for an engine with this number of workers.
    #[must_use]
    pub fn new(workers: usize) -> Self {
        Self {
            workers,
            routes: Mutex::default(),
            others: Arc::new(RouteCounters(PerWorker::new(workers))),
            totals: PerWorker::new(workers),
            caches: Words::default(),
        }
    }

    /// Counts the beginning of a request.
    pub fn began(&self) {
        add(&self.totals.here().began, 1);
    }

    /// Counts the end of a request, also if it has no outcome.
    pub fn ended(&self) {
        add(&self.totals.here().ended, 1);
    }

    /// Counts a request with its outcome.
    pub fn count(&self, exchange: &Finished<'_>) {
        let notes = exchange.notes;
        let counters = match &notes.route {
            Some(route) => {
                let counters = route.counters.counters.get_or_init(|| self.counters_of(route));
                (**counters).downcast_ref().unwrap_or(&*self.others)
            }
            None => &*self.others,
        };
        counters.0.here().count(exchange);
        if let Some(status) = notes.cache {
            add(&self.totals.here().caches[self.caches.place(status)], 1);
        }
    }

    /// Goes on with the counters of the routes of a configuration that an earlier one has, too, and forgets those of routes without a
    /// configuration.
    pub fn keep<'r>(&self, routes: impl Iterator<Item = &'r RouteName>) {
        let mut known = self.routes.lock();
        known.retain(|_, counters| counters.strong_count() > 0);
        for route in routes {
            let counters = known.get(&Labels::of(route)).and_then(Weak::upgrade);
            if let Some(counters) = counters
                && route.counters.counters.set(counters).is_ok()
            {
                route.counters.of_configuration.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Returns the counters of a route, which may be those of another one with the same labels.
    fn counters_of(&self, route: &RouteName) -> Arc<RouteCounters> {
        let (labels, mut routes) = (Labels::of(route), self.routes.lock());
        if let Some(known) = routes.get(&labels).and_then(Weak::upgrade) {
            return known;
        }
        if route.counters.of_configuration.fetch_add(1, Ordering::Relaxed) >= ROUTES_MAX {
            return self.others.clone();
        }
        let counters = Arc::new(RouteCounters(PerWorker::new(self.workers)));
        routes.insert(labels, Arc::downgrade(&counters));
        counters
    }

    /// Adds up the counters of all workers.
    pub fn snapshot(&self) -> RequestSnapshot {
        let known: Vec<_> =
            self.routes.lock().iter().map(|(labels, known)| (labels.clone(), known.clone())).collect();
        let routes = known.into_iter().filter_map(|(labels, known)| Some(known.upgrade()?.snapshot(labels)));
        let others = self.others.snapshot(Labels::new("other", "other"));
        let caches = (0..WORDS).filter_map(|place| {
            let count = self.totals.sum(|totals| &totals.caches[place]);
            Some((self.caches.name(place)?.to_owned(), count)).filter(|_| count > 0)
        });
        // Read `ended` first: a request that ends in between counts as in flight, and the difference is never negative.
        let ended = self.totals.sum(|totals| &totals.ended);
        RequestSnapshot {
            in_flight: self.totals.sum(|totals| &totals.began).saturating_sub(ended),
            routes: routes.chain([others]).collect(),
            caches: caches.collect(),
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
    fn snapshot(&self, Labels { site, route }: Labels) -> RouteSnapshot {
        let Self(workers) = self;
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

/// A value for each worker, on cache lines of its own, and one for all threads that are no workers.
#[derive(Debug)]
struct PerWorker<T>(Box<[Padded<T>]>);

#[derive(Debug, Default)]
#[repr(align(128))]
struct Padded<T>(T);

impl<T: Default> PerWorker<T> {
    fn new(workers: usize) -> Self {
        Self((0..=workers).map(|_| Padded::default()).collect())
    }
}

impl<T> PerWorker<T> {
    /// Returns the value of the current thread.
    fn here(&self) -> &T {
        &self.0[here().min(self.0.len() - 1)].0
    }

    fn sum(&self, counter: impl Fn(&T) -> &AtomicU64) -> u64 {
        self.0.iter().map(|Padded(value)| counter(value).load(Ordering::Relaxed)).fold(0, u64::wrapping_add)
    }
}

#[cfg(test)]
mod tests {
    use http::StatusCode;
    use rudy_service::{Client, EndReason, ExchangeOutcome, Peer};

    use super::*;
    use rudy_pipeline::exchange::{Notes, OwnCounters};

    fn count(metrics: &RequestMetrics, route: Option<&Arc<RouteName>>, status: u16, duration: Duration) {
        let notes = Notes { route: route.cloned(), cache: Some("hit"), ..Notes::default() };
        let outcome = ExchangeOutcome {
            status: StatusCode::from_u16(status).ok(),
            body_bytes: 10,
            sent_bytes: 150,
            request_framing_bytes: 0,
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
            trace: None,
        });
    }

    /// The routes of a configuration.
    #[derive(Default)]
    struct Routes {
        first: OwnCounters,
        all: Vec<Arc<RouteName>>,
    }

    impl Routes {
        fn add(&mut self, site: &str, path: Option<&str>) -> Arc<RouteName> {
            let name = RouteName::new(site.to_owned(), path.map(str::to_owned));
            self.all.push(Arc::new(RouteName { counters: OwnCounters::beside(&self.first), ..name }));
            self.all[self.all.len() - 1].clone()
        }

        fn names(&self) -> impl Iterator<Item = &RouteName> {
            self.all.iter().map(|route| &**route)
        }
    }

    fn names(metrics: &RequestMetrics) -> Vec<(String, String, u64)> {
        let routes = metrics.snapshot().routes.into_iter();
        routes.map(|route| (route.site, route.route, route.classes[2])).collect()
    }

    #[test]
    fn requests_are_counted_by_route_and_class_and_duration() {
        let (metrics, mut first, mut next) = (RequestMetrics::new(1), Routes::default(), Routes::default());
        let (api, default) = (first.add("a.org", Some("/api/*")), first.add("", None));
        count(&metrics, Some(&api), 200, Duration::from_micros(100));
        count(&metrics, Some(&api), 503, Duration::from_micros(101));
        // The same route in the next configuration.
        count(&metrics, Some(&next.add("a.org", Some("/api/*"))), 204, Duration::from_mins(1));
        count(&metrics, Some(&default), 404, Duration::ZERO);
        count(&metrics, None, 0, Duration::ZERO);
        let RequestSnapshot { routes, caches, .. } = metrics.snapshot();
        let names: Vec<_> = routes.iter().map(|route| (route.site.as_str(), route.route.as_str())).collect();
        assert_eq!(names, [("a.org", "/api/*"), ("default", "none"), ("other", "other")]);
        assert_eq!(routes[0].classes, [0, 0, 2, 0, 0, 1]);
        assert_eq!((routes[0].buckets[..3].to_vec(), routes[0].buckets[13]), (vec![1, 1, 0], 1));
        assert_eq!((routes[0].request_body_bytes, routes[0].response_body_bytes), (9, 30));
        assert_eq!(routes[0].duration, Duration::from_micros(60_000_201));
        assert_eq!((routes[1].classes[4], routes[2].classes[0]), (1, 1));
        assert_eq!(caches, vec![("hit".to_owned(), 5)]);
    }

    #[test]
    fn routes_with_the_same_labels_share_their_counters() {
        let (metrics, mut routes) = (RequestMetrics::new(1), Routes::default());
        for site in ["", "default"] {
            count(&metrics, Some(&routes.add(site, None)), 200, Duration::ZERO);
        }
        let counted: Vec<_> = names(&metrics).into_iter().map(|(site, _, count)| (site, count)).collect();
        assert_eq!(counted, [("default".to_owned(), 2), ("other".to_owned(), 0)]);
    }

    #[test]
    fn routes_beyond_the_limit_are_counted_together() {
        let (metrics, mut routes) = (RequestMetrics::new(1), Routes::default());
        for number in 0..ROUTES_MAX + 7 {
            count(&metrics, Some(&routes.add(&format!("{number}.org"), Some("/*"))), 200, Duration::ZERO);
        }
        let routes = metrics.snapshot().routes;
        assert_eq!(routes.len(), ROUTES_MAX + 1);
        assert_eq!(routes[ROUTES_MAX].classes[2], 7);
    }

    #[test]
    fn counters_end_with_their_route_and_those_of_a_kept_route_go_on() {
        let (metrics, mut old) = (RequestMetrics::new(1), Routes::default());
        for generation in 0..5 {
            let mut new = Routes::default();
            new.add("kept.org", Some("/*"));
            (1..ROUTES_MAX).for_each(|number| drop(new.add(&format!("{generation}-{number}.org"), None)));
            metrics.keep(new.names());
            // The old one is in use until the last of its requests has ended.
            let late = std::mem::replace(&mut old, new);
            old.all.iter().for_each(|route| count(&metrics, Some(route), 200, Duration::ZERO));
            drop(late);
            let counted = names(&metrics);
            assert_eq!(counted.len(), ROUTES_MAX + 1, "those of this configuration, and `other`");
            assert!(counted.contains(&("kept.org".to_owned(), "/*".to_owned(), generation + 1)));
            assert!(counted.contains(&(format!("{generation}-7.org"), "none".to_owned(), 1)));
            assert!(counted.contains(&("other".to_owned(), "other".to_owned(), 0)));
        }
    }

    #[test]
    fn requests_in_flight_have_begun_and_not_ended() {
        let metrics = RequestMetrics::new(1);
        (0..3).for_each(|_| metrics.began());
        metrics.ended();
        assert_eq!(metrics.snapshot().in_flight, 2);
    }
}
