//! What the kernel knows: the sockets of a port by their states, and the descriptors of this process.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::PATIENCE;

/// A row of `/proc/net/tcp`: one end of a connection. Both ends are there, since both are on this machine.
#[derive(Debug)]
pub(crate) struct Socket {
    local: SocketAddr,
    remote: SocketAddr,
    state: &'static str,
    /// Whether a descriptor leads to it.
    is_held: bool,
}

const TIME_WAIT: &str = "TIME_WAIT";
const LISTEN: &str = "LISTEN";

/// The states by their numbers, `linux/net/tcp_states.h`.
const STATES: [&str; 13] = [
    "",
    "ESTABLISHED",
    "SYN_SENT",
    "SYN_RECV",
    "FIN_WAIT1",
    "FIN_WAIT2",
    TIME_WAIT,
    "CLOSE",
    "CLOSE_WAIT",
    "LAST_ACK",
    LISTEN,
    "CLOSING",
    "NEW_SYN_RECV",
];

impl Socket {
    /// Whether it is on this side of a connection to one of these servers.
    pub(crate) fn is_at(&self, side: Side, servers: &[SocketAddr]) -> bool {
        servers.contains(if side == Side::Server { &self.local } else { &self.remote })
    }

    /// Whether the client comes from this address.
    pub(crate) fn is_from(&self, client: IpAddr) -> bool {
        [self.local, self.remote].iter().any(|end| end.ip() == client)
    }

    fn parse(line: &str) -> Option<Self> {
        let fields: Vec<_> = line.split_whitespace().collect();
        let state = usize::from_str_radix(fields.get(3)?, 16).ok()?;
        Some(Self {
            local: address(fields.get(1)?)?,
            remote: address(fields.get(2)?)?,
            state: STATES.get(state)?,
            is_held: *fields.get(9)? != "0",
        })
    }
}

/// An address as proc(5) has it: a number in the machine's order of bytes, and a port.
fn address(text: &str) -> Option<SocketAddr> {
    let (ip, port) = text.split_once(':')?;
    let ip = u32::from_str_radix(ip, 16).ok()?.to_ne_bytes();
    Some(SocketAddr::new(Ipv4Addr::from(ip).into(), u16::from_str_radix(port, 16).ok()?))
}

/// Every socket of a connection to one of these servers, those that listen included.
fn sockets(servers: &[SocketAddr]) -> Vec<Socket> {
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    // Few of tens of thousands of lines are worth a closer look.
    let ends: Vec<_> = servers.iter().map(|server| format!(":{:04X} ", server.port())).collect();
    let lines = table.lines().filter(|line| ends.iter().any(|end| line.contains(end)));
    let sockets = lines.map(|line| Socket::parse(line).unwrap_or_else(|| panic!("{line}")));
    sockets.filter(|socket| servers.contains(&socket.local) || servers.contains(&socket.remote)).collect()
}

/// Which sockets are meant: a server's have its address at their own end, its clients' at the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Server,
    Client,
}

/// Waits until no descriptor leads to a socket of this side of these servers' connections.
pub(crate) fn wait_until_returned(side: Side, servers: &[SocketAddr]) {
    wait_until_all(servers, |socket| {
        !socket.is_held || socket.state == LISTEN || !socket.is_at(side, servers)
    });
}

/// Waits until nothing is left of the connections to these servers but `TIME_WAIT`, and says where that is.
pub(crate) fn wait_until_gone(servers: &[SocketAddr]) -> Vec<Socket> {
    let mut left = wait_until_all(servers, |socket| [LISTEN, TIME_WAIT].contains(&socket.state));
    left.retain(|socket| socket.state == TIME_WAIT);
    left
}

/// The kernel tells nobody when it is done with a socket, so it is asked now and then.
fn wait_until_all(servers: &[SocketAddr], is_as_expected: impl Fn(&Socket) -> bool) -> Vec<Socket> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let sockets = sockets(servers);
        let Some(left) = sockets.iter().find(|socket| !is_as_expected(socket)) else { return sockets };
        assert!(Instant::now() < deadline, "still there: {left:?}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// The descriptors of this process by what they lead to.
pub(crate) fn descriptors() -> BTreeMap<String, usize> {
    let mut kinds = BTreeMap::new();
    for entry in std::fs::read_dir("/proc/self/fd").unwrap() {
        // The one with which the folder is read may be gone.
        let Ok(target) = std::fs::read_link(entry.unwrap().path()) else { continue };
        let target = target.to_string_lossy();
        let kind =
            if target.starts_with('/') { "file" } else { target.split('[').next().unwrap_or_default() };
        *kinds.entry(kind.trim_end_matches(':').to_owned()).or_default() += 1;
    }
    kinds
}
