//! Where connections come in: addresses as people write them, and the sockets bound to them.
//!
//! A [`Listener`] is bound before anything is done with it, so that a configuration whose addresses cannot all be had is
//! refused as a whole. It has one set of sockets for each core of the engine.

mod address;
mod error;
mod inherited;
mod tcp;
mod unix;

use std::fmt;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;

pub use address::{Address, AddressError};
pub use error::ListenError;
pub use inherited::Inherited;
pub use rudy_observe::Owner;
use rudy_socket_file::SocketFile;

use crate::close::close_listener;

/// Connections that the kernel completes and keeps until they are accepted, for each socket. The kernel takes the
/// smaller of this and `net.core.somaxconn`, whose default is 4096: a burst of new connections waits rather than
/// being dropped and tried again a second later.
pub(crate) const BACKLOG: i32 = 4096;

/// An address that is bound and listening; nothing is accepted until an engine is given it.
#[derive(Debug)]
pub struct Listener {
    pub(crate) address: Address,
    pub(crate) bound: Vec<Bound>,
    /// For each core the sockets from which it accepts.
    pub(crate) cores: Vec<Vec<Socket>>,
    pub(crate) ownership: Ownership,
}

impl Listener {
    /// Binds `address` for an engine of `cores` cores. An [`Address::Inherited`] is found in `inherited`.
    pub fn bind(address: &Address, cores: usize, inherited: &Inherited) -> Result<Self, ListenError> {
        let (bound, cores, ownership) = match address {
            Address::Ip(ip) => Self::tcp(address, &tcp::Place::one(*ip), cores)?,
            Address::AllInterfaces { port } => {
                Self::tcp(address, &tcp::Place::every_interface(*port), cores)?
            }
            Address::Unix { path, mode } => {
                let (socket, file) = unix::bind(path, *mode)?;
                let cores =
                    share(vec![Socket::Unix(socket)], cores).map_err(|e| ListenError::system(address, e))?;
                (vec![Bound::Unix(path.clone())], cores, Ownership::Unix(file))
            }
            Address::Inherited { name } => {
                let sockets = inherited.find(name.as_deref())?;
                let bound = sockets.iter().map(Socket::bound).collect();
                let cores = share(sockets, cores).map_err(|e| ListenError::system(address, e))?;
                (bound, cores, Ownership::Inherited)
            }
            Address::ProxyProtocol(inner) => {
                let mut listener = Self::bind(inner, cores, inherited)?;
                listener.address = address.clone();
                return Ok(listener);
            }
        };
        Ok(Self { address: address.clone(), bound, cores, ownership })
    }

    /// Whether `address` could be bound if no one else had it: what can be known without listening on it. Nothing is known of
    /// [`Address::Inherited`].
    pub fn check(address: &Address) -> Result<(), ListenError> {
        let checked = match address {
            Address::Ip(ip) => tcp::check(address, &tcp::Place::one(*ip)),
            Address::AllInterfaces { port } => tcp::check(address, &tcp::Place::every_interface(*port)),
            Address::Unix { path, mode } => unix::check(path, *mode),
            Address::Inherited { .. } => Ok(()),
            Address::ProxyProtocol(inner) => return Self::check(inner),
        };
        match checked {
            Err(ListenError::InUse { .. }) => Ok(()),
            checked => checked,
        }
    }

    fn tcp(address: &Address, places: &[tcp::Place], cores: usize) -> Result<Parts, ListenError> {
        let (bound, sockets) = tcp::bind(address, places, cores)?;
        let cores = sockets.into_iter().map(|socket| vec![Socket::Tcp(socket)]).collect();
        Ok((vec![Bound::Ip(bound)], cores, Ownership::Tcp))
    }

    /// The address as it was asked for.
    #[must_use]
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Where it listens indeed: port 0 has become a port. Several only for sockets of a service manager.
    #[must_use]
    pub fn bound(&self) -> &[Bound] {
        &self.bound
    }
}

impl Drop for Listener {
    /// Where no engine has taken the sockets, because another address could not be had, the ports are free at once.
    fn drop(&mut self) {
        if matches!(self.ownership, Ownership::Tcp) {
            for socket in self.cores.drain(..).flatten() {
                if let Socket::Tcp(socket) = socket {
                    close_listener(socket);
                }
            }
        }
    }
}

type Parts = (Vec<Bound>, Vec<Vec<Socket>>, Ownership);

/// Where a socket listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Bound {
    /// TCP. `[::]` takes IPv4 as well when every interface was asked for.
    Ip(SocketAddr),
    /// A Unix socket at this path.
    Unix(PathBuf),
}

impl fmt::Display for Bound {
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
    fn try_clone(&self) -> std::io::Result<Self> {
        Ok(match self {
            Self::Tcp(socket) => Self::Tcp(socket.try_clone()?),
            Self::Unix(socket) => Self::Unix(socket.try_clone()?),
        })
    }

    fn bound(&self) -> Bound {
        match self {
            // The name of a bound socket can always be had; an unspecified one stands for what cannot happen.
            Self::Tcp(socket) => Bound::Ip(socket.local_addr().unwrap_or_else(|_| ([0, 0, 0, 0], 0).into())),
            Self::Unix(socket) => {
                let path = socket.local_addr().ok().and_then(|name| name.as_pathname().map(PathBuf::from));
                Bound::Unix(path.unwrap_or_default())
            }
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
}

/// Gives every core the same sockets: only TCP sockets that we bind ourselves can have a queue for each core. A new
/// connection wakes every core that sleeps, and one of them gets it.
fn share(sockets: Vec<Socket>, cores: usize) -> std::io::Result<Vec<Vec<Socket>>> {
    let mut all = Vec::with_capacity(cores);
    for _ in 1..cores {
        all.push(sockets.iter().map(Socket::try_clone).collect::<std::io::Result<Vec<_>>>()?);
    }
    all.push(sockets);
    Ok(all)
}
