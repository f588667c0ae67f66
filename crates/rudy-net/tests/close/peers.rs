//! Peers, each with its own way to end a connection or to prevent its end.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use rudy_net::close::{CloseMode, LingerLimits, close};
use rudy_service::Limits;
use socket2::SockRef;
use tokio::io::{AsyncReadExt, AsyncWriteExt, Interest};
use tokio::net::{TcpSocket, TcpStream};

use crate::support::{LAST_REQUEST, REQUEST};

/// The behaviour of a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Peer {
    /// Sends a request, reads the response to the end, closes.
    RequestsOnce,
    /// Sends a request, and closes after the response, before the server does.
    ClosesFirst,
    /// Sends a request, closes its write side, and reads to the end.
    HalfCloses,
    /// Closes without a request.
    RequestsNothing,
    /// Resets between two requests.
    Resets,
    /// Resets during a response.
    ResetsInResponse,
    /// Closes during a response, with unread input.
    ClosesInResponse,
    /// Sends an invalid request.
    SendsGarbage,
    /// Requests a panic before the response.
    PanicsInHandler,
    /// Requests a panic during the response.
    PanicsInBody,
    /// Requests a failure during the response.
    FailsInBody,
    /// Sends a whole body that the server does not read, and then reads.
    Uploads,
    /// Sends an endless body that the server does not read.
    UploadsForever,
    /// Changes to another protocol, which the server ends.
    Upgrades,
    /// Changes to another protocol and closes unexpectedly, which makes the handler panic.
    ClosesUpgraded,
    /// Sends nothing.
    Silent,
    /// Does not complete its head.
    StallsInHead,
    /// Does not complete its body.
    StallsInBody,
    /// Does not read its response.
    NeverReads,
    /// Reads its response to the end, and does not close.
    NeverCloses,
}

/// The side that closes first, and so has the connection's `TIME_WAIT`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum First {
    Server,
    Client,
    /// A reset ends both sides.
    Neither,
}

impl Peer {
    /// Peers that end without a timeout.
    pub(crate) const PROMPT: [Self; 15] = [
        Self::RequestsOnce,
        Self::ClosesFirst,
        Self::HalfCloses,
        Self::RequestsNothing,
        Self::Resets,
        Self::ResetsInResponse,
        Self::ClosesInResponse,
        Self::SendsGarbage,
        Self::PanicsInHandler,
        Self::PanicsInBody,
        Self::FailsInBody,
        Self::Uploads,
        Self::UploadsForever,
        Self::Upgrades,
        Self::ClosesUpgraded,
    ];

    /// Peers that end by a timeout.
    pub(crate) const SLOW: [Self; 5] =
        [Self::Silent, Self::StallsInHead, Self::StallsInBody, Self::NeverReads, Self::NeverCloses];

    pub(crate) fn all() -> impl Iterator<Item = Self> {
        Self::PROMPT.into_iter().chain(Self::SLOW)
    }

    pub(crate) fn first(self) -> First {
        match self {
            Self::ClosesFirst | Self::HalfCloses | Self::RequestsNothing => First::Client,
            Self::Resets
            | Self::ResetsInResponse
            | Self::ClosesInResponse
            | Self::PanicsInBody
            | Self::ClosesUpgraded
            | Self::NeverReads => First::Neither,
            _ => First::Server,
        }
    }

    /// Returns the source address of the peer: one for each behaviour, to identify them in the kernel's
    /// table.
    pub(crate) fn address(self) -> IpAddr {
        IpAddr::from([127, 0, 1, self as u8 + 1])
    }

    /// Runs the peer. Returns the connection if the peer keeps it open.
    pub(crate) async fn run(self, server: SocketAddr) -> Option<TcpStream> {
        let stream = self.connect(server).await.unwrap();
        self.act(stream).await.unwrap_or_else(|error| panic!("{self:?}: {error}"))
    }

    async fn connect(self, server: SocketAddr) -> io::Result<TcpStream> {
        let socket = TcpSocket::new_v4()?;
        socket.bind(SocketAddr::new(self.address(), 0))?;
        socket.set_send_buffer_size(16 * 1024)?;
        socket.connect(server).await
    }

    async fn act(self, mut stream: TcpStream) -> io::Result<Option<TcpStream>> {
        let mut response = Vec::new();
        match self {
            Self::RequestsOnce | Self::NeverCloses => {
                // A server with short timeouts may have closed before the request.
                let _ = exchange(&mut stream, LAST_REQUEST, &mut response).await;
                assert!(response.ends_with(b"hello") || self == Self::NeverCloses);
                if self == Self::NeverCloses {
                    return Ok(Some(stream));
                }
            }
            Self::ClosesFirst => {
                stream.write_all(REQUEST).await?;
                read_until(&mut stream, b"hello").await?;
                // The client uses the same function, and waits for the server to close.
                close(stream, CloseMode::Linger, LONG).await;
                return Ok(None);
            }
            Self::HalfCloses => {
                stream.write_all(REQUEST).await?;
                stream.shutdown().await?;
                stream.read_to_end(&mut response).await?;
                assert!(response.ends_with(b"hello"));
            }
            Self::RequestsNothing => {}
            Self::Resets => {
                stream.write_all(REQUEST).await?;
                read_until(&mut stream, b"hello").await?;
                close(stream, CloseMode::Reset, LONG).await;
                return Ok(None);
            }
            Self::ResetsInResponse | Self::ClosesInResponse => {
                stream.write_all(b"GET /file HTTP/1.1\r\nHost: a\r\n\r\n").await?;
                stream.read_u8().await?;
                if self == Self::ResetsInResponse {
                    SockRef::from(&stream).set_linger(Some(Duration::ZERO))?;
                }
            }
            Self::SendsGarbage => {
                exchange(&mut stream, b"babble\r\n\r\n", &mut response).await?;
                assert!(response.starts_with(b"HTTP/1.1 400 "));
            }
            Self::PanicsInHandler => {
                exchange(&mut stream, b"GET /panic HTTP/1.1\r\nHost: a\r\n\r\n", &mut response).await?;
                assert!(response.starts_with(b"HTTP/1.1 500 "));
            }
            Self::FailsInBody => {
                exchange(&mut stream, b"GET /fail HTTP/1.1\r\nHost: a\r\n\r\n", &mut response).await?;
                assert!(response.ends_with(b"part\r\n"));
            }
            Self::PanicsInBody => {
                // Without chunks, the end would complete the body.
                let request = b"GET /panic-in-body HTTP/1.0\r\n\r\n";
                let error = exchange(&mut stream, request, &mut response).await.unwrap_err();
                assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
            }
            Self::Uploads => {
                let head = format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {UPLOAD_BYTES}\r\n\r\n");
                stream.write_all(head.as_bytes()).await?;
                exchange(&mut stream, &vec![b'x'; UPLOAD_BYTES], &mut response).await?;
                assert!(response.ends_with(b"hello"));
            }
            Self::UploadsForever => {
                stream.write_all(b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n").await?;
                let chunk = [b"1000\r\n".as_slice(), &[b'x'; 0x1000], b"\r\n"].concat();
                while stream.write_all(&chunk).await.is_ok() {}
            }
            Self::Upgrades | Self::ClosesUpgraded => {
                stream.write_all(UPGRADE).await?;
                read_until(&mut stream, b"\r\n\r\n").await?;
                if self == Self::Upgrades {
                    exchange(&mut stream, b"hello\n", &mut response).await?;
                    assert_eq!(response, b"HELLO\n");
                }
            }
            Self::Silent => {
                stream.read_to_end(&mut response).await?;
                assert!(response.is_empty());
            }
            Self::StallsInHead | Self::StallsInBody => {
                let head: &[u8] = b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nab";
                let length = if self == Self::StallsInHead { 30 } else { head.len() };
                // See above.
                let _ = exchange(&mut stream, &head[..length], &mut response).await;
                assert!(response.is_empty() || response.starts_with(b"HTTP/1.1 408 "));
            }
            Self::NeverReads => {
                stream.write_all(b"GET /file HTTP/1.1\r\nHost: a\r\n\r\n").await?;
                stream.ready(Interest::ERROR).await?;
            }
        }
        Ok(None)
    }
}

/// Much longer than any close in these tests.
pub(crate) const LONG: LingerLimits = LingerLimits {
    time: Duration::from_mins(10),
    bytes: u64::MAX,
    send_stall_timeout: Duration::from_mins(10),
    send_rate_min: 0,
    rate_grace: Duration::from_mins(10),
};

/// Larger than the server's drain limit and the socket buffers, smaller than the limit of a close.
const UPLOAD_BYTES: usize = 512 * 1024;

/// Limits with long timeouts.
pub(crate) fn patient() -> Limits {
    let long = Duration::from_mins(10);
    let mut limits =
        Limits { linger_timeout: long, linger_bytes: 2 * UPLOAD_BYTES as u64, ..Limits::default() };
    limits.http.drain_bytes = UPLOAD_BYTES as u64 / 8;
    (limits.http.head_timeout, limits.http.first_request_timeout, limits.http.idle_timeout) =
        (long, long, long);
    (limits.http.rate_grace, limits.http.send_stall_timeout) = (long, long);
    limits
}

const SHORT: Duration = Duration::from_millis(100);

/// Limits with short timeouts.
pub(crate) fn hasty() -> Limits {
    let mut limits = Limits { linger_timeout: SHORT, ..Limits::default() };
    (limits.http.head_timeout, limits.http.first_request_timeout, limits.http.idle_timeout) =
        (SHORT, SHORT, SHORT);
    (limits.http.rate_grace, limits.http.send_stall_timeout) = (SHORT, SHORT);
    limits
}

/// Limits with a short timeout for peers that do not read, and long ones otherwise.
pub(crate) fn hasty_to_send() -> Limits {
    let mut limits = patient();
    limits.http.send_stall_timeout = SHORT;
    limits
}

pub(crate) const UPGRADE: &[u8] =
    b"GET /upgrade HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: shout\r\n\r\n";

/// Sends `request` and reads to the end.
async fn exchange(stream: &mut TcpStream, request: &[u8], response: &mut Vec<u8>) -> io::Result<()> {
    stream.write_all(request).await?;
    stream.read_to_end(response).await?;
    Ok(())
}

pub(crate) async fn read_until(stream: &mut TcpStream, text: &[u8]) -> io::Result<()> {
    let mut bytes = Vec::new();
    while !bytes.ends_with(text) {
        bytes.push(stream.read_u8().await?);
    }
    Ok(())
}
