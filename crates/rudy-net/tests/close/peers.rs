//! Peers, each with its own way to end a connection or to keep it from ending.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use rudy_net::Limits;
use rudy_net::close::{CloseMode, LingerLimits, close};
use socket2::SockRef;
use tokio::io::{AsyncReadExt, AsyncWriteExt, Interest};
use tokio::net::{TcpSocket, TcpStream};

use crate::support::{LAST_REQUEST, REQUEST};

/// What a peer does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Peer {
    /// Asks for one answer, reads it to the end, closes.
    AsksOnce,
    /// Asks, and closes when it has its answer, before the server would.
    ClosesFirst,
    /// Asks, says that this was all, and reads to the end.
    HalfCloses,
    /// Closes before it has asked.
    AsksNothing,
    /// Resets between two requests.
    Resets,
    /// Resets in the middle of an answer.
    ResetsInAnswer,
    /// Closes in the middle of an answer, with some of it unread.
    ClosesInAnswer,
    /// Sends what is no request.
    Babbles,
    /// Asks for what panics before there is an answer.
    MeetsPanic,
    /// Asks for what panics in the middle of the answer.
    MeetsPanicInBody,
    /// Asks for what fails in the middle of the answer.
    MeetsFault,
    /// Sends a body that nobody wants, all of it, and then reads.
    Uploads,
    /// Sends a body that nobody wants, for ever.
    UploadsForEver,
    /// Goes on in another protocol, which the server ends.
    Upgrades,
    /// Goes on in another protocol and closes in the middle, which the other side does not expect: it panics.
    ClosesUpgraded,
    /// Says nothing.
    Silent,
    /// Does not end its head.
    StallsInHead,
    /// Does not end its body.
    StallsInBody,
    /// Does not read its answer.
    NeverReads,
    /// Reads its answer to the end, and does not close.
    NeverCloses,
}

/// Who closes first, and so has the connection's `TIME_WAIT`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum First {
    Server,
    Client,
    /// A reset ends it for both.
    Nobody,
}

impl Peer {
    /// Those who come to their end by themselves.
    pub(crate) const PROMPT: [Self; 15] = [
        Self::AsksOnce,
        Self::ClosesFirst,
        Self::HalfCloses,
        Self::AsksNothing,
        Self::Resets,
        Self::ResetsInAnswer,
        Self::ClosesInAnswer,
        Self::Babbles,
        Self::MeetsPanic,
        Self::MeetsPanicInBody,
        Self::MeetsFault,
        Self::Uploads,
        Self::UploadsForEver,
        Self::Upgrades,
        Self::ClosesUpgraded,
    ];

    /// Those whose time has to run out.
    pub(crate) const SLOW: [Self; 5] =
        [Self::Silent, Self::StallsInHead, Self::StallsInBody, Self::NeverReads, Self::NeverCloses];

    pub(crate) fn all() -> impl Iterator<Item = Self> {
        Self::PROMPT.into_iter().chain(Self::SLOW)
    }

    pub(crate) fn first(self) -> First {
        match self {
            Self::ClosesFirst | Self::HalfCloses | Self::AsksNothing => First::Client,
            Self::Resets
            | Self::ResetsInAnswer
            | Self::ClosesInAnswer
            | Self::MeetsPanicInBody
            | Self::MeetsFault
            | Self::ClosesUpgraded
            | Self::NeverReads => First::Nobody,
            _ => First::Server,
        }
    }

    /// The address that it comes from: its own, so that the kernel's table tells the peers apart.
    pub(crate) fn address(self) -> IpAddr {
        IpAddr::from([127, 0, 1, self as u8 + 1])
    }

    /// Meets the server. Returns what it keeps open.
    pub(crate) async fn meet(self, server: SocketAddr) -> Option<TcpStream> {
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
        let mut answer = Vec::new();
        match self {
            Self::AsksOnce | Self::NeverCloses => {
                // A server that is in a hurry may have closed before it was asked.
                let _ = exchange(&mut stream, LAST_REQUEST, &mut answer).await;
                assert!(answer.ends_with(b"hello") || self == Self::NeverCloses);
                if self == Self::NeverCloses {
                    return Ok(Some(stream));
                }
            }
            Self::ClosesFirst => {
                stream.write_all(REQUEST).await?;
                read_until(&mut stream, b"hello").await?;
                // The other side of the same function: it waits for the server to close.
                close(stream, CloseMode::Linger, LONG).await;
                return Ok(None);
            }
            Self::HalfCloses => {
                stream.write_all(REQUEST).await?;
                stream.shutdown().await?;
                stream.read_to_end(&mut answer).await?;
                assert!(answer.ends_with(b"hello"));
            }
            Self::AsksNothing => {}
            Self::Resets => {
                stream.write_all(REQUEST).await?;
                read_until(&mut stream, b"hello").await?;
                close(stream, CloseMode::Reset, LONG).await;
                return Ok(None);
            }
            Self::ResetsInAnswer | Self::ClosesInAnswer => {
                stream.write_all(b"GET /file HTTP/1.1\r\nHost: a\r\n\r\n").await?;
                stream.read_u8().await?;
                if self == Self::ResetsInAnswer {
                    SockRef::from(&stream).set_linger(Some(Duration::ZERO))?;
                }
            }
            Self::Babbles => {
                exchange(&mut stream, b"babble\r\n\r\n", &mut answer).await?;
                assert!(answer.starts_with(b"HTTP/1.1 400 "));
            }
            Self::MeetsPanic => {
                exchange(&mut stream, b"GET /panic HTTP/1.1\r\nHost: a\r\n\r\n", &mut answer).await?;
                assert!(answer.starts_with(b"HTTP/1.1 500 "));
            }
            Self::MeetsPanicInBody | Self::MeetsFault => {
                let path = if self == Self::MeetsFault { "fail" } else { "panic-in-body" };
                let request = format!("GET /{path} HTTP/1.1\r\nHost: a\r\n\r\n");
                let error = exchange(&mut stream, request.as_bytes(), &mut answer).await.unwrap_err();
                assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
            }
            Self::Uploads => {
                let head = format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {UPLOAD_BYTES}\r\n\r\n");
                stream.write_all(head.as_bytes()).await?;
                exchange(&mut stream, &vec![b'x'; UPLOAD_BYTES], &mut answer).await?;
                assert!(answer.ends_with(b"hello"));
            }
            Self::UploadsForEver => {
                stream.write_all(b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n").await?;
                let chunk = [b"1000\r\n".as_slice(), &[b'x'; 0x1000], b"\r\n"].concat();
                while stream.write_all(&chunk).await.is_ok() {}
            }
            Self::Upgrades | Self::ClosesUpgraded => {
                stream.write_all(UPGRADE).await?;
                read_until(&mut stream, b"\r\n\r\n").await?;
                if self == Self::Upgrades {
                    exchange(&mut stream, b"hello\n", &mut answer).await?;
                    assert_eq!(answer, b"HELLO\n");
                }
            }
            Self::Silent => {
                stream.read_to_end(&mut answer).await?;
                assert!(answer.is_empty());
            }
            Self::StallsInHead | Self::StallsInBody => {
                let head: &[u8] = b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nab";
                let length = if self == Self::StallsInHead { 30 } else { head.len() };
                // As above.
                let _ = exchange(&mut stream, &head[..length], &mut answer).await;
                assert!(answer.is_empty() || answer.starts_with(b"HTTP/1.1 408 "));
            }
            Self::NeverReads => {
                stream.write_all(b"GET /file HTTP/1.1\r\nHost: a\r\n\r\n").await?;
                stream.ready(Interest::ERROR).await?;
            }
        }
        Ok(None)
    }
}

/// Much more than a close takes here.
const LONG: LingerLimits = LingerLimits { time: Duration::from_mins(10), bytes: u64::MAX };

/// More than is read for the next request's sake and than the sockets hold, and less than a close reads.
const UPLOAD_BYTES: usize = 512 * 1024;

/// Nobody's time runs out here.
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

/// Everybody's time runs out here.
pub(crate) fn hasty() -> Limits {
    let mut limits = Limits { linger_timeout: SHORT, ..Limits::default() };
    (limits.http.head_timeout, limits.http.first_request_timeout, limits.http.idle_timeout) =
        (SHORT, SHORT, SHORT);
    (limits.http.rate_grace, limits.http.send_stall_timeout) = (SHORT, SHORT);
    limits
}

/// The time of those who do not read runs out here, and of no others: however long it takes them to ask.
pub(crate) fn hasty_to_send() -> Limits {
    let mut limits = patient();
    limits.http.send_stall_timeout = SHORT;
    limits
}

pub(crate) const UPGRADE: &[u8] =
    b"GET /upgrade HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: shout\r\n\r\n";

/// Sends `request` and reads to the end.
async fn exchange(stream: &mut TcpStream, request: &[u8], answer: &mut Vec<u8>) -> io::Result<()> {
    stream.write_all(request).await?;
    stream.read_to_end(answer).await?;
    Ok(())
}

pub(crate) async fn read_until(stream: &mut TcpStream, text: &[u8]) -> io::Result<()> {
    let mut bytes = Vec::new();
    while !bytes.ends_with(text) {
        bytes.push(stream.read_u8().await?);
    }
    Ok(())
}
