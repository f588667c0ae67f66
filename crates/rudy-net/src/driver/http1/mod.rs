//! Speaks HTTP/1.1: one exchange after another. Most requests are read, handled and responded to in one poll ([`head`]). A request that
//! must wait for a service, a file or a slow client continues in a boxed [`Exchange`].

mod exchange;
mod head;
mod input;
mod machine;
mod upload;

use std::task::Poll;

use bytes::BytesMut;
use rudy_http::h1::Phase;
use rudy_message::{DateLine, Rejection};
use rudy_service::{Body, Response, ServiceSource};

pub(super) use self::exchange::{Exchange, Handler};
pub(super) use self::input::PEER_CHECK_INTERVAL;
pub(super) use self::machine::Machine;
use super::connection::Connection;
use super::linger::Linger;
use super::poll_context::PollContext;
use super::record::Record;
use super::upgrade::Tunnel;
use super::{State, internal_error};
use crate::scratch::Scratch;
use crate::transport::Stream;

/// A connection of HTTP/1.1, or one with a protocol that is not known yet.
pub(super) struct Http1<S> {
    pub(super) connection: Connection<S>,
    pub(super) machine: Machine,
}

impl<S: ServiceSource> Http1<S> {
    /// Restores the machine.
    fn resume(&mut self, scratch: &mut Scratch) {
        self.machine.resume(self.connection.info.suspended, scratch);
    }

    /// Frees the memory of the machine while the connection waits, if its state is small.
    fn suspend(&mut self, scratch: &mut Scratch) {
        if let Some(suspended) = self.machine.suspend(scratch) {
            self.connection.info.suspended = suspended;
        }
    }

    /// Enters a final state, which consumes the connection.
    pub(super) fn into_final_state(self, state: State) -> State {
        let Self { connection: Connection { io, context, timer, info }, machine } = self;
        let limits = info.limits;
        match state {
            State::Upgrade(upgrade) => {
                let (upgrade, entry) = *upgrade;
                let unread = machine.into_inner().map(|machine| machine.into_unread()).unwrap_or_default();
                let (io, unread) = match io {
                    Stream::Other(session) if session.passed().is_some() => match session.into_passed() {
                        Some(passed) => passed,
                        None => return State::Head,
                    },
                    io => (io, unread),
                };
                State::Tunnel(Box::new(Tunnel::new(
                    upgrade,
                    (io, unread, entry),
                    context.worker.clone(),
                    limits,
                    timer,
                )))
            }
            // Drops the machine's input buffer before the close waits for the peer.
            State::Close(mode) => State::Linger(Box::new(Linger::new(io, mode, &limits, timer))),
            other => other,
        }
    }

    /// Sets the timer and waits for a wake-up.
    fn wait<R>(&self, poll_cx: &PollContext<'_, '_>) -> Poll<R> {
        self.connection.timer.set(poll_cx.due, poll_cx.cx.waker());
        Poll::Pending
    }

    /// Returns the response for an internal error. Closes the connection after it, because its state may be
    /// inconsistent.
    fn internal_error(&mut self) -> Response {
        self.machine.close_after_response();
        internal_error()
    }

    /// Responds to a rejected request with a page of the service or with a text, and reports it. `exchange` is that of the
    /// request if the service has it. `earlier` belongs to the responses in `out`. The connection closes after the response.
    pub(super) fn respond_to_rejected(
        &mut self,
        rejection: Rejection,
        mut exchange: Exchange,
        earlier: Vec<Record>,
        date: &DateLine,
        out: &mut BytesMut,
    ) -> State {
        self.connection.context.worker.counters.rejected.add(1);
        let service = self.connection.load_service();
        let (number, since) = (self.machine.requests(), self.machine.waiting_since());
        let head = match self.machine.phase() {
            Phase::Idle | Phase::Head => self.machine.buffered(),
            // What is buffered belongs to the body.
            _ => &[],
        };
        match self.connection.rejection_response(&service, rejection, head, number) {
            Some(mut response) if self.machine.begin_rejection() => {
                self.begin(&mut response, None, date, out);
                exchange.pump.set_body(if self.machine.sends_body() { response.body } else { Body::Empty });
            }
            _ => self.machine.reject(rejection, date, out),
        }
        if !exchange.begin_record(rejection.status()) {
            self.connection.report_rejected(rejection, number, since);
        }
        exchange.output.push(out, earlier);
        State::Body(Box::new(exchange))
    }
}
