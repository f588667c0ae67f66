//! The exchanges of a connection, and which of them can go on. Work is done only for these: a client can have a hundred requests that
//! wait, and wake the connection with each packet.

use std::cell::Cell;
use std::collections::VecDeque;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::task::Waker;
use std::time::Instant;

use rudy_http::Limits;

use super::exchange::{Exchange, Phase};
use super::multiplex::StreamId;
use super::schedule::SendQueue;
use super::wakes::{StreamWaker, Wakes};

thread_local! {
    /// The lists of the connection of this thread that became idle last.
    static FREE: Cell<Option<Box<Exchanges>>> = const { Cell::new(None) };
}

/// The exchanges of a connection. It borrows the lists of its thread when it is polled, and returns them when it is idle.
#[derive(Default)]
pub(super) struct Borrowed(Option<Box<Exchanges>>);

impl Borrowed {
    pub(super) fn is_empty(&self) -> bool {
        self.0.as_ref().is_none_or(|exchanges| exchanges.all.is_empty())
    }

    /// Borrows the lists, unless the connection has them.
    pub(super) fn borrow(&mut self) {
        self.0.get_or_insert_with(|| FREE.take().unwrap_or_default());
    }

    /// Returns the lists, which are empty.
    pub(super) fn release(&mut self) {
        if let Some(mut exchanges) = self.0.take() {
            exchanges.reset();
            FREE.set(Some(exchanges));
        }
    }

    /// Removes all exchanges.
    pub(super) fn take(&mut self) -> Vec<Exchange> {
        self.0.as_mut().map(|exchanges| std::mem::take(&mut **exchanges).all).unwrap_or_default()
    }
}

impl Deref for Borrowed {
    type Target = Exchanges;

    fn deref(&self) -> &Exchanges {
        self.0.as_deref().expect("each poll begins with a borrow")
    }
}

impl DerefMut for Borrowed {
    fn deref_mut(&mut self) -> &mut Exchanges {
        self.0.as_deref_mut().expect("each poll begins with a borrow")
    }
}

/// The exchanges whose responses are not sent.
#[derive(Default)]
pub(super) struct Exchanges {
    /// In the order of their streams.
    all: Vec<Exchange>,
    wakes: Option<Arc<Wakes>>,
    /// Those whose services are polled next.
    scheduled: Vec<StreamId>,
    /// Those whose responses can begin.
    responses: VecDeque<StreamId>,
    /// Those whose bodies may have data, and a window.
    bodies: SendQueue,
    /// Those whose responses are encoded.
    encoded: Vec<StreamId>,
    /// Those that have changed in this poll.
    changed: Vec<StreamId>,
    /// No exchange is due earlier.
    due: Option<Instant>,
    /// Whether there may be some without an observer that can get one.
    pub(super) has_unobserved: bool,
}

impl Exchanges {
    /// Forgets what concerns the exchanges of a connection, all of which have ended. Their wakers may live on.
    fn reset(&mut self) {
        for streams in [&mut self.scheduled, &mut self.encoded, &mut self.changed] {
            streams.clear();
        }
        self.responses.clear();
        (self.wakes, self.bodies, self.due, self.has_unobserved) = (None, SendQueue::default(), None, false);
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Exchange> {
        self.all.iter_mut()
    }

    /// Returns the streams of these exchanges.
    pub(super) fn streams(&self, is_meant: impl Fn(&Exchange) -> bool) -> Vec<StreamId> {
        self.all.iter().filter(|exchange| is_meant(exchange)).map(|exchange| exchange.stream).collect()
    }

    fn position(&self, stream: StreamId) -> Option<usize> {
        self.all.binary_search_by_key(&stream, |exchange| exchange.stream).ok()
    }

    pub(super) fn get_mut(&mut self, stream: StreamId) -> Option<&mut Exchange> {
        self.position(stream).map(|at| &mut self.all[at])
    }

    /// Adds an exchange, which goes on in this poll.
    pub(super) fn insert(&mut self, mut exchange: Exchange) {
        let stream = exchange.stream;
        let wakes = self.wakes.get_or_insert_with(Wakes::new);
        exchange.waker.get_or_insert_with(|| StreamWaker::new(stream, wakes.clone()));
        self.has_unobserved |= exchange.unobserved.is_some();
        let at = self.all.partition_point(|other| other.stream < stream);
        self.all.insert(at, exchange);
        self.change(stream);
        self.go_on(stream);
    }

    pub(super) fn remove(&mut self, stream: StreamId) -> Option<Exchange> {
        self.dequeue(stream);
        self.position(stream).map(|at| self.all.remove(at))
    }

    /// Goes on with what the phase of an exchange needs next.
    pub(super) fn go_on(&mut self, stream: StreamId) {
        match self.get_mut(stream).map(|exchange| &exchange.phase) {
            Some(Phase::Handler(_)) => self.schedule(stream),
            Some(Phase::Response(_)) => self.responses.push_back(stream),
            Some(Phase::Body(_)) => self.queue(stream),
            Some(Phase::Sent) => {
                self.dequeue(stream);
                self.encoded.push(stream);
            }
            None => {}
        }
    }

    /// Polls the service of an exchange next.
    pub(super) fn schedule(&mut self, stream: StreamId) {
        if let Some(exchange) = self.get_mut(stream)
            && !std::mem::replace(&mut exchange.is_scheduled, true)
        {
            self.scheduled.push(stream);
        }
    }

    /// Polls the services of these exchanges next.
    pub(super) fn schedule_all(&mut self, is_meant: impl Fn(&Exchange) -> bool) {
        self.streams(is_meant).into_iter().for_each(|stream| self.schedule(stream));
    }

    /// Returns the streams whose services are polled now: those that have woken, are due, or got something.
    pub(super) fn take_scheduled(&mut self, connection: &Waker, now: Instant) -> Vec<StreamId> {
        if let Some(wakes) = &self.wakes {
            let mut woken = Vec::new();
            wakes.take(connection, &mut woken);
            for stream in woken {
                self.schedule(stream);
            }
        }
        if self.is_due(now) {
            self.schedule_all(|exchange| exchange.due.is_some_and(|due| due <= now));
        }
        std::mem::take(&mut self.scheduled)
    }

    /// Returns an exchange whose service or body is polled now, and notes that it changes.
    pub(super) fn begin_poll(&mut self, stream: StreamId) -> Option<&mut Exchange> {
        self.change(stream);
        let exchange = self.get_mut(stream)?;
        (exchange.is_scheduled, exchange.reads_ahead, exchange.due) = (false, false, None);
        if let Some(waker) = &exchange.waker {
            waker.begin_poll();
        }
        Some(exchange)
    }

    /// Notes that an exchange changes.
    pub(super) fn change(&mut self, stream: StreamId) {
        if let Some(at) = self.position(stream)
            && !std::mem::replace(&mut self.all[at].is_changed, true)
        {
            self.changed.push(stream);
        }
    }

    /// Removes the exchange with the next response to begin.
    pub(super) fn take_response(&mut self) -> Option<Exchange> {
        loop {
            let stream = self.responses.pop_front()?;
            if let Some(at) = self.position(stream)
                && matches!(self.all[at].phase, Phase::Response(_))
            {
                return Some(self.all.remove(at));
            }
        }
    }

    /// Returns the streams whose responses are encoded.
    pub(super) fn take_encoded(&mut self) -> Vec<StreamId> {
        std::mem::take(&mut self.encoded)
    }

    /// The body of an exchange may have data, and a window.
    pub(super) fn queue(&mut self, stream: StreamId) {
        let Some(at) = self.position(stream) else { return };
        let exchange = &mut self.all[at];
        if !std::mem::replace(&mut exchange.is_queued, true) {
            self.bodies.insert(exchange.entry());
        }
    }

    /// The client has opened the window of a stream.
    pub(super) fn queue_waiting(&mut self, stream: StreamId) {
        if self.get_mut(stream).is_some_and(|exchange| exchange.pace.is_waiting()) {
            self.queue(stream);
        }
    }

    /// The body of an exchange waits for its source, or for a window.
    pub(super) fn dequeue(&mut self, stream: StreamId) {
        let Some(at) = self.position(stream) else { return };
        let exchange = &mut self.all[at];
        if std::mem::take(&mut exchange.is_queued) {
            self.bodies.remove(exchange.entry());
        }
    }

    /// Changes what the place of a body among the others depends on.
    pub(super) fn reorder(&mut self, stream: StreamId, change: impl FnOnce(&mut Exchange)) {
        let Some(at) = self.position(stream) else { return };
        let was_queued = self.all[at].is_queued;
        self.dequeue(stream);
        change(&mut self.all[at]);
        if was_queued {
            self.queue(stream);
        }
    }

    /// Returns the stream of the body that is sent next.
    pub(super) fn next_body(&self) -> Option<StreamId> {
        self.bodies.next(|stream| self.position(stream).map_or(0, |at| self.all[at].served))
    }

    /// Returns the streams whose bodies may have data, and a window.
    pub(super) fn queued(&self) -> Vec<StreamId> {
        self.bodies.streams().collect()
    }

    /// Returns the streams of these exchanges, of those that have changed in this poll.
    pub(super) fn changed(&self, is_meant: impl Fn(&Exchange) -> bool) -> Vec<StreamId> {
        let is_meant = |stream: &StreamId| self.position(*stream).is_some_and(|at| is_meant(&self.all[at]));
        self.changed.iter().copied().filter(is_meant).collect()
    }

    /// Whether an exchange may be due.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.due.is_some_and(|due| due <= now)
    }

    /// Calls `each` for the exchanges that have changed. Returns when the next exchange is due, or earlier.
    pub(super) fn settle(
        &mut self,
        limits: &Limits,
        now: Instant,
        mut each: impl FnMut(&mut Exchange),
    ) -> Option<Instant> {
        if self.is_due(now) {
            self.due = self.all.iter().filter_map(|exchange| exchange.next_due(limits)).min();
        }
        for stream in std::mem::take(&mut self.changed) {
            if let Some(at) = self.position(stream) {
                let exchange = &mut self.all[at];
                exchange.is_changed = false;
                each(exchange);
                self.due = self.due.into_iter().chain(exchange.next_due(limits)).min();
            }
        }
        self.due
    }
}
