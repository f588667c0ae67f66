//! Reads from the client.

use std::task::Poll;

use rudy_http::h2::Event;
use rudy_runtime::is_planted;
use rudy_service::{EndReason, ServiceSource};
use tokio::io::ReadBuf;

use super::protocol::Protocol;
use super::{Fault, Http2};
use crate::driver::connection::Connection;
use crate::driver::poll_context::PollContext;
use crate::driver::streams::{Streams, Turn};
use crate::scratch::Scratch;
use crate::transport::PARTIAL_READ_BYTES;

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
            self.machine_mut().count_partial_read(http, poll_cx.now)?;
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
        let is_counted = !is_planted("reads of a few bytes that are not counted");
        if self.machine_mut().take_completed() || read >= PARTIAL_READ_BYTES || !is_counted {
            self.machine_mut().count_whole_read(read);
        } else {
            self.machine_mut().count_partial_read(&connection.info.limits.http, poll_cx.now)?;
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
        self.machine_mut().set_may_grow(Streams::<Protocol>::windows_may_grow(windows_total));
        let mut bytes = &input[..read];
        loop {
            if poll_cx.budget.is_spent() && !bytes.is_empty() {
                self.unread.splice(..0, bytes.iter().copied());
                return Ok(());
            }
            let limits = connection.info.limits.clone();
            let Some(event) = self.machine_mut().receive(&mut bytes, buffers, now, &limits.http, out)? else {
                return Ok(());
            };
            let mut turn = Turn { now, date, budget: poll_cx.budget, out };
            self.handle(event, connection, poll_cx, &mut turn);
        }
    }

    fn handle<S: ServiceSource>(
        &mut self,
        event: Event<'_>,
        connection: &mut Connection<S>,
        poll_cx: &mut PollContext<'_, '_>,
        turn: &mut Turn<'_>,
    ) {
        let streams = &mut self.streams;
        match event {
            Event::Request { stream, head, priority } => {
                turn.budget.spend_request();
                if connection.timer.begin_request() {
                    self.shut_down(turn.now, turn.out);
                }
                self.streams.begin_exchange(connection, (stream.into(), priority), &head, turn);
            }
            Event::Rejected { stream, rejection, head: Some(head) } => {
                turn.budget.spend_request();
                streams.reject_head(connection, (stream.into(), rejection), head, turn);
            }
            Event::Rejected { stream, rejection, head: None } => {
                streams.reject_body(connection, (stream.into(), rejection), poll_cx, turn);
            }
            Event::Data { stream, data, ends } => streams.receive_body(stream.into(), data, ends, turn),
            Event::End { stream, trailers } => streams.receive_end(stream.into(), trailers, turn),
            Event::Reset { stream, reason, .. } => {
                streams.drop_exchange(connection, stream.into(), reason, turn);
            }
            Event::Window { stream } => streams.open_window((stream > 0).then_some(stream.into())),
            Event::Priority { stream, priority } => streams.change_priority(stream.into(), priority),
        }
    }
}
