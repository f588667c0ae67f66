//! A connection over QUIC: its state machine, and its way to the endpoint.

use std::cell::Cell;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Context;
use std::time::{Duration, Instant};

use rudy_quic::quinn_proto::{self, ConnectionHandle, Dir, VarInt};
use rudy_runtime::clock;
use rudy_service::Peer;
use rudy_tls::Tls;
use tokio::time::Sleep;

use super::deliveries::Deliveries;
use super::endpoint::Endpoint;
use super::send_budget::SendBudget;

/// The timers of the worker have a resolution of 10 ms. Acknowledgements and the pace of packets need an earlier one.
const SOON: Duration = Duration::from_millis(40);

/// Requests that a client may have open at first. With the other streams of a connection, the tables of quinn-proto have 14 entries, which
/// are the most that 16 slots take.
pub(crate) const STREAMS_AT_FIRST: u32 = 10;

/// Transmissions of a connection in a row, before others get their turn.
const TRANSMITS_MAX: usize = 16;

/// The maximum number of datagrams in a transmission: the kernel takes at most 64 KiB.
const SEGMENTS_MAX: usize = 40;

/// The code of the end of a connection without an error (RFC 9114 §8.1).
const NO_ERROR: VarInt = VarInt::from_u32(0x100);

thread_local! {
    /// The datagrams of a transmission.
    static DATAGRAMS: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// What carries a connection over QUIC.
pub(crate) struct Quic {
    /// 6 KiB. In a box of its own, it would be just above a size class of the allocator, whose next one has room for the rest of the task, too.
    pub(crate) machine: quinn_proto::Connection,
    handle: ConnectionHandle,
    endpoint: Arc<Endpoint>,
    deliveries: Arc<Deliveries>,
    /// The result of the handshake, once it is complete or there is early data.
    pub(crate) tls: Option<Arc<Tls>>,
    budget: SendBudget,
    /// How many requests the client may have open, which grows with their number: quinn-proto has 60 bytes for each that is permitted.
    streams: u32,
    /// The next time at which the machine must be woken soon.
    soon: Option<Pin<Box<Sleep>>>,
    /// The lost packets that are counted.
    lost: u64,
    has_drained: bool,
}

impl Quic {
    pub(crate) fn new(
        machine: quinn_proto::Connection,
        handle: ConnectionHandle,
        endpoint: Arc<Endpoint>,
        budget: SendBudget,
    ) -> Self {
        let deliveries = endpoint.add(handle);
        Self {
            machine,
            handle,
            endpoint,
            deliveries,
            tls: None,
            budget,
            streams: STREAMS_AT_FIRST,
            soon: None,
            lost: 0,
            has_drained: false,
        }
    }

    /// The handshake of a connection with early data is complete.
    pub(crate) fn complete_handshake(&mut self, tls: Arc<Tls>) {
        if let Some(early) = self.tls.replace(tls)
            && let Some(handshake) = &early.handshake
        {
            handshake.complete();
        }
    }

    /// Permits more requests at the same time, up to `limit`, if the client uses half of those that it may have.
    pub(crate) fn permit_streams(&mut self, limit: u32) {
        let is_used = |open: u64| open > u64::from(self.streams / 2);
        if self.streams < limit && is_used(self.machine.streams().remote_open_streams(Dir::Bi)) {
            self.streams = (self.streams * 2).min(limit);
            self.machine.set_max_concurrent_streams(Dir::Bi, VarInt::from_u32(self.streams));
        }
    }

    /// Adapts what may be in transit to the congestion window; all connections have `limit` together.
    pub(crate) fn adapt_send_window(&mut self, limit: u64) {
        let window = self.machine.congestion_state().window();
        if let Some(bytes) = self.budget.adapt(window, limit) {
            self.machine.set_send_window(bytes);
        }
    }

    /// Frees what an idle connection does not need.
    pub(crate) fn release(&mut self) {
        if let Some(bytes) = self.budget.release() {
            self.machine.set_send_window(bytes);
        }
        self.count_lost();
    }

    /// Counts the packets that were lost since the last call.
    fn count_lost(&mut self) {
        let lost = self.machine.stats().path.lost_packets;
        self.endpoint.counters().lost_packets.add(lost - std::mem::replace(&mut self.lost, lost));
    }

    /// Whether something has arrived that was not handled.
    pub(crate) fn has_arrived(&self) -> bool {
        self.deliveries.has_arrived()
    }

    /// Handles what has arrived, and what is due. Returns the number of datagrams.
    pub(crate) fn receive(&mut self, cx: &Context<'_>, now: Instant) -> usize {
        let events = self.deliveries.take(cx);
        let count = events.len();
        for event in events {
            self.machine.handle_event(event);
        }
        if self.machine.poll_timeout().is_some_and(|due| due <= now) {
            self.machine.handle_timeout(now);
        }
        self.exchange_events();
        count
    }

    /// Exchanges events with the endpoint.
    fn exchange_events(&mut self) {
        while let Some(event) = self.machine.poll_endpoint_events() {
            self.has_drained |= event.is_drained();
            if let Some(event) = self.endpoint.handle_event(self.handle, event) {
                self.machine.handle_event(event);
            }
        }
    }

    /// Sends the datagrams that are due. Returns how many bytes, and whether there may be more.
    pub(crate) fn transmit(&mut self, cx: &Context<'_>, now: Instant) -> (u64, bool) {
        let mut buffer = DATAGRAMS.take();
        let result = self.transmit_with(&mut buffer, cx, now);
        DATAGRAMS.set(buffer);
        self.exchange_events();
        result
    }

    fn transmit_with(&mut self, buffer: &mut Vec<u8>, cx: &Context<'_>, now: Instant) -> (u64, bool) {
        let segments = self.endpoint.segments_max().min(SEGMENTS_MAX);
        let mut sent = 0;
        for _ in 0..TRANSMITS_MAX {
            if self.endpoint.is_full(cx) {
                return (sent, false);
            }
            let Some(transmit) = self.machine.poll_transmit(now, segments, buffer) else {
                return (sent, false);
            };
            sent += transmit.size as u64;
            self.endpoint.send(transmit, buffer);
        }
        (sent, true)
    }

    /// Returns when the connection must be polled. The task is woken earlier by itself if that is soon.
    pub(crate) fn due(&mut self, cx: &mut Context<'_>, now: Instant) -> Option<Instant> {
        let due = self.machine.poll_timeout();
        let Some(soon) = due.filter(|due| due.saturating_duration_since(now) < SOON) else {
            self.soon = None;
            return due;
        };
        let sleep = self.soon.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(soon.into())));
        if sleep.deadline() != soon.into() {
            sleep.as_mut().reset(soon.into());
        }
        if sleep.as_mut().poll(cx).is_ready() {
            cx.waker().wake_by_ref();
        }
        due
    }

    /// Returns the address that the client has connected to.
    pub(crate) fn local_address(&self) -> SocketAddr {
        let bound = self.endpoint.local();
        SocketAddr::new(self.machine.local_ip().unwrap_or(bound.ip()), bound.port())
    }

    /// Whether the connection has ended, and nothing more can arrive for it.
    pub(crate) fn has_drained(&self) -> bool {
        self.has_drained
    }

    /// Returns the current address of the client, which may change.
    pub(crate) fn peer(&self) -> Peer {
        let address = self.machine.remote_address();
        // An IPv4 address as such, also if it has arrived at a socket of IPv6.
        Peer::Ip(SocketAddr::new(address.ip().to_canonical(), address.port()))
    }
}

impl Drop for Quic {
    /// A connection that ends with its server sends the end, if the socket has room.
    fn drop(&mut self) {
        self.count_lost();
        if self.has_drained {
            return;
        }
        if !self.machine.is_closed() {
            let now = clock::now();
            self.machine.close(now, NO_ERROR, bytes::Bytes::new());
            let mut buffer = Vec::new();
            if let Some(transmit) = self.machine.poll_transmit(now, 1, &mut buffer) {
                self.endpoint.send(transmit, &mut buffer);
            }
        }
        self.endpoint.handle_event(self.handle, quinn_proto::EndpointEvent::drained());
    }
}
