//! The endpoint of a worker: its socket, and the way of datagrams to and from its connections.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use parking_lot::Mutex;
use rudy_quic::quinn_proto::{
    self, ConnectionEvent, ConnectionHandle, DatagramEvent, EndpointConfig, EndpointEvent, Incoming, Transmit,
};
use rudy_quic::{Datagram, Ids, Place, Received};
use rudy_runtime::clock;
use tokio::runtime::Handle;

use super::deliveries::Deliveries;
use super::drops::Drops;
use super::group::Group;
use super::relay::Relay;
use super::socket::Socket;
use crate::listen::Http3Socket;
use crate::worker::{Http3Counters, Worker};

/// Calls that receive before connections get their turn.
const RECEIVE_CALLS: usize = 4;

/// Datagrams of a size, in one transmission, that wait for room in the socket. When there are more, they are dropped, which the
/// connection notices as it notices a loss in the network.
const UNSENT_MAX: usize = 64;

/// Datagrams that another process has received which are handled before connections get their turn.
const RELAYED_MAX: usize = 64;

/// Datagrams that were received by other endpoints, and wait. When there are more, they are dropped.
const PASSED_MAX: usize = 1024;

/// What the connections of a worker share.
pub(crate) struct Endpoint {
    socket: Socket,
    place: Place,
    ids: Ids,
    group: Arc<Group>,
    worker: Arc<Worker>,
    state: Mutex<State>,
    /// What polls the socket.
    runtime: Handle,
    /// Whether another process receives from the socket.
    is_read_elsewhere: AtomicBool,
}

struct State {
    machine: quinn_proto::Endpoint,
    /// By the numbers of the connections.
    by_handle: Vec<Option<Arc<Deliveries>>>,
    unsent: Vec<(Transmit, Vec<u8>)>,
    /// The connections that wait for room in the socket.
    waiting: Vec<Waker>,
    /// The task that receives, which also waits for room.
    receiver: Option<Waker>,
    /// The buffer of responses without a connection.
    buffer: Vec<u8>,
    /// What other endpoints have received for this one.
    passed: Vec<Datagram>,
    drops: Drops,
}

impl Endpoint {
    /// Creates the endpoint of a socket. The current runtime polls the socket.
    pub(crate) fn new(
        socket: Http3Socket,
        config: EndpointConfig,
        (place, ids): (Place, Ids),
        group: Arc<Group>,
        worker: Arc<Worker>,
    ) -> io::Result<Self> {
        let socket = Socket::new(socket)?;
        let machine = quinn_proto::Endpoint::new(Arc::new(config), None, !socket.may_fragment(), None);
        let state = State {
            machine,
            by_handle: Vec::new(),
            unsent: Vec::new(),
            waiting: Vec::new(),
            receiver: None,
            buffer: Vec::new(),
            passed: Vec::new(),
            drops: Drops::default(),
        };
        let (runtime, is_read_elsewhere) = (Handle::current(), AtomicBool::new(false));
        Ok(Self { socket, place, ids, group, worker, state: Mutex::new(state), runtime, is_read_elsewhere })
    }

    /// Returns the address of the socket.
    pub(crate) fn local(&self) -> SocketAddr {
        self.socket.local()
    }

    /// Returns the counters of the worker.
    pub(crate) fn counters(&self) -> &Http3Counters {
        &self.worker.counters.http3
    }

    /// Receives, once; `received` is a buffer. Calls `accept` for each new connection. Ready when connections should get their turn.
    pub(crate) fn poll_receive(
        &self,
        cx: &mut Context<'_>,
        received: &mut Received,
        accept: &mut dyn FnMut(Incoming),
    ) -> Poll<io::Result<()>> {
        self.poll_unsent(cx);
        let passed = std::mem::take(&mut self.state.lock().passed);
        for datagram in passed {
            self.handle(datagram, clock::now(), accept);
        }
        let is_busy = self.poll_relays(cx, received, accept);
        if self.is_read_elsewhere.load(Ordering::Acquire) {
            return if is_busy { Poll::Ready(Ok(())) } else { Poll::Pending };
        }
        for _ in 0..RECEIVE_CALLS {
            let handle = |datagram, now| {
                self.counters().received_datagrams.add(1);
                if let Some(datagram) = self.group.pass_on(self.place, &self.ids, datagram, self.counters()) {
                    self.handle(datagram, now, accept);
                }
            };
            std::task::ready!(self.socket.poll_receive(cx, received, handle))?;
            self.count_drops();
        }
        Poll::Ready(Ok(()))
    }

    fn count_drops(&self) {
        let Some(socket) = self.socket.of_kernel() else { return };
        let dropped = self.state.lock().drops.take(socket, clock::now());
        self.counters().dropped_datagrams.add(dropped);
    }

    /// Receives what another process has read for this one. Returns whether there may be more.
    fn poll_relays(
        &self,
        cx: &mut Context<'_>,
        received: &mut Received,
        accept: &mut dyn FnMut(Incoming),
    ) -> bool {
        let Some(neighbour) = self.group.neighbour() else { return false };
        let mut is_busy = false;
        for relay in neighbour.relays_of(self.place.worker.into(), self.group.len()) {
            for turn in 1..=RELAYED_MAX {
                match relay.poll_receive(cx, received.buffer()) {
                    Poll::Ready(Ok(datagram)) => {
                        let own = self.group.pass_on(self.place, &self.ids, datagram, self.counters());
                        if let Some(datagram) = own {
                            self.handle(datagram, clock::now(), accept);
                        }
                    }
                    Poll::Ready(Err(_)) => {
                        self.group.forget(&neighbour);
                        return true;
                    }
                    Poll::Pending => break,
                }
                is_busy |= turn == RELAYED_MAX;
            }
        }
        is_busy
    }

    /// Uses this end of the way to another process.
    pub(super) fn relay(&self, end: OwnedFd) -> io::Result<Relay> {
        let _entered = self.runtime.enter();
        Relay::new(end)
    }

    /// Duplicates the socket, for another process.
    pub(super) fn duplicate(&self) -> io::Result<Option<Http3Socket>> {
        self.socket.duplicate()
    }

    /// Leaves the receiving to another process, which passes on what is for this one.
    pub(super) fn stop_reading(&self) {
        self.is_read_elsewhere.store(true, Ordering::Release);
    }

    /// Receives a datagram from another endpoint. When too many wait, it is dropped.
    pub(super) fn receive_passed(&self, datagram: Datagram) {
        let mut state = self.state.lock();
        if state.passed.len() < PASSED_MAX {
            state.passed.push(datagram);
        }
        if let Some(receiver) = &state.receiver {
            receiver.wake_by_ref();
        }
    }

    /// Passes a datagram to its connection.
    fn handle(&self, datagram: Datagram, now: Instant, accept: &mut dyn FnMut(Incoming)) {
        let Datagram { from, to, ecn, bytes } = datagram;
        let mut state = self.state.lock();
        let State { machine, buffer, .. } = &mut *state;
        buffer.clear();
        match machine.handle(now, from, to, ecn, bytes, buffer) {
            Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                let deliveries = state.by_handle.get(handle.0).and_then(Option::as_ref).cloned();
                drop(state);
                if let Some(deliveries) = deliveries {
                    deliveries.push(event);
                }
            }
            Some(DatagramEvent::NewConnection(incoming)) => {
                drop(state);
                accept(incoming);
            }
            Some(DatagramEvent::Response(transmit)) => self.respond(&mut state, &transmit),
            None => {}
        }
    }

    /// Sends what is in the buffer. What the socket does not accept is dropped: the client sends its datagram again.
    fn respond(&self, state: &mut State, transmit: &Transmit) {
        let contents = state.buffer.get(..transmit.size).unwrap_or_default();
        let _best_effort = self.try_send(transmit, contents);
    }

    /// Changes the state of the endpoint, and sends what `change` returns.
    pub(crate) fn change<R>(
        &self,
        change: impl FnOnce(&mut quinn_proto::Endpoint, &mut Vec<u8>) -> (R, Option<Transmit>),
    ) -> R {
        let mut state = self.state.lock();
        let State { machine, buffer, .. } = &mut *state;
        buffer.clear();
        let (result, transmit) = change(machine, buffer);
        if let Some(transmit) = transmit {
            self.respond(&mut state, &transmit);
        }
        result
    }

    /// Whether no connection is left, here and at the other endpoints of the listener: sockets that accept nothing must not stay beside new
    /// ones, because the kernel chooses among all of them.
    pub(crate) fn is_unused(&self) -> bool {
        self.group.is_unused()
    }

    /// Whether connections are open here.
    pub(super) fn has_connections(&self) -> bool {
        self.state.lock().machine.open_connections() > 0
    }

    /// Wakes the task that receives.
    pub(super) fn wake(&self) {
        if let Some(receiver) = &self.state.lock().receiver {
            receiver.wake_by_ref();
        }
    }

    /// Adds a connection. Returns what will arrive for it.
    pub(super) fn add(&self, handle: ConnectionHandle) -> Arc<Deliveries> {
        let mut state = self.state.lock();
        if state.by_handle.len() <= handle.0 {
            state.by_handle.resize(handle.0 + 1, None);
        }
        let deliveries = Arc::<Deliveries>::default();
        state.by_handle[handle.0] = Some(deliveries.clone());
        deliveries
    }

    /// Passes an event of a connection to the endpoint, which may have one for the connection.
    pub(crate) fn handle_event(
        &self,
        handle: ConnectionHandle,
        event: EndpointEvent,
    ) -> Option<ConnectionEvent> {
        let mut state = self.state.lock();
        if event.is_drained()
            && let Some(deliveries) = state.by_handle.get_mut(handle.0)
        {
            *deliveries = None;
        }
        let answer = state.machine.handle_event(handle, event);
        let is_unused = state.machine.open_connections() == 0;
        drop(state);
        if is_unused {
            // It may have been the last one of a closed listener.
            self.group.wake();
        }
        answer
    }

    /// Returns how many datagrams can be sent in a call.
    pub(crate) fn segments_max(&self) -> usize {
        self.socket.segments_max()
    }

    fn try_send(&self, transmit: &Transmit, contents: &[u8]) -> io::Result<()> {
        let segment = transmit.segment_size.unwrap_or(transmit.size).max(1);
        self.counters().sent_datagrams.add(transmit.size.div_ceil(segment) as u64);
        self.socket.send(transmit, contents)
    }

    /// Whether the socket accepts nothing now. If so, the task is woken when it does.
    pub(crate) fn is_full(&self, cx: &Context<'_>) -> bool {
        let mut state = self.state.lock();
        let is_full = !state.unsent.is_empty();
        if is_full {
            state.waiting.push(cx.waker().clone());
        }
        is_full
    }

    /// Sends datagrams. They are sent later if the socket is full.
    pub(crate) fn send(&self, transmit: Transmit, contents: &mut Vec<u8>) {
        let mut state = self.state.lock();
        let mut is_full = !state.unsent.is_empty();
        if !is_full {
            let sent = self.try_send(&transmit, &contents[..transmit.size]);
            // Other errors concern the address, or the network, which may recover.
            is_full = sent.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock);
        }
        if is_full && state.unsent.len() < UNSENT_MAX {
            state.unsent.push((transmit, std::mem::take(contents)));
            if let Some(receiver) = &state.receiver {
                receiver.wake_by_ref();
            }
        }
        contents.clear();
    }

    /// Sends what the socket did not accept, and wakes the connections that wait for that.
    fn poll_unsent(&self, cx: &mut Context<'_>) {
        loop {
            let mut state = self.state.lock();
            match &mut state.receiver {
                Some(receiver) => receiver.clone_from(cx.waker()),
                None => state.receiver = Some(cx.waker().clone()),
            }
            if state.unsent.is_empty() {
                return;
            }
            let Poll::Ready(Ok(())) = self.socket.poll_writable(cx) else { return };
            let State { unsent, waiting, .. } = &mut *state;
            let is_sent = |(transmit, contents): &(Transmit, Vec<u8>)| {
                let sent = self.try_send(transmit, &contents[..transmit.size]);
                !sent.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
            };
            let sent = unsent.iter().take_while(|unsent| is_sent(unsent)).count();
            unsent.drain(..sent);
            if unsent.is_empty() {
                waiting.drain(..).for_each(Waker::wake);
            }
        }
    }
}
