//! Serves many requests at once on a connection, for any protocol with streams ([`Multiplex`]): each exchange has its service and the body
//! pump of all protocols.
//!
//! A request whose response is small and immediate is answered where it is read, and stored nowhere. Others are an
//! [`Exchange`](exchange::Exchange) until their response is sent. Responses begin only while the client reads, so the number of concurrent
//! streams bounds what a connection stores.

mod exchange;
mod exchanges;
mod framing;
mod multiplex;
mod receive;
mod reject;
mod respond;
mod schedule;
mod send;
mod stored;
mod wakes;

use std::time::Instant;

use bytes::BytesMut;
use rudy_message::DateLine;
use rudy_service::{EndReason, ServiceSource};

use self::exchanges::Borrowed;
pub(super) use self::multiplex::{Multiplex, Reset, StreamId};
use self::stored::StoredBytes;
pub use self::stored::http2_stored_bytes;
use super::connection::{Connection, Endpoint};
use super::poll_context::{Budget, PollContext};
use super::record::Record;

/// The exchanges on the streams of a connection.
pub(super) struct Streams<M> {
    pub(super) protocol: M,
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
    is_ending: bool,
    stored: StoredBytes,
    /// Whether nothing is read, because all connections store too much of request bodies.
    is_paused: bool,
}

/// What the handling of something received needs.
pub(super) struct Turn<'t> {
    pub(super) now: Instant,
    pub(super) date: &'t DateLine,
    pub(super) budget: &'t Budget,
    pub(super) out: &'t mut BytesMut,
}

impl<M: Multiplex> Streams<M> {
    /// Creates the state of a connection without streams. `kills` is the number of exchanges of the worker that an operator has ended.
    pub(super) fn new(protocol: M, kills: u64) -> Self {
        Self {
            protocol,
            exchanges: Borrowed::default(),
            encoded: Vec::new(),
            turn: 0,
            kills,
            is_out_of_window: false,
            is_ending: false,
            stored: StoredBytes::default(),
            is_paused: false,
        }
    }

    /// Whether no exchange is in progress.
    pub(super) fn is_empty(&self) -> bool {
        self.exchanges.is_empty()
    }

    /// Whether nothing is read, because all connections store too much of request bodies.
    pub(super) fn is_paused(&self) -> bool {
        self.is_paused
    }

    /// Whether there may be exchanges without an observer that can get one.
    pub(super) fn has_unobserved(&self) -> bool {
        self.exchanges.has_unobserved
    }

    /// Begins a poll of the connection, before anything else. Resets the streams that an operator has ended.
    pub(super) fn begin_poll(&mut self, kills: u64, now: Instant, out: &mut BytesMut) {
        self.exchanges.borrow();
        self.end_killed(kills, now, out);
    }

    /// Frees what a connection without streams does not need.
    pub(super) fn release(&mut self) {
        self.exchanges.release();
        self.encoded = Vec::new();
    }

    /// Counts what the connection stores of request bodies.
    pub(super) fn count_stored(&mut self) {
        self.stored.set(self.protocol.stored_bytes());
    }

    /// Returns how much may be read: nothing while the connections together store too much of request bodies. Then a connection
    /// continues when its services read, or when the others store less.
    pub(super) fn input_room<S: ServiceSource, L: Endpoint>(
        &mut self,
        connection: &Connection<S, L>,
        poll_cx: &PollContext<'_, '_>,
    ) -> usize {
        self.count_stored();
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
        room
    }

    /// Whether the receive windows may grow: the connections together do not store too much of request bodies.
    pub(super) fn windows_may_grow(limit: u64) -> bool {
        StoredBytes::total() < limit
    }
}

impl<M> Streams<M> {
    /// Ends all exchanges.
    pub(super) fn end(&mut self, end_reason: EndReason) {
        let records = self.exchanges.take().into_iter().filter_map(|mut exchange| exchange.record.take());
        self.encoded.drain(..).chain(records).for_each(|mut record| record.finish(end_reason));
    }
}

impl<M> Drop for Streams<M> {
    /// A connection dropped before its end means that the server is stopping.
    fn drop(&mut self) {
        self.end(EndReason::ServerStopped);
    }
}
