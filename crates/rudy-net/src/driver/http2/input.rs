//! Reads from the client, and begins exchanges.

use std::task::Poll;
use std::time::Instant;

use bytes::BytesMut;
use http::StatusCode;
use rudy_http::h2::{Event, Priority};
use rudy_message::{DateLine, RequestHead};
use rudy_service::{EndReason, Reply, RequestBodyError, ServiceSource};
use tokio::io::ReadBuf;

use super::exchange::{Exchange, Phase, Upload};
use super::stored::StoredBytes;
use super::{Fault, Http2};
use crate::driver::poll_context::{Budget, PollContext};
use crate::driver::record::{Record, report_closed};
use crate::driver::{Connection, internal_error};
use crate::scratch::Scratch;
use crate::transport::PARTIAL_READ_BYTES;

/// What the handling of an event needs.
pub(super) struct Turn<'t> {
    pub(super) now: Instant,
    pub(super) date: &'t DateLine,
    pub(super) budget: &'t Budget,
    pub(super) out: &'t mut BytesMut,
}

impl Http2 {
    /// Reads once, at most `room` bytes, and handles what has arrived. Returns whether there may be more.
    pub(super) fn read<S: ServiceSource>(
        &mut self,
        room: usize,
        connection: &mut Connection<S>,
        poll_cx: &mut PollContext<'_, '_>,
        scratch: &mut Scratch,
    ) -> Result<bool, Fault> {
        if self.half_closed.is_some() {
            return Ok(false);
        }
        if !self.unread.is_empty() {
            // At most one read, which was into a buffer of this size.
            let length = self.unread.len().min(scratch.input.len()).min(room);
            scratch.input[..length].copy_from_slice(&self.unread[..length]);
            self.unread = self.unread.split_off(length);
            self.handle_input(connection, length, poll_cx, scratch)?;
            return Ok(true);
        }
        let room = room.min(scratch.input.len());
        let mut buffer = ReadBuf::new(&mut scratch.input[..room]);
        let polled = connection.io.poll_read(poll_cx.cx, &mut buffer);
        let read = buffer.filled().len();
        let http = &connection.info.limits.http;
        for _ in 0..connection.io.take_empty_reads() {
            self.machine.count_partial_read(http, poll_cx.now)?;
        }
        match polled {
            Poll::Pending => return Ok(false),
            Poll::Ready(Err(_)) => return Err(EndReason::PeerGone.into()),
            Poll::Ready(Ok(())) if read == 0 => {
                self.half_closed = Some(poll_cx.now);
                return Ok(false);
            }
            Poll::Ready(Ok(())) => poll_cx.received(read as u64),
        }
        self.handle_input(connection, read, poll_cx, scratch)?;
        if self.machine.take_completed() || read >= PARTIAL_READ_BYTES {
            self.machine.count_whole_read();
        } else {
            self.machine.count_partial_read(&connection.info.limits.http, poll_cx.now)?;
        }
        Ok(true)
    }

    /// Handles input, until the budget is spent. The rest stays in `unread`.
    fn handle_input<S: ServiceSource>(
        &mut self,
        connection: &mut Connection<S>,
        read: usize,
        poll_cx: &mut PollContext<'_, '_>,
        scratch: &mut Scratch,
    ) -> Result<(), Fault> {
        let now = poll_cx.now;
        let Scratch { input, out, date, head: buffers, .. } = scratch;
        let windows_total = connection.info.limits.http.http2.windows_total_bytes;
        self.machine.set_may_grow(StoredBytes::total() < windows_total);
        let mut bytes = &input[..read];
        loop {
            if poll_cx.budget.is_spent() && !bytes.is_empty() {
                self.unread.splice(..0, bytes.iter().copied());
                return Ok(());
            }
            let limits = connection.info.limits.clone();
            let Some(event) = self.machine.receive(&mut bytes, buffers, now, &limits.http, out)? else {
                return Ok(());
            };
            let mut turn = Turn { now, date, budget: poll_cx.budget, out };
            match event {
                Event::Request { stream, head, priority } => {
                    turn.budget.spend_request();
                    self.begin_exchange(connection, (stream, priority), &head, &mut turn);
                }
                Event::Rejected { stream, rejection, head: Some(head) } => {
                    turn.budget.spend_request();
                    self.reject_head(connection, (stream, rejection), head, &mut turn);
                }
                Event::Rejected { stream, rejection, head: None } => {
                    self.reject_body(connection, (stream, rejection), poll_cx, &mut turn);
                }
                Event::Data { stream, data, ends } => self.receive_body(stream, data, ends, &mut turn),
                Event::End { stream, trailers } => {
                    if let Some(upload) = self.upload(stream) {
                        upload.receive_end(trailers, now);
                        self.exchanges.schedule(stream);
                    }
                }
                Event::Reset { stream, reason, .. } => {
                    self.drop_exchange(connection, stream, reason, &mut turn);
                }
                Event::Window { stream: 0 } => {
                    let all = self.exchanges.streams(|exchange| exchange.pace.is_waiting());
                    for stream in all {
                        self.exchanges.queue_waiting(stream);
                    }
                }
                Event::Window { stream } => self.exchanges.queue_waiting(stream),
                Event::Priority { stream, priority } => {
                    self.exchanges.reorder(stream, |exchange| exchange.priority = priority);
                }
            }
        }
    }

    fn upload(&mut self, stream: u32) -> Option<&mut Upload> {
        self.exchanges.get_mut(stream)?.upload.as_deref_mut().filter(|upload| !upload.is_finished())
    }

    fn begin_exchange<S: ServiceSource>(
        &mut self,
        connection: &mut Connection<S>,
        (stream, priority): (u32, Priority),
        head: &RequestHead<'_>,
        turn: &mut Turn<'_>,
    ) {
        connection.context.worker.counters.requests.add(1);
        if connection.timer.begin_request() {
            self.shut_down(turn.now, turn.out);
        }
        let service = connection.load_service();
        let place = (self.machine.requests(), turn.now);
        let (body, upload) = Upload::attach(head);
        let (reply, record) = connection.dispatch(&*service, head, body, place);
        let phase = match reply.unwrap_or_else(|| internal_error().into()) {
            Reply::Later(future) => Phase::Handler(future),
            Reply::Now(response) => Phase::Response(Box::new(response)),
        };
        self.add(Exchange::new(stream, priority, phase, upload, record), turn);
    }

    /// Adds an exchange. If its response is known, begins it.
    pub(super) fn add(&mut self, mut exchange: Exchange, turn: &mut Turn<'_>) {
        // While the client does not read, responses do not accumulate.
        let is_sent = self.may_encode(turn.out) && self.begin_response(&mut exchange, turn);
        if !is_sent {
            self.exchanges.insert(exchange);
        }
    }

    /// Stores a piece of a body for its service.
    fn receive_body(&mut self, stream: u32, data: &[u8], ends: bool, turn: &mut Turn<'_>) {
        let Some(upload) = self.upload(stream) else {
            // The service does not read it.
            return self.machine.pass_on(stream, data.len(), turn.out);
        };
        upload.receive(data, turn.now);
        if ends {
            upload.receive_end(None, turn.now);
        }
        self.exchanges.schedule(stream);
    }

    /// Drops an exchange whose stream has been reset. `reason` is what the client did wrong.
    fn drop_exchange<S: ServiceSource>(
        &mut self,
        connection: &mut Connection<S>,
        stream: u32,
        reason: Option<&'static str>,
        turn: &mut Turn<'_>,
    ) {
        let exchange = self.exchanges.remove(stream);
        if let Some(reason) = reason {
            connection.context.worker.counters.rejected.add(1);
            if exchange.is_none() {
                let service = connection.load_service();
                let client = connection.client(self.machine.requests());
                report_closed(&*service, &client, &format!("HTTP/2: {reason}"), turn.now);
            }
        }
        let Some(mut exchange) = exchange else { return };
        if let Some(upload) = &mut exchange.upload {
            let malformed = |reason: &str| RequestBodyError::Malformed(reason.to_owned());
            upload.fail(reason.map_or(RequestBodyError::PeerGone, malformed));
        }
        self.drop_upload(&mut exchange, turn.out);
        if let Some(record) = &mut exchange.record {
            record.finish(if reason.is_some() { EndReason::Aborted } else { EndReason::PeerGone });
        }
    }

    /// Records the status of the response that begins.
    pub(super) fn record_begin(record: Option<&mut Record>, status: StatusCode) {
        if let Some(record) = record {
            record.begin(status);
        }
    }
}
