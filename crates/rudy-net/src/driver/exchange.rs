//! An exchange that has to wait: for a service, for a body in either direction, for a file, for a slow client.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Instant;

use bytes::BytesMut;
use rudy_http::h1::{Phase, Refusal};

use super::input::{Input, InputFault};
use super::pump::Pump;
use super::record::{Record, refused};
use super::turn::Turn;
use super::{Connection, State, Upgrade};
use crate::close::Ending;
use crate::engine::Source;
use crate::scratch::Scratch;
use crate::{Body, Ended, Response};

/// A service at work.
pub(super) struct Handler {
    /// What it is at.
    pub(super) future: Pin<Box<dyn Future<Output = Response> + Send>>,
    pub(super) exchange: Exchange,
}

/// What the service at work and the response on its way have in common.
pub(super) struct Exchange {
    pub(super) pump: Pump,
    pub(super) input: Input,
    /// Somebody wants to know how it went.
    pub(super) record: Option<Box<Record>>,
    /// Takes the connection over after the response.
    pub(super) upgrade: Option<Box<Upgrade>>,
}

/// Why a connection ends in the middle of an exchange.
struct Fault(Ended, Ending);

impl From<Ended> for Fault {
    fn from(ended: Ended) -> Self {
        Self(ended, Ending::Cut)
    }
}

impl Handler {
    /// Moves everything that can move. Ready with the connection's next state.
    pub(super) fn poll<S: Source>(
        &mut self,
        connection: &mut Connection<S>,
        cx: &mut Context<'_>,
    ) -> Poll<State> {
        let (now, worker) = (Instant::now(), connection.context.worker.clone());
        let mut turn = Turn::new(cx, now, &worker.counters);
        let mut scratch = Scratch::borrow_at(now);
        let next = match self.poll_response(connection, &mut turn, &mut scratch) {
            Poll::Pending => {
                let exchange = &mut self.exchange;
                let flushed = exchange.pump.poll_queued(&mut connection.io, &mut turn, &mut scratch.out);
                match flushed {
                    Poll::Ready(Err(ended)) => Some(exchange.end(ended.into())),
                    _ => self.check_time(connection, &mut turn, &mut scratch),
                }
            }
            Poll::Ready(next) => Some(next),
        };
        match next {
            Some(next) => Poll::Ready(next),
            None => connection.wait(&turn),
        }
    }

    /// Ready when there is a response, or will be none.
    fn poll_response<S: Source>(
        &mut self,
        connection: &mut Connection<S>,
        turn: &mut Turn<'_, '_>,
        scratch: &mut Scratch,
    ) -> Poll<State> {
        match self.exchange.input.poll(connection, turn, &mut scratch.out) {
            Poll::Pending => {}
            Poll::Ready(InputFault::Refused(refusal)) => {
                return Poll::Ready(self.refuse(refusal, connection, turn.now, scratch));
            }
            Poll::Ready(InputFault::Incomplete) => {
                return Poll::Ready(self.exchange.end(Fault(Ended::PeerGone, Ending::Quiet)));
            }
            Poll::Ready(InputFault::Gone) => return Poll::Ready(self.exchange.end(Ended::PeerGone.into())),
        }
        let response = match turn.poll(|cx, _| self.future.as_mut().poll(cx)) {
            Ok((response, left)) => {
                for (status, fields) in left.interim {
                    // One that is not sent concerns nobody: a client that speaks HTTP/1.0.
                    let _is_sent = connection.machine.interim(status, &fields, &mut scratch.out);
                }
                std::task::ready!(response)
            }
            Err(_) => connection.bug(),
        };
        let exchange = self.exchange.take();
        Poll::Ready(connection.respond(response, exchange, turn, scratch))
    }

    /// Ends what has had its time.
    fn check_time<S: Source>(
        &mut self,
        connection: &mut Connection<S>,
        turn: &mut Turn<'_, '_>,
        scratch: &mut Scratch,
    ) -> Option<State> {
        let deadline = self.exchange.input.upload_deadline(&connection.facts.limits.http);
        if let Some(upload) = &mut self.exchange.input.upload
            && deadline.is_some_and(|deadline| deadline <= turn.now)
        {
            upload.too_slow();
            return Some(self.refuse(Refusal::BodyTooSlow, connection, turn.now, scratch));
        }
        self.exchange.check_time(connection, turn).map(|fault| self.exchange.end(fault))
    }

    /// The client is refused in the middle of its request. Drops the service's future, and with it whatever it was doing for it.
    fn refuse<S: Source>(
        &mut self,
        refusal: Refusal,
        connection: &mut Connection<S>,
        now: Instant,
        scratch: &mut Scratch,
    ) -> State {
        connection.context.worker.counters.refused.add(1);
        connection.machine.refuse(refusal, &scratch.date, &mut scratch.out);
        match &mut self.exchange.record {
            Some(record) => record.begin(refusal.status()),
            None => refused(&*connection.look_up(), &connection.client(), refusal, now),
        }
        let mut exchange = self.exchange.take();
        exchange.input.upload = None;
        exchange.pump.set_ended();
        exchange.pump.push(&scratch.out, Vec::new());
        scratch.out.clear();
        State::Body(Box::new(exchange))
    }
}

impl Exchange {
    pub(super) fn new(pump: Pump, input: Input, record: Record) -> Self {
        let record = record.observer.is_some().then(|| Box::new(record));
        Self { pump, input, record, upgrade: None }
    }

    /// Moves it on into another state.
    fn take(&mut self) -> Self {
        Self {
            pump: std::mem::take(&mut self.pump),
            input: std::mem::take(&mut self.input),
            record: self.record.take(),
            upgrade: self.upgrade.take(),
        }
    }

    /// Sends the response as far as it goes. Ready with the connection's next state.
    pub(super) fn poll<S: Source>(
        &mut self,
        connection: &mut Connection<S>,
        cx: &mut Context<'_>,
    ) -> Poll<State> {
        let (now, worker) = (Instant::now(), connection.context.worker.clone());
        let mut turn = Turn::new(cx, now, &worker.counters);
        let mut scratch = Scratch::borrow();
        let sent = self.poll_sent(connection, &mut turn, &mut scratch.out);
        match sent {
            Poll::Ready(Ok(())) => Poll::Ready(self.finish(connection)),
            Poll::Ready(Err(fault)) => Poll::Ready(self.end(fault)),
            Poll::Pending => match self.check_time(connection, &mut turn) {
                Some(fault) => Poll::Ready(self.end(fault)),
                None => connection.wait(&turn),
            },
        }
    }

    fn poll_sent<S: Source>(
        &mut self,
        connection: &mut Connection<S>,
        turn: &mut Turn<'_, '_>,
        out: &mut BytesMut,
    ) -> Poll<Result<(), Fault>> {
        match self.input.poll(connection, turn, out) {
            Poll::Pending => {}
            // A response that has begun must not pass for a whole one.
            Poll::Ready(InputFault::Refused(_)) => return Poll::Ready(Err(Ended::Cut.into())),
            Poll::Ready(InputFault::Incomplete | InputFault::Gone) => {
                return Poll::Ready(Err(Ended::PeerGone.into()));
            }
        }
        if self.pump.is_live() && connection.context.worker.is_stopping() {
            connection.machine.close_after_answer();
            self.pump.end_body();
        }
        let before = self.pump.sent_bytes;
        let sent = self.pump.poll(&mut connection.io, &mut *connection.machine, turn, out);
        if self.pump.sent_bytes > before {
            self.input.written(turn.now);
        }
        sent.map_err(Fault::from)
    }

    /// Which deadline has passed, if any. Has the connection polled again at the first of the others.
    fn check_time<S: Source>(
        &mut self,
        connection: &Connection<S>,
        turn: &mut Turn<'_, '_>,
    ) -> Option<Fault> {
        let (limits, now) = (&connection.facts.limits.http, turn.now);
        if self.input.upload_deadline(limits).is_some_and(|deadline| deadline <= now) {
            if let Some(upload) = &mut self.input.upload {
                upload.too_slow();
            }
            return Some(Ended::Cut.into());
        }
        if self.input.half_close_deadline(limits).is_some_and(|deadline| deadline <= now) {
            if !self.pump.has_progressed(&connection.io, now) {
                return Some(Ended::PeerGone.into());
            }
            self.input.written(now);
        }
        if self.pump.has_stalled(&connection.io, limits, now) {
            return Some(Ended::PeerStalled.into());
        }
        turn.wake_at(self.input.due(connection, now));
        turn.wake_at(self.pump.deadline(limits));
        None
    }

    /// Everything has been handed to the kernel.
    pub(super) fn finish<S: Source>(&mut self, connection: &Connection<S>) -> State {
        self.tell(Ended::Complete);
        match (connection.machine.phase(), self.upgrade.take()) {
            (Phase::Upgrade, Some(upgrade)) => State::Upgrade(upgrade),
            (Phase::Close, _) if self.input.ended => State::Close(Ending::PeerClosed),
            // A switch of protocols that nobody takes over has nowhere to go.
            (Phase::Close | Phase::Upgrade, _) => State::Close(Ending::Finished),
            _ => State::Head,
        }
    }

    fn end(&mut self, Fault(ended, ending): Fault) -> State {
        self.tell(ended);
        State::Close(ending)
    }

    fn tell(&mut self, ended: Ended) {
        self.pump.settle_earlier(ended);
        if let Some(mut record) = self.record.take() {
            record.body_bytes += self.pump.body_bytes;
            record.finish(ended);
        }
    }
}

impl<S: Source> Connection<S> {
    /// Sends the response of a service that was at work.
    fn respond(
        &mut self,
        mut response: Response,
        mut exchange: Exchange,
        turn: &mut Turn<'_, '_>,
        scratch: &mut Scratch,
    ) -> State {
        let Scratch { out, date, .. } = scratch;
        let upload = exchange.input.upload.as_deref();
        let status = self.begin(&mut response, upload, date, out);
        if let Some(record) = &mut exchange.record {
            record.begin(status);
        }
        self.send(response, exchange, turn, out)
    }

    /// Sends a response whose head is in `out`. What is not sent at once goes on in a state of its own.
    pub(super) fn send(
        &mut self,
        response: Response,
        mut exchange: Exchange,
        turn: &mut Turn<'_, '_>,
        out: &mut BytesMut,
    ) -> State {
        exchange.upgrade = response.upgrade.map(Box::new);
        exchange.pump.set_body(if self.machine.sends_body() { response.body } else { Body::Empty });
        match exchange.pump.poll(&mut self.io, &mut *self.machine, turn, out) {
            Poll::Ready(Ok(())) => exchange.finish(self),
            Poll::Ready(Err(ended)) => exchange.end(ended.into()),
            // It is polled once more, and then sees to its deadlines.
            Poll::Pending => State::Body(Box::new(exchange)),
        }
    }
}

impl Drop for Exchange {
    /// Dropped in the middle: the server is being stopped.
    fn drop(&mut self) {
        self.tell(Ended::Stopped);
    }
}
