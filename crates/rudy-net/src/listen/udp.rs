//! UDP sockets for QUIC: one for each core, which share a port with `SO_REUSEPORT`, so that the kernel distributes the clients.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use socket2::{Domain, Protocol, Socket, Type};

use super::Http3Socket;

/// The size of the receive buffer, if the kernel permits it: as much as arrives in 30 ms at 1 Gbit/s, in which a worker may be busy.
pub const UDP_RECEIVE_BYTES: usize = 4 * 1024 * 1024;

/// The sockets of HTTP/3 of a listener.
#[derive(Debug, Default)]
pub(crate) struct DatagramSockets {
    /// One for each endpoint.
    pub(crate) sockets: Vec<Http3Socket>,
    /// The ways to the endpoints of the process from which the sockets are; none without such a process.
    pub(crate) relays: Vec<OwnedFd>,
    /// The number of the process that serves with these sockets, which is in the ids of its connections.
    pub(crate) generation: u8,
}

/// Sockets of HTTP/3 on their way to another process.
#[derive(Debug)]
pub struct PassedDatagrams<'a> {
    /// The sockets.
    pub sockets: Vec<BorrowedFd<'a>>,
    /// The ways to the process that passes them.
    pub relays: Vec<BorrowedFd<'a>>,
    /// The number of the process that gets them.
    pub generation: u8,
}

impl DatagramSockets {
    /// Creates them from what another process has passed. Fails if one is no UDP socket.
    pub(super) fn of_other(sockets: Vec<OwnedFd>, relays: Vec<OwnedFd>, generation: u8) -> io::Result<Self> {
        let checked = |socket: OwnedFd| {
            let socket = Socket::from(socket);
            if socket.r#type()? != Type::DGRAM {
                return Err(io::Error::other("not a UDP socket"));
            }
            socket.set_nonblocking(true)?;
            Ok(Http3Socket::Udp(socket.into()))
        };
        let sockets = sockets.into_iter().map(checked).collect::<io::Result<_>>()?;
        Ok(Self { sockets, relays, generation })
    }

    /// Returns them for passing them on.
    pub(super) fn passed(&self) -> PassedDatagrams<'_> {
        PassedDatagrams {
            sockets: self.sockets.iter().filter_map(Http3Socket::descriptor).collect(),
            relays: self.relays.iter().map(AsFd::as_fd).collect(),
            generation: self.generation,
        }
    }

    /// Binds the address again until each of `count` cores has a socket, as far as that is permitted: the process that has bound the
    /// others may have had fewer cores, and other rights.
    pub(super) fn add_up_to(&mut self, count: usize, address: SocketAddr, accepts_v4: bool) {
        let missing = count.saturating_sub(self.sockets.len());
        let added = (0..missing).map_while(|_| bind_one(address, accepts_v4, true).ok());
        self.sockets.extend(added.map(|socket| Http3Socket::Udp(socket.into())));
    }
}

/// Binds the address once for each of `count` cores. `accepts_v4` is whether an address of IPv6 also accepts IPv4.
pub(super) fn bind(address: SocketAddr, accepts_v4: bool, count: usize) -> io::Result<Vec<UdpSocket>> {
    // Without SO_REUSEPORT, which would let two servers share the port silently.
    drop(bind_one(address, accepts_v4, false)?);
    (0..count).map(|_| Ok(bind_one(address, accepts_v4, true)?.into())).collect()
}

fn bind_one(address: SocketAddr, accepts_v4: bool, is_shared: bool) -> io::Result<Socket> {
    // `Socket::new` sets close-on-exec.
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_nonblocking(true)?;
    if address.is_ipv6() {
        socket.set_only_v6(!accepts_v4)?;
    }
    socket.set_reuse_port(is_shared)?;
    // The kernel takes at most its own limit.
    socket.set_recv_buffer_size(UDP_RECEIVE_BYTES)?;
    socket.bind(&address.into())?;
    Ok(socket)
}
