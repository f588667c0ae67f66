//! A connection over QUIC, from its handshake to its end.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use bytes::Bytes;
use rudy_http::h3::ErrorCode;
use rudy_quic::quinn_proto::{ConnectionError, Event, StreamEvent};
use rudy_quic::streams;
use rudy_runtime::clock;
use rudy_service::{LocalAddress, LocalAddressCache, Service, ServiceSource};
use rudy_tls::Tls;

use super::ConnectionContext;
use super::connection::{Connection, Endpoint};
use super::http3::{Fault, Http3};
use super::poll_context::{Budget, PollContext};
use crate::quic::Quic;
use crate::scratch::Scratch;
use crate::tls::Unfinished;

/// A connection being served.
pub(crate) struct ServeQuic<S: ServiceSource> {
    connection: Connection<S, Quic>,
    state: State,
}

enum State {
    /// Waits for the handshake.
    Handshake(Arc<Unfinished>),
    /// Serves requests.
    Http3(Box<Http3>),
    /// Has ended. Packets of the client may still arrive, and are answered with the end.
    Closed,
}

impl Endpoint for Quic {
    fn local_address<'c>(&'c self, _: &'c LocalAddressCache) -> LocalAddress<'c> {
        LocalAddress::known(Some(Quic::local_address(self)))
    }

    fn tls(&self) -> Option<&Arc<Tls>> {
        self.tls.as_ref()
    }
}

impl<S: ServiceSource> ServeQuic<S> {
    /// Serves a connection with this number.
    pub(crate) fn new(quic: Quic, number: u64, context: Arc<ConnectionContext<S>>) -> Self {
        let peer = quic.peer();
        let is_of_many = context.source.current().is_trusted_proxy(&peer);
        let limit = context.source.current().limits().handshakes;
        let unfinished = context.worker.handshakes.begin(limit);
        let connection = Connection::new(quic, (peer, number), is_of_many, context);
        Self { connection, state: State::Handshake(unfinished) }
    }

    /// Polls the connection. Ready when it has ended, and what follows needs no place among the open connections.
    pub(crate) fn poll_open(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let budget = Budget::new(clock::now());
        let now = budget.now();
        if self.poll_input(cx, now).is_pending() {
            return Poll::Pending;
        }
        self.connection.info.peer = self.connection.io.peer();
        match self.handle_events(cx, &budget) {
            Ok(()) => {}
            Err(fault) => self.fail(fault, now),
        }
        let polled = match &mut self.state {
            State::Http3(http3) => http3.poll(&mut self.connection, cx, &budget),
            State::Handshake(_) => self.wait_for_handshake(cx, now),
            State::Closed => Ok(()),
        };
        if let Err(fault) = polled {
            self.fail(fault, now);
        }
        if let State::Closed = self.state { Poll::Ready(()) } else { Poll::Pending }
    }

    /// Polls a connection that has ended. Ready when nothing more can arrive for it.
    pub(crate) fn poll_closed(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let now = clock::now();
        let quic = &mut self.connection.io;
        quic.receive(cx, now);
        while quic.machine.poll().is_some() {}
        quic.transmit(cx, now);
        let due = quic.due(cx, now);
        if quic.has_drained() || due.is_none() || self.connection.context.worker.is_stopping() {
            return Poll::Ready(());
        }
        self.connection.timer.set(due, cx.waker());
        Poll::Pending
    }

    /// Handles what has arrived. During the handshake, it waits for the turn of handshakes.
    fn poll_input(&mut self, cx: &mut Context<'_>, now: Instant) -> Poll<()> {
        let State::Handshake(unfinished) = &self.state else {
            self.connection.io.receive(cx, now);
            return Poll::Ready(());
        };
        let (handshakes, unfinished) =
            (self.connection.context.worker.handshakes.clone(), unfinished.clone());
        handshakes.poll_step(&unfinished, cx, |cx| {
            self.connection.io.receive(cx, now);
            Poll::Ready(())
        })
    }

    fn handle_events(&mut self, cx: &mut Context<'_>, budget: &Budget) -> Result<(), Fault> {
        if matches!(self.state, State::Handshake(_)) && self.connection.io.machine.has_0rtt() {
            self.begin(budget.now());
        }
        while let Some(event) = self.connection.io.machine.poll() {
            match event {
                Event::HandshakeDataReady => self.begin(budget.now()),
                Event::ConnectionLost { reason } => self.lose(&reason),
                Event::Stream(event) => self.note(&event, cx, budget)?,
                // The data of the handshake says the first, and QUIC datagrams are not offered.
                Event::Connected | Event::DatagramReceived | Event::DatagramsUnblocked => {}
            }
        }
        Ok(())
    }

    fn note(&mut self, event: &StreamEvent, cx: &mut Context<'_>, budget: &Budget) -> Result<(), Fault> {
        let State::Http3(http3) = &mut self.state else { return Ok(()) };
        let worker = self.connection.context.worker.clone();
        let mut poll_cx = PollContext::new(cx, &worker.counters, budget);
        let mut scratch = Scratch::borrow_at(budget.now());
        http3.note(event, &mut self.connection, &mut poll_cx, &mut scratch)
    }

    /// Begins HTTP/3 when the handshake is complete, or before, if there is early data. What comes after the handshake is no longer early.
    fn begin(&mut self, now: Instant) {
        let Some(data) = self.connection.io.machine.crypto_session().handshake_data() else { return };
        match data.downcast::<Arc<Tls>>() {
            Ok(tls) if self.connection.io.tls.is_some() => self.connection.io.complete_handshake(*tls),
            Ok(tls) => {
                let counters = &self.connection.context.worker.counters;
                counters.handshakes.add(1);
                counters.http3.connections.add(1);
                counters.resumed_handshakes.add(tls.is_resumed.into());
                self.connection.context.address.offer.mark_used();
                self.connection.io.tls = Some(*tls);
                self.state = State::Http3(Box::new(Http3::new(&self.connection, now)));
            }
            Err(error) => {
                let reason = error.downcast::<String>().map_or_else(|_| String::new(), |reason| *reason);
                self.report_failed_handshake(&reason);
                if let State::Http3(http3) = &mut self.state {
                    http3.end();
                }
                self.close(now, ErrorCode::GENERAL_PROTOCOL_ERROR);
            }
        }
    }

    fn wait_for_handshake(&mut self, cx: &mut Context<'_>, now: Instant) -> Result<(), Fault> {
        let State::Handshake(unfinished) = &self.state else { return Ok(()) };
        let unfinished = unfinished.clone();
        self.connection.io.transmit(cx, now);
        let deadline = self.connection.info.suspended.deadline(&self.connection.info.limits.http);
        let due = deadline.into_iter().chain(self.connection.io.due(cx, now)).min();
        let reason = if self.connection.context.worker.is_stopping() {
            return Err(Fault::Over);
        } else if deadline.is_some_and(|deadline| deadline <= now) {
            "it was not completed in time"
        } else if self.connection.timer.set_idle(due, cx.waker()) || unfinished.is_evicted(cx) {
            "too many handshakes were not completed"
        } else {
            return Ok(());
        };
        self.report_failed_handshake(reason);
        Err(Fault::Over)
    }

    fn report_failed_handshake(&mut self, reason: &str) {
        let service = self.connection.load_service();
        self.connection.context.worker.counters.failed_handshakes.add(1);
        service.handshake_failed(&self.connection.info.peer, reason);
    }

    /// The client has ended the connection, or is gone.
    fn lose(&mut self, reason: &ConnectionError) {
        match std::mem::replace(&mut self.state, State::Closed) {
            State::Handshake(_) => match reason {
                ConnectionError::TransportError(error) => self.report_failed_handshake(&error.reason),
                ConnectionError::ConnectionClosed(close) => self.report_failed_handshake(&close.to_string()),
                // A client that has left is nothing to report.
                _ => self.connection.context.worker.counters.failed_handshakes.add(1),
            },
            State::Http3(mut http3) => http3.end(),
            State::Closed => {}
        }
    }

    fn fail(&mut self, fault: Fault, now: Instant) {
        match std::mem::replace(&mut self.state, State::Closed) {
            State::Http3(mut http3) => http3.fail(fault, &mut self.connection, now),
            State::Handshake(_) => self.close(now, ErrorCode::NO_ERROR),
            State::Closed => {}
        }
    }

    fn close(&mut self, now: Instant, code: ErrorCode) {
        self.connection.io.machine.close(now, streams::code(code.0), Bytes::new());
        self.state = State::Closed;
    }
}

impl<S: ServiceSource> Drop for ServeQuic<S> {
    /// A connection dropped before its end means that the server is stopping. What it has sent is complete, or the client sees its end.
    fn drop(&mut self) {
        if let State::Http3(http3) = &mut self.state {
            http3.end();
        }
    }
}
