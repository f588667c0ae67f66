//! The kernel's state: the sockets of a port with their TCP states, and the descriptors of this process.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::PATIENCE;

/// A line of `/proc/net/tcp`: one end of a connection. Both ends are on this machine.
#[derive(Debug)]
pub(crate) struct Socket {
    local: SocketAddr,
    remote: SocketAddr,
    state: &'static str,
    /// Whether a descriptor refers to the socket.
    has_descriptor: bool,
}

const TIME_WAIT: &str = "TIME_WAIT";
const FIN_WAIT2: &str = "FIN_WAIT2";
const LISTEN: &str = "LISTEN";

/// The TCP states by number, `linux/net/tcp_states.h`.
const STATES: [&str; 13] = [
    "",
    "ESTABLISHED",
    "SYN_SENT",
    "SYN_RECV",
    "FIN_WAIT1",
    FIN_WAIT2,
    TIME_WAIT,
    "CLOSE",
    "CLOSE_WAIT",
    "LAST_ACK",
    LISTEN,
    "CLOSING",
    "NEW_SYN_RECV",
];

impl Socket {
    /// Whether the socket is on this side of a connection to one of these servers.
    pub(crate) fn is_at(&self, side: Side, servers: &[SocketAddr]) -> bool {
        servers.contains(if side == Side::Server { &self.local } else { &self.remote })
    }

    /// Whether the client has this address.
    pub(crate) fn is_from(&self, client: IpAddr) -> bool {
        [self.local, self.remote].iter().any(|end| end.ip() == client)
    }

    /// Whether the kernel alone keeps the socket, for `tcp_fin_timeout`, although the connection was reset.
    ///
    /// Before Linux 6.19, a segment that arrives while `close` replaces the socket by its short form
    /// (`inet_twsk_hashdance_schedule`) finds neither of them. The kernel resets the other end, and the short
    /// form stays in `FIN_WAIT2`.
    fn is_left_by_kernel(&self, all: &[Self]) -> bool {
        let has_other_end =
            || all.iter().any(|other| other.local == self.remote && other.remote == self.local);
        self.state == FIN_WAIT2 && !self.has_descriptor && !has_other_end()
    }

    fn parse(line: &str) -> Option<Self> {
        let fields: Vec<_> = line.split_whitespace().collect();
        let state = usize::from_str_radix(fields.get(3)?, 16).ok()?;
        Some(Self {
            local: address(fields.get(1)?)?,
            remote: address(fields.get(2)?)?,
            state: STATES.get(state)?,
            has_descriptor: *fields.get(9)? != "0",
        })
    }
}

/// Parses an address as in proc(5): a number in native byte order, and a port.
fn address(text: &str) -> Option<SocketAddr> {
    let (ip, port) = text.split_once(':')?;
    let ip = u32::from_str_radix(ip, 16).ok()?.to_ne_bytes();
    Some(SocketAddr::new(Ipv4Addr::from(ip).into(), u16::from_str_radix(port, 16).ok()?))
}

/// Returns every socket of a connection to one of these servers, including listening ones.
fn sockets(servers: &[SocketAddr]) -> Vec<Socket> {
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    // Parses only the matching ones of tens of thousands of lines.
    let ends: Vec<_> = servers.iter().map(|server| format!(":{:04X} ", server.port())).collect();
    let lines = table.lines().filter(|line| ends.iter().any(|end| line.contains(end)));
    let sockets = lines.map(|line| Socket::parse(line).unwrap_or_else(|| panic!("{line}")));
    sockets.filter(|socket| servers.contains(&socket.local) || servers.contains(&socket.remote)).collect()
}

/// A side of a connection. A server's socket has the server's address at its local end, a client's at its
/// remote end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Server,
    Client,
}

/// Waits until no descriptor refers to a socket on this side of these servers' connections.
pub(crate) fn wait_until_returned(side: Side, servers: &[SocketAddr]) {
    wait_until_all(servers, |socket, _| {
        !socket.has_descriptor || socket.state == LISTEN || !socket.is_at(side, servers)
    });
}

/// Waits until only sockets in `TIME_WAIT` are left of the connections to these servers, and returns them.
pub(crate) fn wait_until_gone(servers: &[SocketAddr]) -> Vec<Socket> {
    let mut left = wait_until_all(servers, |socket, all| {
        [LISTEN, TIME_WAIT].contains(&socket.state) || socket.is_left_by_kernel(all)
    });
    left.retain(|socket| socket.state == TIME_WAIT);
    left
}

/// Polls, because the kernel sends no notification when a socket ends.
fn wait_until_all(
    servers: &[SocketAddr],
    is_as_expected: impl Fn(&Socket, &[Socket]) -> bool,
) -> Vec<Socket> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let sockets = sockets(servers);
        let Some(left) = sockets.iter().find(|socket| !is_as_expected(socket, &sockets)) else {
            return sockets;
        };
        assert!(Instant::now() < deadline, "still there: {left:?}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// Counts the descriptors of this process by kind.
pub(crate) fn descriptors() -> BTreeMap<String, usize> {
    let mut kinds = BTreeMap::new();
    for entry in std::fs::read_dir("/proc/self/fd").unwrap() {
        // The descriptor that reads the folder may be closed already.
        let Ok(target) = std::fs::read_link(entry.unwrap().path()) else { continue };
        let target = target.to_string_lossy();
        let kind =
            if target.starts_with('/') { "file" } else { target.split('[').next().unwrap_or_default() };
        *kinds.entry(kind.trim_end_matches(':').to_owned()).or_default() += 1;
    }
    kinds
}
