//! Sends responses.

use std::sync::Arc;
use std::task::Poll;
use std::time::Instant;

use bytes::BytesMut;
use rudy_http::h2::{DATA_BYTES_MAX, ErrorCode, HEAD_BYTES};
use rudy_service::{Body, EndReason, GATHERED_BYTES, Observer, ServiceSource};

use super::exchange::{Exchange, Phase};
use super::framing::StreamFraming;
use super::input::Turn;
use super::{Fault, Http2};
use crate::driver::frames::FRAMES_MAX;
use crate::driver::framing::Layout;
use crate::driver::http1::PEER_CHECK_INTERVAL;
use crate::driver::output::RawPiece;
use crate::driver::poll_context::PollContext;
use crate::driver::pump::Filled;
use crate::driver::{Connection, internal_error};
use crate::scratch::Scratch;
use crate::transport::{PeerClose, peer_close};

/// Responses are written when they reach this size.
const OUTPUT_FULL_BYTES: usize = 64 * 1024;

impl Http2 {
    /// Whether responses may be encoded now.
    pub(super) fn may_encode(&self, out: &BytesMut) -> bool {
        !self.output.has_queued() && out.len() < OUTPUT_FULL_BYTES
    }

    /// Polls the services that have woken, and gives them what has arrived of their bodies.
    pub(super) fn poll_services<S: ServiceSource>(
        &mut self,
        connection: &Connection<S>,
        poll_cx: &mut PollContext<'_, '_>,
        scratch: &mut Scratch,
    ) {
        let has_question = connection.context.worker.timers.has_question();
        if has_question || connection.context.worker.is_stopping() && !self.is_stopping {
            self.is_stopping = connection.context.worker.is_stopping();
            self.exchanges.schedule_all(|_| true);
        }
        for stream in self.exchanges.take_scheduled(poll_cx.cx.waker(), poll_cx.now) {
            let Some(exchange) = self.exchanges.begin_poll(stream) else { continue };
            if has_question {
                exchange.observe(connection);
            }
            let asking = exchange.record.as_ref().filter(|_| has_question);
            let asking = asking.and_then(|record| record.observer.clone());
            let waker = exchange.waker();
            let (has_response, due) = poll_cx
                .poll_part(&waker, |poll_cx| self.poll_service(stream, asking, poll_cx, &mut scratch.out));
            let Some(exchange) = self.exchanges.get_mut(stream) else { continue };
            exchange.due = due;
            if has_response && exchange.response_takes_time() {
                exchange.observe(connection);
            }
            if has_response || matches!(exchange.phase, Phase::Body(_)) {
                self.exchanges.go_on(stream);
            }
        }
    }

    /// Gives a service what has arrived of its body, and polls it unless it has responded. Returns whether it responds now.
    fn poll_service(
        &mut self,
        stream: u32,
        asking: Option<Arc<dyn Observer>>,
        poll_cx: &mut PollContext<'_, '_>,
        out: &mut BytesMut,
    ) -> bool {
        let accepts_interim = !self.output.is_blocked();
        let Some(exchange) = self.exchanges.get_mut(stream) else { return false };
        if let Some(upload) = &mut exchange.upload {
            let passed_on = upload.poll(stream, !self.is_paused, &mut self.machine, poll_cx, out);
            if passed_on > 0 {
                self.machine.pass_on(stream, passed_on, out);
            }
        }
        let Phase::Handler(future) = &mut exchange.phase else { return false };
        let (polled, interim) = poll_cx.poll_handler(accepts_interim, asking, |cx| future.as_mut().poll(cx));
        for (status, fields) in interim {
            let _is_sent = self.machine.encode_interim(stream, status, &fields, out);
        }
        let response = match polled {
            Ok(Poll::Pending) => return false,
            Ok(Poll::Ready(response)) => response,
            Err(_) => internal_error(),
        };
        exchange.phase = Phase::Response(Box::new(response));
        true
    }

    /// Encodes the head of a response that is ready, and all of it if it is small. Returns whether nothing is left to send.
    pub(super) fn begin_response(&mut self, exchange: &mut Exchange, turn: &mut Turn<'_>) -> bool {
        let Turn { now, date, budget, ref mut out } = *turn;
        let stream = exchange.stream;
        let Some(response) = exchange.take_response() else { return false };
        // Interim responses are sent before, and HTTP/2 has no change of protocol (RFC 9113 §8.6).
        let is_valid = !response.status().is_informational() && response.upgrade.is_none();
        let response = if is_valid { response } else { internal_error() };
        let before = out.len();
        Self::record_begin(exchange.record.as_mut(), response.status());
        if matches!(response.body, Body::Silence) {
            self.drop_upload(exchange, out);
            // Not REFUSED_STREAM, after which clients send the request again (RFC 9113 §8.7).
            self.machine.reset(stream, ErrorCode::CANCEL, now, out);
            self.encoded.extend(exchange.record.take());
            return true;
        }
        self.machine.begin(stream, response.head.encodable(), response.body.length(), date, out);
        let encoded_bytes = match &response.body {
            _ if !self.machine.is_in_body(stream) => Some(0),
            Body::Bytes(bytes)
                if bytes.len() as u64 <= self.machine.window(stream).min(GATHERED_BYTES as u64) =>
            {
                self.machine.encode_piece(stream, bytes, out).ok().map(|()| bytes.len() as u64)
            }
            _ => None,
        };
        if let Some(record) = &mut exchange.record {
            record.sent_bytes += (out.len() - before) as u64;
        }
        let Some(body_bytes) = encoded_bytes else {
            if let Phase::Body(pump) = &mut exchange.phase {
                pump.set_body(response.body);
            }
            return false;
        };
        budget.spend(body_bytes);
        self.drop_upload(exchange, out);
        self.machine.close(stream, now);
        if let Some(mut record) = exchange.record.take() {
            record.body_bytes += body_bytes;
            self.encoded.push(record);
        }
        true
    }

    /// Sends what is encoded, and encodes more as long as the client reads.
    pub(super) fn write<S: ServiceSource>(
        &mut self,
        connection: &mut Connection<S>,
        poll_cx: &mut PollContext<'_, '_>,
        scratch: &mut Scratch,
    ) -> Result<(), Fault> {
        let (sent_before, was_blocked) = (poll_cx.sent_bytes, self.output.has_queued());
        loop {
            let raw = if self.output.has_queued() {
                None
            } else {
                self.begin_responses(poll_cx, scratch);
                self.fill(poll_cx, &mut scratch.out)
            };
            let has_output = !scratch.out.is_empty() || raw.is_some() || self.output.has_queued();
            if !has_output {
                break;
            }
            let piece_bytes = raw.as_ref().map_or(0, RawPiece::length);
            let sent = self.output.poll(&mut connection.io, poll_cx, &mut scratch.out, raw)?;
            if sent.is_pending() {
                self.frames = 1;
                self.output.add_earlier(std::mem::take(&mut self.encoded));
                break;
            }
            if piece_bytes >= (self.frames * DATA_BYTES_MAX) as u64 {
                self.frames = (2 * self.frames).min(FRAMES_MAX);
            }
            self.output.release();
            self.close_sent(poll_cx.now, &mut scratch.out);
            self.encoded.drain(..).for_each(|mut record| record.finish(EndReason::Completed));
            if poll_cx.budget.is_spent() {
                break;
            }
        }
        if poll_cx.sent_bytes > sent_before
            && let Some(last_sign) = &mut self.half_closed
        {
            *last_sign = poll_cx.now;
        }
        self.read_ahead(was_blocked, poll_cx, &mut scratch.out);
        Ok(())
    }

    /// Begins responses that are ready.
    fn begin_responses(&mut self, poll_cx: &PollContext<'_, '_>, scratch: &mut Scratch) {
        let Scratch { out, date, .. } = scratch;
        let turn = &mut Turn { now: poll_cx.now, date, budget: poll_cx.budget, out };
        while self.may_encode(turn.out)
            && let Some(mut exchange) = self.exchanges.take_response()
        {
            if !self.begin_response(&mut exchange, turn) {
                self.exchanges.insert(exchange);
            }
        }
    }

    /// Frames data of bodies in the order of their priorities, up to a piece that bypasses the buffer.
    fn fill(&mut self, poll_cx: &mut PollContext<'_, '_>, out: &mut BytesMut) -> Option<RawPiece> {
        while out.len() < GATHERED_BYTES && !poll_cx.budget.is_spent() {
            let stream = self.exchanges.next_body()?;
            match self.fill_from(stream, poll_cx, out) {
                Ok(Filled::Ready(None)) => {}
                Ok(Filled::Ready(raw)) => return raw,
                Ok(Filled::Blocked) if !self.machine.has_window() => {
                    self.wait_for_window(poll_cx.now);
                    return None;
                }
                Ok(Filled::Blocked | Filled::Idle) => self.exchanges.dequeue(stream),
                Err(end_reason) => self.abort(stream, end_reason, poll_cx.now, out),
            }
        }
        None
    }

    /// Frames data of a body.
    fn fill_from(
        &mut self,
        stream: u32,
        poll_cx: &mut PollContext<'_, '_>,
        out: &mut BytesMut,
    ) -> Result<Filled, EndReason> {
        let Some(exchange) = self.exchanges.begin_poll(stream) else { return Ok(Filled::Idle) };
        let waker = exchange.waker();
        let Phase::Body(pump) = &mut exchange.phase else { return Ok(Filled::Idle) };
        if self.is_stopping && pump.is_live() {
            pump.end_body();
        }
        let (before, start) = (poll_cx.body_bytes, out.len());
        let mut framing = StreamFraming { machine: &mut self.machine, stream };
        // A frame must not begin before its bytes are there: a file that shrinks would end the connection.
        let layout = Layout { head_bytes: HEAD_BYTES, data_bytes: DATA_BYTES_MAX, frames: self.frames };
        let (filled, due) =
            poll_cx.poll_part(&waker, |poll_cx| pump.fill(&mut framing, Some(layout), poll_cx, out));
        let framed = poll_cx.body_bytes - before;
        exchange.due = due;
        self.is_out_of_window &= framed == 0;
        if let Some(record) = &mut exchange.record {
            record.body_bytes += framed;
            let raw = if let Ok(Filled::Ready(Some(raw))) = &filled { raw.length() } else { 0 };
            record.sent_bytes += (out.len() - start) as u64 + raw;
        }
        match filled {
            Ok(Filled::Blocked) => {
                if framed > 0 {
                    exchange.pace.record_bytes(framed, poll_cx.now);
                }
                exchange.pace.start_waiting(poll_cx.now);
            }
            _ => exchange.pace.record_bytes(framed, poll_cx.now),
        }
        let turn = exchange.served.max(self.turn) + 1;
        self.turn = turn;
        if self.machine.is_in_body(stream) {
            self.exchanges.reorder(stream, |exchange| exchange.served = turn);
        } else if filled.is_ok() {
            exchange.phase = Phase::Sent;
            self.exchanges.go_on(stream);
        }
        filled
    }

    /// The bodies that can be sent wait for the window of the connection, from when it is used up, or from when they are ready.
    fn wait_for_window(&mut self, now: Instant) {
        let was_out = std::mem::replace(&mut self.is_out_of_window, true);
        let streams = if was_out {
            self.exchanges.changed(|exchange| exchange.is_queued)
        } else {
            self.exchanges.queued()
        };
        for stream in streams {
            if let Some(exchange) = self.exchanges.get_mut(stream) {
                exchange.pace.start_waiting(now);
                self.exchanges.change(stream);
            }
        }
    }

    /// Closes the streams whose responses the kernel has.
    fn close_sent(&mut self, now: Instant, out: &mut BytesMut) {
        for stream in self.exchanges.take_encoded() {
            let Some(mut exchange) = self.exchanges.remove(stream) else { continue };
            self.drop_upload(&mut exchange, out);
            self.machine.close(exchange.stream, now);
            self.encoded.extend(exchange.record.take());
        }
    }

    /// Drops what is stored of a request body, which no longer counts in the window of the connection.
    pub(super) fn drop_upload(&mut self, exchange: &mut Exchange, out: &mut BytesMut) {
        let stored = exchange.upload.take().map_or(0, |upload| upload.stored_bytes());
        if stored > 0 {
            self.machine.pass_on(exchange.stream, stored, out);
        }
    }

    /// Resets a stream whose response cannot be completed.
    fn abort(&mut self, stream: u32, end_reason: EndReason, now: Instant, out: &mut BytesMut) {
        let Some(mut exchange) = self.exchanges.remove(stream) else { return };
        self.drop_upload(&mut exchange, out);
        let code = match end_reason {
            EndReason::PeerStalled | EndReason::Killed => ErrorCode::CANCEL,
            _ => ErrorCode::INTERNAL_ERROR,
        };
        self.machine.reset(stream, code, now, out);
        if let Some(mut record) = exchange.record.take() {
            record.finish(end_reason);
        }
    }

    /// Resets the streams whose exchanges an operator has ended.
    pub(super) fn end_killed(&mut self, kills: u64, now: Instant, out: &mut BytesMut) {
        if std::mem::replace(&mut self.kills, kills) != kills {
            for stream in self.exchanges.streams(Exchange::is_killed) {
                self.abort(stream, EndReason::Killed, now, out);
            }
        }
    }

    /// Lets bodies that cannot be sent read ahead from their sources, or give up the client: those that have changed, and all when the
    /// client stops to read.
    fn read_ahead(&mut self, was_blocked: bool, poll_cx: &mut PollContext<'_, '_>, out: &mut BytesMut) {
        let is_blocked = self.output.has_queued();
        let waits = |exchange: &Exchange| is_blocked || exchange.pace.is_waiting();
        let mut streams = self.exchanges.changed(waits);
        if is_blocked && !was_blocked {
            streams.extend(self.exchanges.queued());
        }
        for stream in streams {
            let exchange = self.exchanges.get_mut(stream).filter(|exchange| !exchange.reads_ahead);
            let Some(exchange) = exchange else { continue };
            let waker = exchange.waker();
            let Phase::Body(pump) = &mut exchange.phase else { continue };
            let (polled, due) = poll_cx.poll_part(&waker, |poll_cx| pump.poll_blocked(poll_cx));
            (exchange.due, exchange.reads_ahead) = (due, true);
            self.exchanges.change(stream);
            if let Poll::Ready(Err(end_reason)) = polled {
                self.abort(stream, end_reason, poll_cx.now, out);
            }
        }
    }

    /// Checks all deadlines, and sets the time of the next poll.
    pub(super) fn check_deadlines<S: ServiceSource>(
        &mut self,
        connection: &mut Connection<S>,
        poll_cx: &mut PollContext<'_, '_>,
        scratch: &mut Scratch,
    ) -> Result<(), Fault> {
        let (limits, now) = (connection.info.limits.clone(), poll_cx.now);
        let is_past = |deadline: Option<Instant>| deadline.is_some_and(|deadline| deadline <= now);
        if self.output.has_stalled(&connection.io, &limits.http, now) {
            return Err(EndReason::PeerStalled.into());
        }
        if is_past(self.half_closed.map(|since| since + limits.http.half_close_timeout)) && !self.is_idle() {
            if !self.output.has_progressed(&connection.io, now) {
                return Err(EndReason::PeerGone.into());
            }
            self.half_closed = Some(now);
        }
        if self.is_paused {
            // Nothing else finds out that the client has disconnected.
            if peer_close(&connection.io) == PeerClose::Both {
                return Err(EndReason::PeerGone.into());
            }
            poll_cx.wake_at([now + PEER_CHECK_INTERVAL]);
        }
        if self.exchanges.is_due(now) {
            self.reject_slow_uploads(connection, &limits, poll_cx, scratch);
            for stream in self.exchanges.streams(|exchange| is_past(exchange.window_deadline(&limits.http))) {
                self.abort(stream, EndReason::PeerStalled, now, &mut scratch.out);
            }
        }
        if is_past(self.shutdown_due) {
            self.shutdown_due = None;
            self.machine.stop_accepting(&mut scratch.out);
        }
        self.machine.expire(now, &limits.http, &mut scratch.out);
        // While nothing is read, the client is not slow, but the connections may store less at any time.
        let frame_deadline = (!self.is_paused).then(|| self.machine.deadline(&limits.http)).flatten();
        if is_past(frame_deadline) {
            return Err(self.machine.timeout().map_or(Fault::Idle, Fault::Protocol));
        }
        if !scratch.out.is_empty() {
            self.write(connection, poll_cx, scratch)?;
        }
        let due = self.exchanges.settle(&limits.http, now, |exchange| exchange.show(connection));
        poll_cx.wake_at(due);
        poll_cx.wake_at(self.half_closed.map(|since| since + limits.http.half_close_timeout));
        poll_cx.wake_at(self.output.deadline(&limits.http));
        poll_cx.wake_at(frame_deadline);
        poll_cx.wake_at(self.shutdown_due);
        Ok(())
    }
}
