//! Sends lines to another log, a datagram for each: syslog (RFC 5424) over a Unix socket or UDP (RFC 5426), and journald.

use std::fmt;
use std::io;
use std::net::{ToSocketAddrs, UdpSocket};
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::process;
use std::str::FromStr;
use std::time::Duration;

use rudy_config::written_as_text;
use rudy_runtime::clock;

use crate::local_time::LocalClock;

/// The maximum length of a line in bytes. A longer one is cut. Receivers of syslog accept 8 KiB, as far as is known.
const LINE_BYTES_MAX: usize = 8 * 1024;

/// How long a receiver that does not read may block the thread.
pub(super) const SEND_TIMEOUT: Duration = Duration::from_secs(1);

/// The socket of journald (its native protocol).
const JOURNAL: &str = "/run/systemd/journal/socket";

/// The facility of syslog for daemons (RFC 5424 §6.2.1).
const FACILITY: u8 = 3;

/// The name of the program in other logs.
const NAME: &str = "rudy";

/// Where a receiver of syslog listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Receiver {
    /// A Unix datagram socket.
    Unix(PathBuf),
    /// A UDP port: `host:port`.
    Udp(String),
}

impl FromStr for Receiver {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let has_port = |address: &str| {
            address
                .rsplit_once(':')
                .is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok())
        };
        match text.split_once(':') {
            Some(("unix", path)) if path.starts_with('/') => Ok(Self::Unix(path.into())),
            Some(("udp", address)) if has_port(address) => Ok(Self::Udp(address.to_owned())),
            _ => Err("expected \"unix:/dev/log\" or \"udp:HOST:514\"".to_owned()),
        }
    }
}

impl fmt::Display for Receiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Udp(address) => write!(f, "udp:{address}"),
        }
    }
}

written_as_text!(Receiver, "a receiver of syslog (\"unix:/dev/log\")", {
    doc: "A Unix socket, `unix:/dev/log`, or a UDP port, `udp:HOST:514`.",
    pattern: "^(unix:/.+|udp:.+:[0-9]+)$",
    examples: ["unix:/dev/log", "udp:logs.example.org:514"],
});

/// The protocol of the other log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Protocol {
    Syslog(Receiver),
    Journald,
}

/// The connection to another log.
pub(crate) struct Datagrams {
    protocol: Protocol,
    /// The message id of syslog, a name for lines of this kind.
    kind: &'static str,
    /// Whether each line begins with its severity, from `<0>` to `<7>` (RFC 5424 §6.2.1). Others are informational.
    has_severities: bool,
    socket: Option<Socket>,
    clock: LocalClock,
    host: String,
    message: Vec<u8>,
}

enum Socket {
    Unix(UnixDatagram),
    Udp(UdpSocket),
}

impl Datagrams {
    /// Connects to the other log.
    ///
    /// # Errors
    ///
    /// It does not listen, or its name does not resolve.
    pub(crate) fn open(protocol: Protocol, kind: &'static str, has_severities: bool) -> io::Result<Self> {
        let socket = Some(protocol.connect()?);
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let host = Some(host).filter(|host| is_name(host)).unwrap_or_else(|| "-".to_owned());
        let (clock, message) = (LocalClock::new(), Vec::new());
        Ok(Self { protocol, kind, has_severities, socket, clock, host, message })
    }

    /// Sends lines. The error includes the number of those that were lost.
    pub(super) fn write_lines(&mut self, lines: &[u8]) -> Result<(), (io::Error, u64)> {
        let mut lines = lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        let (mut lost, mut first) = (0, None);
        while let Some(line) = lines.next() {
            let Err(error) = self.send(line) else { continue };
            lost += 1;
            // The receiver does not read, or there is none. Each of the other lines would wait as long as this one.
            if is_timeout(&error) || self.socket.is_none() {
                lost += lines.by_ref().count() as u64;
            }
            first.get_or_insert(error);
        }
        first.map_or(Ok(()), |error| Err((error, lost)))
    }

    /// Sends a line. A receiver that was restarted has another socket, and one that does not read has the same.
    fn send(&mut self, line: &[u8]) -> io::Result<()> {
        self.encode(line);
        if let Some(socket) = &self.socket {
            match socket.send(&self.message) {
                Err(error) if !is_timeout(&error) => {}
                result => return result,
            }
        }
        self.socket = None;
        self.socket.insert(self.protocol.connect()?).send(&self.message)
    }

    /// Writes the message of a line.
    fn encode(&mut self, line: &[u8]) {
        let (severity, line) = match line {
            [b'<', severity @ b'0'..=b'7', b'>', line @ ..] if self.has_severities => (severity - b'0', line),
            line => (6, line),
        };
        let line = cut(line);
        let head = match self.protocol {
            Protocol::Journald => {
                format!("PRIORITY={severity}\nSYSLOG_IDENTIFIER={NAME}\nRUDY_LOG={}\nMESSAGE=", self.kind)
            }
            Protocol::Syslog(_) => format!(
                "<{}>1 {} {} {NAME} {} {} - ",
                FACILITY * 8 + severity,
                self.clock.rfc3339(clock::utc()),
                self.host,
                process::id(),
                self.kind
            ),
        };
        self.message.clear();
        self.message.extend_from_slice(head.as_bytes());
        self.message.extend_from_slice(line);
        if self.protocol == Protocol::Journald {
            self.message.push(b'\n');
        }
    }
}

impl Protocol {
    fn connect(&self) -> io::Result<Socket> {
        let unix = |path: &std::path::Path| {
            let socket = UnixDatagram::unbound()?;
            socket.connect(path)?;
            socket.set_write_timeout(Some(SEND_TIMEOUT))?;
            Ok(Socket::Unix(socket))
        };
        match self {
            Self::Journald => unix(JOURNAL.as_ref()),
            Self::Syslog(Receiver::Unix(path)) => unix(path),
            Self::Syslog(Receiver::Udp(address)) => {
                let address = address.to_socket_addrs()?.next().ok_or(io::ErrorKind::NotFound)?;
                let any = if address.is_ipv6() { "[::]:0" } else { "0.0.0.0:0" };
                let socket = UdpSocket::bind(any)?;
                socket.connect(address)?;
                Ok(Socket::Udp(socket))
            }
        }
    }
}

impl Socket {
    fn send(&self, message: &[u8]) -> io::Result<()> {
        match self {
            Self::Unix(socket) => socket.send(message).map(drop),
            Self::Udp(socket) => socket.send(message).map(drop),
        }
    }
}

/// Whether the receiver has not read for [`SEND_TIMEOUT`] (`SO_SNDTIMEO` in socket(7)).
fn is_timeout(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock
}

/// Whether a text is a HOSTNAME of RFC 5424 §6: visible ASCII.
fn is_name(text: &str) -> bool {
    !text.is_empty() && text.len() <= 255 && text.bytes().all(|byte| byte.is_ascii_graphic())
}

/// Cuts a line that is too long, not within a character.
fn cut(line: &[u8]) -> &[u8] {
    if line.len() <= LINE_BYTES_MAX {
        return line;
    }
    let is_start = |byte: u8| byte & 0b1100_0000 != 0b1000_0000;
    let end = (LINE_BYTES_MAX - 3..=LINE_BYTES_MAX).rev().find(|end| is_start(line[*end]));
    &line[..end.unwrap_or(LINE_BYTES_MAX)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn received(socket: &UnixDatagram) -> String {
        let mut buffer = vec![0; 2 * LINE_BYTES_MAX];
        let length = socket.recv(&mut buffer).unwrap();
        String::from_utf8(buffer[..length].to_vec()).unwrap()
    }

    fn syslog(path: &std::path::Path, has_severities: bool) -> Datagrams {
        Datagrams::open(Protocol::Syslog(Receiver::Unix(path.to_owned())), "access", has_severities).unwrap()
    }

    #[test]
    fn a_line_becomes_a_message_of_rfc_5424() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let receiver = UnixDatagram::bind(&path).unwrap();
        syslog(&path, false).write_lines(b"<1>one\ntwo\n").unwrap();
        let message = received(&receiver);
        let parts: Vec<_> = message.splitn(8, ' ').collect();
        assert_eq!((parts[0], parts[3], parts[5], parts[6]), ("<30>1", "rudy", "access", "-"));
        assert!(parts[1].parse::<jiff::Timestamp>().is_ok(), "{message}");
        assert_eq!(parts[4], process::id().to_string());
        assert_eq!(parts[7], "<1>one");
        assert!(received(&receiver).ends_with(" - two"));
        syslog(&path, true).write_lines(b"<3>bad\n").unwrap();
        let message = received(&receiver);
        assert!(message.starts_with("<27>1 ") && message.ends_with(" - bad"), "{message}");
    }

    #[test]
    fn a_receiver_that_was_restarted_gets_the_next_line_and_lost_ones_are_counted() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        drop(UnixDatagram::bind(&path).unwrap());
        assert!(Datagrams::open(Protocol::Syslog(Receiver::Unix(path.clone())), "access", false).is_err());
        std::fs::remove_file(&path).unwrap();
        let receiver = UnixDatagram::bind(&path).unwrap();
        let mut log = syslog(&path, false);
        log.write_lines(b"one\n").unwrap();
        drop(receiver);
        std::fs::remove_file(&path).unwrap();
        assert_eq!(log.write_lines(b"two\nthree\n").unwrap_err().1, 2);
        let receiver = UnixDatagram::bind(&path).unwrap();
        log.write_lines(b"four\n").unwrap();
        assert!(received(&receiver).ends_with(" - four"));
    }

    #[test]
    fn a_batch_for_a_receiver_that_does_not_read_waits_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let receiver = UnixDatagram::bind(&path).unwrap();
        // More than sockets buffer. With a timeout for each line, this would take more than an hour.
        let lines = 5000;
        let (error, lost) = syslog(&path, false).write_lines(&b"line\n".repeat(lines)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        receiver.set_nonblocking(true).unwrap();
        let mut buffer = [0; 1024];
        let received = std::iter::from_fn(|| receiver.recv(&mut buffer).ok()).count();
        assert_eq!(received as u64 + lost, lines as u64);
    }

    #[test]
    fn a_udp_port_gets_datagrams() {
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address: Receiver = format!("udp:{}", receiver.local_addr().unwrap()).parse().unwrap();
        Datagrams::open(Protocol::Syslog(address), "access", false).unwrap().write_lines(b"one\n").unwrap();
        let mut buffer = [0; 1024];
        let length = receiver.recv(&mut buffer).unwrap();
        assert!(buffer[..length].ends_with(b" - one"));
    }

    #[test]
    fn a_message_of_journald_has_a_priority() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let _receiver = UnixDatagram::bind(&path).unwrap();
        let mut log = Datagrams { protocol: Protocol::Journald, ..syslog(&path, true) };
        log.encode(b"<4>a client left");
        let expected = "PRIORITY=4\nSYSLOG_IDENTIFIER=rudy\nRUDY_LOG=access\nMESSAGE=a client left\n";
        assert_eq!(String::from_utf8_lossy(&log.message), expected);
    }

    #[test]
    fn a_long_line_is_cut_between_characters() {
        let line = "a".to_owned() + &"\u{fc}".repeat(LINE_BYTES_MAX);
        let cut = std::str::from_utf8(cut(line.as_bytes())).unwrap();
        assert_eq!(cut.len(), LINE_BYTES_MAX - 1);
    }

    #[test]
    fn receivers_are_unix_sockets_and_udp_ports() {
        for text in ["unix:/dev/log", "udp:127.0.0.1:514", "udp:[::1]:514", "udp:logs.example.org:514"] {
            assert_eq!(text.parse::<Receiver>().unwrap().to_string(), text);
        }
        for text in ["", "/dev/log", "unix:log", "udp:host", "udp::514", "udp:host:99999", "tcp:host:514"] {
            assert!(text.parse::<Receiver>().is_err(), "{text}");
        }
    }
}
