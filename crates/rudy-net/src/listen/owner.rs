//! Who has an address that we want: read from `/proc`, as far as we are let.

use std::fmt;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;

/// Whoever listens on an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Owner {
    /// This process itself.
    Ourselves,
    /// Another process.
    Process {
        /// Its number.
        pid: u32,
        /// Its name, as the kernel has it.
        name: String,
    },
    /// A process whose descriptors we may not look at.
    Hidden {
        /// The number of its user, where the kernel tells.
        user: Option<u32>,
    },
}

impl Owner {
    /// Who listens on a TCP port such that `address` cannot be bound.
    pub(super) fn of_port(address: SocketAddr) -> Self {
        let listening = ["/proc/net/tcp", "/proc/net/tcp6"]
            .iter()
            .filter_map(|table| fs::read_to_string(table).ok())
            .find_map(|table| find_listening(&table, address));
        match listening {
            Some(Listening { inode, user }) => Self::of_inode(inode, Some(user)),
            None => Self::Hidden { user: None },
        }
    }

    /// Who listens on a Unix socket.
    pub(super) fn of_path(path: &Path) -> Self {
        let table = fs::read_to_string("/proc/net/unix").unwrap_or_default();
        find_unix(&table, path).map_or(Self::Hidden { user: None }, |inode| Self::of_inode(inode, None))
    }

    fn of_inode(inode: u64, user: Option<u32>) -> Self {
        let link = format!("socket:[{inode}]");
        let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
        let pid = processes
            .filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok())
            .find(|pid| has_open(*pid, &link));
        match pid {
            None => Self::Hidden { user },
            Some(pid) if pid == std::process::id() => Self::Ourselves,
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
            // A process names itself as it likes.
            Self::Process { pid, name } => write!(f, "{} (process {pid})", name.escape_debug()),
            Self::Hidden { user: Some(user) } => write!(
                f,
                "a process of user {user}; could not see which one without permission (root can: `ss -ltnp`)"
            ),
            Self::Hidden { user: None } => f.write_str("another process; could not see the owner"),
        }
    }
}

fn has_open(pid: u32, link: &str) -> bool {
    let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    descriptors.filter_map(|entry| fs::read_link(entry.path()).ok()).any(|target| target.as_os_str() == link)
}

#[derive(Debug, PartialEq, Eq)]
struct Listening {
    inode: u64,
    user: u32,
}

/// The first line of `/proc/net/tcp` or `tcp6` whose socket listens where `wanted` would.
fn find_listening(table: &str, wanted: SocketAddr) -> Option<Listening> {
    const TCP_LISTEN: &str = "0A";
    table.lines().find_map(|line| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let [_, local, _, state, _, _, _, user, _, inode, ..] = fields[..] else { return None };
        let (address, port) = local.split_once(':')?;
        let address = parse_address(address)?;
        let overlap =
            address == wanted.ip().to_canonical() || address.is_unspecified() || wanted.ip().is_unspecified();
        let same_port = u16::from_str_radix(port, 16).ok()? == wanted.port();
        (state == TCP_LISTEN && same_port && overlap)
            .then_some(Listening { inode: inode.parse().ok()?, user: user.parse().ok()? })
    })
}

/// The kernel prints addresses as 32-bit words of the machine's own byte order.
fn parse_address(hex: &str) -> Option<IpAddr> {
    let word = |index: usize| {
        let digits = hex.get(index * 8..index * 8 + 8)?;
        u32::from_str_radix(digits, 16).ok().map(u32::to_ne_bytes)
    };
    match hex.len() {
        8 => Some(IpAddr::V4(Ipv4Addr::from(word(0)?))),
        32 => {
            let mut octets = [0; 16];
            for index in 0..4 {
                octets[index * 4..index * 4 + 4].copy_from_slice(&word(index)?);
            }
            Some(IpAddr::V6(Ipv6Addr::from(octets)).to_canonical())
        }
        _ => None,
    }
}

/// The inode of the socket that listens at `path`, from `/proc/net/unix`.
fn find_unix(table: &str, path: &Path) -> Option<u64> {
    /// `__SO_ACCEPTCON`: the socket listens.
    const LISTENS: &str = "00010000";
    let path = path.to_str()?;
    table.lines().find_map(|line| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let [_, _, _, flags, _, _, inode, ..] = fields[..] else { return None };
        // By its end: a path may contain spaces.
        let here = flags == LISTENS && line.ends_with(&format!(" {inode} {path}"));
        here.then(|| inode.parse().ok())?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TCP: &str = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n   \
        0: 0100007F:1F90 00000000:0000 01 00000000:00000000 00:00000000 00000000     5        0 11 1 0 100 0 0 10 0\n   \
        1: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000    33        0 635 1 0 100 0 0 10 0\n";

    #[test]
    #[cfg(target_endian = "little")]
    fn the_listening_socket_is_found_where_the_addresses_overlap() {
        let found = Some(Listening { inode: 635, user: 33 });
        for (wanted, expected) in [
            ("127.0.0.1:8080", &found),
            ("0.0.0.0:8080", &found),
            ("[::]:8080", &found),
            ("[::ffff:127.0.0.1]:8080", &found),
            ("127.0.0.2:8080", &None),
            ("127.0.0.1:8081", &None),
        ] {
            assert_eq!(&find_listening(TCP, wanted.parse().unwrap()), expected, "{wanted}");
        }
    }

    #[test]
    #[cfg(target_endian = "little")]
    fn an_address_of_the_kernel_is_read_in_both_lengths() {
        let mapped = parse_address("0000000000000000FFFF00000100007F");
        assert_eq!(mapped, Some("127.0.0.1".parse().unwrap()));
        assert_eq!(parse_address("00000000000000000000000001000000"), Some("::1".parse().unwrap()));
        for wrong in ["", "0100007", "0100007G", "é000000", "01000"] {
            assert_eq!(parse_address(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_unix_socket_is_found_by_its_whole_path() {
        let table = "Num       RefCount Protocol Flags    Type St Inode Path\n\
            00000000ff30e313: 00000003 00000000 00000000 0001 03   632 /run/a b.sock\n\
            00000000ff30e314: 00000002 00000000 00010000 0001 01   633 /run/a b.sock\n";
        assert_eq!(find_unix(table, Path::new("/run/a b.sock")), Some(633));
        assert_eq!(find_unix(table, Path::new("b.sock")), None);
    }
}
