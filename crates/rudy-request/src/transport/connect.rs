//! Connects without blocking.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsRawFd;

use rustix::io::Errno;
use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use super::{Remote, Traffic, Transport};

impl Transport {
    /// Starts to connect; the socket becomes writable when that succeeds or fails. `source` is the local
    /// address.
    pub fn connect(remote: &Remote, source: Option<IpAddr>) -> io::Result<Self> {
        let socket = match remote {
            Remote::Ip(address) => tcp(*address, source)?,
            Remote::Unix(path) => {
                let socket = Socket::new(Domain::UNIX, Type::STREAM.nonblocking(), None)?;
                start_connect(&socket, &SockAddr::unix(path)?)?;
                socket
            }
        };
        Ok(Self { socket, session: None, traffic: Traffic::default() })
    }
}

impl Transport {
    /// Opens a socket for datagrams to and from a server.
    pub fn datagrams(remote: &Remote, source: Option<IpAddr>) -> io::Result<Self> {
        let Remote::Ip(address) = remote else {
            return Err(io::Error::other("HTTP/3 needs an IP address, not a Unix socket"));
        };
        let kind = Type::DGRAM.nonblocking();
        let socket = Socket::new(Domain::for_address(*address), kind, Some(Protocol::UDP))?;
        if let Some(source) = source {
            socket.bind(&SocketAddr::new(source, 0).into())?;
        }
        // The kernel takes at most its own limit.
        socket.set_recv_buffer_size(RECEIVE_BYTES)?;
        socket.connect(&(*address).into())?;
        Ok(Self { socket, session: None, traffic: Traffic::default() })
    }
}

/// The receive buffer for datagrams, which arrive faster than they are handled.
const RECEIVE_BYTES: usize = 4 * 1024 * 1024;

/// Starts to connect a socket of TCP.
pub(crate) fn tcp(remote: SocketAddr, source: Option<IpAddr>) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(remote), Type::STREAM.nonblocking(), Some(Protocol::TCP))?;
    // Disable Nagle's algorithm (RFC 896), so that a request is sent before the previous response is
    // acknowledged.
    socket.set_tcp_nodelay(true)?;
    if let Some(source) = source {
        // Let `connect` choose the port, because it knows the remote address: a local address then has 28,000
        // ports per remote address, not in total (ip(7)).
        bind_address_no_port(&socket)?;
        socket.bind(&SocketAddr::new(source, 0).into())?;
    }
    start_connect(&socket, &remote.into())?;
    Ok(socket)
}

fn bind_address_no_port(socket: &Socket) -> io::Result<()> {
    let on: libc::c_int = 1;
    let length = libc::socklen_t::try_from(size_of_val(&on)).map_err(io::Error::other)?;
    // SAFETY: the descriptor is open while `socket` is borrowed. The option reads one C int, whose address
    // and size are passed, and does not retain them.
    #[expect(unsafe_code, reason = "neither rustix nor socket2 has this option")]
    let result = unsafe {
        let option = (&raw const on).cast();
        libc::setsockopt(socket.as_raw_fd(), libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT, option, length)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn start_connect(socket: &Socket, remote: &SockAddr) -> io::Result<()> {
    match socket.connect(remote) {
        Err(error) if error.raw_os_error() == Some(Errno::INPROGRESS.raw_os_error()) => Ok(()),
        result => result,
    }
}
