//! The trace of an exchange: which exchanges are recorded as spans, and what requests to others say of it (W3C Trace Context).

use std::cell::Cell;
use std::fmt;
use std::sync::Arc;

use http::{HeaderName, StatusCode};
use rudy_message::semantics::field::NameStarts;
use rudy_message::{LazyHead, RequestHead};
use rudy_runtime::random::bits;
use rudy_service::{Client, Observer, Peer, poll_time};
use rudy_trace::{Parent, SpanId, TraceId, VALUE_BYTES, tracestate};

use super::spans::Work;
use super::{Observers, Recorder, note, of};
use crate::client_address::TrustedProxies;

/// The field that names the trace and the span of the sender.
pub static TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// The field for what tracing systems need besides.
pub static TRACESTATE: HeaderName = HeaderName::from_static("tracestate");

/// What their names begin with.
const STARTS: NameStarts = NameStarts::of(&["traceparent", "tracestate"]);

/// Which exchanges are recorded as spans, and what exports them.
#[derive(Debug, Clone)]
pub struct Tracing {
    /// Which share of the traces that begin here is recorded, from 0 to 1.
    pub sample: f64,
    /// Whether the traces of all clients continue, and not only those of trusted proxies.
    pub trusts_all: bool,
    /// The proxies whose traces continue.
    pub trusted_proxies: Arc<TrustedProxies>,
    /// The fields of requests that spans show.
    pub fields: Arc<[HeaderName]>,
    /// What uses the records.
    pub recorder: Arc<dyn Recorder>,
}

/// The trace of an exchange.
#[derive(Debug, Clone)]
pub struct Trace {
    /// The trace, the span of the exchange, and whether it is recorded.
    pub own: Parent,
    /// The span of the client.
    pub parent: Option<SpanId>,
    /// `tracestate` of the client; empty without one.
    pub state: String,
}

impl Tracing {
    /// Returns the trace of a request, if it is recorded or `is_logged`.
    pub(super) fn trace(
        &self,
        head: &RequestHead<'_>,
        client: &Client<'_>,
        is_logged: bool,
    ) -> Option<Trace> {
        let parent = if head.may_have_any(STARTS) {
            self.parent(&client.peer, || head.lines_named(&TRACEPARENT))
        } else {
            None
        };
        let is_sampled = parent.map_or_else(|| self.is_chosen(), Parent::is_sampled);
        if !is_sampled && !is_logged {
            return None;
        }
        let span = make_span_id();
        let Some(parent) = parent else {
            let own = Parent::begin(make_trace_id(), span).with_sampled(is_sampled);
            return Some(Trace { own, parent: None, state: String::new() });
        };
        let state = tracestate::join(head.lines_named(&TRACESTATE)).unwrap_or_default();
        Some(Trace { own: parent.with_span(span), parent: Some(parent.span), state })
    }

    /// Returns what a request says about its trace, if its client may: a stranger could have the server record every request, or add
    /// spans to the traces of others. More than one line is invalid.
    fn parent<'a, L: Iterator<Item = &'a [u8]>>(
        &self,
        peer: &Peer,
        lines: impl FnOnce() -> L,
    ) -> Option<Parent> {
        if !self.trusts_all && !self.trusted_proxies.trusts(peer) {
            return None;
        }
        let mut lines = lines();
        let parent = Parent::parse(lines.next()?);
        parent.filter(|_| lines.next().is_none())
    }

    /// Whether a trace that begins here is recorded.
    fn is_chosen(&self) -> bool {
        // Most configurations have one of these.
        if self.sample <= 0.0 || self.sample >= 1.0 {
            return self.sample >= 1.0;
        }
        #[expect(clippy::cast_precision_loss, reason = "it is random")]
        let chance = random() as f64 / u64::MAX as f64;
        chance < self.sample
    }

    /// Sets the fields of a request to another server for an exchange that is not recorded. A trace that continues is passed on as it is,
    /// and another one begins without being recorded here: so the next server does not decide otherwise.
    fn pass_on_unrecorded(&self, head: &mut LazyHead<'_>, peer: &Peer) {
        if head.may_have_any(STARTS) {
            if self.parent(peer, || head.get_all(&TRACEPARENT)).is_some() {
                return;
            }
            head.remove(&TRACEPARENT);
            head.remove(&TRACESTATE);
        }
        head.add_text(&TRACEPARENT, &Parent::begin(make_trace_id(), make_span_id()).value());
    }
}

impl Trace {
    /// Whether the exchange is recorded.
    #[must_use]
    pub fn is_sampled(&self) -> bool {
        self.own.is_sampled()
    }

    /// Returns the value of the field for a request that is sent in this span of the exchange.
    #[must_use]
    pub fn value(&self, span: SpanId) -> [u8; VALUE_BYTES] {
        self.own.with_span(span).value()
    }
}

/// Sets the fields of a request for an exchange, of which each attempt to send it adds [`value_of_attempt`].
pub fn prepare(head: &mut LazyHead<'_>, observers: &Observers, client: &Client<'_>) {
    set(head, observers, client, |trace, is_sampled| (!is_sampled).then_some(trace.own.span));
}

/// Sets the fields of a request of the server itself for an exchange. It is sent in `span`, or in that of the exchange.
pub fn pass_on(head: &mut LazyHead<'_>, observers: &Observers, client: &Client<'_>, span: Option<SpanId>) {
    set(head, observers, client, |trace, _| Some(span.unwrap_or(trace.own.span)));
}

/// Sets the fields, for a request that is sent in the span that `span_of` returns. Without one, `traceparent` is left out.
fn set(
    head: &mut LazyHead<'_>,
    observers: &Observers,
    client: &Client<'_>,
    span_of: impl FnOnce(&Trace, bool) -> Option<SpanId>,
) {
    let Some(tracing) = &observers.tracing else { return };
    let record = client.observer.get().and_then(of);
    let Some((record, trace)) = record.and_then(|record| Some((record, record.trace.as_ref()?))) else {
        return tracing.pass_on_unrecorded(head, &client.peer);
    };
    // The route may not be recorded.
    let is_sampled = trace.is_sampled() && record.notes().spans.is_some();
    // Before fields are added whose names begin as theirs.
    if head.may_have_any(STARTS) {
        head.remove(&TRACEPARENT);
        head.remove(&TRACESTATE);
    }
    if let Some(span) = span_of(trace, is_sampled) {
        head.add_text(&TRACEPARENT, &trace.own.with_sampled(is_sampled).with_span(span).value());
    }
    if !trace.state.is_empty() {
        head.add_text(&TRACESTATE, trace.state.as_bytes());
    }
}

/// Returns the value of `traceparent` for an attempt to send a request over this protocol, which has a span of its own. `None` if the exchange
/// is not recorded.
pub fn value_of_attempt(
    observer: Option<&Arc<dyn Observer>>,
    protocol: &'static str,
) -> Option<[u8; VALUE_BYTES]> {
    let record = observer.and_then(of)?;
    let trace = record.trace.as_ref().filter(|trace| trace.is_sampled())?;
    let mut notes = record.notes();
    let span = notes.spans.as_mut()?.upstream()?;
    span.what = Work::Upstream(protocol);
    Some(trace.value(span.id))
}

/// Begins the span of an authorization, if the exchange is recorded.
#[must_use]
pub fn authorize(observer: Option<&Arc<dyn Observer>>) -> Option<SpanId> {
    let mut notes = observer.and_then(of)?.notes();
    notes.spans.as_mut()?.begin(Work::Authorization, poll_time())
}

/// Begins the span of the search of a cache, if the exchange is recorded.
pub fn search(observer: Option<&Arc<dyn Observer>>) {
    if observer.and_then(of).is_some_and(|record| record.trace.as_ref().is_some_and(Trace::is_sampled)) {
        note(observer, |notes| notes.cache_searched(poll_time()));
    }
}

/// Ends the span of an authorization, with the status of the response, or the reason why there is none.
pub fn authorized(observer: Option<&Arc<dyn Observer>>, result: Result<StatusCode, String>) {
    note(observer, |notes| {
        let span = notes.spans.as_mut().and_then(|spans| spans.end(Work::Authorization, poll_time()));
        if let Some(span) = span {
            match result {
                Ok(status) => span.status = Some(status),
                Err(kind) => span.error = Some(kind),
            }
        }
    });
}

/// Returns the trace of an exchange, for log lines. It displays nothing without one.
pub fn of_exchange(observer: Option<&Arc<dyn Observer>>) -> InTrace {
    InTrace(observer.and_then(of).and_then(|record| Some(record.trace.as_ref()?.own.trace)))
}

/// The trace in the log line of a request.
#[derive(Debug, Clone, Copy, Default)]
pub struct InTrace(Option<TraceId>);

impl fmt::Display for InTrace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |trace| write!(f, " (trace {trace})"))
    }
}

/// Makes the id of a span.
pub(super) fn make_span_id() -> SpanId {
    SpanId::from_bits(random())
}

fn make_trace_id() -> TraceId {
    TraceId::from_bits([random(), random()])
}

/// Returns random bits, which need not be unpredictable: two sequences of this thread with random starts, taken in turn, so that threads
/// hardly have the same pair.
fn random() -> u64 {
    thread_local! {
        static NEXT: Cell<(u64, u64)> = Cell::new((bits(), bits()));
    }
    let (next, other) = NEXT.get();
    NEXT.set((other, next.wrapping_add(0x9E37_79B9_7F4A_7C15)));
    // The last steps of SplitMix64 (Steele, Lea, Flood 2014).
    let mixed = (next ^ next >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ mixed >> 31
}
