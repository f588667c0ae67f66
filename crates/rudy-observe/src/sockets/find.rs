//! Finds the sockets of processes: looks up the inodes of their descriptors in the tables of their network
//! namespace.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};
use std::time::Instant;

use rustix::fs::getxattr;

use super::table::{Row, socket_inode, udp_inode, unix_inode};
use super::{Socket, Sockets, State};
use crate::folder::Folder;
use crate::{Descriptors, Error};

impl Sockets {
    /// Finds the sockets of processes in one network namespace. The number of their descriptors has a limit.
    pub(crate) fn find(
        folders: &[&Folder],
        limit: Option<u64>,
        remotes: &mut Remotes,
    ) -> Result<Self, Error> {
        let at = Instant::now();
        let (mut inodes, mut open) = (Inodes(HashMap::new()), 0);
        for folder in folders {
            open += inodes.add(folder)?;
        }
        let tables = Tables::read(folders[0], &mut inodes)?;
        // A descriptor that still exists after the tables were read is in none of them.
        inodes.0.retain(|inode, (folder, number)| inode_of(folder, *number) == Some(*inode));
        let listeners = Listeners::of(&tables.with_descriptor);
        remotes.remember(&tables.with_descriptor, &listeners);
        let without_descriptor = tables
            .without_descriptor
            .into_iter()
            .filter(|socket| listeners.accept(socket) || remotes.know(socket))
            .collect();
        Ok(Self {
            at,
            descriptors: Descriptors { open: Some(open), limit },
            with_descriptor: tables.with_descriptor,
            without_descriptor,
            udp: tables.udp,
            unix: tables.unix,
            in_no_table: inodes.by_protocol(),
        })
    }
}

/// Inodes of sockets that were found in no table yet, each with a descriptor of a process.
struct Inodes<'a>(HashMap<u64, (&'a Folder, u32)>);

impl<'a> Inodes<'a> {
    /// Adds those of a process. Returns the number of all its descriptors.
    fn add(&mut self, folder: &'a Folder) -> Result<u64, Error> {
        let numbers = folder.list("fd")?;
        let inode = |number: &u32| Some((inode_of(folder, *number)?, (folder, *number)));
        self.0.extend(numbers.iter().filter_map(inode));
        Ok(numbers.len() as u64)
    }

    /// Whether a process has a descriptor for the inode. Removes it, because it is found only once.
    fn take(&mut self, inode: u64) -> bool {
        self.0.remove(&inode).is_some()
    }

    /// The number of sockets that were found in no table, by protocol.
    fn by_protocol(&self) -> BTreeMap<String, usize> {
        let mut protocols = BTreeMap::new();
        for (folder, number) in self.0.values() {
            *protocols.entry(protocol(folder.pid(), *number)).or_default() += 1;
        }
        protocols
    }
}

/// The protocol of a socket, such as `TCP`, `UDPv6` or `NETLINK`, which the kernel shows as an attribute of
/// its inode.
fn protocol(pid: u32, number: u32) -> String {
    // The longest name has 31 bytes, and a zero ends it (`struct proto`).
    let mut name = [0; 32];
    let length = getxattr(format!("/proc/{pid}/fd/{number}"), "system.sockprotoname", &mut name).unwrap_or(0);
    let name = String::from_utf8_lossy(&name[..length.min(name.len())]);
    match name.trim_end_matches('\0') {
        "" => "unknown".to_owned(),
        name => name.to_owned(),
    }
}

/// `None` if the descriptor is not a socket, or was closed meanwhile.
fn inode_of(folder: &Folder, number: u32) -> Option<u64> {
    socket_inode(&folder.link(&format!("fd/{number}"))?)
}

/// The rows of the tables that belong to a process, and those without an owner.
#[derive(Default)]
struct Tables {
    with_descriptor: Vec<Socket>,
    without_descriptor: Vec<Socket>,
    udp: usize,
    unix: usize,
}

impl Tables {
    fn read(folder: &Folder, inodes: &mut Inodes<'_>) -> Result<Self, Error> {
        let mut tables = Self::default();
        for table in ["net/tcp", "net/tcp6"] {
            folder.lines(table, |line| {
                if let Some(row) = Row::parse(line) {
                    tables.take(row, inodes);
                }
            })?;
        }
        for table in ["net/udp", "net/udp6"] {
            folder.lines(table, |line| {
                tables.udp += usize::from(udp_inode(line).is_some_and(|inode| inodes.take(inode)));
            })?;
        }
        folder.lines("net/unix", |line| {
            tables.unix += usize::from(unix_inode(line).is_some_and(|inode| inodes.take(inode)));
        })?;
        Ok(tables)
    }

    fn take(&mut self, row: Row, inodes: &mut Inodes<'_>) {
        if row.inode == 0 {
            self.without_descriptor.push(row.socket);
        } else if inodes.take(row.inode) {
            self.with_descriptor.push(row.socket);
        }
    }
}

/// The addresses at which a process listens.
pub(super) struct Listeners(HashMap<u16, Vec<IpAddr>>);

impl Listeners {
    pub(super) fn of(with_descriptor: &[Socket]) -> Self {
        let mut listeners: HashMap<u16, Vec<IpAddr>> = HashMap::new();
        for socket in with_descriptor.iter().filter(|socket| socket.state == State::Listen) {
            listeners.entry(socket.local.port()).or_default().push(socket.local.ip());
        }
        Self(listeners)
    }

    /// Whether this is an incoming connection.
    pub(super) fn accept(&self, socket: &Socket) -> bool {
        let ips = self.0.get(&socket.local.port());
        ips.is_some_and(|ips| ips.iter().any(|ip| ip.is_unspecified() || *ip == socket.local.ip()))
    }
}

/// The remote addresses to which a process connected during observation.
#[derive(Debug, Default)]
pub(crate) struct Remotes(HashSet<SocketAddr>);

/// A process that inherited its connections and does not listen seems to have connected to all its clients.
/// Above this number, which is 128 KiB, new addresses are not remembered, and only count while they have a
/// connection.
const REMOTES_MAX: usize = 4096;

impl Remotes {
    fn remember(&mut self, with_descriptor: &[Socket], listeners: &Listeners) {
        for socket in with_descriptor {
            let connected = socket.state != State::Listen && !listeners.accept(socket);
            if connected && self.0.len() < REMOTES_MAX {
                self.0.insert(socket.remote);
            }
        }
    }

    fn know(&self, socket: &Socket) -> bool {
        self.0.contains(&socket.remote)
    }
}
