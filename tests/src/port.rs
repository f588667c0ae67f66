//! Free ports that no other process gets.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::net::{AddressFamily, SocketType, bind, getsockname, socket, sockopt};

/// A port of 127.0.0.1 that is reserved while this value exists. The kernel does not assign it to a process that requests any port;
/// a server that sets `SO_REUSEADDR`, as all do, can listen on it.
#[derive(Debug)]
pub struct ReservedPort {
    _socket: OwnedFd,
    address: SocketAddr,
}

impl ReservedPort {
    /// Reserves a port.
    pub fn new() -> Self {
        let socket = socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket can be created");
        sockopt::set_socket_reuseaddr(&socket, true).expect("the descriptor is a socket");
        bind(&socket, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0)).expect("a port is free");
        let address = getsockname(&socket).ok().and_then(|address| address.try_into().ok());
        Self { _socket: socket, address: address.expect("it is bound to an IP address") }
    }

    /// Returns the address with the port.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Default for ReservedPort {
    fn default() -> Self {
        Self::new()
    }
}

/// Listens on a free port of 127.0.0.1. Returns the address, too.
pub fn listen() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = listener.local_addr().expect("the socket is bound");
    (listener, address)
}

/// The number of calls of [`free_port`] in this process.
static CALLS: AtomicU32 = AtomicU32::new(0);
/// The distance between the first candidates of two tests of a process. More than the ports that one test uses, and a prime.
const PORTS_APART: u32 = 997;

/// Returns a port that is free on all interfaces. It is outside of the ephemeral range, so the kernel does not assign it to other
/// processes or outgoing connections.
pub fn free_port() -> u16 {
    let range =
        std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").expect("Linux has this file");
    let first: u16 = range.split_whitespace().next().and_then(|first| first.parse().ok()).expect("a number");
    // Concurrent tests, in one process or several, start with different candidates.
    let candidates = first.saturating_sub(1024).max(1);
    let own = std::process::id().wrapping_add(PORTS_APART * CALLS.fetch_add(1, Ordering::Relaxed));
    let begin = u16::try_from(own % u32::from(candidates)).expect("less than there are ports");
    let mut ports = (0..candidates).map(|step| 1024 + (begin + step) % candidates);
    let is_free = |port: &u16| {
        ["[::]", "0.0.0.0"].iter().any(|every| TcpListener::bind(format!("{every}:{port}")).is_ok())
    };
    ports.find(is_free).expect("a port is free")
}
