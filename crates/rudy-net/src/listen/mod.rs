//! Where connections come in: addresses as people write them, and the sockets bound to them.
//!
//! A [`Listener`] is bound before anything is done with it, so that a configuration whose addresses cannot all be had is
//! refused as a whole.

mod address;
mod error;
mod inherited;
mod tcp;
mod unix;

use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::{fmt, io};

pub use address::{Address, AddressError, Endpoint};
pub use error::ListenError;
pub use inherited::InheritedSockets;
pub use rudy_observe::Owner;
use rudy_socket_file::SocketFile;
use socket2::SockRef;

use crate::close::close_listener;

/// Connections that the kernel completes and keeps until they are accepted, for each socket. The kernel takes the
/// smaller of this and `net.core.somaxconn`, whose default is 4096: a burst of new connections waits rather than
/// being dropped and tried again a second later.
pub(crate) const BACKLOG: i32 = 4096;

/// An address that is bound and listening; nothing is accepted until an engine is given it.
#[derive(Debug)]
pub struct Listener {
    pub(crate) address: Address,
    pub(crate) bound: Vec<BoundAddress>,
    pub(crate) sockets: Vec<Socket>,
    pub(crate) ownership: Ownership,
}

impl Listener {
    /// Binds `address` for an engine of `cores` cores. An [`Endpoint::Inherited`] is found in `inherited`, and so is an address
    /// whose sockets another process has handed over.
    pub fn bind(address: &Address, cores: usize, inherited: &InheritedSockets) -> Result<Self, ListenError> {
        if let Some(listener) = inherited.take_listener(address) {
            return Ok(listener);
        }
        let (bound, sockets, ownership) = match &address.endpoint {
            Endpoint::Ip(ip) => Self::tcp(address, &tcp::Place::one(*ip), cores)?,
            Endpoint::AllInterfaces { port } => {
                Self::tcp(address, &tcp::Place::every_interface(*port), cores)?
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
        Ok(Self { address: address.clone(), bound, sockets, ownership })
    }

    /// The sockets of `address` that another process has bound and listens on too. A drop closes them here alone.
    pub fn shared(address: Address, descriptors: Vec<OwnedFd>) -> Result<Self, ListenError> {
        let sockets = descriptors.into_iter().map(|descriptor| inherited::shared(&address, descriptor));
        let sockets = sockets.collect::<Result<Vec<_>, _>>()?;
        let bound = sockets.iter().take(1).map(Socket::bound).collect();
        Ok(Self { address, bound, sockets, ownership: Ownership::Shared })
    }

    /// Whether `address` could be bound if no one else had it: what can be known without listening on it. Nothing is known of
    /// [`Endpoint::Inherited`].
    pub fn check(address: &Address) -> Result<(), ListenError> {
        let checked = match &address.endpoint {
            Endpoint::Ip(ip) => tcp::check(address, &tcp::Place::one(*ip)),
            Endpoint::AllInterfaces { port } => tcp::check(address, &tcp::Place::every_interface(*port)),
            Endpoint::Unix { path, mode } => unix::check(path, *mode),
            Endpoint::Inherited { .. } => Ok(()),
        };
        match checked {
            Err(ListenError::InUse { .. }) => Ok(()),
            checked => checked,
        }
    }

    fn tcp(address: &Address, places: &[tcp::Place], cores: usize) -> Result<Parts, ListenError> {
        let (bound, sockets) = tcp::bind(address, places, cores)?;
        Ok((vec![BoundAddress::Ip(bound)], sockets.into_iter().map(Socket::Tcp).collect(), Ownership::Tcp))
    }

    /// The address as it was asked for.
    #[must_use]
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Where it listens indeed: port 0 has become a port. Several only for sockets of a service manager.
    #[must_use]
    pub fn bound(&self) -> &[BoundAddress] {
        &self.bound
    }

    /// Whether connections can still come: a process that shares the sockets may have ended them.
    #[must_use]
    pub fn is_listening(&self) -> bool {
        self.sockets.iter().any(Socket::is_listening)
    }

    /// Its sockets, to be handed to another process.
    pub fn sockets(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.sockets.iter().map(Socket::as_fd)
    }

    /// For each of `workers` the sockets from which it accepts. TCP sockets of one address have a queue each, so each worker has one
    /// of its own if there are as many; every socket has a worker in any case. All workers accept from all other sockets: a new
    /// connection wakes every worker that sleeps, and one of them gets it.
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
    /// Where no engine has taken the sockets, because another address could not be had, the ports are free at once.
    fn drop(&mut self) {
        if matches!(self.ownership, Ownership::Tcp) {
            for socket in self.sockets.drain(..) {
                if let Socket::Tcp(socket) = socket {
                    close_listener(socket);
                }
            }
        }
    }
}

type Parts = (Vec<BoundAddress>, Vec<Socket>, Ownership);

/// Where a socket listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BoundAddress {
    /// TCP. `[::]` takes IPv4 as well when every interface was asked for.
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

/// A listening socket, non-blocking.
#[derive(Debug)]
pub(crate) enum Socket {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Socket {
    pub(crate) fn try_clone(&self) -> io::Result<Self> {
        Ok(match self {
            Self::Tcp(socket) => Self::Tcp(socket.try_clone()?),
            Self::Unix(socket) => Self::Unix(socket.try_clone()?),
        })
    }

    /// Whether connections can still come from it: a process that shares a socket may have ended it.
    pub(crate) fn is_listening(&self) -> bool {
        SockRef::from(self).is_listener().unwrap_or(false)
    }

    fn bound(&self) -> BoundAddress {
        match self {
            // The name of a bound socket can always be had; an unspecified one stands for what cannot happen.
            Self::Tcp(socket) => {
                BoundAddress::Ip(socket.local_addr().unwrap_or_else(|_| ([0, 0, 0, 0], 0).into()))
            }
            Self::Unix(socket) => {
                let path = socket.local_addr().ok().and_then(|name| name.as_pathname().map(PathBuf::from));
                BoundAddress::Unix(path.unwrap_or_default())
            }
        }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(socket) => socket.as_fd(),
            Self::Unix(socket) => socket.as_fd(),
        }
    }
}

/// Whose sockets these are, which decides what becomes of them when the engine is done with them.
#[derive(Debug)]
pub(crate) enum Ownership {
    /// Ours: what the kernel has queued is lost when they are closed, so it is accepted first.
    Tcp,
    /// Ours, and the file too.
    Unix(SocketFile),
    /// The service manager's, which keeps them open: what is queued waits there for whoever comes next.
    Inherited,
    /// Those of another process too, until the engine claims them.
    Shared,
}
