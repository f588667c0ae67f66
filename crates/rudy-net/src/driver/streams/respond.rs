//! Polls services, and begins their responses.

use std::sync::Arc;
use std::task::Poll;

use bytes::BytesMut;
use rudy_service::{Body, GATHERED_BYTES, Observer, ServiceSource};

use super::exchange::{Exchange, Phase};
use super::{Multiplex, Reset, StreamId, Streams, Turn};
use crate::driver::connection::{Connection, Endpoint};
use crate::driver::internal_error;
use crate::driver::poll_context::PollContext;
use crate::scratch::Scratch;

/// Responses are written when they reach this size.
const OUTPUT_FULL_BYTES: usize = 64 * 1024;

impl<M: Multiplex> Streams<M> {
    /// Whether responses may be encoded now.
    pub(super) fn may_encode(&self, out: &BytesMut) -> bool {
        !self.protocol.has_queued() && out.len() < OUTPUT_FULL_BYTES
    }

    /// Polls the services that have woken, and gives them what has arrived of their bodies.
    pub(in crate::driver) fn poll_services<S: ServiceSource, L: Endpoint>(
        &mut self,
        connection: &Connection<S, L>,
        poll_cx: &mut PollContext<'_, '_>,
        scratch: &mut Scratch,
    ) {
        let has_question = connection.context.worker.timers.has_question();
        let worker = &connection.context.worker;
        if has_question || worker.is_ending_streams() && !self.is_ending {
            self.is_ending = worker.is_ending_streams();
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
        stream: StreamId,
        asking: Option<Arc<dyn Observer>>,
        poll_cx: &mut PollContext<'_, '_>,
        out: &mut BytesMut,
    ) -> bool {
        let accepts_interim = !self.protocol.is_blocked();
        let Some(exchange) = self.exchanges.get_mut(stream) else { return false };
        if let Some(upload) = &mut exchange.upload {
            let passed_on = upload.poll(stream, !self.is_paused, &mut self.protocol, poll_cx, out);
            if passed_on > 0 {
                self.protocol.pass_on(stream, passed_on, out);
            }
        }
        let Phase::Handler(future) = &mut exchange.phase else { return false };
        let (polled, interim) = poll_cx.poll_handler(accepts_interim, asking, |cx| future.as_mut().poll(cx));
        for (status, fields) in interim {
            self.protocol.encode_interim(stream, status, &fields, out);
        }
        self.protocol.take_output(stream, out, None);
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
            self.protocol.reset(stream, Reset::Cancelled, now, out);
            self.encoded.extend(exchange.record.take());
            return true;
        }
        self.protocol.begin(stream, response.head.encodable(), response.body.length(), date, out);
        let encoded_bytes = match &response.body {
            _ if !self.protocol.is_in_body(stream) => Some(0),
            Body::Bytes(bytes)
                if bytes.len() as u64 <= self.protocol.window(stream).min(GATHERED_BYTES as u64) =>
            {
                let encoded = self.protocol.encode_piece(stream, bytes, out);
                encoded
                    .and_then(|()| self.protocol.finish(stream, None, out))
                    .ok()
                    .map(|()| bytes.len() as u64)
            }
            _ => None,
        };
        if let Some(record) = &mut exchange.record {
            record.sent_bytes += (out.len() - before) as u64;
        }
        self.protocol.take_output(stream, out, None);
        let Some(body_bytes) = encoded_bytes else {
            if let Phase::Body(pump) = &mut exchange.phase {
                pump.set_body(response.body);
            }
            return false;
        };
        budget.spend(body_bytes);
        self.drop_upload(exchange, out);
        self.protocol.close(stream, now);
        if let Some(mut record) = exchange.record.take() {
            record.body_bytes += body_bytes;
            self.encoded.push(record);
        }
        true
    }
}
