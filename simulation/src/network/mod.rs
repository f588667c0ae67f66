//! A network in memory: every delay, loss and split of what is sent comes from a seed.
//!
//! A connection is reliable and ordered, as TCP is; what it does not decide is when bytes arrive, in which pieces, how many the sender's
//! buffer takes, and whether the connection breaks. One task delivers what is in flight, in the order of its time.

mod datagrams;
mod end;
mod listener;
mod pipe;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use rudy_net::network::{Connecting, DatagramSocket, Listening, Network};
use rudy_net::transport::Stream;
use rudy_quic::Datagram;
use rudy_service::Peer;
use rudy_service::listen_address::{Address, Endpoint};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, sleep_until};

pub(crate) use self::datagrams::Bound;
pub use self::datagrams::DatagramConditions;
use self::datagrams::OfServer;
pub use self::end::End;
pub use self::listener::Listener;
use self::pipe::{Connection, Side};
use crate::trace::Trace;

/// How a client waits before it sends another SYN (RFC 6298 §2: one second).
const SYN_RETRY: Duration = Duration::from_secs(1);

/// What a network does with what it carries.
#[derive(Debug, Clone)]
pub struct Conditions {
    /// The shortest and the longest time that a piece is in flight, in microseconds.
    pub delay_us: (u64, u64),
    /// The share of connections that break at some time, of 1,000.
    pub broken_per_mille: u32,
    /// How much the buffers of a connection hold, in each direction.
    pub buffer_bytes: usize,
    /// Whether reads and writes take fewer bytes than they could.
    pub is_choppy: bool,
    /// How many connections the server may have before it is out of descriptors.
    pub descriptors: usize,
    /// The share of lookups of names that fail, of 1,000.
    pub failed_lookups_per_mille: u32,
    /// What happens to datagrams.
    pub datagrams: DatagramConditions,
}

/// A name, with addresses of applications: a lookup finds at least one of them, in any order.
#[derive(Debug, Clone)]
pub struct Name {
    /// The host and the port.
    pub host: (&'static str, u16),
    /// All addresses that it ever has.
    pub addresses: Vec<SocketAddr>,
}

/// A network.
pub struct SimNetwork {
    state: Mutex<State>,
    pub(crate) conditions: Conditions,
    pub(crate) trace: Arc<Trace>,
    due: Notify,
}

struct State {
    random: fastrand::Rng,
    listeners: BTreeMap<SocketAddr, Arc<Listener>>,
    /// The sockets for datagrams.
    sockets: BTreeMap<SocketAddr, Weak<Bound>>,
    in_flight: BinaryHeap<Reverse<Delivery>>,
    connections: u64,
    deliveries: u64,
    /// The descriptors that processes have, each with its process and its end of a connection.
    descriptors: BTreeMap<u64, (usize, Weak<Connection>, Side)>,
    last_descriptor: u64,
    names: Vec<Name>,
}

/// Something that arrives at a time. Pieces of one direction stay in order.
struct Delivery {
    at: Instant,
    number: u64,
    parcel: Parcel,
}

enum Parcel {
    /// A part of what a connection carries.
    Piece {
        connection: Weak<Connection>,
        to: Side,
        what: What,
    },
    Datagram {
        to: SocketAddr,
        datagram: Datagram,
    },
}

/// What arrives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum What {
    /// This many bytes of those in flight.
    Bytes(usize),
    /// The end of the input.
    End,
    /// A reset.
    Reset,
}

impl PartialEq for Delivery {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl Eq for Delivery {}

impl PartialOrd for Delivery {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Delivery {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}

impl SimNetwork {
    /// Creates a network whose chance is that of `random`.
    #[must_use]
    pub fn new(random: fastrand::Rng, conditions: Conditions, trace: Arc<Trace>) -> Self {
        let state = State {
            random,
            listeners: BTreeMap::new(),
            sockets: BTreeMap::new(),
            in_flight: BinaryHeap::new(),
            connections: 0,
            deliveries: 0,
            descriptors: BTreeMap::new(),
            last_descriptor: 0,
            names: Vec::new(),
        };
        Self { state: Mutex::new(state), conditions, trace, due: Notify::new() }
    }

    /// Delivers what is in flight, for as long as it is polled.
    pub async fn run(&self) {
        loop {
            let next = self.state.lock().in_flight.peek().map(|delivery| delivery.0.at);
            match next {
                Some(at) if at <= Instant::now() => {
                    let delivery = self.state.lock().in_flight.pop();
                    if let Some(Reverse(delivery)) = delivery {
                        self.arrive(delivery.parcel);
                    }
                }
                Some(at) => tokio::select! {
                    () = sleep_until(at) => {}
                    () = self.due.notified() => {}
                },
                None => self.due.notified().await,
            }
        }
    }

    fn arrive(&self, parcel: Parcel) {
        match parcel {
            Parcel::Piece { connection, to, what } => {
                if let Some(connection) = connection.upgrade() {
                    connection.arrive(to, what);
                }
            }
            Parcel::Datagram { to, datagram } => {
                let socket = self.state.lock().sockets.get(&to).and_then(Weak::upgrade);
                if let Some(socket) = socket {
                    socket.arrive(datagram);
                }
            }
        }
    }

    /// Something arrives at a time.
    fn deliver(&self, at: Instant, parcel: Parcel) {
        let mut state = self.state.lock();
        state.deliveries += 1;
        let number = state.deliveries;
        state.in_flight.push(Reverse(Delivery { at, number, parcel }));
        drop(state);
        self.due.notify_one();
    }

    /// Returns a random number below `end`.
    pub(crate) fn below(&self, end: usize) -> usize {
        self.state.lock().random.usize(..end.max(1))
    }

    /// Returns whether something happens that does so `per_mille` times of 1,000.
    pub(crate) fn happens(&self, per_mille: u32) -> bool {
        per_mille > 0 && self.state.lock().random.u32(..1000) < per_mille
    }

    fn delay(&self) -> Duration {
        let (least, most) = self.conditions.delay_us;
        Duration::from_micros(self.state.lock().random.u64(least..=most))
    }

    /// Sends something that arrives later, but not before what was sent earlier. Returns when it does.
    pub(crate) fn send(
        &self,
        connection: &Arc<Connection>,
        to: Side,
        what: What,
        not_before: Instant,
    ) -> Instant {
        let at = not_before.max(Instant::now() + self.delay());
        self.deliver(at, Parcel::Piece { connection: Arc::downgrade(connection), to, what });
        at
    }

    /// Opens a listener that is not the server's.
    ///
    /// # Errors
    ///
    /// The address is in use.
    pub fn open(&'static self, address: SocketAddr) -> io::Result<Arc<Listener>> {
        let mut state = self.state.lock();
        if state.listeners.get(&address).is_some_and(|listener| listener.is_listening()) {
            return Err(io::ErrorKind::AddrInUse.into());
        }
        let listener = Arc::new(Listener::new(self));
        state.listeners.insert(address, listener.clone());
        Ok(listener)
    }

    /// Adds a name.
    pub fn add_name(&self, name: Name) {
        self.state.lock().names.push(name);
    }

    /// Closes the listeners of a server that was killed.
    pub fn close_all(&self) {
        let mut listeners = std::mem::take(&mut self.state.lock().listeners);
        listeners.retain(|address, listener| {
            let is_of_server = address.ip() == IpAddr::from([10, 0, 0, 1]);
            if is_of_server {
                listener.close();
            }
            !is_of_server
        });
        self.state.lock().listeners.extend(listeners);
    }

    /// Connects, as a client of the server or of another listener.
    ///
    /// # Errors
    ///
    /// Nothing listens there.
    pub async fn dial(&'static self, from: SocketAddr, to: SocketAddr) -> io::Result<End> {
        loop {
            sleep(self.delay()).await;
            let listener = self.state.lock().listeners.get(&to).cloned();
            let Some(listener) = listener.filter(|listener| listener.is_listening()) else {
                sleep(self.delay()).await;
                return Err(io::ErrorKind::ConnectionRefused.into());
            };
            if listener.is_queueing() {
                let connection = self.connection();
                let (ours, theirs) = Connection::ends(&connection);
                listener.queue(theirs.at(to), Peer::Ip(from));
                if self.happens(self.conditions.broken_per_mille) {
                    tokio::spawn(break_later(self, connection));
                }
                sleep(self.delay()).await;
                return Ok(ours.at(from));
            }
            sleep(SYN_RETRY).await;
        }
    }

    fn connection(&'static self) -> Arc<Connection> {
        let mut state = self.state.lock();
        state.connections += 1;
        Arc::new(Connection::new(state.connections, self, Instant::now()))
    }

    /// Returns an error if the server has all descriptors that it may have.
    pub(crate) fn check_descriptors(&self) -> io::Result<()> {
        // EMFILE, accept(2).
        const TOO_MANY: i32 = 24;
        let is_full = self.state.lock().descriptors.len() >= self.conditions.descriptors;
        if is_full { Err(io::Error::from_raw_os_error(TOO_MANY)) } else { Ok(()) }
    }

    /// Returns a descriptor of the current process for an end of a connection.
    pub(crate) fn take_descriptor(&self, connection: &Arc<Connection>, side: Side) -> u64 {
        let mut state = self.state.lock();
        state.last_descriptor += 1;
        let number = state.last_descriptor;
        state.descriptors.insert(number, (current_process(), Arc::downgrade(connection), side));
        number
    }

    /// Closes a descriptor. Returns `false` if the end of its process has closed it.
    pub(crate) fn return_descriptor(&self, number: u64) -> bool {
        self.state.lock().descriptors.remove(&number).is_some()
    }

    /// Closes all descriptors of the current process, as its end does.
    pub fn exit(&self) {
        let process = current_process();
        let mut closed = std::mem::take(&mut self.state.lock().descriptors);
        let left = closed.extract_if(.., |_, (owner, ..)| *owner != process).collect();
        let mut state = self.state.lock();
        state.descriptors = left;
        state.sockets.retain(|_, socket| {
            let Some(socket) = socket.upgrade() else { return false };
            let stays = !socket.is_of(process);
            if !stays {
                socket.close();
            }
            stays
        });
        drop(state);
        for (_, connection, side) in closed.into_values() {
            if let Some(connection) = connection.upgrade() {
                connection.close(side, false);
            }
        }
    }

    /// Returns how many connections all processes have.
    #[must_use]
    pub fn descriptors(&self) -> usize {
        self.state.lock().descriptors.len()
    }
}

/// Returns a number for the process that the thread is inside of.
fn current_process() -> usize {
    rudy_runtime::current().map_or(0, |process| std::ptr::from_ref(process).addr())
}

/// Breaks a connection at some time: both ends hear a reset.
async fn break_later(network: &SimNetwork, connection: Arc<Connection>) {
    let time = Duration::from_micros(network.below(2_000_000) as u64);
    let connection = { Arc::downgrade(&connection) };
    sleep(time).await;
    if let Some(connection) = connection.upgrade() {
        connection.arrive(Side::Client, What::Reset);
        connection.arrive(Side::Server, What::Reset);
    }
}

impl Network for &'static SimNetwork {
    fn listen(&self, address: &Address) -> io::Result<Arc<dyn Listening>> {
        let Endpoint::Ip(ip) = address.endpoint else { return Err(io::ErrorKind::Unsupported.into()) };
        self.open(ip).map(|listener| listener as Arc<dyn Listening>)
    }

    fn bind(&self, address: SocketAddr) -> io::Result<Box<dyn DatagramSocket>> {
        Ok(Box::new(OfServer(self.bind_datagrams(address, true)?)))
    }

    fn connect(&self, to: SocketAddr) -> Connecting {
        let network = *self;
        Box::pin(async move {
            network.check_descriptors()?;
            let from = SocketAddr::from(([10, 0, 0, 1], 0));
            let end = network.dial(from, to).await?;
            Ok(Stream::Other(Box::new(end.of_server())))
        })
    }

    fn look_up(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        let fails = self.happens(self.conditions.failed_lookups_per_mille);
        let State { random, names, .. } = &mut *self.state.lock();
        let known = names.iter().find(|name| name.host == (host, port)).filter(|_| !fails);
        let mut addresses = known.ok_or(io::ErrorKind::NotFound)?.addresses.clone();
        random.shuffle(&mut addresses);
        addresses.truncate(random.usize(1..=addresses.len()));
        self.trace.tell(&format!("name {host}: {addresses:?}"));
        Ok(addresses)
    }
}
