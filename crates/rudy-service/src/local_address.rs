//! The server's end of a connection.

use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, OnceLock};

use rustix::net::getsockname;

/// The cached local address of a connection. A pointer, because most connections never need it: 16 bytes for
/// those.
pub type LocalAddressCache = OnceLock<Arc<SocketAddr>>;

/// The address that a client connected to, determined on demand.
///
/// The listener's address would not do, because a listener on all interfaces has many. Querying the kernel
/// takes a third of a microsecond, so it happens at most once for a connection.
#[derive(Debug, Clone)]
pub struct LocalAddress<'a>(Origin<'a>);

#[derive(Debug, Clone)]
enum Origin<'a> {
    Known(Option<Arc<SocketAddr>>),
    Socket(&'a LocalAddressCache, BorrowedFd<'a>),
}

impl<'a> LocalAddress<'a> {
    /// Creates a known address; `None` if there is none.
    #[must_use]
    pub fn known(address: Option<SocketAddr>) -> Self {
        Self(Origin::Known(address.map(Arc::new)))
    }

    /// Creates the address of an IP socket, to be queried on demand.
    #[must_use]
    #[inline]
    pub fn of_socket(socket: BorrowedFd<'a>, cache: &'a LocalAddressCache) -> Self {
        Self(Origin::Socket(cache, socket))
    }

    /// Returns the address and port; `None` for a Unix socket, which has neither.
    #[must_use]
    pub fn get(&self) -> Option<SocketAddr> {
        self.cached().map(|address| **address)
    }

    /// Returns a copy that may outlive the connection.
    pub(crate) fn to_owned(&self) -> LocalAddress<'static> {
        LocalAddress(Origin::Known(self.cached().cloned()))
    }

    fn cached(&self) -> Option<&Arc<SocketAddr>> {
        match &self.0 {
            Origin::Known(address) => address.as_ref(),
            Origin::Socket(cache, socket) => {
                if let Some(address) = cache.get() {
                    return Some(address);
                }
                // A connected socket always has a name.
                let mut address = SocketAddr::try_from(getsockname(socket).ok()?).ok()?;
                address.set_ip(address.ip().to_canonical());
                Some(cache.get_or_init(|| Arc::new(address)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn the_address_is_the_one_that_the_client_connected_to_and_is_queried_once() {
        let listener = TcpListener::bind("[::]:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        for ip in ["127.0.0.1", "127.0.0.2", "::1"] {
            let client = TcpStream::connect((ip, port)).unwrap();
            let (socket, _) = listener.accept().unwrap();
            let cache = LocalAddressCache::new();
            let local = LocalAddress::of_socket(socket.as_fd(), &cache);
            assert!(cache.get().is_none(), "not queried yet");
            assert_eq!(local.get(), Some(client.peer_addr().unwrap()));
            assert_eq!(local.get(), cache.get().map(|address| **address));
        }
    }
}
