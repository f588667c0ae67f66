//! The record of an exchange: what logs and metrics show of it. Routes, steps and handlers add notes to it.
//!
//! The record is the observer of its exchange. Without an access log and the like there is no record, and notes cost nothing.

mod notes;
mod request_id;
mod request_info;
mod spans;
pub mod trace;

use std::any::Any;
use std::fmt::Debug;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use http::{HeaderName, header};
use parking_lot::{Mutex, MutexGuard};
use rudy_message::RequestHead;
use rudy_service::{Client, ExchangeOutcome, Observer, Response};

pub use self::notes::{
    LoggedParts, NotedFields, Notes, OwnCounters, RouteName, UpstreamName, UpstreamNote, noted_field,
};
use self::request_id::RequestId;
pub use self::request_id::RequestIdTable;
pub use self::request_info::RequestInfo;
pub use self::spans::{Span, Spans, Work};
use self::trace::{Trace, Tracing};

/// Who wants records of exchanges: those of a configuration.
#[derive(Debug, Clone, Default)]
pub struct Observers {
    /// What uses the records.
    pub recorders: Vec<Arc<dyn Recorder>>,
    /// `None` without ids of requests.
    pub request_id: Option<RequestIdTable>,
    /// Whether reports list the active requests.
    pub are_listed: Arc<AtomicBool>,
    /// What logs show beyond what is always noted.
    pub logged: LoggedParts,
    /// Which exchanges are recorded as spans. `None` if none are, and traces of clients are passed on as they are.
    pub tracing: Option<Tracing>,
}

/// Uses records of exchanges: a log, or counters.
pub trait Recorder: Debug + Send + Sync {
    /// The fields of a request that a record must have a copy of; `None` if it needs no copy of the head. Those of the first recorder that
    /// needs some are copied: the access logs are one recorder.
    fn request_fields(&self) -> Option<&[HeaderName]> {
        None
    }

    /// An exchange has begun.
    fn began(&self) {}

    /// An exchange has an outcome.
    fn finished(&self, exchange: &Finished<'_>);

    /// An exchange that has begun is over, with an outcome or without.
    fn ended(&self) {}

    /// A request was rejected before there was an exchange.
    fn rejected(&self, _client: &Client<'_>, _reason: &str, _outcome: &ExchangeOutcome) {}
}

impl Observers {
    /// Whether active requests need a record, because reports list them.
    #[must_use]
    pub fn lists_active(&self) -> bool {
        self.are_listed.load(Ordering::Relaxed)
    }

    /// Creates the record of an exchange, if anything needs one. The id of a request from a trusted proxy is that of the proxy.
    pub fn observe(
        self: &Arc<Self>,
        head: &RequestHead<'_>,
        client: &Client<'_>,
        is_trusted: impl FnOnce() -> bool,
    ) -> Option<Arc<dyn Observer>> {
        let is_logged = !self.recorders.is_empty() || self.request_id.is_some();
        let trace = self.tracing.as_ref().and_then(|tracing| tracing.trace(head, client, is_logged));
        if !is_logged && trace.is_none() {
            return None;
        }
        self.recorders.iter().for_each(|recorder| recorder.began());
        let id = self.request_id.as_ref().map(|_| {
            is_trusted().then(|| RequestId::of_proxy(head)).flatten().unwrap_or_else(RequestId::make)
        });
        Some(self.record(head, client, id, trace))
    }

    /// Creates the record of an exchange that has to wait, unless it has one, so that it is among the active requests. The record has a
    /// copy of the request's head then. Returns whether it is new.
    pub fn observe_waiting(
        self: &Arc<Self>,
        head: &RequestHead<'_>,
        shared: Option<&Arc<RequestHead<'static>>>,
        client: &Client<'_>,
    ) -> bool {
        let is_new = client.observer.get().is_none();
        let observer = client.observer.get_or_init(|| self.record(head, client, None, None));
        if let Some(record) = of(observer) {
            let copy = || RequestInfo::new(head, &[header::HOST]);
            record.request.get_or_init(|| shared.cloned().map_or_else(copy, RequestInfo::Shared));
        }
        is_new
    }

    /// Creates the record of a connection that does not speak HTTP.
    pub fn observe_connection(
        self: &Arc<Self>,
        info: RequestInfo,
        client: &Client<'_>,
        route: &Arc<RouteName>,
    ) -> Arc<dyn Observer> {
        self.recorders.iter().for_each(|recorder| recorder.began());
        let record = self.new_record(Some(info), client, None, None);
        record.notes().route = Some(route.clone());
        Arc::new(record)
    }

    fn record(
        self: &Arc<Self>,
        head: &RequestHead<'_>,
        client: &Client<'_>,
        id: Option<RequestId>,
        trace: Option<Trace>,
    ) -> Arc<dyn Observer> {
        let sampled = trace.as_ref().is_some_and(Trace::is_sampled);
        let of_spans = self.tracing.iter().filter(|_| sampled).map(|tracing| &*tracing.fields);
        let of_recorders = self.recorders.iter().filter_map(|recorder| recorder.request_fields());
        let request = of_spans.chain(of_recorders).next().map(|fields| RequestInfo::new(head, fields));
        Arc::new(self.new_record(request, client, id, trace))
    }

    fn new_record(
        self: &Arc<Self>,
        request: Option<RequestInfo>,
        client: &Client<'_>,
        id: Option<RequestId>,
        trace: Option<Trace>,
    ) -> ExchangeRecord {
        let sampled = trace.as_ref().filter(|trace| trace.is_sampled());
        let notes = Notes {
            tried: self.logged.attempts.then(Vec::new),
            spans: sampled.map(|trace| Box::new(Spans::new(trace.own.span))),
            ..Notes::default()
        };
        ExchangeRecord {
            observers: self.clone(),
            id,
            request: request.map(OnceLock::from).unwrap_or_default(),
            client: Client {
                forwarded: client.forwarded.clone(),
                tls: client.tls.clone(),
                ..Client::new(client.peer, client.connection_number, client.request_number)
            },
            request_body_bytes: AtomicU64::new(0),
            notes: Mutex::new(notes),
            trace,
        }
    }
}

/// An exchange in progress.
#[derive(Debug)]
pub struct ExchangeRecord {
    observers: Arc<Observers>,
    id: Option<RequestId>,
    /// Not set without an access log, unless the exchange may have to wait.
    request: OnceLock<RequestInfo>,
    client: Client<'static>,
    request_body_bytes: AtomicU64,
    notes: Mutex<Notes>,
    /// `None` without tracing, and for an exchange of which only reports have a record.
    trace: Option<Trace>,
}

/// Adds a note to the record of an exchange, if there is one.
pub fn note(observer: Option<&Arc<dyn Observer>>, change: impl FnOnce(&mut Notes)) {
    if let Some(record) = observer.and_then(of) {
        change(&mut record.notes());
    }
}

/// Adds the first lines of these fields of the response to the record of an exchange.
pub fn note_response(observer: &Arc<dyn Observer>, names: &[HeaderName], response: &Response) {
    note(Some(observer), |notes| notes.response_fields = noted_fields(names, |name| response.header(name)));
}

/// Returns the first lines of these fields.
pub fn noted_fields<'a>(
    names: &[HeaderName],
    value: impl Fn(&HeaderName) -> Option<&'a [u8]>,
) -> NotedFields {
    names.iter().filter_map(|name| Some((name.clone(), value(name)?.into()))).collect()
}

/// Returns what logs show of an exchange beyond what is always noted, if it has a record.
pub fn logged(observer: Option<&Arc<dyn Observer>>) -> Option<&LoggedParts> {
    observer.and_then(of).map(|record| &record.observers.logged)
}

/// Whether the end of an upstream's response is noted, for logs or a span.
pub fn notes_upstream_end(observer: Option<&Arc<dyn Observer>>) -> bool {
    observer.and_then(of).is_some_and(|record| {
        record.observers.logged.upstream_end || record.trace.as_ref().is_some_and(Trace::is_sampled)
    })
}

/// Returns the route that the request has reached.
pub fn route(observer: Option<&Arc<dyn Observer>>) -> Option<Arc<RouteName>> {
    observer.and_then(of)?.notes().route.clone()
}

/// Whether [`debug_request`](crate::debug_request) logs anything.
pub fn logs_requests() -> bool {
    let [proxy, fastcgi] = [
        tracing::enabled!(target: "proxy", tracing::Level::DEBUG),
        tracing::enabled!(target: "fastcgi", tracing::Level::DEBUG),
    ];
    proxy || fastcgi
}

/// Logs what happens to a request, with the level `debug`, and the names of the site and the route.
#[macro_export]
macro_rules! debug_request {
    (target: $target:literal, $observer:expr, $($message:tt)+) => {
        if $crate::exchange::tracing::enabled!(target: $target, $crate::exchange::tracing::Level::DEBUG) {
            let route = $crate::exchange::route($observer);
            let site = route.as_deref().map(|route| route.site.as_str());
            let route = route.as_deref().and_then(|route| route.path.as_deref());
            $crate::exchange::tracing::debug!(target: $target, site, route, $($message)+);
        }
    };
}
#[doc(hidden)]
pub use tracing;

/// Returns the id of the request, if it has one.
pub fn request_id(observer: Option<&Arc<dyn Observer>>) -> Option<&RequestId> {
    observer.and_then(of)?.id.as_ref()
}

/// Returns the record that observes an exchange.
pub fn of(observer: &Arc<dyn Observer>) -> Option<&ExchangeRecord> {
    let observer: &dyn Any = &**observer;
    observer.downcast_ref()
}

impl ExchangeRecord {
    /// Returns the copy of the request's head, if there is one.
    pub fn request(&self) -> Option<&RequestInfo> {
        self.request.get()
    }

    /// Returns the client.
    pub fn client(&self) -> &Client<'static> {
        &self.client
    }

    /// Returns the number of bytes of the request body so far.
    pub fn request_body_bytes(&self) -> u64 {
        self.request_body_bytes.load(Ordering::Relaxed)
    }

    /// Returns the notes so far. The exchange waits while they are locked.
    pub fn notes(&self) -> MutexGuard<'_, Notes> {
        self.notes.lock()
    }
}

impl Observer for ExchangeRecord {
    fn body_received(&self, bytes: u64) {
        self.request_body_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    fn finished(&self, outcome: &ExchangeOutcome) {
        let notes = self.notes();
        let finished = Finished {
            client: &self.client,
            request: self.request(),
            id: self.id.as_ref(),
            rejection: None,
            notes: &notes,
            request_body_bytes: self.request_body_bytes(),
            outcome,
            trace: self.trace.as_ref(),
        };
        self.observers.recorders.iter().for_each(|recorder| recorder.finished(&finished));
        let recorder = self.observers.tracing.iter().filter(|_| notes.spans.is_some());
        recorder.for_each(|tracing| tracing.recorder.finished(&finished));
    }
}

impl Drop for ExchangeRecord {
    /// Also ends an exchange that has no outcome, because its connection was dropped.
    fn drop(&mut self) {
        self.observers.recorders.iter().for_each(|recorder| recorder.ended());
    }
}

/// A finished exchange, or a rejected request.
pub struct Finished<'a> {
    /// Who has sent the request.
    pub client: &'a Client<'a>,
    /// `None` if the request could not be parsed.
    pub request: Option<&'a RequestInfo>,
    /// The id of the request, if requests have one.
    pub id: Option<&'a RequestId>,
    /// Why the request did not reach a handler.
    pub rejection: Option<&'a str>,
    /// What routes, steps and handlers have noted.
    pub notes: &'a Notes,
    /// The number of received bytes of the request body.
    pub request_body_bytes: u64,
    /// How the exchange has ended.
    pub outcome: &'a ExchangeOutcome,
    /// The trace of the request, if it is known.
    pub trace: Option<&'a Trace>,
}

impl Finished<'_> {
    /// Returns the value of a request field that was copied.
    pub fn request_field(&self, name: &HeaderName) -> Option<&[u8]> {
        self.request?.field(name)
    }
}
