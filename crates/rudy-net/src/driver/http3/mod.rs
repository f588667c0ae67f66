//! Serves HTTP/3: passes on what QUIC has received, and ends the connection. The requests on it are [`Streams`].

mod input;
mod protocol;

use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use rudy_http::h3::{ConnectionError, ErrorCode, Own, ServerConnection};
use rudy_quic::streams::{self, OwnStream};
use rudy_runtime::is_planted;
use rudy_service::{EndReason, Service, ServiceSource};

use self::protocol::Protocol;
use super::connection::Connection;
use super::http1::PEER_CHECK_INTERVAL;
use super::poll_context::{Budget, PollContext};
use super::record::report_closed;
use super::streams::Streams;
use crate::quic::Quic;
use crate::scratch::Scratch;

/// How long requests may be in transit after the announcement of the end.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(1);

/// The longest time between two packets that a client must acknowledge while it waits for responses.
const PING_INTERVAL: Duration = Duration::from_secs(10);

/// A connection that speaks HTTP/3.
pub(super) struct Http3 {
    streams: Streams<Protocol>,
    /// The streams of this side, which exist once the client permits them.
    own: [OwnStream; 3],
    /// When the connection stops to wait for requests in transit.
    shutdown_due: Option<Instant>,
    /// When a connection with requests is kept open again.
    ping_due: Option<Instant>,
}

/// Why a connection ends.
#[derive(Clone, Copy)]
pub(super) enum Fault {
    /// The client violates the protocol.
    Protocol(ConnectionError),
    /// The connection was idle for too long, was evicted, or is over.
    Over,
}

impl From<ConnectionError> for Fault {
    fn from(error: ConnectionError) -> Self {
        Self::Protocol(error)
    }
}

impl Http3 {
    /// Starts HTTP/3 on a connection.
    pub(super) fn new<S: ServiceSource>(connection: &Connection<S, Quic>, now: Instant) -> Self {
        let accepts_tunnels = connection.context.source.current().accepts_tunnels();
        let machine = ServerConnection::new(now, accepts_tunnels, &connection.info.limits.http);
        let streams = Streams::new(Protocol::new(machine), connection.context.worker.active.kills());
        Self { streams, own: [None; 3], shutdown_due: None, ping_due: None }
    }

    fn machine(&mut self) -> &mut ServerConnection {
        &mut self.streams.protocol.machine
    }

    /// Whether no request is in progress, and the client has acknowledged all responses: the end of the connection would discard the rest.
    fn is_idle(&self, quic: &mut Quic) -> bool {
        let protocol = &self.streams.protocol;
        let is_done = protocol.machine.is_idle() && self.streams.is_empty() && !protocol.has_output();
        let is_early = is_planted("an end over QUIC before the last response has arrived");
        let is_acknowledged = quic.machine.streams().send_streams() <= self.own.iter().flatten().count();
        is_done && (is_acknowledged || is_early)
    }

    /// Handles what has arrived, and responds. Returns why the connection ends.
    pub(super) fn poll<S: ServiceSource>(
        &mut self,
        connection: &mut Connection<S, Quic>,
        cx: &mut Context<'_>,
        budget: &Budget,
    ) -> Result<(), Fault> {
        let (now, worker) = (budget.now(), connection.context.worker.clone());
        let mut poll_cx = PollContext::new(cx, &worker.counters, budget);
        let mut scratch = Scratch::borrow_at(now);
        self.streams.begin_poll(worker.active.kills(), now, &mut scratch.out);
        self.begin_shutdown(connection, now);
        connection.io.adapt_send_window(connection.info.limits.http3_in_transit);
        self.drive(connection, &mut poll_cx, &mut scratch)?;
        self.check_deadlines(connection, &mut poll_cx, &mut scratch)?;
        self.wait(connection, &mut poll_cx)
    }

    /// Continues all exchanges until they wait for the client or for their service.
    fn drive<S: ServiceSource>(
        &mut self,
        connection: &mut Connection<S, Quic>,
        poll_cx: &mut PollContext<'_, '_>,
        scratch: &mut Scratch,
    ) -> Result<(), Fault> {
        loop {
            self.read(connection, poll_cx, scratch)?;
            self.streams.poll_services(connection, poll_cx, scratch);
            // Each stream has its own output, so that none fails here.
            let _ = self.streams.write(&mut connection.io, poll_cx, scratch);
            let has_room = self.flush(connection);
            if poll_cx.budget.is_spent() {
                let _: Poll<()> = poll_cx.yield_now();
                return Ok(());
            }
            let can_read = !self.streams.is_paused() && !self.streams.protocol.readable.is_empty();
            if !has_room && !can_read {
                return Ok(());
            }
        }
    }

    /// Passes output to QUIC. Returns whether a body that waited for room has some.
    fn flush<S: ServiceSource>(&mut self, connection: &mut Connection<S, Quic>) -> bool {
        let quic = &mut connection.io;
        self.write_own(quic);
        let with_room = self.streams.protocol.flush(quic);
        for stream in &with_room {
            self.streams.open_window(Some(*stream));
        }
        !with_room.is_empty()
    }

    /// Writes to the streams of this side.
    fn write_own(&mut self, quic: &mut Quic) {
        for (kind, own) in [Own::Control, Own::Encoder, Own::Decoder].into_iter().zip(&mut self.own) {
            streams::write_own(&mut quic.machine, own, self.streams.protocol.machine.output(kind));
        }
    }

    /// Announces the end of the connection if the server stops, the listener is closed, or the client has had all its requests.
    fn begin_shutdown<S: ServiceSource>(&mut self, connection: &Connection<S, Quic>, now: Instant) {
        let most = connection.info.limits.http.requests_per_connection;
        let has_had_all = most.is_some_and(|most| self.machine().requests() >= most);
        if has_had_all || connection.context.ends_connections() {
            self.shut_down(now);
        }
    }

    /// Announces the end of the connection, and waits for requests in transit.
    fn shut_down(&mut self, now: Instant) {
        if !self.machine().is_shutting_down() {
            self.machine().shut_down();
            self.shutdown_due = Some(now + SHUTDOWN_TIMEOUT);
        }
    }

    /// Checks all deadlines, and sets the time of the next poll.
    fn check_deadlines<S: ServiceSource>(
        &mut self,
        connection: &mut Connection<S, Quic>,
        poll_cx: &mut PollContext<'_, '_>,
        scratch: &mut Scratch,
    ) -> Result<(), Fault> {
        let (limits, now) = (connection.info.limits.clone(), poll_cx.now);
        let is_past = |deadline: Option<Instant>| deadline.is_some_and(|deadline| deadline <= now);
        self.streams.end_slow(connection, poll_cx, scratch);
        if is_past(self.shutdown_due) {
            self.shutdown_due = None;
            self.machine().stop_accepting();
        }
        self.machine().expire(now, &limits.http);
        let is_idle = self.is_idle(&mut connection.io);
        // That of an idle connection does not count as long as the client acknowledges the last response.
        let deadline = self.machine().deadline(&limits.http);
        let deadline = deadline.filter(|_| is_idle || !self.machine().is_idle());
        if is_past(deadline) && is_idle {
            return Err(Fault::Over);
        }
        self.keep_open(connection, is_idle, now);
        self.flush(connection);
        let (sent, has_more) = connection.io.transmit(poll_cx.cx, now);
        poll_cx.sent(sent);
        if has_more {
            let _: Poll<()> = poll_cx.yield_now();
        }
        self.streams.settle(connection, poll_cx);
        if self.streams.is_paused() {
            // The other connections may store less at any time.
            poll_cx.wake_at([now + PEER_CHECK_INTERVAL]);
        }
        poll_cx.wake_at(deadline);
        poll_cx.wake_at(self.shutdown_due);
        poll_cx.wake_at(self.ping_due);
        let due = connection.io.due(poll_cx.cx, now);
        poll_cx.wake_at(due);
        Ok(())
    }

    /// Keeps a connection open while requests take time. The idle timeout is for connections without requests, but QUIC knows none, and
    /// a client that waits for a response need not send anything.
    fn keep_open<S: ServiceSource>(
        &mut self,
        connection: &mut Connection<S, Quic>,
        is_idle: bool,
        now: Instant,
    ) {
        if is_idle {
            self.ping_due = None;
            return;
        }
        let is_due = self.ping_due.is_some_and(|due| due <= now);
        if is_due {
            connection.io.machine.ping();
        }
        if is_due || self.ping_due.is_none() {
            let interval = PING_INTERVAL.min(connection.info.limits.http.idle_timeout / 2);
            self.ping_due = Some(now + interval);
        }
    }

    /// Waits for the client or for a service, unless the connection is over.
    fn wait<S: ServiceSource>(
        &mut self,
        connection: &mut Connection<S, Quic>,
        poll_cx: &mut PollContext<'_, '_>,
    ) -> Result<(), Fault> {
        self.streams.count_stored();
        if !self.is_idle(&mut connection.io) {
            connection.timer.is_unobserved = self.streams.has_unobserved();
            connection.timer.set(poll_cx.due, poll_cx.cx.waker());
            return Ok(());
        }
        if self.machine().is_over() {
            return Err(Fault::Over);
        }
        self.streams.protocol.release();
        self.streams.release();
        connection.io.release();
        if connection.timer.set_idle(poll_cx.due, poll_cx.cx.waker()) && !connection.io.has_arrived() {
            // The connection has been evicted.
            return Err(Fault::Over);
        }
        Ok(())
    }

    /// Ends all exchanges, and the connection.
    pub(super) fn fail<S: ServiceSource>(
        &mut self,
        fault: Fault,
        connection: &mut Connection<S, Quic>,
        now: Instant,
    ) {
        let (code, reason) = match fault {
            Fault::Over => (ErrorCode::NO_ERROR, ""),
            Fault::Protocol(error) => {
                connection.context.worker.counters.rejected.add(1);
                let service = connection.load_service();
                let client = connection.client(self.machine().requests());
                report_closed(&*service, &client, &error.to_string(), now);
                (error.code, error.reason)
            }
        };
        connection.io.machine.close(now, streams::code(code.0), Bytes::from_static(reason.as_bytes()));
        self.streams.end(EndReason::Aborted);
    }

    /// Ends all exchanges, because the connection is lost.
    pub(super) fn end(&mut self) {
        self.streams.end(EndReason::PeerGone);
    }
}
