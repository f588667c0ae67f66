//! The line between the connections below and the sites above.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;

use crate::close::Linger;
use crate::{Local, Reply, Request};

/// Answers requests. One value serves many connections at once, on every engine.
pub trait Service: Send + Sync + 'static {
    /// Answers one request. Must not block: what has to wait goes into [`Reply::Later`].
    fn call(&self, request: Request, client: &Client, local: &Local) -> Call;

    /// The limits for the next request of each connection. Shared, so that an exchange keeps them and not the service.
    fn limits(&self) -> &Arc<Limits>;

    /// A peer was refused before there was a request to answer (a bad head, a timeout); `reason` says why, in words.
    fn refused(&self, client: &Client, reason: &str, outcome: &Outcome);
}

/// What a service makes of a request: the reply, and who wants to know how it went.
pub struct Call {
    /// The answer, now or later.
    pub reply: Reply,
    /// Told once when the exchange is over, however it ended. `None` costs nothing.
    pub observer: Option<Box<dyn Observer>>,
}

/// Is told how an exchange went, once: the access log.
pub trait Observer: Send {
    /// The exchange is over.
    fn finished(self: Box<Self>, outcome: &Outcome);
}

/// How an exchange went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// The status sent, `None` where the peer was gone before there was one.
    pub status: Option<StatusCode>,
    /// Bytes of the answer's body, framing not counted: all that were sent, and of one that broke off also those that were
    /// ready to be.
    pub body_bytes: u64,
    /// From the whole request head to the first byte of the answer: what came before the answer.
    pub wait: Duration,
    /// From the whole request head to the last byte of the answer.
    pub duration: Duration,
    /// Whether it came to its end.
    pub ended: Ended,
}

/// Whether an answer came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// The whole answer was handed to the kernel.
    Complete,
    /// The peer went away.
    PeerGone,
    /// The peer did not read, or too slowly.
    PeerStalled,
    /// The body failed on our side after the answer had begun: it was cut.
    Cut,
    /// The server was stopped in the middle.
    Stopped,
}

/// Who is at the other end of a connection.
#[derive(Debug, Clone, Copy)]
pub struct Client {
    /// The other end.
    pub peer: Peer,
    /// Counts the connections of this process, from 1.
    pub number: u64,
    /// Counts the requests of the connection, from 1; 0 before the first.
    pub request: u64,
}

/// The address of the other end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peer {
    /// TCP.
    Ip(SocketAddr),
    /// A Unix socket: somebody on this machine whom the socket's permissions let in.
    Unix,
}

impl Peer {
    /// Whether the peer is on this machine.
    #[must_use]
    pub fn is_local(&self) -> bool {
        match self {
            Self::Ip(address) => address.ip().to_canonical().is_loopback(),
            Self::Unix => true,
        }
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(address) => SocketAddr::new(address.ip().to_canonical(), address.port()).fmt(f),
            Self::Unix => f.write_str("unix:"),
        }
    }
}

/// The limits of a server's connections, alone and taken together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// What holds for each connection by itself.
    pub http: rudy_http::Limits,
    /// Connections open at once; beyond it a new one is answered 503 and closed. `None`: as many as the descriptor limit
    /// leaves room for.
    pub connections: Option<usize>,
    /// Connections open at once from one address; off by default (`None`), because many people share one.
    pub connections_per_address: Option<usize>,
    /// How long a connection that is being closed may go on sending before it is dropped.
    pub linger_time: Duration,
    /// How many bytes it may go on sending.
    pub linger_bytes: u64,
}

impl Limits {
    /// What a close waits for.
    #[must_use]
    pub fn linger(&self) -> Linger {
        Linger { time: self.linger_time, bytes: self.linger_bytes }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            http: rudy_http::Limits::default(),
            connections: None,
            connections_per_address: None,
            linger_time: Duration::from_secs(5),
            // As much as a body may have: a client that sends one which nobody takes reads its answer only after it, and a
            // close before would be a reset that destroys the answer.
            linger_bytes: 16 * 1024 * 1024,
        }
    }
}
