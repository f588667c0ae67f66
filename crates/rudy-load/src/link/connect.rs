//! Begins connections.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsRawFd;

use rustix::io::Errno;
use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use super::{Link, Remote};

impl Link {
    /// Begins to connect; the socket is writable when that has worked or failed. `source` is the address to come from.
    pub(crate) fn connect(remote: &Remote, source: Option<IpAddr>) -> io::Result<Self> {
        let socket = match remote {
            Remote::Ip(address) => tcp(*address, source)?,
            Remote::Unix(path) => {
                let socket = Socket::new(Domain::UNIX, Type::STREAM.nonblocking(), None)?;
                begin(&socket, &SockAddr::unix(path)?)?;
                socket
            }
        };
        Ok(Self { socket, session: None })
    }
}

fn tcp(remote: SocketAddr, source: Option<IpAddr>) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(remote), Type::STREAM.nonblocking(), Some(Protocol::TCP))?;
    // A request goes out when it is written, not when the answer to the one before is acknowledged (RFC 896).
    socket.set_tcp_nodelay(true)?;
    if let Some(source) = source {
        // The port is chosen by `connect`, which knows the other end: one address then has 28,000 ports for each
        // remote, not for all of them together (ip(7)).
        bind_address_no_port(&socket)?;
        socket.bind(&SocketAddr::new(source, 0).into())?;
    }
    begin(&socket, &remote.into())?;
    Ok(socket)
}

fn bind_address_no_port(socket: &Socket) -> io::Result<()> {
    let on: libc::c_int = 1;
    let length = libc::socklen_t::try_from(size_of_val(&on)).map_err(io::Error::other)?;
    // SAFETY: the descriptor is open as long as `socket` is borrowed; the option reads one C int, whose address and size are
    // given, and keeps neither.
    #[expect(unsafe_code, reason = "neither rustix nor socket2 has this option")]
    let result = unsafe {
        let option = (&raw const on).cast();
        libc::setsockopt(socket.as_raw_fd(), libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT, option, length)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn begin(socket: &Socket, remote: &SockAddr) -> io::Result<()> {
    match socket.connect(remote) {
        Err(error) if error.raw_os_error() == Some(Errno::INPROGRESS.raw_os_error()) => Ok(()),
        result => result,
    }
}
