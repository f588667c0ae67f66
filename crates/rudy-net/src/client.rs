//! The client of a request, and its connection.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use http::HeaderValue;
use http::uri::Scheme;

use crate::LocalAddress;

/// The client of a request: both ends of its connection, and what secures it.
#[derive(Debug, Clone)]
pub struct Client<'a> {
    /// The other end: that of the socket, or the one that the connection's PROXY protocol header names.
    pub peer: Peer,
    /// What a trusted proxy says of the request; `None` where no proxy is believed.
    pub forwarded: Option<Arc<Forwarded>>,
    /// Our end.
    pub local_address: LocalAddress<'a>,
    /// What secures the connection; `None` where nothing does.
    pub tls: Option<Arc<Tls>>,
    /// Counts the connections of this process, from 1.
    pub connection_number: u64,
    /// Counts the requests of the connection, from 1; 0 before the first.
    pub request_number: u64,
}

impl Client<'static> {
    /// A client of whose connection nothing is known but its number and how many requests it has had.
    #[must_use]
    pub fn new(peer: Peer, connection_number: u64, request_number: u64) -> Self {
        Self {
            peer,
            forwarded: None,
            local_address: LocalAddress::known(None),
            tls: None,
            connection_number,
            request_number,
        }
    }
}

impl Client<'_> {
    /// Who sent the request: the peer, or the client for which a trusted proxy passed it on.
    #[must_use]
    pub fn address(&self) -> Peer {
        self.forwarded.as_ref().map_or(self.peer, |forwarded| forwarded.address)
    }

    /// The scheme that the client used: that of the connection, or the one that a trusted proxy names.
    #[must_use]
    pub fn scheme(&self) -> Scheme {
        let of_connection = || if self.tls.is_some() { Scheme::HTTPS } else { Scheme::HTTP };
        let forwarded = self.forwarded.as_ref().and_then(|forwarded| forwarded.scheme.clone());
        forwarded.unwrap_or_else(of_connection)
    }

    /// The same for longer than the connection is at hand. Asks the kernel for our end of it, if that was not done yet.
    #[must_use]
    pub fn to_owned(&self) -> Client<'static> {
        let (forwarded, tls) = (self.forwarded.clone(), self.tls.clone());
        Client { local_address: LocalAddress::known(self.local_address.get()), forwarded, tls, ..*self }
    }
}

/// What a trusted proxy says of a request that it passes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forwarded {
    /// The address of the client.
    pub address: Peer,
    /// The scheme that the client used, if the proxy names one.
    pub scheme: Option<Scheme>,
    /// The host that the client asked for, in place of the one that the proxy asks for.
    pub host: Option<HeaderValue>,
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

/// The address of the other end, or of a client behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peer {
    /// TCP. The port is 0 where a proxy does not name it.
    Ip(SocketAddr),
    /// A Unix socket: a process on this machine that the socket's permissions allow.
    Unix,
    /// A client that a trusted proxy does not name. The address is the proxy's, `None` where that uses a Unix socket: it is
    /// shown in place of the client's, and gives the client none of the proxy's rights.
    Unnamed(Option<IpAddr>),
}

impl Peer {
    /// Whether the peer is on this machine.
    #[must_use]
    pub fn is_local(&self) -> bool {
        match self {
            Self::Ip(address) => address.ip().to_canonical().is_loopback(),
            Self::Unix => true,
            Self::Unnamed(_) => false,
        }
    }

    /// The address to show, IPv4 as such even if it was mapped to IPv6. `None`: a Unix socket.
    #[must_use]
    pub fn ip(&self) -> Option<IpAddr> {
        match self {
            Self::Ip(address) => Some(address.ip().to_canonical()),
            Self::Unix => None,
            Self::Unnamed(proxy) => proxy.map(|proxy| proxy.to_canonical()),
        }
    }

    /// The port, if it is known.
    #[must_use]
    pub fn port(&self) -> Option<u16> {
        match self {
            Self::Ip(address) => Some(address.port()).filter(|port| *port != 0),
            Self::Unix | Self::Unnamed(_) => None,
        }
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(address) if address.port() == 0 => address.ip().to_canonical().fmt(f),
            Self::Ip(address) => SocketAddr::new(address.ip().to_canonical(), address.port()).fmt(f),
            Self::Unix => f.write_str("unix:"),
            Self::Unnamed(Some(proxy)) => write!(f, "unknown client of {}", proxy.to_canonical()),
            Self::Unnamed(None) => f.write_str("unknown client of unix:"),
        }
    }
}
