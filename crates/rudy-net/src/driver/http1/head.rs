//! Waits for requests, and sends responses that need no waiting. A complete request with an immediate
//! response that the socket accepts in one write costs one poll.

use std::io::IoSlice;
use std::task::{Context, Poll};
use std::time::Instant;

use bytes::{Buf, Bytes, BytesMut};
use http::StatusCode;
use rudy_http::h1::{Event, Phase, Timeout};
use rudy_message::{BodyLength, DateLine, Rejection, RequestHead};
use rudy_runtime::is_planted;
use rudy_service::{Body, EndReason, GATHERED_BYTES, Reply, RequestBody, Response, ServiceSource};
use tokio::io::ReadBuf;

use super::Http1;
use super::exchange::{Exchange, Handler};
use super::upload::Upload;
use crate::close::CloseMode;
use crate::driver::State;
use crate::driver::poll_context::{Budget, PollContext};
use crate::driver::record::{Record, report_closed};
use crate::scratch::Scratch;
use crate::yield_now::yield_now;

/// Pipelined responses are written when they reach this size.
const OUTPUT_FULL_BYTES: usize = 64 * 1024;

/// The context for handling the requests of one read.
struct RequestBatch<'a, 'b> {
    cx: &'a mut Context<'b>,
    now: Instant,
    date: &'a DateLine,
    /// The encoded responses.
    out: &'a mut BytesMut,
    /// The records of responses with an observer.
    records: &'a mut Vec<Record>,
    budget: &'a Budget,
}

/// Why the handling of a batch of requests ends.
enum BatchEnd {
    /// All complete requests are handled; more input is needed.
    NeedsInput,
    /// The output must be written before the next request.
    OutputFull,
    /// A request needs more time.
    Next(State),
}

impl<S: ServiceSource> Http1<S> {
    /// Reads, handles and responds to requests until it must wait.
    pub(in crate::driver) fn poll_head(&mut self, cx: &mut Context<'_>, budget: &Budget) -> Poll<State> {
        let now = budget.now();
        let mut scratch = Scratch::borrow_at(now);
        self.resume(&mut scratch);
        let next = self.poll_requests(cx, now, budget, &mut scratch);
        self.suspend(&mut scratch);
        next
    }

    fn poll_requests(
        &mut self,
        cx: &mut Context<'_>,
        now: Instant,
        budget: &Budget,
        scratch: &mut Scratch,
    ) -> Poll<State> {
        let Scratch { input, out, date, .. } = scratch;
        let mut records = Vec::new();
        let mut read = 0;
        loop {
            let is_service_loaded = read > 0;
            let (cx, out) = (&mut *cx, &mut *out);
            let mut batch = RequestBatch { cx, now, date, out, records: &mut records, budget };
            let batch_end = self.handle_requests(&input[..read], &mut batch);
            if let BatchEnd::Next(state) = batch_end {
                return Poll::Ready(state);
            }
            if !out.is_empty() {
                match self.write(cx, out) {
                    Ok(true) => records.drain(..).for_each(|mut record| record.finish(EndReason::Completed)),
                    Ok(false) => return Poll::Ready(State::Body(Box::new(Exchange::flush(out, records)))),
                    Err(_) => {
                        records.drain(..).for_each(|mut record| record.finish(EndReason::PeerGone));
                        return Poll::Ready(State::Close(CloseMode::Reset));
                    }
                }
            }
            if matches!(self.machine.phase(), Phase::Close | Phase::Upgrade) {
                // Those of requests that get no response.
                records.drain(..).for_each(|mut record| record.finish(EndReason::Completed));
                return Poll::Ready(State::Close(CloseMode::Linger));
            }
            if matches!(batch_end, BatchEnd::OutputFull) || budget.is_spent() {
                // More requests may be waiting, but first the other connections of this core get their turn.
                self.connection.timer.set(None, cx.waker());
                return yield_now(cx);
            }
            let room = self.machine.input_room(&self.connection.info.limits.http).min(input.len());
            let mut buffer = ReadBuf::new(&mut input[..room]);
            let polled = self.connection.io.poll_read(cx, &mut buffer);
            read = buffer.filled().len();
            match polled {
                Poll::Pending => {
                    // Handling a request has loaded it already.
                    if !is_service_loaded {
                        drop(self.connection.load_service());
                    }
                    if is_service_loaded
                        && self.machine.phase() == Phase::Idle
                        && is_planted("an empty line that extends a timeout")
                    {
                        let deadline = now + self.connection.info.limits.http.idle_timeout;
                        self.connection.timer.set(Some(deadline), cx.waker());
                        return Poll::Pending;
                    }
                    return self.wait_for_request(cx, now, date, out);
                }
                Poll::Ready(Err(_)) => return Poll::Ready(State::Close(CloseMode::Reset)),
                Poll::Ready(Ok(())) if read == 0 => return Poll::Ready(State::Close(CloseMode::PeerClosed)),
                Poll::Ready(Ok(())) => {
                    self.connection.context.worker.counters.received_bytes.add(read as u64);
                    budget.spend(read as u64);
                }
            }
        }
    }

    /// Waits for input: sets the deadline, unless it has passed or the server is stopping.
    fn wait_for_request(
        &mut self,
        cx: &mut Context<'_>,
        now: Instant,
        date: &DateLine,
        out: &mut BytesMut,
    ) -> Poll<State> {
        // Input that the kernel has, but the runtime has not reported yet, is a request in time.
        if self.machine.phase() == Phase::Idle && self.should_close_idle() && !self.connection.io.has_unread()
        {
            return Poll::Ready(State::Close(CloseMode::NoLinger));
        }
        if let Some(deadline) = self.machine.deadline(&self.connection.info.limits.http)
            && now < deadline
        {
            if self.machine.phase() != Phase::Idle {
                self.connection.timer.set(Some(deadline), cx.waker());
            } else if self.connection.timer.set_idle(Some(deadline), cx.waker())
                && !self.connection.io.has_unread()
            {
                // The connection has been evicted.
                return Poll::Ready(State::Close(CloseMode::NoLinger));
            }
            return Poll::Pending;
        }
        match self.machine.timeout(now, &self.connection.info.limits.http) {
            // Waiting without a deadline would be a bug: close the connection.
            Timeout::NotYet => Poll::Ready(State::Close(CloseMode::Reset)),
            Timeout::Close => Poll::Ready(State::Close(CloseMode::NoLinger)),
            Timeout::Reject(rejection) => {
                Poll::Ready(self.respond_to_rejected(rejection, Exchange::default(), Vec::new(), date, out))
            }
        }
    }

    /// Whether to close an idle connection: the server is stopping, or the connection has had a response and
    /// may send no further request. A client that waits for its first response may be about to send a request
    /// that it cannot repeat.
    fn should_close_idle(&self) -> bool {
        let requests = self.machine.requests();
        let has_had_all =
            self.connection.info.limits.http.requests_per_connection.is_some_and(|most| requests >= most);
        self.connection.context.worker.is_stopping()
            || requests > 0 && (has_had_all || self.connection.context.ends_idle_connections())
    }

    /// Handles the requests in `bytes` and in the machine's buffer, until one must wait.
    fn handle_requests(&mut self, mut bytes: &[u8], batch: &mut RequestBatch<'_, '_>) -> BatchEnd {
        if let Some(http2) = self.detect_http2(bytes) {
            return BatchEnd::Next(http2);
        }
        loop {
            // The machine takes what was read in any case.
            if bytes.is_empty() {
                if !self.machine.may_have_event() {
                    return BatchEnd::NeedsInput;
                }
                if batch.out.len() >= OUTPUT_FULL_BYTES || batch.budget.is_spent() {
                    return BatchEnd::OutputFull;
                }
            }
            let service = self.connection.load_service();
            match self.machine.receive(bytes, batch.now, &self.connection.info.limits.http) {
                Ok(Some(Event::Request(head))) => match self.handle_request(&service, &head, batch) {
                    Ok(Some(next)) => return BatchEnd::Next(next),
                    Ok(None) => {}
                    Err(rejection) => return self.reject(rejection, batch),
                },
                // Body events occur only during an exchange.
                Ok(None | Some(_)) => return BatchEnd::NeedsInput,
                // The first line of a client that may speak HTTP/2 is neither that of a request nor a preface.
                Err(Rejection::BadRequestLine)
                    if self.connection.context.address.h2c && self.machine.requests() == 0 =>
                {
                    self.connection.context.worker.counters.rejected.add(1);
                    let reason = "neither HTTP/1.1 nor the preface of HTTP/2";
                    report_closed(&*service, &self.connection.client(0), reason, batch.now);
                    return BatchEnd::Next(State::Close(CloseMode::Linger));
                }
                Err(rejection) => return self.reject(rejection, batch),
            }
            bytes = &[];
        }
    }

    /// Handles a request. Encodes an immediate response in `out`; otherwise returns the connection's next
    /// state.
    fn handle_request(
        &mut self,
        service: &S::Service,
        head: &RequestHead<'_>,
        batch: &mut RequestBatch<'_, '_>,
    ) -> Result<Option<State>, Rejection> {
        self.connection.context.worker.counters.requests.add(1);
        batch.budget.spend_request();
        if self.connection.timer.begin_request() {
            self.machine.close_after_response();
        }
        let place = (self.machine.requests(), batch.now);
        let (body, upload) = self.attach_body(head.body_length(), batch.now)?;
        let (reply, mut record) = self.connection.dispatch(service, head, body, place);
        record.earlier_bytes = batch.out.len() as u64;
        let mut response = match reply.unwrap_or_else(|| self.internal_error().into()) {
            Reply::Now(response) => response,
            Reply::Later(future) => {
                let unobserved = record.unobserved.take();
                let mut exchange = Exchange::new(upload, record);
                exchange.output.push(batch.out, std::mem::take(batch.records));
                return Ok(Some(State::Handler(Box::new(Handler::new(future, exchange, unobserved)))));
            }
        };
        record.begin(self.begin(&mut response, upload.as_ref(), batch.date, batch.out));
        if upload.is_none()
            && response.upgrade.is_none()
            && let Some(body_bytes) = self.encode_small_body(&response.body, batch.now, batch.out)
        {
            record.body_bytes = body_bytes;
            batch.budget.spend(body_bytes);
            if record.observer.is_some() {
                record.sent_bytes = batch.out.len() as u64;
                batch.records.push(record);
            }
            return Ok(None);
        }
        let mut exchange = Exchange::new(upload, record);
        exchange.output.add_earlier(std::mem::take(batch.records));
        let worker = self.connection.context.worker.clone();
        let mut poll_cx = PollContext::new(batch.cx, &worker.counters, batch.budget);
        let next = self.send(response, &mut exchange, &mut poll_cx, batch.out);
        Ok(Some(next).filter(|next| !matches!(next, State::Head)))
    }

    /// Encodes the head of a response. An invalid response is replaced by an error.
    pub(super) fn begin(
        &mut self,
        response: &mut Response,
        upload: Option<&Upload>,
        date: &DateLine,
        out: &mut BytesMut,
    ) -> StatusCode {
        if matches!(response.body, Body::Silence) {
            self.machine.end_without_response();
            return response.status();
        }
        match upload {
            Some(upload) if upload.is_body_dropped() => self.machine.ignore_body(),
            // The service still reads the body; after the response head, 100 Continue would be too late.
            Some(_) => self.machine.encode_continue(out),
            None => {}
        }
        if !self.is_valid(response) {
            *response = self.internal_error();
        }
        if self.connection.context.ends_connections() {
            self.machine.close_after_response();
        }
        self.machine.begin(
            response.head.encodable(),
            response.body.length(),
            &self.connection.info.limits.http,
            date,
            out,
        );
        response.status()
    }

    /// Whether the response is valid; otherwise the client receives status 500. An interim status cannot be
    /// final, and a change of protocol needs an [`Upgrade`](rudy_service::Upgrade) and a request that allows it.
    fn is_valid(&self, response: &Response) -> bool {
        let status = response.status();
        let upgrades = response.upgrade.is_some() && self.machine.can_upgrade();
        !status.is_informational() || status == StatusCode::SWITCHING_PROTOCOLS && upgrades
    }

    /// Encodes a body that is small and in memory, or that is not sent. Returns its length.
    pub(super) fn encode_small_body(&mut self, body: &Body, now: Instant, out: &mut BytesMut) -> Option<u64> {
        let whole: &[u8] = match body {
            Body::Silence => return Some(0),
            _ if !self.machine.sends_body() => &[],
            Body::Empty => &[],
            Body::Bytes(bytes) if bytes.len() <= GATHERED_BYTES => bytes,
            _ => return None,
        };
        // Cannot fail: the length in the head is the length of these bytes.
        self.machine.encode_piece(whole, out).and_then(|()| self.machine.finish(None, now, out)).ok()?;
        Some(whole.len() as u64)
    }

    /// Sends the response of a service that had to wait.
    pub(super) fn respond(
        &mut self,
        mut response: Response,
        exchange: &mut Exchange,
        poll_cx: &mut PollContext<'_, '_>,
        scratch: &mut Scratch,
    ) -> State {
        let Scratch { out, date, .. } = scratch;
        let status = self.begin(&mut response, exchange.upload(), date, out);
        exchange.begin_record(status);
        if response.upgrade.is_none()
            && let Some(body_bytes) = self.encode_small_body(&response.body, poll_cx.now, out)
        {
            response.body = Body::Empty;
            poll_cx.framed(body_bytes);
        }
        self.send(response, exchange, poll_cx, out)
    }

    /// Responds to a rejected request after those before it.
    fn reject(&mut self, rejection: Rejection, batch: &mut RequestBatch<'_, '_>) -> BatchEnd {
        let earlier = std::mem::take(batch.records);
        let exchange = Exchange::default();
        BatchEnd::Next(self.respond_to_rejected(rejection, exchange, earlier, batch.date, batch.out))
    }

    /// Attaches the body that the request head announces: in memory, if all of it arrived with the head.
    fn attach_body(
        &mut self,
        length: BodyLength,
        now: Instant,
    ) -> Result<(RequestBody, Option<Upload>), Rejection> {
        Ok(match length {
            BodyLength::Known(0) => (RequestBody::empty(), None),
            BodyLength::Known(length) => match self.take_whole_body(length, now)? {
                Some(body) => (RequestBody::whole(body), None),
                None => Upload::new(Some(length)),
            },
            BodyLength::Chunked => Upload::new(None),
        })
    }

    /// Returns the body if all of it has arrived.
    fn take_whole_body(&mut self, length: u64, now: Instant) -> Result<Option<Bytes>, Rejection> {
        if (self.machine.buffered_bytes() as u64) < length {
            return Ok(None);
        }
        let limits = &self.connection.info.limits.http;
        let Some(Event::Body(body)) = self.machine.receive(&[], now, limits)? else { return Ok(None) };
        // Consumes the event for the end of the body.
        self.machine.receive(&[], now, limits)?;
        Ok(Some(body))
    }

    /// Writes `out`. Returns `true` if the kernel has all of it; otherwise the rest stays in `out`.
    fn write(&mut self, cx: &mut Context<'_>, out: &mut BytesMut) -> std::io::Result<bool> {
        match self.connection.io.poll_write(cx, &[IoSlice::new(out)], false)? {
            Poll::Pending => return Ok(false),
            Poll::Ready(written) => {
                self.connection.context.worker.counters.sent_bytes.add(written as u64);
                out.advance(written);
            }
        }
        Ok(out.is_empty() && self.connection.io.poll_flush(cx)?.is_ready())
    }
}
