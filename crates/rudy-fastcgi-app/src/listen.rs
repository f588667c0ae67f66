//! Where an app is asked: the socket that it is started with, or an address of its own.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use bytes::BytesMut;
use rudy_socket_file::SocketFile;
use tokio::io::{AsyncWrite, Interest};
use tokio::net::{tcp, unix};

use crate::ServeError;

/// Where an app is asked.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Listen {
    /// On descriptor 0, which whoever starts the app has made a listening socket, Unix or TCP (section 2.2).
    #[default]
    Descriptor,
    /// On a TCP address; port 0 is any that is free.
    Tcp(SocketAddr),
    /// On a Unix socket. A socket file that nobody listens on any more is replaced.
    Unix(PathBuf),
}

/// The environment variable that names the addresses that may connect (section 3.2).
const PEERS: &str = "FCGI_WEB_SERVER_ADDRS";

/// Connections that wait until they are accepted, for a Unix socket: what the kernel allows by default
/// (`net.core.somaxconn`). A web server opens many at once when an app has just been restarted.
const BACKLOG: i32 = 4096;

/// A socket that listens.
#[derive(Debug)]
pub(super) struct Listener {
    /// The socket file that we have made. It goes before the socket.
    file: Option<SocketFile>,
    socket: Socket,
    /// Who may connect by TCP; anybody, where it does not say.
    peers: Option<Vec<IpAddr>>,
}

#[derive(Debug)]
enum Socket {
    Tcp(std::net::TcpListener),
    Unix(UnixListener),
}

/// A socket that listens, on a runtime.
pub(super) struct Acceptor {
    /// It goes before the socket.
    _file: Option<SocketFile>,
    socket: AsyncSocket,
    peers: Option<Vec<IpAddr>>,
}

enum AsyncSocket {
    Tcp(tokio::net::TcpListener),
    Unix(tokio::net::UnixListener),
}

/// The two directions of a connection.
pub(super) type Halves = (Reader, Box<dyn AsyncWrite + Send + Unpin>);

/// The reading side of a connection.
pub(super) enum Reader {
    Tcp(tcp::OwnedReadHalf),
    Unix(unix::OwnedReadHalf),
}

/// Bytes that are read at once, and with that the largest piece of a body.
const READ_BYTES: usize = 16 * 1024;

/// How often is looked whether a peer has gone of which nothing is read.
const HANG_UP_TIME: Duration = Duration::from_secs(1);

impl Listener {
    pub(super) fn bind(listen: &Listen) -> Result<Self, ServeError> {
        let failed = |error| ServeError::CannotListen { listen: listen.clone(), error };
        let mut file = None;
        let socket = match listen {
            Listen::Descriptor => inherited().map_err(failed)?,
            Listen::Tcp(address) => Socket::Tcp(std::net::TcpListener::bind(address).map_err(failed)?),
            Listen::Unix(path) => {
                let bound = rudy_socket_file::bind(path, None, BACKLOG);
                let (socket, made) = bound.map_err(|error| failed(error.into()))?;
                file = Some(made);
                Socket::Unix(socket)
            }
        };
        let peers = std::env::var(PEERS).ok().map(|list| peers(&list)).transpose()?;
        Ok(Self { file, socket, peers })
    }

    /// Where it listens, as [`Listen`] has it.
    pub(super) fn address(&self) -> Listen {
        match &self.socket {
            Socket::Tcp(socket) => socket.local_addr().map_or(Listen::Descriptor, Listen::Tcp),
            Socket::Unix(socket) => {
                let address = socket.local_addr().ok();
                let path = address.as_ref().and_then(|address| address.as_pathname());
                path.map_or(Listen::Descriptor, |path| Listen::Unix(path.to_owned()))
            }
        }
    }

    /// Goes on on the runtime that we are on.
    pub(super) fn start(self) -> io::Result<Acceptor> {
        let socket = match self.socket {
            Socket::Tcp(socket) => {
                socket.set_nonblocking(true)?;
                AsyncSocket::Tcp(tokio::net::TcpListener::from_std(socket)?)
            }
            Socket::Unix(socket) => {
                socket.set_nonblocking(true)?;
                AsyncSocket::Unix(tokio::net::UnixListener::from_std(socket)?)
            }
        };
        Ok(Acceptor { _file: self.file, socket, peers: self.peers })
    }
}

impl Acceptor {
    /// The next connection of somebody who may have one.
    pub(super) async fn accept(&self) -> io::Result<Halves> {
        loop {
            match &self.socket {
                AsyncSocket::Unix(socket) => {
                    let (stream, _) = socket.accept().await?;
                    let (read, write) = stream.into_split();
                    return Ok((Reader::Unix(read), Box::new(write)));
                }
                AsyncSocket::Tcp(socket) => {
                    let (stream, peer) = socket.accept().await?;
                    if self.peers.as_ref().is_some_and(|peers| !peers.contains(&peer.ip().to_canonical())) {
                        crate::say(&format!("{} may not connect: {PEERS} does not name it", peer.ip()));
                        continue;
                    }
                    // Answers are written as a whole, and none is to wait for the one before. It fails only if the peer has gone.
                    let _ = stream.set_nodelay(true);
                    let (read, write) = stream.into_split();
                    return Ok((Reader::Tcp(read), Box::new(write)));
                }
            }
        }
    }
}

impl Reader {
    /// Waits for something, and reads it; 0 is the end. There is a buffer for it only then: kept connections are idle most of
    /// the time.
    pub(super) async fn read(&mut self, buffer: &mut BytesMut) -> io::Result<usize> {
        loop {
            match self {
                Self::Tcp(half) => half.readable().await?,
                Self::Unix(half) => half.readable().await?,
            }
            buffer.reserve(READ_BYTES);
            let read = match self {
                Self::Tcp(half) => half.try_read_buf(buffer),
                Self::Unix(half) => half.try_read_buf(buffer),
            };
            match read {
                // It was ready no longer.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => return read,
            }
        }
    }

    /// Waits until the peer has closed, whatever of what it sent is unread: that is what keeps the readiness from telling. (By
    /// TCP an orderly end that does not fit into our window stays with the peer; a reset does not.)
    pub(super) async fn hung_up(&self) {
        loop {
            let ready = match self {
                Self::Tcp(half) => half.ready(Interest::READABLE).await,
                Self::Unix(half) => half.ready(Interest::READABLE).await,
            };
            if ready.is_ok_and(|ready| !ready.is_read_closed()) {
                tokio::time::sleep(HANG_UP_TIME).await;
            } else {
                return;
            }
        }
    }
}

/// The socket on descriptor 0. It is duplicated, so that the number stays taken.
fn inherited() -> io::Result<Socket> {
    let descriptor: OwnedFd = io::stdin().as_fd().try_clone_to_owned()?;
    let socket = UnixListener::from(descriptor);
    let is_unix = socket.local_addr();
    if is_unix.as_ref().is_err_and(|error| error.raw_os_error() == Some(ENOTSOCK)) {
        return Err(io::Error::other(
            "it is no socket: start the app from a web server, or give it an address to listen on",
        ));
    }
    let socket = match is_unix {
        Ok(_) => Socket::Unix(socket),
        Err(_) => Socket::Tcp(std::net::TcpListener::from(OwnedFd::from(socket))),
    };
    let has_peer = match &socket {
        Socket::Unix(socket) => UnixStream::from(socket.as_fd().try_clone_to_owned()?).peer_addr().is_ok(),
        Socket::Tcp(socket) => {
            std::net::TcpStream::from(socket.as_fd().try_clone_to_owned()?).peer_addr().is_ok()
        }
    };
    if has_peer {
        // Section 2.2 tells FastCGI from CGI so.
        return Err(io::Error::other("it is a connection, not a listening socket"));
    }
    Ok(socket)
}

/// What the system says of a descriptor that is no socket: the same number on all that we build for.
const ENOTSOCK: i32 = 88;

/// `FCGI_WEB_SERVER_ADDRS`: addresses with commas between them.
fn peers(list: &str) -> Result<Vec<IpAddr>, ServeError> {
    let parse = |address: &str| {
        let parsed: Result<IpAddr, _> = address.trim().parse();
        parsed
            .map(|address| address.to_canonical())
            .map_err(|_| ServeError::BadPeer { address: address.to_owned() })
    };
    list.split(',').map(parse).collect()
}

/// `unix:PATH`, or an address with a port.
impl FromStr for Listen {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.strip_prefix("unix:") {
            Some("") => Err("`unix:` needs the path of a socket behind it".to_owned()),
            Some(path) => Ok(Self::Unix(path.into())),
            None => text.parse().map(Self::Tcp).map_err(|_| {
                format!("`{text}` is no address: expected one as in `127.0.0.1:9000`, or `unix:PATH`")
            }),
        }
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Descriptor => f.write_str("descriptor 0"),
            Self::Tcp(address) => write!(f, "{address}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_what_is_none_is_named() {
        assert_eq!("unix:/run/app".parse(), Ok(Listen::Unix("/run/app".into())));
        assert_eq!("[::1]:9000".parse(), Ok(Listen::Tcp("[::1]:9000".parse().expect("an address"))));
        for wrong in ["localhost:9000", "9000", "unix:", ""] {
            assert!(wrong.parse::<Listen>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn those_who_may_connect_are_named_with_commas_between_them() {
        let addresses = peers("199.170.183.28, ::1,::ffff:10.0.0.1").expect("they are addresses");
        assert_eq!(
            addresses.iter().map(ToString::to_string).collect::<Vec<_>>(),
            ["199.170.183.28", "::1", "10.0.0.1"]
        );
        assert!(matches!(peers("localhost"), Err(ServeError::BadPeer { address }) if address == "localhost"));
        assert!(peers("").is_err());
    }

    #[test]
    fn a_socket_file_that_nobody_listens_on_is_replaced_and_another_is_not() {
        let folder = tempfile::tempdir().expect("a temp folder can be made");
        let path = folder.path().join("socket");
        drop(UnixListener::bind(&path).expect("a temp folder can hold a socket"));
        let listen = Listen::Unix(path.clone());
        let listener = Listener::bind(&listen).expect("the file is stale");
        assert_eq!(listener.address(), listen);
        assert!(matches!(Listener::bind(&listen), Err(ServeError::CannotListen { .. })));
    }

    #[test]
    fn a_file_that_is_no_socket_is_left_alone() {
        let folder = tempfile::tempdir().expect("a temp folder can be made");
        let path = folder.path().join("notes");
        std::fs::write(&path, "mine").expect("a temp folder can hold a file");
        let error = Listener::bind(&Listen::Unix(path.clone())).expect_err("it is no socket");
        assert!(error.to_string().contains("is not a socket"), "{error}");
        assert_eq!(std::fs::read(&path).expect("it is there"), b"mine");
    }

    #[test]
    fn only_the_socket_file_of_its_own_is_removed_with_a_listener() {
        let folder = tempfile::tempdir().expect("a temp folder can be made");
        let path = folder.path().join("socket");
        let listen = Listen::Unix(path.clone());
        let first = Listener::bind(&listen).expect("nothing is there");
        std::fs::remove_file(&path).expect("it is there");
        let second = Listener::bind(&listen).expect("nothing is there any more");
        drop(first);
        assert!(path.exists(), "it is another's");
        drop(second);
        assert!(!path.exists());
    }
}
