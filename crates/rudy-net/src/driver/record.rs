//! What is told about an exchange when it is over.

use std::time::Instant;

use http::StatusCode;
use rudy_http::h1::Rejection;

use crate::{Client, EndReason, ExchangeOutcome, Observer, Service};

/// One exchange somebody wants to know the end of.
pub(super) struct Record {
    pub(super) observer: Option<Box<dyn Observer>>,
    /// When the whole head was there.
    pub(super) received: Instant,
    /// When the answer began.
    pub(super) began: Option<Instant>,
    pub(super) status: Option<StatusCode>,
    pub(super) body_bytes: u64,
}

impl Record {
    pub(super) fn new(observer: Option<Box<dyn Observer>>, received: Instant) -> Self {
        Self { observer, received, began: None, status: None, body_bytes: 0 }
    }

    /// The answer begins.
    pub(super) fn begin(&mut self, status: StatusCode) {
        self.status = Some(status);
        // Only who is listened to needs to look at the clock.
        if self.observer.is_some() {
            self.began = Some(Instant::now());
        }
    }

    /// The exchange is over.
    pub(super) fn finish(&mut self, end_reason: EndReason) {
        if let Some(observer) = self.observer.take() {
            observer.finished(&self.outcome(end_reason));
        }
    }

    fn outcome(&self, end_reason: EndReason) -> ExchangeOutcome {
        let duration = self.received.elapsed();
        let wait = self.began.map_or(duration, |began| began.saturating_duration_since(self.received));
        ExchangeOutcome { status: self.status, body_bytes: self.body_bytes, wait, duration, end_reason }
    }
}

/// Tells the service of a connection that was closed without a response, before there was a request.
pub(super) fn report_closed<S: Service>(service: &S, client: &Client<'_>, reason: &str, since: Instant) {
    service.rejected(client, reason, &Record::new(None, since).outcome(EndReason::Aborted));
}

/// Tells the service of a peer that was refused before there was a request to answer.
pub(super) fn report_rejection<S: Service>(
    service: &S,
    client: &Client<'_>,
    rejection: Rejection,
    since: Instant,
) {
    let mut record = Record::new(None, since);
    record.status = Some(rejection.status());
    service.rejected(client, &rejection.to_string(), &record.outcome(EndReason::Completed));
}
