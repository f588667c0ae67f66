//! An exchange that must wait: for a service, a request or response body, a file, or a slow client.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use bytes::BytesMut;
use http::StatusCode;
use rudy_http::h1::Phase;
use rudy_message::Rejection;
use rudy_service::{Body, EndReason, Observer, Response, ServiceSource, Upgrade};

use super::Http1;
use super::input::{Input, InputFault};
use super::upload::Upload;
use crate::ExchangePhase;
use crate::close::CloseMode;
use crate::driver::State;
use crate::driver::output::Output;
use crate::driver::poll_context::{Budget, PollContext};
use crate::driver::pump::Pump;
use crate::driver::record::{Record, Unobserved};
use crate::scratch::Scratch;

/// A service that has not responded yet.
pub(in crate::driver) struct Handler {
    /// The future of the response.
    future: Pin<Box<dyn Future<Output = Response> + Send>>,
    exchange: Exchange,
    unobserved: Option<Unobserved>,
    /// Whether it was polled before.
    has_waited: bool,
}

/// A request and its response in progress. Each of ten thousand streams has one, so rarely used fields are
/// boxed.
#[derive(Default)]
pub(in crate::driver) struct Exchange {
    pub(super) pump: Pump,
    pub(super) output: Output,
    details: Option<Box<Details>>,
}

#[derive(Default)]
struct Details {
    input: Input,
    /// Reports the exchange to the service's observer.
    record: Option<Record>,
    /// Takes over the connection after the response.
    upgrade: Option<Box<Upgrade>>,
}

/// Why a connection ends during an exchange, and how to close it.
struct Fault(EndReason, CloseMode);

impl From<EndReason> for Fault {
    fn from(end_reason: EndReason) -> Self {
        Self(end_reason, CloseMode::Reset)
    }
}

impl Handler {
    pub(super) fn new(
        future: Pin<Box<dyn Future<Output = Response> + Send>>,
        exchange: Exchange,
        unobserved: Option<Unobserved>,
    ) -> Self {
        Self { future, exchange, unobserved, has_waited: false }
    }

    /// Shows the exchange in reports, because one is made or its response takes time.
    fn observe<S: ServiceSource>(&mut self, http1: &Http1<S>) {
        if let Some(record) =
            self.unobserved.take().and_then(|unobserved| unobserved.observe(&http1.connection))
        {
            self.exchange.details.get_or_insert_default().record = Some(record);
        }
    }

    /// Polls the service, the request body and the output. Ready with the connection's next state.
    pub(in crate::driver) fn poll<S: ServiceSource>(
        &mut self,
        http1: &mut Http1<S>,
        cx: &mut Context<'_>,
        budget: &Budget,
    ) -> Poll<State> {
        let worker = http1.connection.context.worker.clone();
        let mut poll_cx = PollContext::new(cx, &worker.counters, budget);
        if self.exchange.is_killed() {
            return Poll::Ready(self.exchange.end(EndReason::Killed.into()));
        }
        if worker.timers.has_question() {
            self.observe(http1);
        }
        let mut scratch = Scratch::borrow_at(poll_cx.now);
        let next = match self.poll_response(http1, &mut poll_cx, &mut scratch) {
            Poll::Pending => {
                let exchange = &mut self.exchange;
                let flushed =
                    exchange.output.poll(&mut http1.connection.io, &mut poll_cx, &mut scratch.out, None);
                if let Some(details) = &mut exchange.details {
                    details.record_progress(&poll_cx);
                }
                match flushed {
                    Poll::Ready(Err(end_reason)) => Some(exchange.end(end_reason.into())),
                    _ => self.check_deadlines(http1, &mut poll_cx, &mut scratch),
                }
            }
            Poll::Ready(next) => Some(next),
        };
        if let Some(next) = next {
            return Poll::Ready(next);
        }
        self.exchange.show(self.exchange.phase_of_service(), http1);
        http1.connection.timer.is_unobserved = self.unobserved.is_some();
        self.has_waited = true;
        http1.wait(&poll_cx)
    }

    /// Ready when there is a response, or when the exchange ends without one.
    fn poll_response<S: ServiceSource>(
        &mut self,
        http1: &mut Http1<S>,
        poll_cx: &mut PollContext<'_, '_>,
        scratch: &mut Scratch,
    ) -> Poll<State> {
        // Without a body, only the end of the connection can arrive. It ends a request before the service begins, but matters no more
        // once there is a response.
        let is_service_first = self.has_waited && self.exchange.upload().is_none();
        if is_service_first && let Poll::Ready(state) = self.poll_service(None, http1, poll_cx, scratch) {
            return Poll::Ready(state);
        }
        let rejection = match self.exchange.poll_input(http1, poll_cx, &mut scratch.out) {
            Poll::Pending if is_service_first => return Poll::Pending,
            Poll::Pending => None,
            Poll::Ready(InputFault::Rejected(rejection)) => Some(rejection),
            Poll::Ready(InputFault::Incomplete) => {
                return Poll::Ready(self.exchange.end(Fault(EndReason::PeerGone, CloseMode::NoLinger)));
            }
            Poll::Ready(InputFault::PeerGone) => {
                return Poll::Ready(self.exchange.end(EndReason::PeerGone.into()));
            }
        };
        self.poll_service(rejection, http1, poll_cx, scratch)
    }

    /// Polls the service. If the body was rejected, the service knows it, and its response is used if it is there at once and has the
    /// status of the rejection.
    fn poll_service<S: ServiceSource>(
        &mut self,
        rejection: Option<Rejection>,
        http1: &mut Http1<S>,
        poll_cx: &mut PollContext<'_, '_>,
        scratch: &mut Scratch,
    ) -> Poll<State> {
        // Interim responses would accumulate while the client does not read.
        let accepts_interim = !self.exchange.output.is_blocked();
        let asking = self.exchange.observer_for_question(http1);
        // Not as a result of the poll, which would be moved a dozen times.
        let mut response = None;
        let poll = |cx: &mut Context<'_>| self.future.as_mut().poll(cx).map(|ready| response = Some(ready));
        let (polled, interim) = poll_cx.poll_handler(accepts_interim, asking, poll);
        for (status, fields) in interim {
            // HTTP/1.0 clients do not receive it (RFC 9110 §15.2).
            let _is_sent = http1.machine.encode_interim(status, &fields, &mut scratch.out);
        }
        let fits = |response: &Response| rejection.is_none_or(|it| response.is_for_status(it.status()));
        let response = match (response, rejection) {
            _ if polled.is_err() => http1.internal_error(),
            (Some(response), _) if fits(&response) => response,
            (_, None) => return Poll::Pending,
            (_, Some(rejection)) => {
                let exchange = std::mem::take(&mut self.exchange).without_upload();
                let Scratch { out, date, .. } = scratch;
                let earlier = Vec::new();
                return Poll::Ready(http1.respond_to_rejected(rejection, exchange, earlier, date, out));
            }
        };
        if let Some(rejection) = rejection {
            http1.connection.context.worker.counters.rejected.add(1);
            if self.exchange.record().is_none() {
                http1.connection.report_rejected(rejection, http1.machine.requests(), poll_cx.now);
            }
            // The start of the next request is unknown.
            http1.machine.close_after_response();
        }
        http1.connection.timer.is_unobserved = false;
        if response.takes_time() {
            self.observe(http1);
        }
        Poll::Ready(http1.respond(response, &mut self.exchange, poll_cx, scratch))
    }

    /// Ends the exchange if a deadline has passed.
    fn check_deadlines<S: ServiceSource>(
        &mut self,
        http1: &mut Http1<S>,
        poll_cx: &mut PollContext<'_, '_>,
        scratch: &mut Scratch,
    ) -> Option<State> {
        if self.exchange.has_slow_upload(http1, poll_cx.now) {
            return match self.poll_service(Some(Rejection::BodyTooSlow), http1, poll_cx, scratch) {
                Poll::Ready(state) => Some(state),
                Poll::Pending => None,
            };
        }
        self.exchange.check_deadlines(http1, poll_cx).map(|fault| self.exchange.end(fault))
    }
}

impl Exchange {
    pub(super) fn new(upload: Option<Upload>, record: Record) -> Self {
        let record = Some(record).filter(|record| record.observer.is_some());
        let has_details = upload.is_some() || record.is_some();
        let details = || Box::new(Details { input: Input::new(upload), record, upgrade: None });
        Self { pump: Pump::default(), output: Output::default(), details: has_details.then(details) }
    }

    /// Creates an exchange that only sends queued responses.
    pub(super) fn flush(out: &mut BytesMut, records: Vec<Record>) -> Self {
        let mut output = Output::default();
        output.push(out, records);
        Self { pump: Pump::default(), output, details: None }
    }

    /// Reads no more of the request body.
    fn without_upload(mut self) -> Self {
        if let Some(details) = &mut self.details {
            details.input.upload = None;
        }
        self
    }

    /// Records the start of the response. Returns `false` without a record.
    pub(super) fn begin_record(&mut self, status: StatusCode) -> bool {
        let Some(record) = self.record() else { return false };
        record.begin(status);
        true
    }

    /// Shows other threads what the exchange waits for.
    fn show<S: ServiceSource>(&mut self, phase: ExchangePhase, http1: &Http1<S>) {
        if let Some(record) = self.record() {
            record.wait(phase, &http1.connection.context.worker, &http1.connection.timer);
        }
    }

    /// Returns what an exchange without a response waits for.
    fn phase_of_service(&self) -> ExchangePhase {
        match self.upload() {
            Some(upload) if !upload.is_finished() && !upload.is_paused() => ExchangePhase::Receiving,
            _ => ExchangePhase::Waiting,
        }
    }

    /// Returns the observer if a report shows what the exchange waits for.
    fn observer_for_question<S: ServiceSource>(&mut self, http1: &Http1<S>) -> Option<Arc<dyn Observer>> {
        let has_question = http1.connection.context.worker.timers.has_question();
        if has_question { self.record()?.observer.clone() } else { None }
    }

    /// Whether an operator has ended the exchange.
    fn is_killed(&self) -> bool {
        let record = self.details.as_ref().and_then(|details| details.record.as_ref());
        record.is_some_and(Record::is_killed)
    }

    pub(super) fn upload(&self) -> Option<&Upload> {
        self.details.as_ref()?.input.upload.as_deref()
    }

    fn record(&mut self) -> Option<&mut Record> {
        self.details.as_mut()?.record.as_mut()
    }

    fn has_ended_input(&self) -> bool {
        self.details.as_ref().is_some_and(|details| details.input.ended)
    }

    /// Reads from the client. The input state is stored only if it is not empty, which is rare.
    fn poll_input<S: ServiceSource>(
        &mut self,
        http1: &mut Http1<S>,
        poll_cx: &mut PollContext<'_, '_>,
        out: &mut BytesMut,
    ) -> Poll<InputFault> {
        if let Some(details) = &mut self.details {
            return details.input.poll(http1, poll_cx, out);
        }
        let mut input = Input::default();
        let polled = input.poll(http1, poll_cx, out);
        if input.is_half_closed() {
            self.details.get_or_insert_default().input = input;
        }
        polled
    }

    /// Whether the client sends the request body too slowly. Reports the error to the service.
    fn has_slow_upload<S: ServiceSource>(&mut self, http1: &Http1<S>, now: Instant) -> bool {
        let Some(details) = &mut self.details else { return false };
        let deadline = details.input.upload_deadline(&http1.connection.info.limits.http);
        match &mut details.input.upload {
            Some(upload) if deadline.is_some_and(|deadline| deadline <= now) => {
                upload.fail_too_slow();
                true
            }
            _ => false,
        }
    }

    /// Sends the response as far as possible. Ready with the connection's next state.
    pub(in crate::driver) fn poll<S: ServiceSource>(
        &mut self,
        http1: &mut Http1<S>,
        cx: &mut Context<'_>,
        budget: &Budget,
    ) -> Poll<State> {
        let worker = http1.connection.context.worker.clone();
        let mut poll_cx = PollContext::new(cx, &worker.counters, budget);
        if self.is_killed() {
            return Poll::Ready(self.end(EndReason::Killed.into()));
        }
        let mut scratch = Scratch::borrow();
        http1.resume(&mut scratch);
        let sent = self.poll_sent(http1, &mut poll_cx, &mut scratch.out);
        match sent {
            Poll::Ready(Ok(())) => Poll::Ready(self.finish(http1)),
            Poll::Ready(Err(fault)) => Poll::Ready(self.end(fault)),
            Poll::Pending => {
                if let Some(fault) = self.check_deadlines(http1, &mut poll_cx) {
                    return Poll::Ready(self.end(fault));
                }
                http1.suspend(&mut scratch);
                self.show(ExchangePhase::Sending, http1);
                http1.wait(&poll_cx)
            }
        }
    }

    fn poll_sent<S: ServiceSource>(
        &mut self,
        http1: &mut Http1<S>,
        poll_cx: &mut PollContext<'_, '_>,
        out: &mut BytesMut,
    ) -> Poll<Result<(), Fault>> {
        match self.poll_input(http1, poll_cx, out) {
            Poll::Pending => {}
            // A response that has begun must not look complete.
            Poll::Ready(InputFault::Rejected(_)) => {
                return Poll::Ready(Err(http1.fault(EndReason::Aborted)));
            }
            Poll::Ready(InputFault::Incomplete | InputFault::PeerGone) => {
                return Poll::Ready(Err(EndReason::PeerGone.into()));
            }
        }
        if self.pump.is_live() && http1.connection.context.worker.is_ending_streams() {
            http1.machine.close_after_response();
            self.pump.end_body();
        }
        let Http1 { machine, connection } = http1;
        let sent = self.pump.poll(&mut connection.io, &mut self.output, &mut **machine, poll_cx, out);
        if let Some(details) = &mut self.details {
            details.record_progress(poll_cx);
        }
        sent.map_err(|end_reason| http1.fault(end_reason))
    }

    /// Checks the deadlines. Returns the fault of one that has passed, or sets the timer to the next one.
    fn check_deadlines<S: ServiceSource>(
        &mut self,
        http1: &Http1<S>,
        poll_cx: &mut PollContext<'_, '_>,
    ) -> Option<Fault> {
        let (limits, now) = (&http1.connection.info.limits.http, poll_cx.now);
        if self.has_slow_upload(http1, now) {
            return Some(http1.fault(EndReason::Aborted));
        }
        if let Some(details) = &mut self.details
            && details.input.half_close_deadline(limits).is_some_and(|deadline| deadline <= now)
        {
            if !self.output.has_progressed(&http1.connection.io, now) {
                return Some(EndReason::PeerGone.into());
            }
            details.input.record_write(now);
        }
        if self.output.has_stalled(&http1.connection.io, limits, now) {
            return Some(EndReason::PeerStalled.into());
        }
        let input = self.details.as_ref().map_or(&Input::EMPTY, |details| &details.input);
        poll_cx.wake_at(input.due(http1, now));
        poll_cx.wake_at(self.output.deadline(limits));
        None
    }

    /// Handles the end of the response: the kernel has all of it.
    pub(super) fn finish<S: ServiceSource>(&mut self, http1: &Http1<S>) -> State {
        let upgrade = self.details.as_mut().and_then(|details| details.upgrade.take());
        let entry = match (&upgrade, self.record()) {
            (Some(_), Some(record)) => {
                record.become_tunnel(&http1.connection.context.worker, &http1.connection.timer)
            }
            _ => None,
        };
        self.finish_records(EndReason::Completed);
        match (http1.machine.phase(), upgrade) {
            (Phase::Upgrade, Some(upgrade)) => State::Upgrade(Box::new((*upgrade, entry))),
            (Phase::Close, _) if self.has_ended_input() => State::Close(CloseMode::PeerClosed),
            // A change of protocol without a handler closes the connection.
            (Phase::Close | Phase::Upgrade, _) => State::Close(CloseMode::Linger),
            _ => State::Head,
        }
    }

    fn end(&mut self, Fault(end_reason, mode): Fault) -> State {
        self.finish_records(end_reason);
        State::Close(mode)
    }

    fn finish_records(&mut self, end_reason: EndReason) {
        self.output.finish_earlier(end_reason);
        if let Some(mut record) = self.details.as_mut().and_then(|details| details.record.take()) {
            record.finish(end_reason);
        }
    }
}

impl Details {
    /// Records the bytes framed and sent in a poll.
    fn record_progress(&mut self, poll_cx: &PollContext<'_, '_>) {
        if let Some(record) = &mut self.record {
            let framing_bytes = self.input.upload.as_deref().map(Upload::framing_bytes);
            record.add_progress(poll_cx, framing_bytes);
        }
        if poll_cx.sent_bytes > 0 {
            self.input.record_write(poll_cx.now);
        }
    }
}

impl<S: ServiceSource> Http1<S> {
    /// Returns how to end a response that stays incomplete. The length or the chunks of an aborted one show that, and a reset could discard
    /// data that the client has not received. Only if the end of the connection is the end of the body, a reset must show it.
    fn fault(&self, end_reason: EndReason) -> Fault {
        let shows_end = end_reason == EndReason::Aborted && !self.machine.sends_until_close();
        Fault(end_reason, if shows_end { CloseMode::Linger } else { CloseMode::Reset })
    }

    /// Sends a response whose head is in `out`. If the transport does not accept all of it, the connection
    /// continues in the state `Body` with the exchange.
    pub(super) fn send(
        &mut self,
        response: Response,
        exchange: &mut Exchange,
        poll_cx: &mut PollContext<'_, '_>,
        out: &mut BytesMut,
    ) -> State {
        if let Some(upgrade) = response.upgrade {
            exchange.details.get_or_insert_default().upgrade = Some(Box::new(upgrade));
        }
        exchange.pump.set_body(if self.machine.sends_body() { response.body } else { Body::Empty });
        let Exchange { pump, output, details } = exchange;
        let sent = pump.poll(&mut self.connection.io, output, &mut *self.machine, poll_cx, out);
        if let Some(details) = details {
            details.record_progress(poll_cx);
        }
        match sent {
            Poll::Ready(Ok(())) => exchange.finish(self),
            Poll::Ready(Err(end_reason)) => exchange.end(self.fault(end_reason)),
            // The next poll sets the deadlines.
            Poll::Pending => State::Body(Box::new(std::mem::take(exchange))),
        }
    }
}

impl Drop for Exchange {
    /// An exchange dropped before its end means that the server is stopping.
    fn drop(&mut self) {
        self.finish_records(EndReason::ServerStopped);
    }
}
