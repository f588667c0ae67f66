//! Attempts to send a request, over any protocol: each on another connection, until there is a response or another one would not help.

use std::mem::take;
use std::sync::Arc;
use std::time::Instant;

use http::StatusCode;
use rudy_pipeline::exchange::{self, note, noted_fields};
use rudy_runtime::is_planted;
use rudy_service::{Observer, poll_time};

use super::failure::{Cause, Failure, ProtocolCause};
use super::retries::FailedAttempt;
use super::{Checkout, Connection, Exchange, Protocol, Selection, Upload, Upstream, Wanted};

/// The start of an attempt.
#[derive(Debug, Clone, Copy)]
pub struct Start {
    /// The time of the first attempt.
    pub at: Instant,
    /// The number of this attempt, from 1.
    pub attempt: u32,
}

/// A request that may be sent more than once.
pub trait Outgoing: Sync {
    /// How a request is written and a response is read.
    type Protocol: Protocol;

    /// Returns the observer of the exchange with the client, if the response is for it.
    fn observer(&self) -> Option<&Arc<dyn Observer>>;

    /// Returns whether the request may be processed twice (RFC 9110 §9.2.2).
    fn is_repeatable(&self) -> bool;

    /// Returns whether another member may serve what one has failed to serve.
    fn has_others(&self) -> bool;

    /// Waits for a connection on which the request can be sent.
    fn checkout<'a>(
        &'a self,
        selection: &'a mut Selection,
        start: Start,
    ) -> impl Future<Output = Result<CheckoutOf<Self::Protocol>, FailureOf<Self::Protocol>>> + Send + 'a;

    /// Begins to send the request.
    fn begin(
        &self,
        checkout: CheckoutOf<Self::Protocol>,
        upload: Upload,
        start: Start,
    ) -> Result<Box<Exchange<Self::Protocol>>, FailureOf<Self::Protocol>>;

    /// Returns whether another member may serve a request to which one has responded with this status.
    fn rejects(&self, _status: StatusCode) -> bool {
        false
    }

    /// Logs that an attempt has failed, with the level `debug`.
    fn log_attempt(&self, start: Start, failure: &FailureOf<Self::Protocol>);

    /// Returns whether the member that has failed so may serve the request on another connection.
    fn is_possible(&self, _member: u64, _failure: &FailureOf<Self::Protocol>) -> bool {
        true
    }
}

/// A connection of this protocol.
type CheckoutOf<P> = Checkout<<P as Protocol>::Connection>;

/// A failure of this protocol.
type FailureOf<P> = Failure<<P as Protocol>::Cause>;

/// The head of a response, and the exchange that receives its body.
type Responded<P> = (<P as Protocol>::Head, Box<Exchange<P>>);

impl<C: Connection> Upstream<C> {
    /// Sends a request and waits for the head of the response. The body is taken out of `upload`.
    ///
    /// Some failures, and responses that the request [rejects](Outgoing::rejects), allow another attempt, on another connection and maybe to another member: see
    /// [`RetryBudget::allows`](super::retries::RetryBudget::allows).
    ///
    /// # Errors
    ///
    /// There is no connection, or no response.
    pub async fn send<R: Outgoing<Protocol: Protocol<Connection = C>>>(
        &self,
        request: &R,
        upload: &mut Upload,
        selection: &mut Selection,
    ) -> Result<Responded<R::Protocol>, FailureOf<R::Protocol>> {
        self.retries.add_request();
        let mut start = Start { at: poll_time(), attempt: 0 };
        loop {
            start.attempt += 1;
            let checkout = request.checkout(selection, start).await;
            let checkout = checkout.inspect_err(|failure| note_failure(request.observer(), failure))?;
            let mut exchange = request.begin(checkout, take(upload), start)?;
            if exchange::notes_upstream_end(request.observer()) {
                request.observer().cloned().into_iter().for_each(|observer| exchange.note_end(observer));
            }
            let (failure, response) = match exchange.head().await {
                Ok(response) => {
                    let status = R::Protocol::status(&response);
                    note(request.observer(), |notes| notes.upstream_responded(status, poll_time()));
                    note_fields::<R::Protocol>(request.observer(), &response);
                    let Some(status) = status.filter(|status| request.rejects(*status)) else {
                        return Ok((response, exchange));
                    };
                    (exchange.failure(Cause::Status(status)), Some(response))
                }
                Err(cause) => (exchange.failure(cause), None),
            };
            if response.is_none() {
                note_failure(request.observer(), &failure);
            }
            request.log_attempt(start, &failure);
            match self.body_for_retry(request, &mut exchange, &failure, start, selection) {
                Some(body) => {
                    note(request.observer(), |notes| notes.upstream_tried(poll_time()));
                    *upload = body;
                }
                None => return response.map(|response| (response, exchange)).ok_or(failure),
            }
            if failure.cause.is_response() {
                exchange.discard();
            }
        }
    }

    /// Returns the body for another attempt after one that has failed, if that is allowed, and changes the selection for it.
    fn body_for_retry<R: Outgoing<Protocol: Protocol<Connection = C>>>(
        &self,
        request: &R,
        exchange: &mut Exchange<R::Protocol>,
        failure: &FailureOf<R::Protocol>,
        start: Start,
        selection: &mut Selection,
    ) -> Option<Upload> {
        let (cause, member) = (&failure.cause, exchange.member());
        let may_have_been_dead =
            exchange.may_have_been_dead() && selection.wanted != Wanted::New && cause.ends_connection();
        if !cause.is_response() {
            selection.wanted = Wanted::New;
        }
        selection.is_exclusive |= cause.needs_own_connection();
        // An upstream that restarts has announced it, and serves the request on a new connection.
        if !may_have_been_dead && !cause.is_about_connection() {
            selection.tried.push(member);
        }
        let failed = FailedAttempt {
            cause,
            number: start.attempt,
            may_have_been_dead,
            is_repeatable: request.is_repeatable()
                || is_planted("a request that is repeated although it must not be"),
            // A member that has responded, or has failed before, would hardly respond better.
            has_others: request.has_others()
                && (!cause.is_response() || self.pool.has_other(&selection.tried, poll_time())),
        };
        let is_retried =
            exchange.can_repeat() && request.is_possible(member, failure) && self.retries.allows(&failed);
        if is_retried { exchange.take_upload() } else { None }
    }
}

/// Notes why an attempt has failed.
fn note_failure<P: ProtocolCause>(observer: Option<&Arc<dyn Observer>>, failure: &Failure<P>) {
    note(observer, |notes| notes.upstream_has_failed(|| failure.kind(), poll_time()));
}

/// Notes the fields of a response that logs show.
fn note_fields<P: Protocol>(observer: Option<&Arc<dyn Observer>>, head: &P::Head) {
    let names = exchange::logged(observer).map(|logged| &logged.upstream_fields);
    if let Some(names) = names.filter(|names| !names.is_empty()) {
        let fields = noted_fields(names, |name| P::field(head, name));
        note(observer, |notes| notes.upstream_fields = fields);
    }
}
