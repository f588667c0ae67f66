//! Listeners: addresses, and the sockets bound to them.
//!
//! A configuration binds all its [`Listener`]s before it takes effect, so that it is rejected as a whole if
//! one fails.

mod error;
mod inherited;
mod tcp;
mod udp;
mod unix;

use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::{fmt, io};

use rudy_service::listen_address::{Address, Endpoint};
use rudy_socket::close::close_listener;
use rudy_socket::file::SocketFile;
use socket2::SockRef;

use crate::network::{self, DatagramSocket, Listening};

pub use error::ListenError;
pub use inherited::InheritedSockets;
pub use rudy_observe::Owner;
pub(crate) use udp::DatagramSockets;
pub use udp::{PassedDatagrams, UDP_RECEIVE_BYTES};

/// Length of the queue of accepted connections for each socket. The kernel uses the smaller of this and
/// `net.core.somaxconn`, which is 4096 by default. A burst of new connections then waits; dropped ones would
/// retry after a second.
pub(crate) const BACKLOG: i32 = 4096;

/// How often another port is chosen by the kernel, which looks only at TCP, if that for UDP is in use.
const PORT_ATTEMPTS: u8 = 10;

/// A bound and listening address. Its connections wait until an engine has it.
#[derive(Debug)]
pub struct Listener {
    pub(crate) address: Address,
    pub(crate) bound: Vec<BoundAddress>,
    pub(crate) sockets: Vec<Socket>,
    /// The sockets of HTTP/3, at the same port.
    pub(crate) datagrams: DatagramSockets,
    /// Why there are none, although the address has HTTP/3.
    http3_error: Option<io::Error>,
    pub(crate) ownership: Ownership,
}

impl Listener {
    /// Binds `address` for an engine with `cores` cores. Uses `inherited` for an [`Endpoint::Inherited`], and
    /// for an address that another process has passed.
    pub fn bind(address: &Address, cores: usize, inherited: &InheritedSockets) -> Result<Self, ListenError> {
        Self::bind_as(address, cores, inherited, true)
    }

    fn bind_as(
        address: &Address,
        cores: usize,
        inherited: &InheritedSockets,
        is_open: bool,
    ) -> Result<Self, ListenError> {
        let mut listener = Self::bind_once(address, cores, inherited, is_open)?;
        for _ in 0..PORT_ATTEMPTS {
            if !listener.needs_other_port() {
                break;
            }
            listener = Self::bind_once(address, cores, inherited, is_open)?;
        }
        Ok(listener)
    }

    /// Whether the kernel has chosen a port that is free for TCP and not for UDP.
    fn needs_other_port(&self) -> bool {
        let is_in_use = |error: &io::Error| error.kind() == io::ErrorKind::AddrInUse;
        self.address.endpoint.port() == Some(0) && self.http3_error.as_ref().is_some_and(is_in_use)
    }

    fn bind_once(
        address: &Address,
        cores: usize,
        inherited: &InheritedSockets,
        is_open: bool,
    ) -> Result<Self, ListenError> {
        if let Some(listener) = inherited.take_listener(address) {
            return Ok(listener.with_cores(cores));
        }
        let (bound, sockets, ownership) = match &address.endpoint {
            _ if network::current().is_some() => Self::of_network(address)?,
            Endpoint::Ip(ip) => Self::tcp(address, &tcp::CandidateAddress::one(*ip), cores, is_open)?,
            Endpoint::AllInterfaces { port } => {
                Self::tcp(address, &tcp::CandidateAddress::all_interfaces(*port), cores, is_open)?
            }
            Endpoint::Unix { path, mode } => {
                let (socket, file) = unix::bind(path, *mode)?;
                (vec![BoundAddress::Unix(path.clone())], vec![Socket::Unix(socket)], Ownership::Unix(file))
            }
            Endpoint::Inherited { name } => {
                let sockets = inherited.find(name.as_deref())?;
                (sockets.iter().map(Socket::bound).collect(), sockets, Ownership::Inherited)
            }
        };
        let mut listener = Self::new(address.clone(), bound, sockets, ownership);
        if address.http3 {
            match bind_datagrams(address, &listener.bound, cores) {
                Ok(datagrams) => listener.datagrams = datagrams,
                // The address has the other protocols.
                Err(error) => listener.http3_error = Some(error),
            }
        }
        Ok(listener)
    }

    /// Prepares the sockets of HTTP/3 of another process for this number of cores. Without HTTP/3 here, the other process keeps them.
    fn with_cores(mut self, cores: usize) -> Self {
        if !self.address.http3 {
            self.datagrams = DatagramSockets::default();
        }
        if let ([BoundAddress::Ip(ip)], false) = (&self.bound[..], self.datagrams.sockets.is_empty()) {
            self.datagrams.add_up_to(cores, *ip, accepts_v4(&self.address));
        }
        self
    }

    pub(crate) fn new(
        address: Address,
        bound: Vec<BoundAddress>,
        sockets: Vec<Socket>,
        ownership: Ownership,
    ) -> Self {
        let datagrams = DatagramSockets::default();
        Self { address, bound, sockets, datagrams, http3_error: None, ownership }
    }

    /// Returns why the address has no HTTP/3, although it should.
    #[must_use]
    pub fn http3_error(&self) -> Option<&io::Error> {
        self.http3_error.as_ref()
    }

    /// Listens on the network of this thread, in place of the kernel's.
    fn of_network(address: &Address) -> Result<Parts, ListenError> {
        let system = |error| ListenError::System { address: address.clone(), error };
        let network = network::current().ok_or_else(|| system(io::ErrorKind::Unsupported.into()))?;
        let socket = Socket::Other(address.clone(), network.listen(address).map_err(system)?);
        Ok((vec![socket.bound()], vec![socket], Ownership::Tcp))
    }

    /// Binds `address` as [`Self::bind`] does, but the kernel ignores attempts to connect until [`Self::open`]: without it, clients are
    /// connected to a server that may find an error in its configuration and end. They try again after a second. The port is in
    /// use already, so that no other process can bind it. Unix sockets accept connections, which wait.
    pub fn bind_closed(
        address: &Address,
        cores: usize,
        inherited: &InheritedSockets,
    ) -> Result<Self, ListenError> {
        Self::bind_as(address, cores, inherited, false)
    }

    /// Opens a listener that was bound closed.
    pub fn open(&self) {
        if matches!(self.ownership, Ownership::Tcp) {
            self.sockets.iter().for_each(tcp::open);
        }
    }

    /// Creates a listener from the sockets of another process, which keeps listening. Dropping it does not
    /// affect the other process.
    pub fn shared(address: Address, descriptors: Vec<OwnedFd>) -> Result<Self, ListenError> {
        let sockets = descriptors.into_iter().map(|descriptor| inherited::shared(&address, descriptor));
        let sockets = sockets.collect::<Result<Vec<_>, _>>()?;
        let bound = sockets.iter().take(1).map(Socket::bound).collect();
        Ok(Self::new(address, bound, sockets, Ownership::Shared))
    }

    /// Adds sockets of HTTP/3 of another process, and the ways to it; this process has this number.
    pub fn add_datagrams(
        &mut self,
        sockets: Vec<OwnedFd>,
        relays: Vec<OwnedFd>,
        generation: u8,
    ) -> Result<(), ListenError> {
        let system = |error| ListenError::System { address: self.address.clone(), error };
        self.datagrams = DatagramSockets::of_other(sockets, relays, generation).map_err(system)?;
        Ok(())
    }

    /// Returns the sockets of HTTP/3, for passing them to another process.
    #[must_use]
    pub fn datagrams(&self) -> Option<PassedDatagrams<'_>> {
        (!self.datagrams.sockets.is_empty()).then(|| self.datagrams.passed())
    }

    /// Checks whether `address` could be bound if no other process used it, as far as that is possible
    /// without listening. Does not check [`Endpoint::Inherited`].
    pub fn check(address: &Address) -> Result<(), ListenError> {
        let checked = match &address.endpoint {
            Endpoint::Ip(ip) => tcp::check(address, &tcp::CandidateAddress::one(*ip)),
            Endpoint::AllInterfaces { port } => {
                tcp::check(address, &tcp::CandidateAddress::all_interfaces(*port))
            }
            Endpoint::Unix { path, mode } => unix::check(path, *mode),
            Endpoint::Inherited { .. } => Ok(()),
        };
        match checked {
            Err(ListenError::InUse { .. }) => Ok(()),
            checked => checked,
        }
    }

    fn tcp(
        address: &Address,
        candidates: &[tcp::CandidateAddress],
        cores: usize,
        is_open: bool,
    ) -> Result<Parts, ListenError> {
        let (bound, sockets) = tcp::bind(address, candidates, cores, is_open)?;
        Ok((vec![BoundAddress::Ip(bound)], sockets.into_iter().map(Socket::Tcp).collect(), Ownership::Tcp))
    }

    /// Returns the configured address.
    #[must_use]
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Returns the bound addresses, with the actual port for port 0. Only a service manager's sockets may
    /// have several.
    #[must_use]
    pub fn bound(&self) -> &[BoundAddress] {
        &self.bound
    }

    /// Whether the sockets still accept connections: another process may have shut down shared sockets.
    #[must_use]
    pub fn is_listening(&self) -> bool {
        self.sockets.iter().any(Socket::is_listening)
    }

    /// Returns the sockets, for passing them to another process.
    pub fn sockets(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.sockets.iter().filter_map(Socket::descriptor)
    }

    /// Returns the sockets for each worker. The TCP sockets of an address have separate queues. Each worker
    /// gets its own if there are enough, and every socket gets a worker. All workers accept from every other
    /// kind of socket: a new connection wakes all idle workers, and one of them gets it.
    pub(crate) fn for_workers(&self, workers: usize) -> io::Result<Vec<Vec<Socket>>> {
        let count = self.sockets.len();
        let has_queues = matches!(self.address.endpoint, Endpoint::Ip(_) | Endpoint::AllInterfaces { .. });
        let of_worker = |worker: usize| -> io::Result<Vec<Socket>> {
            let pairs = (0..workers.max(count)).map(|n| (n % workers, n % count.max(1)));
            let own = pairs.filter(|(owner, _)| *owner == worker).map(|(_, socket)| socket);
            if has_queues {
                own.map(|socket| self.sockets[socket].try_clone()).collect()
            } else {
                self.sockets.iter().map(Socket::try_clone).collect()
            }
        };
        (0..workers).map(of_worker).collect()
    }
}

impl Drop for Listener {
    /// If no engine has taken the sockets, because another address failed, frees the ports at once.
    fn drop(&mut self) {
        if matches!(self.ownership, Ownership::Tcp) {
            for socket in self.sockets.drain(..) {
                match socket {
                    Socket::Tcp(socket) => close_listener(socket),
                    Socket::Unix(_) => {}
                    Socket::Other(_, socket) => socket.close(),
                }
            }
        }
    }
}

/// Binds the sockets of HTTP/3, at the port that `bound` has for TCP.
pub(crate) fn bind_datagrams(
    address: &Address,
    bound: &[BoundAddress],
    cores: usize,
) -> io::Result<DatagramSockets> {
    let mut datagrams = DatagramSockets::default();
    let [BoundAddress::Ip(ip)] = bound else { return Ok(datagrams) };
    datagrams.sockets = if let Some(network) = network::current() {
        vec![Http3Socket::Other(*ip, network.bind(*ip)?)]
    } else {
        let sockets = udp::bind(*ip, accepts_v4(address), cores)?;
        sockets.into_iter().map(Http3Socket::Udp).collect()
    };
    Ok(datagrams)
}

/// Whether the sockets of an address of IPv6 also accept IPv4.
fn accepts_v4(address: &Address) -> bool {
    matches!(address.endpoint, Endpoint::AllInterfaces { .. })
}

type Parts = (Vec<BoundAddress>, Vec<Socket>, Ownership);

/// The address of a bound socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BoundAddress {
    /// TCP. `[::]` includes IPv4 for a listener on all interfaces.
    Ip(SocketAddr),
    /// A Unix socket at this path.
    Unix(PathBuf),
}

impl fmt::Display for BoundAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// A bound socket of HTTP/3.
#[derive(Debug)]
pub(crate) enum Http3Socket {
    Udp(UdpSocket),
    /// Of another network, with its address.
    Other(SocketAddr, Box<dyn DatagramSocket>),
}

impl Http3Socket {
    /// Returns the descriptor, to pass to another process.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::Udp(socket) => Some(socket.as_fd()),
            Self::Other(..) => None,
        }
    }
}

/// A non-blocking listening socket.
#[derive(Debug)]
pub(crate) enum Socket {
    Tcp(TcpListener),
    Unix(UnixListener),
    /// Of another network.
    Other(Address, Arc<dyn Listening>),
}

impl Socket {
    pub(crate) fn try_clone(&self) -> io::Result<Self> {
        Ok(match self {
            Self::Tcp(socket) => Self::Tcp(socket.try_clone()?),
            Self::Unix(socket) => Self::Unix(socket.try_clone()?),
            Self::Other(address, socket) => Self::Other(address.clone(), socket.clone()),
        })
    }

    /// Returns the descriptor, to pass to another process.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::Tcp(socket) => Some(socket.as_fd()),
            Self::Unix(socket) => Some(socket.as_fd()),
            Self::Other(..) => None,
        }
    }

    /// Whether the socket still listens: another process may have shut down a shared socket.
    pub(crate) fn is_listening(&self) -> bool {
        match self {
            Self::Tcp(socket) => SockRef::from(socket).is_listener().unwrap_or(false),
            Self::Unix(socket) => SockRef::from(socket).is_listener().unwrap_or(false),
            Self::Other(_, socket) => socket.is_listening(),
        }
    }

    fn bound(&self) -> BoundAddress {
        match self {
            // A bound socket always has a name, so the fallback is never used.
            Self::Tcp(socket) => {
                BoundAddress::Ip(socket.local_addr().unwrap_or_else(|_| ([0, 0, 0, 0], 0).into()))
            }
            Self::Unix(socket) => {
                let path = socket.local_addr().ok().and_then(|name| name.as_pathname().map(PathBuf::from));
                BoundAddress::Unix(path.unwrap_or_default())
            }
            Self::Other(address, _) => match &address.endpoint {
                Endpoint::Ip(ip) => BoundAddress::Ip(*ip),
                _ => BoundAddress::Ip(([0, 0, 0, 0], 0).into()),
            },
        }
    }
}

/// The owner of the sockets, which determines how to close them.
#[derive(Debug)]
pub(crate) enum Ownership {
    /// This process. Closing the sockets loses queued connections, so these are accepted first.
    Tcp,
    /// This process, including the socket file.
    Unix(SocketFile),
    /// The service manager, which keeps the sockets open. Queued connections wait for the next process.
    Inherited,
    /// Another process too, until the engine takes ownership.
    Shared,
}
