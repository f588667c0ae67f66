//! Sends responses: bodies in the order of their priorities, as long as the client reads.

use std::task::Poll;
use std::time::Instant;

use bytes::BytesMut;
use rudy_service::{EndReason, GATHERED_BYTES, ServiceSource};

use super::exchange::{Exchange, Phase};
use super::framing::StreamFraming;
use super::{Multiplex, Reset, StreamId, Streams, Turn};
use crate::driver::connection::{Connection, Endpoint};
use crate::driver::output::RawPiece;
use crate::driver::poll_context::PollContext;
use crate::driver::pump::Filled;
use crate::scratch::Scratch;

impl<M: Multiplex> Streams<M> {
    /// Sends what is encoded, and encodes more as long as the client reads.
    ///
    /// # Errors
    ///
    /// The connection is broken.
    pub(in crate::driver) fn write(
        &mut self,
        io: &mut M::Io,
        poll_cx: &mut PollContext<'_, '_>,
        scratch: &mut Scratch,
    ) -> Result<(), EndReason> {
        let was_blocked = self.protocol.has_queued();
        loop {
            let raw = if self.protocol.has_queued() {
                None
            } else {
                self.begin_responses(poll_cx, scratch);
                self.fill(poll_cx, &mut scratch.out)
            };
            let has_output = !scratch.out.is_empty() || raw.is_some() || self.protocol.has_queued();
            if has_output && self.protocol.poll_send(io, poll_cx, &mut scratch.out, raw)?.is_pending() {
                break;
            }
            self.close_sent(poll_cx.now, &mut scratch.out);
            self.encoded.drain(..).for_each(|mut record| record.finish(EndReason::Completed));
            if !has_output || poll_cx.budget.is_spent() {
                break;
            }
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
                Ok(Filled::Blocked) if !self.protocol.has_window() => {
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
        stream: StreamId,
        poll_cx: &mut PollContext<'_, '_>,
        out: &mut BytesMut,
    ) -> Result<Filled, EndReason> {
        let Some(exchange) = self.exchanges.begin_poll(stream) else { return Ok(Filled::Idle) };
        let waker = exchange.waker();
        let Phase::Body(pump) = &mut exchange.phase else { return Ok(Filled::Idle) };
        if self.is_ending && pump.is_live() {
            pump.end_body();
        }
        let (before, start) = (poll_cx.body_bytes, out.len());
        // A frame must not begin before its bytes are there: a file that shrinks would end the connection.
        let layout = self.protocol.layout();
        let mut framing = StreamFraming { protocol: &mut self.protocol, stream };
        let (mut filled, due) =
            poll_cx.poll_part(&waker, |poll_cx| pump.fill(&mut framing, Some(layout), poll_cx, out));
        let framed = poll_cx.body_bytes - before;
        exchange.due = due;
        self.is_out_of_window &= framed == 0;
        let raw = if let Ok(Filled::Ready(raw)) = &mut filled { raw.take() } else { None };
        if let Some(record) = &mut exchange.record {
            record.body_bytes += framed;
            record.sent_bytes += (out.len() - start) as u64 + raw.as_ref().map_or(0, RawPiece::length);
        }
        let raw = self.protocol.take_output(stream, out, raw);
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
        if self.protocol.is_in_body(stream) {
            self.exchanges.reorder(stream, |exchange| exchange.served = turn);
        } else if filled.is_ok() {
            exchange.phase = Phase::Sent;
            self.exchanges.go_on(stream);
        }
        filled.map(|filled| if matches!(filled, Filled::Ready(_)) { Filled::Ready(raw) } else { filled })
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
            self.protocol.close(exchange.stream, now);
            self.encoded.extend(exchange.record.take());
        }
    }

    /// Drops what is stored of a request body, which no longer counts in the window of the connection.
    pub(super) fn drop_upload(&mut self, exchange: &mut Exchange, out: &mut BytesMut) {
        let stored = exchange.upload.take().map_or(0, |upload| upload.stored_bytes());
        if stored > 0 {
            self.protocol.pass_on(exchange.stream, stored, out);
        }
    }

    /// Resets a stream whose response cannot be completed.
    fn abort(&mut self, stream: StreamId, end_reason: EndReason, now: Instant, out: &mut BytesMut) {
        let Some(mut exchange) = self.exchanges.remove(stream) else { return };
        self.drop_upload(&mut exchange, out);
        let reset = match end_reason {
            EndReason::PeerStalled | EndReason::Killed => Reset::Cancelled,
            _ => Reset::Failed,
        };
        self.protocol.reset(stream, reset, now, out);
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
        let is_blocked = self.protocol.has_queued();
        // Not a body that waits for its source: nothing would poll it again when the client reads.
        let waits = |exchange: &Exchange| is_blocked && exchange.is_queued || exchange.pace.is_waiting();
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

    /// Ends the exchanges of clients that are too slow.
    pub(in crate::driver) fn end_slow<S: ServiceSource, L: Endpoint>(
        &mut self,
        connection: &mut Connection<S, L>,
        poll_cx: &mut PollContext<'_, '_>,
        scratch: &mut Scratch,
    ) {
        let now = poll_cx.now;
        if !self.exchanges.is_due(now) {
            return;
        }
        let limits = connection.info.limits.clone();
        self.reject_slow_uploads(connection, &limits, poll_cx, scratch);
        let is_past = |exchange: &Exchange| {
            exchange.window_deadline(&limits.http).is_some_and(|deadline| deadline <= now)
        };
        for stream in self.exchanges.streams(is_past) {
            self.abort(stream, EndReason::PeerStalled, now, &mut scratch.out);
        }
    }

    /// Shows other threads what the exchanges wait for. Requests a poll when the next of them is due.
    pub(in crate::driver) fn settle<S: ServiceSource, L: Endpoint>(
        &mut self,
        connection: &Connection<S, L>,
        poll_cx: &mut PollContext<'_, '_>,
    ) {
        let limits = &connection.info.limits.http;
        let due = self.exchanges.settle(limits, poll_cx.now, |exchange| exchange.show(connection));
        poll_cx.wake_at(due);
    }
}
