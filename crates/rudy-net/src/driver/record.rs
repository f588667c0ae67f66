//! Records an exchange for its observer.

use std::sync::Arc;
use std::time::Instant;

use http::StatusCode;

use crate::{Client, EndReason, ExchangeOutcome, Observer, Service};

/// The record of an exchange.
pub(super) struct Record {
    pub(super) observer: Option<Arc<dyn Observer>>,
    /// When the request head was complete.
    pub(super) received: Instant,
    /// When the response began.
    pub(super) began: Option<Instant>,
    pub(super) status: Option<StatusCode>,
    pub(super) body_bytes: u64,
}

impl Record {
    pub(super) fn new(observer: Option<Arc<dyn Observer>>, received: Instant) -> Self {
        Self { observer, received, began: None, status: None, body_bytes: 0 }
    }

    /// Records the start of the response.
    pub(super) fn begin(&mut self, status: StatusCode) {
        self.status = Some(status);
        // Saves the call of the clock without an observer.
        if self.observer.is_some() {
            self.began = Some(Instant::now());
        }
    }

    /// Reports the outcome to the observer.
    pub(super) fn finish(&mut self, end_reason: EndReason) {
        if let Some(observer) = self.observer.take() {
            observer.finished(&self.outcome(end_reason));
        }
    }

    pub(super) fn outcome(&self, end_reason: EndReason) -> ExchangeOutcome {
        let duration = self.received.elapsed();
        let wait = self.began.map_or(duration, |began| began.saturating_duration_since(self.received));
        ExchangeOutcome { status: self.status, body_bytes: self.body_bytes, wait, duration, end_reason }
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
    let mut record = Record::new(None, Instant::now());
    record.status = Some(status);
    service.rejected(client, reason, &record.outcome(EndReason::Completed));
}
