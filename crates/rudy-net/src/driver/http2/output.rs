//! Sends responses.

use std::task::Poll;
use std::time::Instant;

use bytes::BytesMut;
use rudy_http::h2::ErrorCode;
use rudy_service::{Body, EndReason, GATHERED_BYTES, ServiceSource};

use super::exchange::{Exchange, Phase};
use super::framing::StreamFraming;
use super::input::Turn;
use super::{Fault, Http2};
use crate::driver::input::PEER_CHECK_INTERVAL;
use crate::driver::output::RawPiece;
use crate::driver::poll_context::PollContext;
use crate::driver::pump::{Filled, Pump};
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

    /// Polls the services that have not responded, and gives them what has arrived of their bodies.
    pub(super) fn poll_services<S: ServiceSource>(
        &mut self,
        connection: &Connection<S>,
        poll_cx: &mut PollContext<'_, '_>,
        scratch: &mut Scratch,
    ) {
        let (out, accepts_interim) = (&mut scratch.out, !self.output.is_blocked());
        let is_stopping = connection.context.worker.is_stopping();
        let has_question = connection.context.worker.timers.has_question();
        for exchange in &mut self.exchanges {
            let stream = exchange.stream;
            if has_question {
                exchange.observe(connection);
            }
            let asking = exchange.record.as_ref().filter(|_| has_question);
            let asking = asking.and_then(|record| record.observer.clone());
            if let Some(upload) = &mut exchange.upload {
                let passed_on = upload.poll(stream, !self.is_paused, &mut self.machine, poll_cx, out);
                if passed_on > 0 {
                    self.machine.pass_on(stream, passed_on, out);
                }
            }
            match &mut exchange.phase {
                Phase::Handler(future) => {
                    let (response, interim) =
                        poll_cx.poll_handler(accepts_interim, asking, |cx| future.as_mut().poll(cx));
                    for (status, fields) in interim {
                        let _is_sent = self.machine.encode_interim(stream, status, &fields, out);
                    }
                    let response = match response {
                        Ok(Poll::Pending) => continue,
                        Ok(Poll::Ready(response)) => response,
                        Err(_) => internal_error(),
                    };
                    if response.takes_time() {
                        exchange.observe(connection);
                    }
                    exchange.phase = Phase::Response(Box::new(response));
                }
                Phase::Body(pump) if is_stopping && pump.is_live() => pump.end_body(),
                Phase::Response(_) | Phase::Body(_) | Phase::Sent => {}
            }
        }
    }

    /// Encodes the head of a response, and all of it if it is small. Returns the exchange if its body is left to send.
    pub(super) fn begin_response(&mut self, mut exchange: Exchange, turn: &mut Turn<'_>) -> Option<Exchange> {
        let Turn { now, date, budget, ref mut out } = *turn;
        let (stream, phase) =
            (exchange.stream, std::mem::replace(&mut exchange.phase, Phase::Body(Pump::default())));
        let Phase::Response(response) = phase else {
            exchange.phase = phase;
            return Some(exchange);
        };
        // Interim responses are sent before, and HTTP/2 has no change of protocol (RFC 9113 §8.6).
        let is_valid = !response.status().is_informational() && response.upgrade.is_none();
        let response = if is_valid { *response } else { internal_error() };
        let before = out.len();
        Self::record_begin(exchange.record.as_mut(), response.status());
        if matches!(response.body, Body::Silence) {
            self.drop_upload(&mut exchange, out);
            // Not REFUSED_STREAM, after which clients send the request again (RFC 9113 §8.7).
            self.machine.reset(stream, ErrorCode::CANCEL, now, out);
            self.encoded.extend(exchange.record.take());
            return None;
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
            return Some(exchange);
        };
        budget.spend(body_bytes);
        self.drop_upload(&mut exchange, out);
        self.machine.close(stream, now);
        if let Some(mut record) = exchange.record.take() {
            record.body_bytes += body_bytes;
            self.encoded.push(record);
        }
        None
    }

    /// Sends what is encoded, and encodes more as long as the client reads.
    pub(super) fn write<S: ServiceSource>(
        &mut self,
        connection: &mut Connection<S>,
        poll_cx: &mut PollContext<'_, '_>,
        scratch: &mut Scratch,
    ) -> Result<(), Fault> {
        let sent_before = poll_cx.sent_bytes;
        self.exchanges.iter_mut().for_each(|exchange| exchange.is_blocked = false);
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
            let sent = self.output.poll(&mut connection.io, poll_cx, &mut scratch.out, raw)?;
            if sent.is_pending() {
                self.output.add_earlier(std::mem::take(&mut self.encoded));
                break;
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
        self.poll_blocked(poll_cx, &mut scratch.out);
        Ok(())
    }

    /// Begins responses that are ready.
    fn begin_responses(&mut self, poll_cx: &PollContext<'_, '_>, scratch: &mut Scratch) {
        let Scratch { out, date, .. } = scratch;
        let turn = &mut Turn { now: poll_cx.now, date, budget: poll_cx.budget, out };
        while let Some(at) =
            self.exchanges.iter().position(|exchange| matches!(exchange.phase, Phase::Response(_)))
        {
            if !self.may_encode(turn.out) {
                return;
            }
            let exchange = self.exchanges.remove(at);
            if let Some(exchange) = self.begin_response(exchange, turn) {
                self.exchanges.insert(at, exchange);
            }
        }
    }

    /// Frames data of bodies in the order of their priorities, up to a piece that bypasses the buffer.
    fn fill(&mut self, poll_cx: &mut PollContext<'_, '_>, out: &mut BytesMut) -> Option<RawPiece> {
        while out.len() < GATHERED_BYTES && !poll_cx.budget.is_spent() {
            let at = self.next_to_send()?;
            let exchange = &mut self.exchanges[at];
            let (stream, before, start) = (exchange.stream, poll_cx.body_bytes, out.len());
            let Phase::Body(pump) = &mut exchange.phase else { return None };
            let mut framing = StreamFraming { machine: &mut self.machine, stream };
            let filled = pump.fill(&mut framing, poll_cx, out);
            let framed = poll_cx.body_bytes - before;
            exchange.served = exchange.served.max(self.turn) + 1;
            self.turn = exchange.served;
            if let Some(record) = &mut exchange.record {
                record.body_bytes += framed;
                let raw = if let Ok(Filled::Ready(Some(raw))) = &filled { raw.length() } else { 0 };
                record.sent_bytes += (out.len() - start) as u64 + raw;
            }
            if framed > 0 || !matches!(filled, Ok(Filled::Blocked)) {
                exchange.pace.record_bytes(framed, poll_cx.now);
            }
            let raw = match filled {
                Ok(Filled::Ready(raw)) => raw,
                Ok(Filled::Idle) => {
                    exchange.is_blocked = true;
                    None
                }
                Ok(Filled::Blocked) => {
                    exchange.pace.start_waiting(poll_cx.now);
                    exchange.is_blocked = true;
                    None
                }
                Err(end_reason) => {
                    self.abort(at, end_reason, poll_cx.now, out);
                    continue;
                }
            };
            if !self.machine.is_in_body(stream) {
                self.exchanges[at].phase = Phase::Sent;
            }
            if raw.is_some() {
                return raw;
            }
        }
        None
    }

    /// Closes the streams whose responses the kernel has.
    fn close_sent(&mut self, now: Instant, out: &mut BytesMut) {
        let is_sent = |exchange: &mut Exchange| matches!(exchange.phase, Phase::Sent);
        let sent: Vec<_> = self.exchanges.extract_if(.., is_sent).collect();
        for mut exchange in sent {
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
    fn abort(&mut self, at: usize, end_reason: EndReason, now: Instant, out: &mut BytesMut) {
        let mut exchange = self.exchanges.remove(at);
        self.drop_upload(&mut exchange, out);
        let code = match end_reason {
            EndReason::PeerStalled | EndReason::Killed => ErrorCode::CANCEL,
            _ => ErrorCode::INTERNAL_ERROR,
        };
        self.machine.reset(exchange.stream, code, now, out);
        if let Some(mut record) = exchange.record.take() {
            record.finish(end_reason);
        }
    }

    /// Resets the streams whose exchanges an operator has ended.
    pub(super) fn end_killed(&mut self, now: Instant, out: &mut BytesMut) {
        while let Some(at) = self.exchanges.iter().position(Exchange::is_killed) {
            self.abort(at, EndReason::Killed, now, out);
        }
    }

    /// Lets bodies that cannot be sent read ahead from their sources, or give up the client.
    fn poll_blocked(&mut self, poll_cx: &mut PollContext<'_, '_>, out: &mut BytesMut) {
        let is_blocked = self.output.has_queued();
        let mut at = 0;
        while let Some(exchange) = self.exchanges.get_mut(at) {
            let without_window = exchange.pace.is_waiting();
            if let Phase::Body(pump) = &mut exchange.phase
                && (is_blocked || without_window && exchange.is_blocked)
                && let Poll::Ready(Err(end_reason)) = pump.poll_blocked(poll_cx)
            {
                self.abort(at, end_reason, poll_cx.now, out);
            } else {
                at += 1;
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
        self.reject_slow_uploads(connection, &limits, poll_cx, scratch);
        let mut at = 0;
        while let Some(exchange) = self.exchanges.get(at) {
            if is_past(exchange.window_deadline(&limits.http)) {
                self.abort(at, EndReason::PeerStalled, now, &mut scratch.out);
            } else {
                at += 1;
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
        let of_exchanges = self.exchanges.iter().flat_map(|exchange| {
            let upload = exchange.upload.as_ref().and_then(|upload| upload.deadline(&limits.http));
            upload.into_iter().chain(exchange.window_deadline(&limits.http))
        });
        poll_cx.wake_at(of_exchanges);
        poll_cx.wake_at(self.half_closed.map(|since| since + limits.http.half_close_timeout));
        poll_cx.wake_at(self.output.deadline(&limits.http));
        poll_cx.wake_at(frame_deadline);
        poll_cx.wake_at(self.shutdown_due);
        Ok(())
    }
}
