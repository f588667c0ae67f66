//! TCP sockets: one for each core, sharing a port by `SO_REUSEPORT`, so that the kernel deals the connections out.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};

use rustix::io::Errno;
use socket2::{Domain, Protocol, Socket, Type};

use super::{Address, BACKLOG, ListenError, Owner};

/// One way to bind what was asked for.
#[derive(Clone, Copy)]
pub(super) struct Place {
    address: SocketAddr,
    only_v6: bool,
}

impl Place {
    /// A written IPv6 address means IPv6 alone, whatever `net.ipv6.bindv6only` says.
    pub(super) fn one(address: SocketAddr) -> Vec<Self> {
        vec![Self { address, only_v6: address.is_ipv6() }]
    }

    /// One IPv6 socket that takes IPv4 too, or an IPv4 one where the kernel has no IPv6.
    pub(super) fn every_interface(port: u16) -> Vec<Self> {
        let place = |ip| Self { address: SocketAddr::new(ip, port), only_v6: false };
        vec![place(Ipv6Addr::UNSPECIFIED.into()), place(Ipv4Addr::UNSPECIFIED.into())]
    }
}

/// Binds the first of `places` that this kernel has, once for each of `count` cores, and listens. Returns where, with
/// the port that stands for port 0.
pub(super) fn bind(
    address: &Address,
    places: &[Place],
    count: usize,
) -> Result<(SocketAddr, Vec<TcpListener>), ListenError> {
    first(address, places, |place| bind_place(place, count))
}

/// Binds the first of `places` that this kernel has, and does not listen.
pub(super) fn check(address: &Address, places: &[Place]) -> Result<(), ListenError> {
    first(address, places, |place| new_socket(place)?.bind(&place.address.into()))
}

/// Does it with the first of `places` that this kernel has.
fn first<R>(
    address: &Address,
    places: &[Place],
    bind: impl Fn(Place) -> io::Result<R>,
) -> Result<R, ListenError> {
    for (index, &place) in places.iter().enumerate() {
        match bind(place) {
            Err(error) if no_such_family(&error) && index + 1 < places.len() => {}
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                let owner = Owner::of_port(place.address);
                return Err(ListenError::InUse { address: address.clone(), owner });
            }
            Err(error) => return Err(ListenError::system(address, error)),
            Ok(bound) => return Ok(bound),
        }
    }
    unreachable!("the last place returns from the loop, and there is one at least")
}

fn bind_place(mut place: Place, count: usize) -> io::Result<(SocketAddr, Vec<TcpListener>)> {
    // Without SO_REUSEPORT, with which a second Rudy would share the port silently and get every other connection.
    // Our own sockets may join a port that is bound but does not listen (SO_REUSEADDR), so this one is held until
    // they have; for port 0 it chooses the port.
    let probe = new_socket(place)?;
    probe.bind(&place.address.into())?;
    place.address = local_address(&probe)?;
    let mut sockets = Vec::with_capacity(count);
    for _ in 0..count {
        let socket = new_socket(place)?;
        socket.set_reuse_port(true)?;
        socket.bind(&place.address.into())?;
        sockets.push(socket);
    }
    drop(probe);
    for socket in &sockets {
        socket.listen(BACKLOG)?;
    }
    Ok((place.address, sockets.into_iter().map(TcpListener::from).collect()))
}

fn no_such_family(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::AFNOSUPPORT.raw_os_error())
}

fn new_socket(place: Place) -> io::Result<Socket> {
    // Close-on-exec is set by `Socket::new`.
    let socket = Socket::new(Domain::for_address(place.address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_nonblocking(true)?;
    if place.address.is_ipv6() {
        socket.set_only_v6(place.only_v6)?;
    }
    // A restart must not wait for the connections of the last run to leave TIME_WAIT.
    socket.set_reuse_address(true)?;
    // Linux hands it on to the accepted sockets: one system call fewer for each. Answers go out whole or say
    // MSG_MORE, so Nagle's delay has nothing to gain here.
    socket.set_tcp_nodelay(true)?;
    Ok(socket)
}

fn local_address(socket: &Socket) -> io::Result<SocketAddr> {
    socket.local_addr()?.as_socket().ok_or_else(|| io::Error::from(Errno::AFNOSUPPORT))
}
