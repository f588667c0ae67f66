//! UDP sockets for QUIC: one for each core, which share a port with `SO_REUSEPORT`, so that the kernel distributes the clients.

use std::io;
use std::net::{SocketAddr, UdpSocket};

use socket2::{Domain, Protocol, Socket, Type};

/// The size of the receive buffer, if the kernel permits it: as much as arrives in 30 ms at 1 Gbit/s, in which a worker may be busy.
pub const UDP_RECEIVE_BYTES: usize = 4 * 1024 * 1024;

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
