//! Parses the kernel's tables of sockets: `/proc/PID/net/tcp`, `tcp6`, `udp`, `udp6` and `unix`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::{Socket, State};

/// A line of a table of TCP sockets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Row {
    /// 0 without an owner: closed by its process, or not yet accepted.
    pub(super) inode: u64,
    /// The user whose process created it.
    pub(super) user: u32,
    pub(super) socket: Socket,
}

impl Row {
    /// `None` for the heading, and for unknown formats.
    pub(super) fn parse(line: &[u8]) -> Option<Self> {
        // sl local remote state tx:rx timer:when retransmits uid timeout inode
        let mut fields = fields(line).skip(1);
        let local = address(fields.next()?)?;
        let remote = address(fields.next()?)?;
        let state = State::from_number(u8::try_from(hex(fields.next()?)?).ok()?)?;
        let (unsent, unread) = fields.next()?.split_once(':')?;
        let (unsent, unread) = (hex(unsent)?, hex(unread)?);
        let user = fields.nth(2)?.parse().ok()?;
        let inode = fields.nth(1)?.parse().ok()?;
        // For a listening socket, this column is the number of connections to accept.
        let listens = state == State::Listen;
        let not_accepted = if listens { unread } else { 0 };
        let unread_bytes =
            if listens { 0 } else { unread.saturating_sub(u32::from(state.has_fin_of_peer())) };
        let unsent_bytes = if listens { 0 } else { unsent.saturating_sub(u32::from(state.has_own_mark())) };
        Some(Self {
            inode,
            user,
            socket: Socket { state, local, remote, unread_bytes, unsent_bytes, not_accepted },
        })
    }
}

/// The inode in a line of the UDP table, which has the columns of TCP.
pub(super) fn udp_inode(line: &[u8]) -> Option<u64> {
    let mut fields = fields(line);
    // The heading has words here.
    fields.next()?.strip_suffix(':')?;
    fields.nth(8)?.parse().ok()
}

/// The inode in a line of the table of Unix sockets: its seventh field.
pub(super) fn unix_inode(line: &[u8]) -> Option<u64> {
    let mut fields = fields(line);
    fields.next()?.strip_suffix(':')?;
    fields.nth(5)?.parse().ok()
}

/// The inode in a line of the table of Unix sockets, if the socket listens at `path`.
pub(super) fn unix_listener(line: &[u8], path: &[u8]) -> Option<u64> {
    /// `__SO_ACCEPTCON`.
    const LISTENS: &str = "00010000";
    // The path follows the columns, and may contain spaces.
    let columns: Vec<&str> = fields(line.strip_suffix(path)?.strip_suffix(b" ")?).collect();
    let [_, _, _, LISTENS, _, _, inode] = columns[..] else { return None };
    inode.parse().ok()
}

/// The inode of a socket, from the link of a descriptor: `socket:[4026]`.
pub(super) fn socket_inode(link: &[u8]) -> Option<u64> {
    let number = link.strip_prefix(b"socket:[")?.strip_suffix(b"]")?;
    std::str::from_utf8(number).ok()?.parse().ok()
}

fn fields(line: &[u8]) -> std::str::SplitAsciiWhitespace<'_> {
    // The path after the columns may not be UTF-8, and is not needed.
    let text = line.utf8_chunks().next().map_or("", |chunk| chunk.valid());
    text.split_ascii_whitespace()
}

/// A hexadecimal address: words of four bytes, each in the byte order of the machine, and a port.
fn address(text: &str) -> Option<SocketAddr> {
    let (address, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let ip = match address.len() {
        8 => IpAddr::V4(Ipv4Addr::from(word(address)?)),
        32 => {
            let mut bytes = [0; 16];
            for (index, bytes) in bytes.chunks_exact_mut(4).enumerate() {
                bytes.copy_from_slice(&word(address.get(index * 8..index * 8 + 8)?)?);
            }
            // A dual-stack socket shows an IPv4 peer as ::ffff:10.0.0.1.
            Ipv6Addr::from(bytes).to_canonical()
        }
        _ => return None,
    };
    Some(SocketAddr::new(ip, port))
}

fn word(text: &str) -> Option<[u8; 4]> {
    Some(hex(text)?.to_ne_bytes())
}

fn hex(text: &str) -> Option<u32> {
    u32::from_str_radix(text, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_endian = "little")]
    #[test]
    fn lines_of_a_kernel() {
        let cases: [(&str, &str); 6] = [
            (
                "   0: 0100007F:1FA2 00000000:0000 0A 00000000:00000003 00:00000000 00000000     0        0 168426875 1 00000000b7af7741 100 0 0 10 0                 ",
                "168426875 LISTEN 127.0.0.1:8098 0.0.0.0:0 unread 0 unsent 0 not accepted 3",
            ),
            (
                "   1: 0100007F:9C40 0100007F:1FA2 01 0000000A:00000010 01:00000014 00000000  1000        0 55 4 0000000000000000 20 4 30 10 -1",
                "55 ESTABLISHED 127.0.0.1:40000 127.0.0.1:8098 unread 16 unsent 10 not accepted 0",
            ),
            (
                "   2: 0100007F:9C41 0100007F:1FA2 06 00000000:00000000 03:00000F5B 00000000     0        0 0 3 0000000000000000",
                "0 TIME_WAIT 127.0.0.1:40001 127.0.0.1:8098 unread 0 unsent 0 not accepted 0",
            ),
            (
                "   3: 0100007F:9C42 0100007F:1FA2 0C 00000000:00000000 01:00000063 00000000     0        0 0 1 0000000000000000",
                "0 SYN_RECV 127.0.0.1:40002 127.0.0.1:8098 unread 0 unsent 0 not accepted 0",
            ),
            (
                "   0: 00000000000000000000000001000000:0016 B80D0120000000000000000002000000:C001 08 00000000:00000005 00:00000000 00000000     0        0 77 1 0 20 4 0 10 -1",
                "77 CLOSE_WAIT [::1]:22 [2001:db8::2]:49153 unread 4 unsent 0 not accepted 0",
            ),
            (
                "   1: 0000000000000000FFFF00000100007F:1F90 0000000000000000FFFF00000100007F:9C43 09 00000001:00000000 00:00000000 00000000     0        0 0 1 0 20 4 0 10 -1",
                "0 LAST_ACK 127.0.0.1:8080 127.0.0.1:40003 unread 0 unsent 0 not accepted 0",
            ),
        ];
        for (line, expected) in cases {
            let Row { inode, socket, .. } = Row::parse(line.as_bytes()).expect(line);
            let Socket { state, local, remote, unread_bytes, unsent_bytes, not_accepted } = socket;
            let shown = format!(
                "{inode} {state} {local} {remote} unread {unread_bytes} unsent {unsent_bytes} not accepted {not_accepted}"
            );
            assert_eq!(shown, expected);
        }
    }

    #[test]
    fn what_is_no_line_of_a_table_is_none() {
        let whole = "2: 0100007F:9C41 0100007F:1FA2 06 00000000:00000000 03:00000F5B 00000000 0 0 0";
        assert!(Row::parse(whole.as_bytes()).is_some());
        for end in 0..whole.len() - 1 {
            assert_eq!(Row::parse(&whole.as_bytes()[..end]), None, "{end}");
        }
        let heading = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode";
        let unknown = whole.replace(" 06 ", " 0D ");
        for line in [heading, &unknown, "0: é00007F:9C41 0100007F:1FA2 06 0:0 0 0 0 0 0", "0: 0100007:9C41"]
        {
            assert_eq!(Row::parse(line.as_bytes()), None, "{line}");
        }
    }

    #[test]
    fn inodes_of_other_tables() {
        let udp = " 2417: 0100007F:0143 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 1234 2 0 0";
        assert_eq!(udp_inode(udp.as_bytes()), Some(1234));
        assert_eq!(
            udp_inode(b"   sl  local_address rem_address   st tx_queue rx_queue tr tm->when a b c inode ref"),
            None
        );
        let unix = b"0000000000000000: 00000002 00000000 00010000 0001 01 5678 /run/a\xff b.sock";
        assert_eq!(unix_inode(unix), Some(5678));
        assert_eq!(unix_inode(b"Num       RefCount Protocol Flags    Type St Inode Path"), None);
    }

    #[test]
    fn a_unix_socket_is_found_by_its_whole_path() {
        let connected: &[u8] =
            b"00000000ff30e313: 00000003 00000000 00000000 0001 03   632 /run/a \xff b.sock";
        let listens: &[u8] = b"00000000ff30e314: 00000002 00000000 00010000 0001 01   633 /run/a \xff b.sock";
        assert_eq!(unix_listener(listens, b"/run/a \xff b.sock"), Some(633));
        assert_eq!(unix_listener(connected, b"/run/a \xff b.sock"), None);
        for other in [&b"b.sock"[..], b"", b"3 /run/a \xff b.sock", b"/run/a \xff b.sock2"] {
            assert_eq!(unix_listener(listens, other), None, "{}", other.escape_ascii());
        }
    }

    #[test]
    fn a_descriptor_is_a_socket_or_not() {
        assert_eq!(socket_inode(b"socket:[4026]"), Some(4026));
        for link in [
            &b"pipe:[4026]"[..],
            b"/tmp/socket:[4026]",
            b"socket:[]",
            b"socket:[4026",
            b"anon_inode:[eventpoll]",
        ] {
            assert_eq!(socket_inode(link), None);
        }
    }
}
