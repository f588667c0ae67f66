//! The client of a request, and its connection.

use std::borrow::Cow;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, OnceLock};

use http::HeaderValue;
use http::uri::Scheme;
use rudy_message::RequestHead;
use rudy_tls::Tls;

use crate::listen_address::Address;
use crate::{LocalAddress, Observer};

/// The client of a request: the two ends of its connection, and its encryption.
#[derive(Debug, Clone)]
pub struct Client<'a> {
    /// The address of the peer: of the socket, or from the PROXY protocol header.
    pub peer: Peer,
    /// What a trusted proxy states about the request; `None` without a trusted proxy.
    pub forwarded: Option<Arc<Forwarded>>,
    /// The configured address of the listener that accepted the connection; `None` without a listener.
    pub listener: Option<Cow<'a, Arc<Address>>>,
    /// The address of the server.
    pub local_address: LocalAddress<'a>,
    /// The TLS session; `None` for an unencrypted connection.
    pub tls: Option<Arc<Tls>>,
    /// Number of the connection in this process, from 1.
    pub connection_number: u64,
    /// Number of the request on its connection, from 1; 0 before the first.
    pub request_number: u64,
    /// The observer of the exchange, for notes of the service. A service may set it as long as it handles the request for the first
    /// time. While an exchange with an observer waits, it is among the active exchanges of reports.
    pub observer: OnceLock<Arc<dyn Observer>>,
    /// The copy of the request's head, which what waits shares. From it, an exchange that waits without an observer gets one for a
    /// report: see [`Service::observe_waiting`](crate::Service::observe_waiting). Set under the same condition.
    pub head: OnceLock<Arc<RequestHead<'static>>>,
}

impl Client<'static> {
    /// Creates a client of which only the peer and these numbers are known.
    #[must_use]
    pub fn new(peer: Peer, connection_number: u64, request_number: u64) -> Self {
        Self {
            peer,
            forwarded: None,
            listener: None,
            local_address: LocalAddress::known(None),
            tls: None,
            connection_number,
            request_number,
            observer: OnceLock::new(),
            head: OnceLock::new(),
        }
    }
}

impl Client<'_> {
    /// Returns the address of the client: of the peer, or as a trusted proxy forwards it.
    #[must_use]
    pub fn address(&self) -> Peer {
        self.forwarded.as_ref().map_or(self.peer, |forwarded| forwarded.address)
    }

    /// Returns the scheme that the client used: of the connection, or as a trusted proxy forwards it.
    #[must_use]
    pub fn scheme(&self) -> Scheme {
        let of_connection = || if self.tls.is_some() { Scheme::HTTPS } else { Scheme::HTTP };
        let forwarded = self.forwarded.as_ref().and_then(|forwarded| forwarded.scheme.clone());
        forwarded.unwrap_or_else(of_connection)
    }

    /// Returns a copy that may outlive the connection. Queries the kernel for the local address unless it is
    /// cached.
    #[must_use]
    pub fn to_owned(&self) -> Client<'static> {
        let (forwarded, tls, observer) = (self.forwarded.clone(), self.tls.clone(), self.observer.clone());
        let head = self.head.clone();
        let listener = self.listener.clone().map(|listener| Cow::Owned(listener.into_owned()));
        let local_address = self.local_address.to_owned();
        Client { forwarded, listener, local_address, tls, observer, head, ..*self }
    }
}

/// The client of a forwarded request, as a trusted proxy states it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forwarded {
    /// The address of the client.
    pub address: Peer,
    /// The scheme that the client used, if the proxy forwards it.
    pub scheme: Option<Scheme>,
    /// The host that the client requested, if the proxy forwards it. It replaces the proxy's own `Host`.
    pub host: Option<HeaderValue>,
}

/// The address of a peer, or of a client behind a proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peer {
    /// TCP. The port is 0 if a proxy does not forward it.
    Ip(SocketAddr),
    /// A Unix socket: a local process that the socket's permissions allow.
    Unix,
    /// A client whose address a trusted proxy does not forward. The field is the proxy's address, or `None`
    /// for a proxy on a Unix socket. It is shown instead of the client's address, but gives the client none
    /// of the proxy's privileges.
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

    /// Returns the address to show; IPv4 addresses are never mapped to IPv6. `None` for a Unix socket.
    #[must_use]
    pub fn ip(&self) -> Option<IpAddr> {
        match self {
            Self::Ip(address) => Some(address.ip().to_canonical()),
            Self::Unix => None,
            Self::Unnamed(proxy) => proxy.map(|proxy| proxy.to_canonical()),
        }
    }

    /// Returns the port, if known.
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
