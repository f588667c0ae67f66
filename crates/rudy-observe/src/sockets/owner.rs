//! Finds the process that listens on an address, as far as permissions allow.

use std::collections::HashSet;
use std::fmt;
use std::fs;
use std::net::SocketAddr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::State;
use super::table::{Row, socket_inode, unix_listener};

/// The process that listens on an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Owner {
    /// This process itself.
    Ourselves,
    /// Another process.
    Process {
        /// Its id.
        pid: u32,
        /// Its name.
        name: String,
    },
    /// A process whose descriptors are not readable.
    Hidden {
        /// The id of its user, if known.
        user: Option<u32>,
    },
}

const TCP_TABLES: [&str; 2] = ["/proc/net/tcp", "/proc/net/tcp6"];

impl Owner {
    /// The process whose listening TCP socket prevents a bind to `address`.
    #[must_use]
    pub fn of_port(address: SocketAddr) -> Self {
        let listening = TCP_TABLES
            .iter()
            .filter_map(|table| fs::read(table).ok())
            .find_map(|table| find_listening(&table, address));
        listening.map_or(Self::Hidden { user: None }, |row| Self::of_inode(row.inode, Some(row.user)))
    }

    /// The process that listens on a Unix socket.
    #[must_use]
    pub fn of_path(path: &Path) -> Self {
        let table = fs::read("/proc/net/unix").unwrap_or_default();
        let inode = lines(&table).find_map(|line| unix_listener(line, path.as_os_str().as_bytes()));
        inode.map_or(Self::Hidden { user: None }, |inode| Self::of_inode(inode, None))
    }

    fn of_inode(inode: u64, user: Option<u32>) -> Self {
        // Try this path first: in a sandbox, a process may only see itself.
        if has_open("self", inode) {
            return Self::Ourselves;
        }
        let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
        let pid = processes
            .filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok())
            .find(|pid| has_open(&pid.to_string(), inode));
        match pid {
            None => Self::Hidden { user },
            Some(pid) => {
                let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
                Self::Process { pid, name: name.trim_end().to_owned() }
            }
        }
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ourselves => f.write_str("this very process"),
            // A process can choose any name for itself.
            Self::Process { pid, name } => write!(f, "{} (process {pid})", name.escape_debug()),
            Self::Hidden { user: Some(user) } => write!(
                f,
                "a process of user {user}; could not see which one without permission (root can: `ss -ltnp`)"
            ),
            Self::Hidden { user: None } => f.write_str("another process; could not see the owner"),
        }
    }
}

/// The inodes of the TCP sockets that listen on a port, at any address.
pub(crate) fn listening_inodes(port: u16) -> HashSet<u64> {
    let tables = TCP_TABLES.iter().filter_map(|table| fs::read(table).ok());
    let is_wanted = |row: &Row| row.socket.state == State::Listen && row.socket.local.port() == port;
    let rows =
        tables.flat_map(|table| lines(&table).filter_map(Row::parse).filter(is_wanted).collect::<Vec<_>>());
    rows.map(|row| row.inode).collect()
}

/// Whether a process has a descriptor for one of the sockets.
pub(crate) fn has_any(pid: u32, inodes: &HashSet<u64>) -> bool {
    sockets_of(&pid.to_string()).any(|inode| inodes.contains(&inode))
}

fn has_open(pid: &str, inode: u64) -> bool {
    sockets_of(pid).any(|open| open == inode)
}

/// The inodes of the sockets of a process, as far as permissions allow.
fn sockets_of(pid: &str) -> impl Iterator<Item = u64> {
    let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    descriptors
        .filter_map(|entry| fs::read_link(entry.path()).ok())
        .filter_map(|target| socket_inode(target.as_os_str().as_bytes()))
}

/// The first row of `/proc/net/tcp` or `tcp6` whose socket listens at the wanted address.
fn find_listening(table: &[u8], wanted: SocketAddr) -> Option<Row> {
    lines(table).filter_map(Row::parse).find(|row| {
        let local = row.socket.local;
        let overlap = local.ip() == wanted.ip().to_canonical()
            || local.ip().is_unspecified()
            || wanted.ip().is_unspecified();
        row.socket.state == State::Listen && local.port() == wanted.port() && overlap
    })
}

fn lines(table: &[u8]) -> impl Iterator<Item = &[u8]> {
    table.split(|byte| *byte == b'\n')
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::os::unix::net::UnixListener;

    use super::*;

    const TCP: &[u8] = b"  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n   \
        0: 0100007F:1F90 00000000:0000 01 00000000:00000000 00:00000000 00000000     5        0 11 1 0 100 0 0 10 0\n   \
        1: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000    33        0 635 1 0 100 0 0 10 0\n";

    #[test]
    #[cfg(target_endian = "little")]
    fn the_listening_socket_is_found_where_the_addresses_overlap() {
        for (wanted, expected) in [
            ("127.0.0.1:8080", Some((635, 33))),
            ("0.0.0.0:8080", Some((635, 33))),
            ("[::]:8080", Some((635, 33))),
            ("[::ffff:127.0.0.1]:8080", Some((635, 33))),
            ("127.0.0.2:8080", None),
            ("127.0.0.1:8081", None),
        ] {
            let found = find_listening(TCP, wanted.parse().unwrap());
            assert_eq!(found.map(|row| (row.inode, row.user)), expected, "{wanted}");
        }
    }

    #[test]
    fn own_listeners_are_found_in_the_tables_of_the_kernel() {
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        assert_eq!(Owner::of_port(tcp.local_addr().unwrap()), Owner::Ourselves);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a b.sock");
        let unix = UnixListener::bind(&path).unwrap();
        assert_eq!(Owner::of_path(&path), Owner::Ourselves);
        drop(unix);
        assert_eq!(Owner::of_path(&path), Owner::Hidden { user: None });
    }
}
