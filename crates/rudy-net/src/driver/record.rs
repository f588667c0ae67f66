//! Records an exchange for its observer.

use std::sync::Arc;
use std::time::Instant;

use http::StatusCode;
use rudy_message::RequestHead;
use rudy_runtime::clock;
use rudy_service::{Client, EndReason, ExchangeOutcome, Forwarded, Observer, Service, ServiceSource};

use super::connection::{Connection, Endpoint};
use super::poll_context::PollContext;
use crate::active::ActiveEntry;
use crate::timers::Timer;
use crate::{ExchangePhase, Worker};

/// The record of an exchange.
pub(super) struct Record {
    pub(super) observer: Option<Arc<dyn Observer>>,
    /// The place among the active exchanges, once the exchange has had to wait.
    entry: Option<ActiveEntry>,
    /// When the request head was complete.
    pub(super) received: Instant,
    /// When the response began.
    pub(super) began: Option<Instant>,
    pub(super) status: Option<StatusCode>,
    pub(super) body_bytes: u64,
    /// Bytes of the response as sent.
    pub(super) sent_bytes: u64,
    /// Bytes of earlier responses that are sent with this one, and counted in [`Self::sent_bytes`].
    pub(super) earlier_bytes: u64,
    /// Bytes of the request body that are only framing.
    pub(super) request_framing_bytes: u64,
    /// `None` with an observer, and if the request does not wait.
    pub(super) unobserved: Option<Unobserved>,
}

/// A request that waits without an observer. It gets one for a report of what the connections wait for, or when its response takes
/// time.
pub(super) struct Unobserved {
    head: Arc<RequestHead<'static>>,
    forwarded: Option<Arc<Forwarded>>,
    /// The number of the request on its connection.
    number: u64,
    /// When the request head was complete.
    received: Instant,
}

impl Unobserved {
    /// Returns a record with an observer, if the service makes one.
    pub(super) fn observe<S: ServiceSource, L: Endpoint>(
        self,
        connection: &Connection<S, L>,
    ) -> Option<Record> {
        let service = connection.context.source.current();
        let client = Client { forwarded: self.forwarded, ..connection.client(self.number) };
        let observer = connection.call(|| service.observe_waiting(&self.head, &client)).flatten()?;
        Some(Record::new(Some(observer), self.received))
    }
}

impl Record {
    pub(super) fn new(observer: Option<Arc<dyn Observer>>, received: Instant) -> Self {
        let (entry, began, status, unobserved) = (None, None, None, None);
        let (body_bytes, sent_bytes, earlier_bytes, request_framing_bytes) = (0, 0, 0, 0);
        Self {
            observer,
            entry,
            received,
            began,
            status,
            body_bytes,
            sent_bytes,
            earlier_bytes,
            request_framing_bytes,
            unobserved,
        }
    }

    /// Creates the record of a request that was passed to the service.
    pub(super) fn of(client: Client<'_>, received: Instant) -> Self {
        let Client { observer, head, forwarded, request_number: number, .. } = client;
        let (observer, head) = (observer.into_inner(), head.into_inner());
        let unobserved = head.filter(|_| observer.is_none());
        let unobserved = unobserved.map(|head| Unobserved { head, forwarded, number, received });
        Self { unobserved, ..Self::new(observer, received) }
    }

    /// Records the start of the response.
    pub(super) fn begin(&mut self, status: StatusCode) {
        self.status = Some(status);
        // Saves the call of the clock without an observer.
        if self.observer.is_some() {
            self.began = Some(clock::now());
        }
    }

    /// Counts the bytes of a poll. `framing_bytes` is how many bytes of the request body so far are only framing.
    pub(super) fn add_progress(&mut self, poll_cx: &PollContext<'_, '_>, framing_bytes: Option<u64>) {
        self.body_bytes += poll_cx.body_bytes;
        self.sent_bytes += poll_cx.sent_bytes;
        self.request_framing_bytes = framing_bytes.unwrap_or(self.request_framing_bytes);
    }

    /// Shows other threads what the exchange waits for.
    pub(super) fn wait(&mut self, phase: ExchangePhase, worker: &Worker, timer: &Timer) {
        let Some(observer) = &self.observer else { return };
        let entry = self.entry.get_or_insert_with(|| {
            ActiveEntry::new(&worker.active, observer.clone(), self.received, timer.slot())
        });
        entry.set(phase, self.body_bytes);
    }

    /// Whether an operator has ended the exchange.
    pub(super) fn is_killed(&self) -> bool {
        self.entry.as_ref().is_some_and(ActiveEntry::is_killed)
    }

    /// Keeps the exchange among the active ones after its response, as a tunnel.
    pub(super) fn become_tunnel(&mut self, worker: &Worker, timer: &Timer) -> Option<Arc<ActiveEntry>> {
        self.wait(ExchangePhase::Tunnel, worker, timer);
        self.entry.take().map(Arc::new)
    }

    /// Reports the outcome to the observer.
    pub(super) fn finish(&mut self, end_reason: EndReason) {
        if let Some(observer) = self.observer.take() {
            observer.finished(&self.outcome(end_reason));
        }
    }

    pub(super) fn outcome(&self, end_reason: EndReason) -> ExchangeOutcome {
        let duration = clock::since(self.received);
        let wait = self.began.map_or(duration, |began| began.saturating_duration_since(self.received));
        ExchangeOutcome {
            status: self.status,
            body_bytes: self.body_bytes,
            sent_bytes: self.sent_bytes.saturating_sub(self.earlier_bytes),
            request_framing_bytes: self.request_framing_bytes,
            wait,
            duration,
            end_reason,
        }
    }
}

/// Reports to the service that a connection was closed without a response, before it had a request.
pub(super) fn report_closed<S: Service>(service: &S, client: &Client<'_>, reason: &str, since: Instant) {
    service.rejected(client, reason, &Record::new(None, since).outcome(EndReason::Aborted));
}

/// Reports to the service that a peer was rejected with a response before it had a request.
pub(super) fn report_answered<S: Service>(
    service: &S,
    client: &Client<'_>,
    status: StatusCode,
    reason: &str,
) {
    let mut record = Record::new(None, clock::now());
    record.status = Some(status);
    service.rejected(client, reason, &record.outcome(EndReason::Completed));
}
