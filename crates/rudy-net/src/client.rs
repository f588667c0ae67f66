//! The client of a request, and its connection.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use http::uri::Scheme;

use crate::Local;

/// The client of a request: both ends of its connection, and what secures it.
#[derive(Debug, Clone)]
pub struct Client<'a> {
    /// The other end.
    pub peer: Peer,
    /// Our end.
    pub local: Local<'a>,
    /// What secures the connection; `None` where nothing does.
    pub tls: Option<Arc<Tls>>,
    /// Counts the connections of this process, from 1.
    pub number: u64,
    /// Counts the requests of the connection, from 1; 0 before the first.
    pub request: u64,
}

impl Client<'static> {
    /// A client of whose connection nothing is known but its number and how many requests it has had.
    #[must_use]
    pub fn new(peer: Peer, number: u64, request: u64) -> Self {
        Self { peer, local: Local::known(None), tls: None, number, request }
    }
}

impl Client<'_> {
    /// The scheme of what is requested over the connection.
    #[must_use]
    pub fn scheme(&self) -> Scheme {
        if self.tls.is_some() { Scheme::HTTPS } else { Scheme::HTTP }
    }

    /// The same for longer than the connection is at hand. Asks the kernel for our end of it, if that was not done yet.
    #[must_use]
    pub fn to_owned(&self) -> Client<'static> {
        Client { local: Local::known(self.local.address()), tls: self.tls.clone(), ..*self }
    }
}

/// What the handshake of a TLS connection has led to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tls {
    /// The protocol's version, such as `TLSv1.3`.
    pub version: Box<str>,
    /// The cipher suite, such as `TLS_AES_128_GCM_SHA256`.
    pub cipher: Box<str>,
    /// The name that the client has asked for (RFC 6066 §3).
    pub server_name: Option<Box<str>>,
}

/// The address of the other end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peer {
    /// TCP.
    Ip(SocketAddr),
    /// A Unix socket: a process on this machine that the socket's permissions allow.
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
