//! What the kernel knows: the sockets of a port by their states, and the descriptors of this process.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddrV4};

use crate::support::eventually;

/// A row of `/proc/net/tcp`: one end of a connection. Both ends are there, since both are on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Socket {
    pub(crate) local: SocketAddrV4,
    pub(crate) remote: SocketAddrV4,
    pub(crate) state: &'static str,
    /// Whether a descriptor leads to it.
    pub(crate) is_held: bool,
}

pub(crate) const TIME_WAIT: &str = "TIME_WAIT";
pub(crate) const LISTEN: &str = "LISTEN";

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
fn address(text: &str) -> Option<SocketAddrV4> {
    let (ip, port) = text.split_once(':')?;
    let ip = u32::from_str_radix(ip, 16).ok()?.to_ne_bytes();
    Some(SocketAddrV4::new(Ipv4Addr::from(ip), u16::from_str_radix(port, 16).ok()?))
}

/// Every socket with this port at one of its ends.
pub(crate) fn sockets(port: u16) -> Vec<Socket> {
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    // Few of tens of thousands of lines are worth a closer look.
    let end = format!(":{port:04X} ");
    let lines = table.lines().filter(|line| line.contains(&end));
    let sockets = lines.map(|line| Socket::parse(line).unwrap_or_else(|| panic!("{line}")));
    sockets.filter(|socket| socket.local.port() == port || socket.remote.port() == port).collect()
}

/// Waits until no descriptor leads to a socket at this port, other than to one that listens.
pub(crate) fn wait_until_returned(port: u16) {
    eventually("the descriptors are returned", || {
        let mut sockets = sockets(port).into_iter();
        !sockets.any(|socket| socket.local.port() == port && socket.is_held && socket.state != LISTEN)
    });
}

/// Waits until nothing is left of the connections of this port but `TIME_WAIT`, and says where that is.
pub(crate) fn wait_until_gone(port: u16) -> Vec<Socket> {
    let mut left = Vec::new();
    eventually("the kernel has forgotten the connections", || {
        left = sockets(port);
        left.retain(|socket| socket.state != LISTEN);
        left.iter().all(|socket| socket.state == TIME_WAIT)
    });
    left
}

/// The descriptors of this process by what they lead to. What a blocking thread is woken with is left out: it is made when
/// a thread first needs it, and kept.
pub(crate) fn descriptors() -> BTreeMap<String, usize> {
    let mut kinds = BTreeMap::new();
    for entry in std::fs::read_dir("/proc/self/fd").unwrap() {
        // The one with which the folder is read may be gone.
        let Ok(target) = std::fs::read_link(entry.unwrap().path()) else { continue };
        let target = target.to_string_lossy();
        let kind =
            if target.starts_with('/') { "file" } else { target.split('[').next().unwrap_or_default() };
        if !target.contains("eventfd") {
            *kinds.entry(kind.trim_end_matches(':').to_owned()).or_default() += 1;
        }
    }
    kinds
}
