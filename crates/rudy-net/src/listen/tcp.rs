//! TCP sockets: one for each core, which share a port with `SO_REUSEPORT`, so that the kernel distributes the
//! connections.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};

use rustix::io::Errno;
use socket2::{Domain, Protocol, SockFilter, SockRef, Socket, Type};

use super::{Address, BACKLOG, ListenError, Owner};

/// A socket address to try.
#[derive(Clone, Copy)]
pub(super) struct CandidateAddress {
    address: SocketAddr,
    only_v6: bool,
}

impl CandidateAddress {
    /// A configured IPv6 address means IPv6 only, regardless of `net.ipv6.bindv6only`.
    pub(super) fn one(address: SocketAddr) -> Vec<Self> {
        vec![Self { address, only_v6: address.is_ipv6() }]
    }

    /// One IPv6 socket that also accepts IPv4, or an IPv4 socket if the kernel has no IPv6.
    pub(super) fn all_interfaces(port: u16) -> Vec<Self> {
        let candidate = |ip| Self { address: SocketAddr::new(ip, port), only_v6: false };
        vec![candidate(Ipv6Addr::UNSPECIFIED.into()), candidate(Ipv4Addr::UNSPECIFIED.into())]
    }
}

/// A program for the kernel (BPF) that drops each packet.
const DROP_ALL: [SockFilter; 1] = [SockFilter::new(0x06, 0, 0, 0)]; // BPF_RET | BPF_K: keep 0 bytes

/// Binds the first of `candidates` that the kernel supports, once for each of `count` cores, and listens. Unless `is_open`, the kernel
/// drops attempts to connect until [`open`].
/// Returns the address, with the actual port for port 0.
pub(super) fn bind(
    address: &Address,
    candidates: &[CandidateAddress],
    count: usize,
    is_open: bool,
) -> Result<(SocketAddr, Vec<TcpListener>), ListenError> {
    first(address, candidates, |candidate| bind_candidate(candidate, count, is_open))
}

/// Accepts connections at a socket that was bound closed.
pub(super) fn open(socket: &super::Socket) {
    // Fails if there is no filter.
    if let Some(socket) = socket.descriptor() {
        let _ = SockRef::from(&socket).detach_filter();
    }
}

/// Binds the first of `candidates` that the kernel supports, without listening.
pub(super) fn check(address: &Address, candidates: &[CandidateAddress]) -> Result<(), ListenError> {
    first(address, candidates, |candidate| new_socket(candidate)?.bind(&candidate.address.into()))
}

/// Calls `bind` with the first of `candidates` that the kernel supports.
fn first<R>(
    address: &Address,
    candidates: &[CandidateAddress],
    bind: impl Fn(CandidateAddress) -> io::Result<R>,
) -> Result<R, ListenError> {
    for (index, &candidate) in candidates.iter().enumerate() {
        match bind(candidate) {
            Err(error) if no_such_family(&error) && index + 1 < candidates.len() => {}
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                let owner = Owner::of_port(candidate.address);
                return Err(ListenError::InUse { address: address.clone(), owner });
            }
            Err(error) => return Err(ListenError::system(address, error)),
            Ok(bound) => return Ok(bound),
        }
    }
    unreachable!("the last candidate returns from the loop, and there is one at least")
}

fn bind_candidate(
    mut candidate: CandidateAddress,
    count: usize,
    is_open: bool,
) -> io::Result<(SocketAddr, Vec<TcpListener>)> {
    // The probe does not set SO_REUSEPORT, which would let a second Rudy share the port silently and take
    // half of the connections. SO_REUSEADDR lets our own sockets join a port that is bound but not listening,
    // so the probe stays open until they have. For port 0 it also chooses the port.
    let probe = new_socket(candidate)?;
    probe.bind(&candidate.address.into())?;
    candidate.address = local_address(&probe)?;
    let mut sockets = Vec::with_capacity(count);
    for _ in 0..count {
        let socket = new_socket(candidate)?;
        socket.set_reuse_port(true)?;
        socket.bind(&candidate.address.into())?;
        sockets.push(socket);
    }
    drop(probe);
    for socket in &sockets {
        if !is_open {
            // A kernel without filters connects clients earlier.
            let _ = socket.attach_filter(&DROP_ALL);
        }
        socket.listen(BACKLOG)?;
    }
    Ok((candidate.address, sockets.into_iter().map(TcpListener::from).collect()))
}

fn no_such_family(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::AFNOSUPPORT.raw_os_error())
}

fn new_socket(candidate: CandidateAddress) -> io::Result<Socket> {
    // `Socket::new` sets close-on-exec.
    let socket = Socket::new(Domain::for_address(candidate.address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_nonblocking(true)?;
    if candidate.address.is_ipv6() {
        socket.set_only_v6(candidate.only_v6)?;
    }
    // A restart must not wait for connections of the last run in TIME_WAIT.
    socket.set_reuse_address(true)?;
    // Accepted sockets inherit this in Linux, which saves a system call for each. Responses are written whole
    // or with MSG_MORE, so Nagle's algorithm has no benefit.
    socket.set_tcp_nodelay(true)?;
    Ok(socket)
}

fn local_address(socket: &Socket) -> io::Result<SocketAddr> {
    socket.local_addr()?.as_socket().ok_or_else(|| io::Error::from(Errno::AFNOSUPPORT))
}
