//! The quick way: a request that is whole, answered at once, and taken by the socket in one write, costs one poll.

use std::task::{Context, Poll};
use std::time::Instant;

use bytes::BytesMut;
use http::{Request, StatusCode};
use rudy_http::h1::{AnswerHead, BodyLength, DateLine, Event, Phase, Refusal, Timeout};
use tokio::io::ReadBuf;

use super::exchange::Exchange;
use super::record::{Record, refused};
use super::upload::Upload;
use super::{Connection, Step, give_turn};
use crate::close::Ending;
use crate::engine::Source;
use crate::scratch::{Scratch, with_scratch};
use crate::transport::Transport;
use crate::{Body, Ended, Head, Reply, RequestBody, Response};

/// A body up to this size is copied behind its head and sent with it: 16 KiB cost less to copy than a second segment of
/// a gathered write costs the kernel to look at, and several small answers to a pipeline leave in one write.
const COPIED_BODY_BYTES: usize = 16 * 1024;
/// Answers to a pipeline are written when they have come to this, whatever else is waiting.
const OUT_FULL_BYTES: usize = 64 * 1024;

/// What became of the requests in a read.
enum Answered {
    /// Everything that could be is answered; more has to come.
    All,
    /// There may be more, but the output is to be written first.
    OutFull,
    /// One of them takes longer.
    Exchange(Box<Exchange>),
}

impl<T: Transport, S: Source> Connection<T, S> {
    /// Reads, answers and writes as long as nothing has to wait; then waits for the next request.
    pub(super) fn poll_quick(&mut self, cx: &mut Context<'_>) -> Poll<Step> {
        let now = Instant::now();
        with_scratch(now, |scratch| self.quick(cx, now, scratch))
    }

    fn quick(&mut self, cx: &mut Context<'_>, now: Instant, scratch: &mut Scratch) -> Poll<Step> {
        let mut records = Vec::new();
        let mut read = 0;
        loop {
            let Scratch { input, out, date, .. } = scratch;
            let is_looked_up = read > 0;
            let answered = self.answer(&input[..read], now, date, out, &mut records);
            if let Answered::Exchange(exchange) = answered {
                return Poll::Ready(Step::Exchange(exchange));
            }
            if !out.is_empty() {
                match self.write(cx, out) {
                    Ok(true) => records.drain(..).for_each(|mut record| record.finish(Ended::Complete)),
                    Ok(false) => {
                        let exchange = Exchange::flush(std::mem::take(&mut records), out);
                        return Poll::Ready(Step::Exchange(exchange));
                    }
                    Err(_) => {
                        records.drain(..).for_each(|mut record| record.finish(Ended::PeerGone));
                        return Poll::Ready(Step::End(Ending::Cut));
                    }
                }
            }
            if matches!(self.machine.phase(), Phase::Close | Phase::Upgrade) {
                return Poll::Ready(Step::End(Ending::Finished));
            }
            if matches!(answered, Answered::OutFull) {
                // There are more requests; but first the other connections of this core have their turn.
                return give_turn(cx);
            }
            let mut buffer = ReadBuf::new(input);
            let polled = self.io.poll_receive(cx, &mut buffer);
            read = buffer.filled().len();
            match polled {
                Poll::Pending => {
                    // A request that was just answered has looked it up.
                    if !is_looked_up {
                        drop(self.look_up());
                    }
                    return self.wait(cx, now, &scratch.date, &mut scratch.out);
                }
                Poll::Ready(Err(_)) => return Poll::Ready(Step::End(Ending::Cut)),
                Poll::Ready(Ok(())) => {}
            }
            if read == 0 {
                return Poll::Ready(Step::End(Ending::Quiet));
            }
            self.context.worker.counters.received_bytes.add(read as u64);
        }
    }

    /// Nothing to read: sets the deadline, unless it has passed or the server is stopping.
    fn wait(
        &mut self,
        cx: &mut Context<'_>,
        now: Instant,
        date: &DateLine,
        out: &mut BytesMut,
    ) -> Poll<Step> {
        // What the kernel has and the runtime has not told us of yet is a request that came in time.
        if self.machine.phase() == Phase::Idle && self.awaits_no_request() && !self.io.has_unread() {
            return Poll::Ready(Step::End(Ending::Quiet));
        }
        if let Some(deadline) = self.machine.deadline(&self.limits.http)
            && now < deadline
        {
            self.timer.set(Some(deadline), cx.waker());
            return Poll::Pending;
        }
        match self.machine.timeout(now, &self.limits.http) {
            // Nothing waits here without a deadline. If it does, it is a bug, and ends.
            Timeout::NotYet => Poll::Ready(Step::End(Ending::Cut)),
            Timeout::Silent => Poll::Ready(Step::End(Ending::Quiet)),
            Timeout::Refuse(refusal) => {
                self.refuse(refusal, self.machine.waiting_since(), date, out);
                Poll::Ready(Step::Exchange(Exchange::flush(Vec::new(), out)))
            }
        }
    }

    /// Whether an idle connection is closed: the server stops, or after at least one response the connection may have no
    /// further request. One without a response yet belongs to a client that is about to send its first request, which such a
    /// client may not be able to repeat.
    fn awaits_no_request(&self) -> bool {
        let requests = self.machine.requests();
        let has_had_all = self.limits.http.requests_per_connection.is_some_and(|most| requests >= most);
        self.context.worker.is_stopping() || requests > 0 && (has_had_all || self.context.ends_connections())
    }

    /// Answers the requests in `bytes`, and those that were left over, as far as nothing has to wait.
    fn answer(
        &mut self,
        mut bytes: &[u8],
        now: Instant,
        date: &DateLine,
        out: &mut BytesMut,
        records: &mut Vec<Record>,
    ) -> Answered {
        while out.len() < OUT_FULL_BYTES {
            if bytes.is_empty() && !self.machine.has_unconsumed() {
                return Answered::All;
            }
            let service = self.look_up();
            match self.machine.receive(bytes, now, &self.limits.http) {
                Ok(Some(Event::Request(head))) => {
                    let request = head.into_request();
                    if let Some(exchange) = self.exchange(&service, request, now, date, out, records) {
                        return Answered::Exchange(exchange);
                    }
                }
                // Pieces of a body come only while its exchange is under way.
                Ok(None | Some(_)) => return Answered::All,
                Err(refusal) => {
                    self.refuse(refusal, self.machine.waiting_since(), date, out);
                    return Answered::All;
                }
            }
            bytes = &[];
        }
        Answered::OutFull
    }

    /// Answers one request: encoded in `out` if that can be done at once, otherwise as an exchange that goes on from here.
    fn exchange(
        &mut self,
        service: &S::Service,
        request: Request<BodyLength>,
        now: Instant,
        date: &DateLine,
        out: &mut BytesMut,
        records: &mut Vec<Record>,
    ) -> Option<Box<Exchange>> {
        let (request, upload) = with_body(request);
        let call = self.call(service, request);
        let mut record = Record::new(call.observer, now);
        let mut response = match call.reply {
            Reply::Now(response) => response,
            Reply::Later(future) => {
                records.push(record);
                return Some(Exchange::waiting(future, upload, std::mem::take(records), out));
            }
        };
        self.begin(&mut response, upload.as_ref(), &mut record, date, out);
        if upload.is_none()
            && response.upgrade.is_none()
            && self.finish_quickly(&response.body, now, &mut record, out)
        {
            if record.observer.is_some() {
                records.push(record);
            }
            return None;
        }
        records.push(record);
        Some(Exchange::sending(response, upload, std::mem::take(records), out))
    }

    /// Encodes the head of an answer. An answer that must not be given is replaced by one that says so.
    pub(super) fn begin(
        &mut self,
        response: &mut Response,
        upload: Option<&Upload>,
        record: &mut Record,
        date: &DateLine,
        out: &mut BytesMut,
    ) {
        match upload {
            Some(upload) if upload.is_unwanted() => self.machine.ignore_body(),
            // After the head of the answer it would be too late to ask for the body that the answer still reads.
            Some(_) => self.machine.want_body(out),
            None => {}
        }
        if !self.is_possible(response) {
            *response = self.bug();
        }
        if self.context.ends_connections() {
            self.machine.close_after_answer();
        }
        let head = match &response.head {
            Head::Fields(status, headers) => AnswerHead::Fields(*status, headers),
            Head::Prepared(prepared) => AnswerHead::Prepared(prepared),
        };
        record.begin(head.status());
        self.machine.begin(head, response.body.length(), &self.limits.http, date, out);
    }

    /// An interim answer cannot be the last one, and a change of protocol needs somebody who takes over, and a request that
    /// allows it: what a service must not answer is answered 500.
    fn is_possible(&self, response: &Response) -> bool {
        let status = response.status();
        let upgrades = response.upgrade.is_some() && self.machine.can_upgrade();
        !status.is_informational() || status == StatusCode::SWITCHING_PROTOCOLS && upgrades
    }

    /// Encodes the body too, if it is small and in memory, or not sent at all.
    pub(super) fn finish_quickly(
        &mut self,
        body: &Body,
        now: Instant,
        record: &mut Record,
        out: &mut BytesMut,
    ) -> bool {
        let whole: &[u8] = match body {
            _ if !self.machine.sends_body() => &[],
            Body::Empty => &[],
            Body::Bytes(bytes) if bytes.len() <= COPIED_BODY_BYTES => bytes,
            _ => return false,
        };
        record.body_bytes = whole.len() as u64;
        // The length that was promised is that of these bytes.
        self.machine.piece(whole, out).and_then(|()| self.machine.finish(None, now, out)).is_ok()
    }

    /// Encodes a refusal, and tells the service.
    pub(super) fn refuse(&mut self, refusal: Refusal, since: Instant, date: &DateLine, out: &mut BytesMut) {
        self.context.worker.counters.refused.add(1);
        self.machine.refuse(refusal, date, out);
        refused(&*self.look_up(), &self.client(), refusal, since);
    }

    /// Writes `out`; true if the socket took all of it. What is left stays in `out`.
    fn write(&mut self, cx: &mut Context<'_>, out: &mut BytesMut) -> std::io::Result<bool> {
        match self.io.poll_send(cx, out) {
            Poll::Pending => Ok(false),
            Poll::Ready(Err(error)) => Err(error),
            Poll::Ready(Ok(written)) => {
                self.context.worker.counters.sent_bytes.add(written as u64);
                if written == out.len() {
                    out.clear();
                    return Ok(true);
                }
                bytes::Buf::advance(out, written);
                Ok(false)
            }
        }
    }
}

/// Gives a request the body that its head announces.
fn with_body(request: Request<BodyLength>) -> (crate::Request, Option<Upload>) {
    let (parts, length) = request.into_parts();
    let (body, upload) = match length {
        BodyLength::Known(0) => (RequestBody::empty(), None),
        BodyLength::Known(length) => Upload::new(Some(length)),
        BodyLength::Chunked => Upload::new(None),
    };
    (Request::from_parts(parts, body), upload)
}
