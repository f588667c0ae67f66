//! Serves HTTP/2: reads frames, and ends the connection. The requests on it are [`Streams`].

mod deadlines;
mod input;
mod protocol;
mod start;

use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::BytesMut;
use rudy_http::h2::{ConnectionError, ServerConnection};
use rudy_service::{EndReason, ServiceSource};

use self::protocol::Protocol;
use super::State;
use super::connection::Connection;
use super::output::Output;
use super::poll_context::{Budget, PollContext};
use super::record::report_closed;
use super::streams::Streams;
use crate::close::CloseMode;
use crate::scratch::Scratch;

/// How long a client may take to acknowledge that the connection ends. A network whose round trip is longer loses no response, but
/// the client repeats the requests in transit.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(1);

/// While this much waits for the client, nothing is read: rejections and acknowledgements would accumulate.
const QUEUED_BYTES_MAX: usize = 256 * 1024;

/// A connection that speaks HTTP/2.
pub(super) struct Http2 {
    streams: Streams<Protocol>,
    /// What was read before the protocol was known, or with more requests than a poll may handle.
    unread: Vec<u8>,
    /// If the client has closed its write side: when it was last known to be connected.
    half_closed: Option<Instant>,
    /// When the connection stops to wait for requests in transit.
    shutdown_due: Option<Instant>,
}

/// Why a connection ends.
#[derive(Clone, Copy)]
enum Fault {
    /// The client violates the protocol.
    Protocol(ConnectionError),
    /// The connection is broken, or the client is too slow.
    Broken(EndReason),
    /// The connection was idle for too long.
    Idle,
}

impl From<EndReason> for Fault {
    fn from(end_reason: EndReason) -> Self {
        Self::Broken(end_reason)
    }
}

impl From<ConnectionError> for Fault {
    fn from(error: ConnectionError) -> Self {
        Self::Protocol(error)
    }
}

impl Http2 {
    /// Whether no request is in progress.
    pub(super) fn is_idle(&self) -> bool {
        self.machine().is_idle() && self.streams.is_empty() && self.unread.is_empty()
    }

    fn machine(&self) -> &ServerConnection {
        &self.streams.protocol.machine
    }

    fn machine_mut(&mut self) -> &mut ServerConnection {
        &mut self.streams.protocol.machine
    }

    fn output(&mut self) -> &mut Output {
        &mut self.streams.protocol.output
    }

    /// Reads, handles and responds to requests. Ready with the connection's next state.
    pub(super) fn poll<S: ServiceSource>(
        &mut self,
        connection: &mut Connection<S>,
        cx: &mut Context<'_>,
        budget: &Budget,
    ) -> Poll<State> {
        let (now, worker) = (budget.now(), connection.context.worker.clone());
        let mut poll_cx = PollContext::new(cx, &worker.counters, budget);
        let mut scratch = Scratch::borrow_at(now);
        self.streams.begin_poll(worker.active.kills(), now, &mut scratch.out);
        self.begin_shutdown(connection, now, &mut scratch);
        let driven = self.drive(connection, &mut poll_cx, &mut scratch);
        match driven.and_then(|()| self.check_deadlines(connection, &mut poll_cx, &mut scratch)) {
            Ok(()) => self.wait(connection, &mut poll_cx, &mut scratch),
            Err(fault) => Poll::Ready(State::Close(self.fail(fault, connection, &mut poll_cx, &mut scratch))),
        }
    }

    /// Continues all exchanges until they wait for the client or for their service.
    fn drive<S: ServiceSource>(
        &mut self,
        connection: &mut Connection<S>,
        poll_cx: &mut PollContext<'_, '_>,
        scratch: &mut Scratch,
    ) -> Result<(), Fault> {
        loop {
            let room = self.input_room(connection, poll_cx);
            let has_read = room > 0 && self.read(room, connection, poll_cx, scratch)?;
            self.streams.poll_services(connection, poll_cx, scratch);
            self.write(connection, poll_cx, scratch)?;
            if poll_cx.budget.is_spent() {
                // The other connections of this core get their turn.
                let _: Poll<()> = poll_cx.yield_now();
                return Ok(());
            }
            let has_room = room == 0 && self.input_room(connection, poll_cx) > 0;
            if !has_read && !has_room {
                return Ok(());
            }
        }
    }

    /// Returns how much may be read: nothing while much of the output waits for the client.
    fn input_room<S: ServiceSource>(
        &mut self,
        connection: &Connection<S>,
        poll_cx: &PollContext<'_, '_>,
    ) -> usize {
        let room = self.streams.input_room(connection, poll_cx);
        if self.output().queued_bytes() > QUEUED_BYTES_MAX { 0 } else { room }
    }

    /// Announces the end of the connection if the server stops, the listener is closed, or the client has had all its requests.
    fn begin_shutdown<S: ServiceSource>(
        &mut self,
        connection: &Connection<S>,
        now: Instant,
        scratch: &mut Scratch,
    ) {
        let most = connection.info.limits.http.requests_per_connection;
        let has_had_all = most.is_some_and(|most| self.machine().requests() >= most);
        if has_had_all || connection.context.ends_connections() {
            self.shut_down(now, &mut scratch.out);
        }
    }

    /// Announces the end of the connection, and waits for requests in transit.
    fn shut_down(&mut self, now: Instant, out: &mut BytesMut) {
        if !self.machine().is_shutting_down() {
            self.machine_mut().shut_down(out);
            self.shutdown_due = Some(now + SHUTDOWN_TIMEOUT);
        }
    }

    /// Waits for the client or for a service, unless the connection is over.
    fn wait<S: ServiceSource>(
        &mut self,
        connection: &mut Connection<S>,
        poll_cx: &mut PollContext<'_, '_>,
        scratch: &mut Scratch,
    ) -> Poll<State> {
        self.streams.count_stored();
        let is_sent = !self.output().has_queued();
        if is_sent && self.streams.is_empty() && (self.machine().is_over() || self.half_closed.is_some()) {
            let is_closed = self.half_closed.is_some();
            return Poll::Ready(State::Close(if is_closed {
                CloseMode::PeerClosed
            } else {
                CloseMode::Linger
            }));
        }
        if !is_sent || !self.is_idle() {
            connection.timer.is_unobserved = self.streams.has_unobserved();
            connection.timer.set(poll_cx.due, poll_cx.cx.waker());
            return Poll::Pending;
        }
        self.machine_mut().free();
        self.streams.release();
        if connection.timer.set_idle(poll_cx.due, poll_cx.cx.waker()) && !connection.io.has_unread() {
            // The connection has been evicted.
            return Poll::Ready(State::Close(self.say_goodbye(connection, poll_cx, scratch)));
        }
        Poll::Pending
    }

    /// Sends GOAWAY, if the socket has room for it, and closes the connection.
    fn say_goodbye<S: ServiceSource>(
        &mut self,
        connection: &mut Connection<S>,
        poll_cx: &mut PollContext<'_, '_>,
        scratch: &mut Scratch,
    ) -> CloseMode {
        self.machine_mut().stop_accepting(&mut scratch.out);
        // A client that does not read gets the end of the connection.
        let _ = self.output().poll(&mut connection.io, poll_cx, &mut scratch.out, None);
        CloseMode::NoLinger
    }

    /// Ends all exchanges. Returns how to close the connection.
    fn fail<S: ServiceSource>(
        &mut self,
        fault: Fault,
        connection: &mut Connection<S>,
        poll_cx: &mut PollContext<'_, '_>,
        scratch: &mut Scratch,
    ) -> CloseMode {
        let (end_reason, mode) = match fault {
            Fault::Broken(end_reason) => (end_reason, CloseMode::Reset),
            Fault::Idle => return self.say_goodbye(connection, poll_cx, scratch),
            Fault::Protocol(error) => {
                poll_cx.counters.rejected.add(1);
                let service = connection.load_service();
                let client = connection.client(self.machine().requests());
                report_closed(&*service, &client, &error.to_string(), poll_cx.now);
                self.machine_mut().fail(error, &mut scratch.out);
                let _ = self.output().poll(&mut connection.io, poll_cx, &mut scratch.out, None);
                // Lingers, so that GOAWAY arrives.
                (EndReason::Aborted, CloseMode::Linger)
            }
        };
        self.streams.end(end_reason);
        mode
    }
}
