//! Datagrams, as UDP carries them: some are lost, late, twice or in another order, and those that are too large do not arrive.

use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::BytesMut;
use parking_lot::Mutex;
use rudy_net::network::DatagramSocket;
use rudy_quic::Datagram;
use rudy_quic::quinn_proto::{EcnCodepoint, Transmit};
use tokio::time::{Instant, sleep_until};

use super::{Parcel, SimNetwork, current_process};

/// What a network does with datagrams.
#[derive(Debug, Clone, Copy, Default)]
pub struct DatagramConditions {
    /// The share that does not arrive, of 1,000.
    pub lost_per_mille: u32,
    /// The share that arrives twice, of 1,000.
    pub repeated_per_mille: u32,
    /// The share that is not in the order in which it was sent, of 1,000.
    pub reordered_per_mille: u32,
    /// The share of calls of the server that find the socket full, of 1,000.
    pub full_per_mille: u32,
    /// The share of connections whose client gets another address, of 1,000.
    pub rebound_per_mille: u32,
    /// The size of the largest one that arrives, in bytes.
    pub largest_bytes: usize,
}

/// What a socket stores. More is lost.
const QUEUE_MAX: usize = 1000;

/// A bound socket.
pub(crate) struct Bound {
    network: &'static SimNetwork,
    /// The process that has it, if it is the server's.
    process: Option<usize>,
    state: Mutex<State>,
}

struct State {
    address: SocketAddr,
    queue: VecDeque<Datagram>,
    reader: Option<Waker>,
    /// When the last datagram arrives of those that stay in order.
    last: Instant,
    /// The socket accepts nothing until then.
    full_until: Instant,
    /// In this time, nothing arrives from there or there.
    dark: (Instant, Instant),
    is_closed: bool,
}

impl Bound {
    /// Sends datagrams of a size.
    pub(crate) fn send(&self, transmit: &Transmit, contents: &[u8]) {
        let from = self.state.lock().address;
        if self.is_dark() {
            return;
        }
        for bytes in contents.chunks(transmit.segment_size.unwrap_or(contents.len()).max(1)) {
            self.carry(from, transmit.destination, transmit.ecn, bytes);
        }
    }

    /// Carries a datagram, or loses it.
    fn carry(&self, from: SocketAddr, to: SocketAddr, ecn: Option<EcnCodepoint>, bytes: &[u8]) {
        let (network, conditions) = (self.network, self.network.conditions.datagrams);
        if bytes.len() > conditions.largest_bytes || network.happens(conditions.lost_per_mille) {
            network.trace.event(0, "is lost", (to, bytes.len()));
            return;
        }
        let copies = 1 + usize::from(network.happens(conditions.repeated_per_mille));
        for _ in 0..copies {
            let mut at = Instant::now() + network.delay();
            if !network.happens(conditions.reordered_per_mille) {
                let last = &mut self.state.lock().last;
                at = at.max(*last);
                *last = at;
            }
            let datagram = Datagram { from, to: Some(to.ip()), ecn, bytes: BytesMut::from(bytes) };
            network.deliver(at, Parcel::Datagram { to, datagram });
        }
    }

    pub(super) fn arrive(&self, datagram: Datagram) {
        if self.is_dark() {
            return;
        }
        let mut state = self.state.lock();
        self.network.trace.event(0, "datagram", (state.address, datagram.bytes.len()));
        if state.queue.len() < QUEUE_MAX && !state.is_closed {
            state.queue.push_back(datagram);
        }
        if let Some(reader) = state.reader.take() {
            reader.wake();
        }
    }

    /// Nothing arrives in this time, neither from the socket nor at it.
    pub(crate) fn darken(&self, from: Duration, length: Duration) {
        let begin = Instant::now() + from;
        self.state.lock().dark = (begin, begin + length);
    }

    fn is_dark(&self) -> bool {
        let (begin, end) = self.state.lock().dark;
        (begin..end).contains(&Instant::now())
    }

    /// Takes what has arrived.
    pub(crate) fn take(&self) -> Option<Datagram> {
        self.state.lock().queue.pop_front()
    }

    /// Waits until something has arrived.
    pub(crate) async fn wait(&self) {
        poll_fn(|cx| self.poll_arrived(cx)).await;
    }

    fn poll_arrived(&self, cx: &Context<'_>) -> Poll<()> {
        let mut state = self.state.lock();
        if !state.queue.is_empty() {
            return Poll::Ready(());
        }
        state.reader = Some(cx.waker().clone());
        Poll::Pending
    }

    /// Changes the address, as a router does that has forgotten the client: what is sent to the old one is lost.
    pub(crate) fn rebind(self: &Arc<Self>, address: SocketAddr) {
        let old = std::mem::replace(&mut self.state.lock().address, address);
        let sockets = &mut self.network.state.lock().sockets;
        sockets.remove(&old);
        sockets.insert(address, Arc::downgrade(self));
    }

    /// Whether the socket is open, and that of a process.
    pub(super) fn is_of(&self, process: usize) -> bool {
        self.process == Some(process)
    }

    /// Closes the socket with its process.
    pub(super) fn close(&self) {
        self.state.lock().is_closed = true;
    }

    pub(super) fn is_closed(&self) -> bool {
        self.state.lock().is_closed
    }
}

impl SimNetwork {
    /// Binds a socket for datagrams. `is_of_server` is whether it ends with the current process.
    ///
    /// # Errors
    ///
    /// The address is in use.
    pub(crate) fn bind_datagrams(
        &'static self,
        address: SocketAddr,
        is_of_server: bool,
    ) -> io::Result<Arc<Bound>> {
        let mut state = self.state.lock();
        let bound = state.sockets.get(&address).and_then(std::sync::Weak::upgrade);
        if bound.is_some_and(|bound| !bound.is_closed()) {
            return Err(io::ErrorKind::AddrInUse.into());
        }
        let now = Instant::now();
        let new = State {
            address,
            queue: VecDeque::new(),
            reader: None,
            last: now,
            full_until: now,
            dark: (now, now),
            is_closed: false,
        };
        let process = is_of_server.then(current_process);
        let bound = Arc::new(Bound { network: self, process, state: Mutex::new(new) });
        state.sockets.insert(address, Arc::downgrade(&bound));
        Ok(bound)
    }
}

/// A socket of the server.
pub(super) struct OfServer(pub(super) Arc<Bound>);

impl fmt::Debug for OfServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OfServer")
    }
}

impl DatagramSocket for OfServer {
    fn poll_receive(&self, cx: &mut Context<'_>) -> Poll<Datagram> {
        self.0.poll_arrived(cx).map(|()| self.0.take().expect("something has arrived"))
    }

    fn send(&self, transmit: &Transmit, contents: &[u8]) -> io::Result<()> {
        let network = self.0.network;
        if self.0.is_closed() {
            return Ok(());
        }
        if network.happens(network.conditions.datagrams.full_per_mille) {
            self.0.state.lock().full_until = Instant::now() + network.delay();
        }
        if self.0.state.lock().full_until > Instant::now() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        self.0.send(transmit, contents);
        Ok(())
    }

    fn poll_writable(&self, cx: &mut Context<'_>) -> Poll<()> {
        let until = self.0.state.lock().full_until;
        if until <= Instant::now() {
            return Poll::Ready(());
        }
        let waker = cx.waker().clone();
        tokio::spawn(async move {
            sleep_until(until).await;
            waker.wake();
        });
        Poll::Pending
    }
}
