//! Listening sockets: inherited, TCP or Unix.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::Duration;

use bytes::BytesMut;
use rudy_socket::file::SocketFile;
use tokio::io::{AsyncWrite, Interest};
use tokio::net::{tcp, unix};

use crate::{Listen, ServeError};

/// The environment variable with the addresses of permitted peers (section 3.2).
const PEERS: &str = "FCGI_WEB_SERVER_ADDRS";

/// Backlog of a Unix socket: the kernel's default limit (`net.core.somaxconn`). A web server opens many connections at once
/// when an app has just been restarted.
const BACKLOG: i32 = 4096;

/// A bound socket.
#[derive(Debug)]
pub(super) struct Listener {
    /// The socket file that we created. Dropped before the socket.
    file: Option<SocketFile>,
    socket: Socket,
    /// The peers that may connect by TCP, or `None` for all.
    peers: Option<Vec<IpAddr>>,
}

#[derive(Debug)]
enum Socket {
    Tcp(std::net::TcpListener),
    Unix(UnixListener),
}

/// A bound socket registered with the runtime.
pub(super) struct Acceptor {
    /// Dropped before the socket.
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

/// Size of a read, which is also the maximum size of a body piece.
const READ_BYTES: usize = 16 * 1024;

/// How often to check whether the peer has closed a connection that is not being read.
const CLOSE_POLL_INTERVAL: Duration = Duration::from_secs(1);

impl Listener {
    pub(super) fn bind(listen: &Listen) -> Result<Self, ServeError> {
        let failed = |error| ServeError::CannotListen { listen: listen.clone(), error };
        let mut file = None;
        let socket = match listen {
            Listen::Descriptor => inherited().map_err(failed)?,
            Listen::Tcp(address) => Socket::Tcp(std::net::TcpListener::bind(address).map_err(failed)?),
            Listen::Unix(path) => {
                let bound = rudy_socket::file::bind(path, None, BACKLOG);
                let (socket, made) = bound.map_err(|error| failed(error.into()))?;
                file = Some(made);
                Socket::Unix(socket)
            }
        };
        let peers = std::env::var(PEERS).ok().map(|list| peers(&list)).transpose()?;
        Ok(Self { file, socket, peers })
    }

    /// Returns the address on which the socket listens.
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

    /// Registers the socket with the current runtime.
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
    /// Accepts the next connection from a permitted peer.
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
                        crate::log(&format!(
                            "rejected a connection from {}: it is not in {PEERS}",
                            peer.ip()
                        ));
                        continue;
                    }
                    // A response is a complete write, so Nagle's algorithm would only delay it. Fails if the peer has gone.
                    let _ = stream.set_nodelay(true);
                    let (read, write) = stream.into_split();
                    return Ok((Reader::Tcp(read), Box::new(write)));
                }
            }
        }
    }
}

impl Reader {
    /// Waits for input and reads it. Returns 0 at the end. Allocates a buffer only when there is input, because open
    /// connections are idle most of the time.
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
                // A spurious wake-up.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => return read,
            }
        }
    }

    /// Waits until the peer has closed the connection. Polls, because unread input keeps the socket ready. Over TCP, an
    /// orderly close does not arrive while our receive window is full; a reset does.
    pub(super) async fn closed_by_peer(&self) {
        loop {
            let ready = match self {
                Self::Tcp(half) => half.ready(Interest::READABLE).await,
                Self::Unix(half) => half.ready(Interest::READABLE).await,
            };
            if ready.is_ok_and(|ready| !ready.is_read_closed()) {
                tokio::time::sleep(CLOSE_POLL_INTERVAL).await;
            } else {
                return;
            }
        }
    }
}

/// Returns the socket on descriptor 0. Duplicates it, so that the number stays in use.
fn inherited() -> io::Result<Socket> {
    let descriptor: OwnedFd = io::stdin().as_fd().try_clone_to_owned()?;
    let socket = UnixListener::from(descriptor);
    let is_unix = socket.local_addr();
    if is_unix.as_ref().is_err_and(|error| error.raw_os_error() == Some(ENOTSOCK)) {
        return Err(io::Error::other(
            "not a socket: start the app from a web server, or set an address to listen on",
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
        // The test in section 2.2 that distinguishes FastCGI from CGI.
        return Err(io::Error::other("a connection, not a listening socket"));
    }
    Ok(socket)
}

/// The error for a descriptor that is not a socket: the same number on all supported targets.
const ENOTSOCK: i32 = 88;

/// Parses `FCGI_WEB_SERVER_ADDRS`, a list of addresses separated by commas.
fn peers(list: &str) -> Result<Vec<IpAddr>, ServeError> {
    let parse = |address: &str| {
        let parsed: Result<IpAddr, _> = address.trim().parse();
        parsed
            .map(|address| address.to_canonical())
            .map_err(|_| ServeError::BadPeer { address: address.to_owned() })
    };
    list.split(',').map(parse).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permitted_peers_are_separated_by_commas() {
        let addresses = peers("199.170.183.28, ::1,::ffff:10.0.0.1").expect("the addresses are valid");
        assert_eq!(
            addresses.iter().map(ToString::to_string).collect::<Vec<_>>(),
            ["199.170.183.28", "::1", "10.0.0.1"]
        );
        assert!(matches!(peers("localhost"), Err(ServeError::BadPeer { address }) if address == "localhost"));
        assert!(peers("").is_err());
    }

    #[test]
    fn a_stale_socket_file_is_replaced_and_a_live_one_is_not() {
        let folder = tempfile::tempdir().expect("a temp folder can be created");
        let path = folder.path().join("socket");
        drop(UnixListener::bind(&path).expect("a temp folder can hold a socket"));
        let listen = Listen::Unix(path.clone());
        let listener = Listener::bind(&listen).expect("the file is stale");
        assert_eq!(listener.address(), listen);
        assert!(matches!(Listener::bind(&listen), Err(ServeError::CannotListen { .. })));
    }

    #[test]
    fn a_file_that_is_not_a_socket_is_kept() {
        let folder = tempfile::tempdir().expect("a temp folder can be created");
        let path = folder.path().join("notes");
        std::fs::write(&path, "text").expect("a temp folder can hold a file");
        let error = Listener::bind(&Listen::Unix(path.clone())).expect_err("the file is not a socket");
        assert!(error.to_string().contains("is not a socket"), "{error}");
        assert_eq!(std::fs::read(&path).expect("the file exists"), b"text");
    }

    #[test]
    fn a_listener_removes_only_its_own_socket_file() {
        let folder = tempfile::tempdir().expect("a temp folder can be created");
        let path = folder.path().join("socket");
        let listen = Listen::Unix(path.clone());
        let first = Listener::bind(&listen).expect("the path is free");
        std::fs::remove_file(&path).expect("the file exists");
        let second = Listener::bind(&listen).expect("the path is free again");
        drop(first);
        assert!(path.exists(), "the file belongs to the second listener");
        drop(second);
        assert!(!path.exists());
    }
}
