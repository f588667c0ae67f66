//! Serves HTTP/2: many exchanges on one connection, each with its handler and the body pump of all protocols.
//!
//! A request whose response is small and immediate is answered where it is read, and stored nowhere. Others are an
//! [`Exchange`] until their response is sent. Responses begin only while the client reads, so the number of concurrent streams
//! bounds what a connection stores.

mod exchange;
mod exchanges;
mod framing;
mod input;
mod output;
mod reject;
mod schedule;
mod start;
mod stored;
mod wakes;

use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::BytesMut;
use rudy_http::h2::{ConnectionError, ServerConnection};
use rudy_service::{EndReason, ServiceSource};

use self::exchanges::Borrowed;
use self::stored::StoredBytes;
pub use self::stored::http2_stored_bytes;
use super::output::Output;
use super::poll_context::{Budget, PollContext};
use super::record::{Record, report_closed};
use super::{Connection, State};
use crate::close::CloseMode;
use crate::scratch::Scratch;

/// How long a client may take to acknowledge that the connection ends. A network whose round trip is longer loses no response, but
/// the client repeats the requests in transit.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(1);

/// While this much waits for the client, nothing is read: rejections and acknowledgements would accumulate.
const QUEUED_BYTES_MAX: usize = 256 * 1024;

/// A connection that speaks HTTP/2.
pub(super) struct Http2 {
    machine: ServerConnection,
    output: Output,
    exchanges: Borrowed,
    /// The records of responses that are encoded, but not sent.
    encoded: Vec<Record>,
    /// The number of frames that bodies were given, to serve them in turn.
    turn: u64,
    /// The number of exchanges of the worker that an operator had ended at the last poll.
    kills: u64,
    /// Whether bodies wait for the window of the connection.
    is_out_of_window: bool,
    /// Whether the exchanges know that the server stops.
    is_stopping: bool,
    /// How many frames with a large piece are sent at once: twice as many as the last time, since the client has accepted those. So a slow
    /// client makes the connection store at most as much as the kernel.
    frames: usize,
    stored: StoredBytes,
    /// Whether nothing is read, because all connections store too much of request bodies.
    is_paused: bool,
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
        self.machine.is_idle() && self.exchanges.is_empty() && self.unread.is_empty()
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
        self.exchanges.borrow();
        self.begin_shutdown(connection, now, &mut scratch);
        self.end_killed(worker.active.kills(), now, &mut scratch.out);
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
            self.poll_services(connection, poll_cx, scratch);
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

    /// Returns how much may be read: nothing while much of the output waits for the client, or while the connections together store
    /// too much of request bodies. Then a connection continues when its services read, or when the others store less.
    fn input_room<S: ServiceSource>(
        &mut self,
        connection: &Connection<S>,
        poll_cx: &PollContext<'_, '_>,
    ) -> usize {
        self.stored.set(self.machine.stored_bytes());
        let room = self.stored.room(connection.info.limits.http.http2.windows_total_bytes);
        if room == 0 && !self.is_paused {
            poll_cx.counters.paused.add(1);
            // From now on, it is not the client that is slow.
            let uploads = self.exchanges.iter_mut().filter_map(|exchange| exchange.upload.as_mut());
            uploads.for_each(|upload| upload.stop_waiting(poll_cx.now));
        }
        if room > 0 && self.is_paused {
            self.exchanges.schedule_all(|exchange| exchange.upload.is_some());
        }
        self.is_paused = room == 0;
        if self.output.queued_bytes() > QUEUED_BYTES_MAX { 0 } else { room }
    }

    /// Announces the end of the connection if the server stops, the listener is closed, or the client has had all its requests.
    fn begin_shutdown<S: ServiceSource>(
        &mut self,
        connection: &Connection<S>,
        now: Instant,
        scratch: &mut Scratch,
    ) {
        let most = connection.info.limits.http.requests_per_connection;
        let has_had_all = most.is_some_and(|most| self.machine.requests() >= most);
        if has_had_all || connection.context.ends_connections() {
            self.shut_down(now, &mut scratch.out);
        }
    }

    /// Announces the end of the connection, and waits for requests in transit.
    fn shut_down(&mut self, now: Instant, out: &mut BytesMut) {
        if !self.machine.is_shutting_down() {
            self.machine.shut_down(out);
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
        self.stored.set(self.machine.stored_bytes());
        let is_sent = !self.output.has_queued();
        if is_sent && self.exchanges.is_empty() && (self.machine.is_over() || self.half_closed.is_some()) {
            let is_closed = self.half_closed.is_some();
            return Poll::Ready(State::Close(if is_closed {
                CloseMode::PeerClosed
            } else {
                CloseMode::Linger
            }));
        }
        if !is_sent || !self.is_idle() {
            connection.timer.is_unobserved = self.exchanges.has_unobserved;
            connection.timer.set(poll_cx.due, poll_cx.cx.waker());
            return Poll::Pending;
        }
        self.machine.free();
        self.exchanges.release();
        self.encoded = Vec::new();
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
        self.machine.stop_accepting(&mut scratch.out);
        // A client that does not read gets the end of the connection.
        let _ = self.output.poll(&mut connection.io, poll_cx, &mut scratch.out, None);
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
                let client = connection.client(self.machine.requests());
                report_closed(&*service, &client, &error.to_string(), poll_cx.now);
                self.machine.fail(error, &mut scratch.out);
                let _ = self.output.poll(&mut connection.io, poll_cx, &mut scratch.out, None);
                // Lingers, so that GOAWAY arrives.
                (EndReason::Aborted, CloseMode::Linger)
            }
        };
        self.end(end_reason);
        mode
    }

    fn end(&mut self, end_reason: EndReason) {
        self.output.finish_earlier(end_reason);
        let records = self.exchanges.take().into_iter().filter_map(|mut exchange| exchange.record.take());
        self.encoded.drain(..).chain(records).for_each(|mut record| record.finish(end_reason));
    }
}

impl Drop for Http2 {
    /// A connection dropped before its end means that the server is stopping.
    fn drop(&mut self) {
        self.end(EndReason::ServerStopped);
    }
}
