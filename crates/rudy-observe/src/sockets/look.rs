//! How the sockets of a process are found: the inodes of its descriptors, looked up in the tables of its network.

use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};
use std::time::Instant;

use super::table::{Row, socket_inode, udp_inode, unix_inode};
use super::{Socket, Sockets, State};
use crate::process::Folder;
use crate::{Descriptors, Error, Process};

impl Process {
    /// Its sockets. What it costs grows with the sockets of its network and with its own descriptors: some 160 ms for twenty
    /// thousand.
    ///
    /// Descriptors and tables are not read at the same moment; a socket that comes or goes in between may be missing.
    pub fn sockets(&mut self) -> Result<Sockets, Error> {
        let sockets = self.look()?;
        // It may have ended while we looked, and then some of them were gone.
        self.check_runs()?;
        Ok(sockets)
    }

    fn look(&mut self) -> Result<Sockets, Error> {
        let at = Instant::now();
        let limit = self.descriptors()?.limit;
        let (folder, remotes) = (&self.folder, &mut self.remotes);
        let numbers = folder.list("fd")?;
        let mut inodes = Inodes::of(folder, &numbers);
        let tables = Tables::read(folder, &mut inodes)?;
        // Whatever is still there after the tables were read was there all the time, and in none of them.
        inodes.0.retain(|inode, number| inode_of(folder, *number) == Some(*inode));
        let listeners = Listeners::of(&tables.held);
        remotes.remember(&tables.held, &listeners);
        let unheld = tables
            .unheld
            .into_iter()
            .filter(|socket| listeners.accept(socket) || remotes.know(socket))
            .collect();
        Ok(Sockets {
            at,
            descriptors: Descriptors { open: Some(numbers.len() as u64), limit },
            held: tables.held,
            unheld,
            udp: tables.udp,
            unix: tables.unix,
            other: inodes.0.len(),
        })
    }
}

/// The inodes of sockets that were found in no table yet, each with one of its descriptors.
struct Inodes(HashMap<u64, u32>);

impl Inodes {
    fn of(folder: &Folder, numbers: &[u32]) -> Self {
        Self(numbers.iter().filter_map(|number| Some((inode_of(folder, *number)?, *number))).collect())
    }

    /// Whether the process has a descriptor for it. Once found it is not looked for again.
    fn take(&mut self, inode: u64) -> bool {
        self.0.remove(&inode).is_some()
    }
}

/// Nothing where the descriptor is of no socket, or was closed meanwhile.
fn inode_of(folder: &Folder, number: u32) -> Option<u64> {
    socket_inode(&folder.link(&format!("fd/{number}"))?)
}

/// What the tables have of a process, and of none.
#[derive(Default)]
struct Tables {
    held: Vec<Socket>,
    unheld: Vec<Socket>,
    udp: usize,
    unix: usize,
}

impl Tables {
    fn read(folder: &Folder, inodes: &mut Inodes) -> Result<Self, Error> {
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

    fn take(&mut self, row: Row, inodes: &mut Inodes) {
        if row.inode == 0 {
            self.unheld.push(row.socket);
        } else if inodes.take(row.inode) {
            self.held.push(row.socket);
        }
    }
}

/// Where a process listens.
pub(super) struct Listeners(HashMap<u16, Vec<IpAddr>>);

impl Listeners {
    pub(super) fn of(held: &[Socket]) -> Self {
        let mut listeners: HashMap<u16, Vec<IpAddr>> = HashMap::new();
        for socket in held.iter().filter(|socket| socket.state == State::Listen) {
            listeners.entry(socket.local.port()).or_default().push(socket.local.ip());
        }
        Self(listeners)
    }

    /// Whether a connection came in there.
    pub(super) fn accept(&self, socket: &Socket) -> bool {
        let ips = self.0.get(&socket.local.port());
        ips.is_some_and(|ips| ips.iter().any(|ip| ip.is_unspecified() || *ip == socket.local.ip()))
    }
}

/// To whom a process has connected, as far as we have seen it.
#[derive(Debug, Default)]
pub(crate) struct Remotes(HashSet<SocketAddr>);

/// A process that has inherited its connections and listens nowhere seems to have connected to all of its clients: beyond so
/// many, which is 128 KiB, new ones are not remembered, and count only while they have a connection.
const REMOTES_MAX: usize = 4096;

impl Remotes {
    fn remember(&mut self, held: &[Socket], listeners: &Listeners) {
        for socket in held {
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
