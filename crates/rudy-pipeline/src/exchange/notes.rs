//! What routes, steps and handlers note about an exchange.

use std::any::Any;
use std::fmt;
use std::net::SocketAddr;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use http::{HeaderName, StatusCode};

use super::spans::{Span, Spans, Work};

/// The notes about an exchange. What is unknown stays `None`.
#[derive(Debug, Default)]
pub struct Notes {
    /// The route that the request has reached; the last one after internal redirects.
    pub route: Option<Arc<RouteName>>,
    /// The name of the authenticated user.
    pub user: Option<Box<str>>,
    /// The last request to an upstream or app.
    pub upstream: Option<UpstreamNote>,
    /// How a cache has handled the request, such as `hit`.
    pub cache: Option<&'static str>,
    /// The limit that has rejected or delayed the request.
    pub limit: Option<Box<str>>,
    /// The fields of the response that logs show.
    pub response_fields: NotedFields,
    /// The fields of the upstream's response that logs show.
    pub upstream_fields: NotedFields,
    /// The addresses of the attempts before the last one, and the statuses of their responses. `None` if no log shows them.
    pub tried: Option<Vec<(UpstreamName, Option<StatusCode>)>>,
    /// The spans of an exchange that is recorded.
    pub spans: Option<Box<Spans>>,
}

/// The first lines of fields.
pub type NotedFields = Vec<(HeaderName, Box<[u8]>)>;

/// What logs show of exchanges, and costs something to note.
#[derive(Debug, Clone, Default)]
pub struct LoggedParts {
    /// The fields of responses.
    pub response_fields: Arc<[HeaderName]>,
    /// The fields of responses as upstreams and apps send them.
    pub upstream_fields: Arc<[HeaderName]>,
    /// Whether all attempts are noted.
    pub attempts: bool,
    /// Whether the end of an upstream's response is noted.
    pub upstream_end: bool,
}

impl Notes {
    /// Notes that a request to an upstream or app waits for a connection.
    pub fn upstream_requested(&mut self, now: Instant) {
        let upstream = self.upstream.get_or_insert(UpstreamNote {
            address: None,
            attempts: 0,
            requested: now,
            connected: None,
            responded: None,
            ended: None,
            status: None,
        });
        upstream.attempts += 1;
        (upstream.connected, upstream.responded, upstream.ended, upstream.status) = (None, None, None, None);
        self.begin_attempt(now);
    }

    fn begin_attempt(&mut self, now: Instant) {
        if let Some(spans) = &mut self.spans {
            spans.begin(Work::Upstream("http"), now);
        }
    }

    fn attempt(&mut self) -> Option<&mut Span> {
        self.spans.as_mut()?.upstream()
    }

    /// Notes that the span of the last attempt ends, unless it has: with its response, or with a failure.
    fn end_attempt(&mut self, now: Instant) {
        self.attempt().into_iter().for_each(|span| span.ended = span.ended.or(Some(now)));
    }

    /// Notes that the request could not be sent to this address.
    pub fn upstream_failed(&mut self, address: &UpstreamName, now: Instant) {
        self.tried.iter_mut().for_each(|tried| tried.push((address.clone(), None)));
        if let Some(span) = self.attempt() {
            span.address = Some(address.clone());
            (span.ended, span.error) = (Some(now), Some("no connection".to_owned()));
        }
    }

    /// Notes why the last attempt has failed, unless that is known: a kind of failures.
    pub fn upstream_has_failed(&mut self, kind: impl FnOnce() -> String, now: Instant) {
        self.end_attempt(now);
        if let Some(span) = self.attempt().filter(|span| span.error.is_none()) {
            span.error = Some(kind());
        }
    }

    /// Notes that another attempt follows the one so far.
    pub fn upstream_tried(&mut self, now: Instant) {
        if let (Some(tried), Some(upstream)) = (&mut self.tried, &self.upstream) {
            tried.extend(upstream.attempt());
        }
        self.end_attempt(now);
    }

    /// Notes that the request has a connection to this address.
    pub fn upstream_connected(&mut self, address: UpstreamName, now: Instant) {
        if self.spans.is_some() {
            // The one so far has ended at an address that accepts no connection.
            if self.attempt().is_none_or(|span| span.ended.is_some()) {
                self.begin_attempt(now);
            }
            self.attempt().into_iter().for_each(|span| span.address = Some(address.clone()));
        }
        if let Some(upstream) = &mut self.upstream {
            upstream.address = Some(address);
            upstream.connected = Some(now);
        }
    }

    /// Notes the address of the connection that the request has had before a report was made.
    pub fn upstream_is(&mut self, address: UpstreamName, now: Instant) {
        if self.upstream.is_none() {
            self.upstream_requested(now);
        }
        if let Some(upstream) = &mut self.upstream {
            upstream.address = Some(address);
        }
    }

    /// Notes that the head of the response has arrived.
    pub fn upstream_responded(&mut self, status: Option<StatusCode>, now: Instant) {
        if let Some(upstream) = &mut self.upstream {
            (upstream.responded, upstream.status) = (Some(now), status);
        }
        self.attempt().into_iter().for_each(|span| span.status = status);
    }

    /// Notes that the whole response has arrived, or that the rest is not read.
    pub fn upstream_ended(&mut self, now: Instant) {
        self.upstream.iter_mut().for_each(|upstream| upstream.ended = Some(now));
        self.end_attempt(now);
    }

    /// Notes the route that the request has reached, first or by an internal redirect.
    pub fn reached(&mut self, route: &Arc<RouteName>, now: Instant) {
        if let (Some(spans), Some(_)) = (&mut self.spans, &self.route) {
            spans.redirects.push((now, route.clone()));
        }
        if route.is_untraced {
            self.spans = None;
        }
        self.route = Some(route.clone());
    }

    /// Notes that a cache searches for a response.
    pub fn cache_searched(&mut self, now: Instant) {
        if let Some(spans) = &mut self.spans {
            spans.begin(Work::Cache, now);
        }
    }

    /// Notes how a cache has handled the request.
    pub fn cached(&mut self, status: &'static str, now: Instant) {
        self.cache = Some(status);
        if let Some(spans) = &mut self.spans {
            spans.end(Work::Cache, now);
        }
    }

    /// Returns the addresses of all attempts, and the statuses of the responses. Without those before the last one if no log shows them.
    pub fn all_attempts(&self) -> impl Iterator<Item = (UpstreamName, Option<StatusCode>)> {
        let last = self.upstream.as_ref().and_then(UpstreamNote::attempt);
        self.tried.iter().flatten().cloned().chain(last)
    }
}

/// Returns the first line of a field that logs show.
#[must_use]
pub fn noted_field<'a>(fields: &'a NotedFields, name: &HeaderName) -> Option<&'a [u8]> {
    fields.iter().find(|(known, _)| known == name).map(|(_, value)| &**value)
}

/// The request to an upstream or app.
#[derive(Debug)]
pub struct UpstreamNote {
    /// The address of the last connection.
    pub address: Option<UpstreamName>,
    /// The number of attempts.
    pub attempts: u32,
    /// The time of the first attempt.
    requested: Instant,
    /// When the last attempt had a connection.
    connected: Option<Instant>,
    /// When the head of the response had arrived.
    responded: Option<Instant>,
    /// When the response had ended, if logs show it.
    ended: Option<Instant>,
    /// The status in this head, which steps and the server may change. `None` for a redirect within the server.
    pub status: Option<StatusCode>,
}

impl UpstreamNote {
    /// Returns the time from the first attempt to the connection of the last one.
    #[must_use]
    pub fn connect_time(&self) -> Option<Duration> {
        Some(self.connected?.saturating_duration_since(self.requested))
    }

    /// Returns the address of the last attempt, if it had a connection, and the status of its response.
    fn attempt(&self) -> Option<(UpstreamName, Option<StatusCode>)> {
        self.connected.and(self.address.clone()).map(|address| (address, self.status))
    }

    /// Returns the time from the first attempt to the head of the response.
    #[must_use]
    pub fn head_time(&self) -> Option<Duration> {
        Some(self.responded?.saturating_duration_since(self.requested))
    }

    /// Returns the time from the first attempt to the end of the response.
    #[must_use]
    pub fn response_time(&self) -> Option<Duration> {
        Some(self.ended?.saturating_duration_since(self.requested))
    }

    /// Returns the time from the connection to the head of the response.
    #[must_use]
    pub fn wait_time(&self) -> Option<Duration> {
        Some(self.responded?.saturating_duration_since(self.connected?))
    }
}

/// An upstream or app in logs.
#[derive(Debug, Clone)]
pub enum UpstreamName {
    /// An address: a copy takes no lock and no counter that workers share.
    Ip(SocketAddr),
    /// Something else with a name.
    Other(Arc<dyn Named>),
}

/// What has a name in logs.
pub trait Named: fmt::Debug + fmt::Display + Send + Sync {}

impl<T: fmt::Debug + fmt::Display + Send + Sync> Named for T {}

impl fmt::Display for UpstreamName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(address) => address.fmt(f),
            Self::Other(name) => name.fmt(f),
        }
    }
}

/// The counters of a route of a configuration, of which the metrics know the type.
#[derive(Debug, Default)]
pub struct OwnCounters {
    /// Set by the first request, or by a reload that keeps the route.
    pub counters: OnceLock<Arc<dyn Any + Send + Sync>>,
    /// The number of routes of the configuration that have their own.
    pub of_configuration: Arc<AtomicUsize>,
}

impl OwnCounters {
    /// Those of another route of the same configuration.
    pub fn beside(other: &Self) -> Self {
        Self { counters: OnceLock::new(), of_configuration: other.of_configuration.clone() }
    }
}

/// The names of a route in logs and metrics.
#[derive(Debug, Default)]
pub struct RouteName {
    /// The first host of the site; empty for the default site.
    pub site: String,
    /// The first path of the route. `None` for responses that the server makes without a route.
    pub path: Option<String>,
    /// The place of the site in the configuration. `None` without one.
    pub site_number: Option<usize>,
    /// Whether its requests have no lines in access logs.
    pub is_unlogged: bool,
    /// Whether its requests are not recorded as spans.
    pub is_untraced: bool,
    /// The counters of its requests.
    pub counters: OwnCounters,
}

impl RouteName {
    /// The names of a route, without counters.
    #[must_use]
    pub fn new(site: String, path: Option<String>) -> Self {
        let (is_unlogged, is_untraced) = (false, false);
        Self { site, path, site_number: None, is_unlogged, is_untraced, counters: OwnCounters::default() }
    }
}

impl fmt::Display for RouteName {
    /// As in the list of `rudy upstreams`: `example.org/api/*`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.site, self.path.as_deref().unwrap_or_default())
    }
}
