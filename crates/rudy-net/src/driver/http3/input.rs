//! Reads from the client.

use rudy_http::h3::{ErrorCode, Event, Priority, UNIDIRECTIONAL_STREAMS};
use rudy_quic::quinn_proto::{Dir, StreamEvent};
use rudy_quic::streams::{self, Part, number};
use rudy_service::ServiceSource;

use super::{Fault, Http3};
use crate::driver::connection::Connection;
use crate::driver::poll_context::PollContext;
use crate::driver::streams::{StreamId, Turn};
use crate::quic::Quic;
use crate::scratch::Scratch;

impl Http3 {
    /// Notes what has happened to streams.
    pub(in crate::driver) fn note<S: ServiceSource>(
        &mut self,
        event: &StreamEvent,
        connection: &mut Connection<S, Quic>,
        poll_cx: &mut PollContext<'_, '_>,
        scratch: &mut Scratch,
    ) -> Result<(), Fault> {
        let protocol = &mut self.streams.protocol;
        match *event {
            StreamEvent::Opened { dir } => {
                while let Some(id) = connection.io.machine.streams().accept(dir) {
                    if dir == Dir::Uni && id.index() >= UNIDIRECTIONAL_STREAMS.into() {
                        let code = ErrorCode::STREAM_CREATION_ERROR;
                        streams::stop(&mut connection.io.machine, number(id), code.0);
                    } else {
                        protocol.readable.push_back(number(id));
                    }
                }
            }
            StreamEvent::Readable { id } => protocol.readable.push_back(number(id)),
            StreamEvent::Writable { id } => protocol.note_writable(number(id)),
            StreamEvent::Stopped { id, error_code } => {
                let (stream, now) = (number(id), poll_cx.now);
                protocol.drop_output(stream);
                // RFC 9000 §3.5. The state machine may have nothing more to do with the stream, of which QUIC has not sent the end.
                streams::reset(&mut connection.io.machine, stream, ErrorCode::REQUEST_CANCELLED.0);
                let limits = connection.info.limits.clone();
                let code = ErrorCode(error_code.into_inner());
                let event = self.machine().receive_stop(stream, code, now, &limits.http)?;
                if let Some(event) = event {
                    let Scratch { out, date, .. } = scratch;
                    let mut turn = Turn { now, date, budget: poll_cx.budget, out };
                    self.handle(event, connection, poll_cx, &mut turn);
                }
            }
            StreamEvent::Finished { .. } | StreamEvent::Available { .. } => {}
        }
        Ok(())
    }

    /// Reads what has arrived on streams that can be read, until the budget is spent.
    pub(super) fn read<S: ServiceSource>(
        &mut self,
        connection: &mut Connection<S, Quic>,
        poll_cx: &mut PollContext<'_, '_>,
        scratch: &mut Scratch,
    ) -> Result<(), Fault> {
        let room = self.streams.input_room(connection, poll_cx);
        while room > 0
            && !poll_cx.budget.is_spent()
            && let Some(stream) = self.streams.protocol.readable.pop_front()
        {
            self.read_stream(stream, connection, poll_cx, scratch)?;
            if streams::id(stream).dir() == Dir::Uni {
                self.resume(connection, poll_cx, scratch)?;
            }
        }
        Ok(())
    }

    /// Continues with the streams whose heads have waited for what has arrived on another stream.
    fn resume<S: ServiceSource>(
        &mut self,
        connection: &mut Connection<S, Quic>,
        poll_cx: &mut PollContext<'_, '_>,
        scratch: &mut Scratch,
    ) -> Result<(), Fault> {
        while let Some((stream, bytes, ends)) = self.machine().resume() {
            self.receive(stream, &bytes, ends, connection, poll_cx, scratch)?;
            self.streams.protocol.readable.push_back(stream);
        }
        Ok(())
    }

    /// Reads what has arrived on a stream, as long as its service takes it.
    fn read_stream<S: ServiceSource>(
        &mut self,
        stream: StreamId,
        connection: &mut Connection<S, Quic>,
        poll_cx: &mut PollContext<'_, '_>,
        scratch: &mut Scratch,
    ) -> Result<(), Fault> {
        let most = connection.info.limits.http.http2.stream_window_bytes as usize;
        while self.streams.stored_of(stream) < most
            && !poll_cx.budget.is_spent()
            && !self.machine().is_blocked(stream)
        {
            match streams::read(&mut connection.io.machine, stream) {
                Part::Data(bytes, ends) => {
                    poll_cx.received(bytes.len() as u64);
                    self.receive(stream, &bytes, ends, connection, poll_cx, scratch)?;
                }
                Part::End => return self.receive(stream, &[], true, connection, poll_cx, scratch),
                Part::Reset(code) => {
                    let (limits, now) = (connection.info.limits.clone(), poll_cx.now);
                    let code = ErrorCode(code);
                    if let Some(event) = self.machine().receive_reset(stream, code, now, &limits.http)? {
                        let Scratch { out, date, .. } = scratch;
                        let mut turn = Turn { now, date, budget: poll_cx.budget, out };
                        self.handle(event, connection, poll_cx, &mut turn);
                    }
                    return Ok(());
                }
                Part::Nothing => return Ok(()),
            }
        }
        if poll_cx.budget.is_spent() {
            self.streams.protocol.readable.push_front(stream);
        }
        Ok(())
    }

    /// Handles bytes of a stream.
    fn receive<S: ServiceSource>(
        &mut self,
        stream: StreamId,
        mut bytes: &[u8],
        ends: bool,
        connection: &mut Connection<S, Quic>,
        poll_cx: &mut PollContext<'_, '_>,
        scratch: &mut Scratch,
    ) -> Result<(), Fault> {
        let now = poll_cx.now;
        let Scratch { out, date, head: buffers, .. } = scratch;
        let limits = connection.info.limits.clone();
        loop {
            let machine = &mut self.streams.protocol.machine;
            let event = machine.receive(stream, &mut bytes, ends, buffers, now, &limits.http)?;
            let Some(event) = event else { return Ok(()) };
            if let Event::Data { data, .. } = &event {
                self.streams.protocol.stored += data.len() as u64;
            }
            let mut turn = Turn { now, date, budget: poll_cx.budget, out };
            self.handle(event, connection, poll_cx, &mut turn);
        }
    }

    fn handle<S: ServiceSource>(
        &mut self,
        event: Event<'_>,
        connection: &mut Connection<S, Quic>,
        poll_cx: &mut PollContext<'_, '_>,
        turn: &mut Turn<'_>,
    ) {
        let streams = &mut self.streams;
        match event {
            Event::Request { stream, head, priority } => {
                turn.budget.spend_request();
                if connection.timer.begin_request() {
                    self.shut_down(turn.now);
                }
                connection.io.permit_streams(connection.info.limits.http.http2.streams);
                set_priority(&mut connection.io, stream, priority);
                self.streams.begin_exchange(connection, (stream, priority), &head, turn);
            }
            Event::Rejected { stream, rejection, head: Some(head) } => {
                turn.budget.spend_request();
                streams.reject_head(connection, (stream, rejection), head, turn);
            }
            Event::Rejected { stream, rejection, head: None } => {
                streams.reject_body(connection, (stream, rejection), poll_cx, turn);
            }
            Event::Data { stream, data, ends } => streams.receive_body(stream, data, ends, turn),
            Event::End { stream, trailers } => streams.receive_end(stream, trailers, turn),
            Event::Reset { stream, reason, .. } => {
                streams.protocol.drop_output(stream);
                streams.drop_exchange(connection, stream, reason, turn);
            }
            Event::Priority { stream, priority } => {
                set_priority(&mut connection.io, stream, priority);
                streams.change_priority(stream, priority);
            }
        }
    }
}

/// Tells QUIC which streams it sends first.
fn set_priority(quic: &mut Quic, stream: StreamId, priority: Priority) {
    // Fails if the client does not want the response.
    let _ = quic.machine.send_stream(streams::id(stream)).set_priority(-i32::from(priority.urgency));
}
