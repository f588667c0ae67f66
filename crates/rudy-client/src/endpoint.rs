//! The address of a member of an upstream.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rudy_pipeline::exchange::UpstreamName;
use tokio::time::timeout;

use super::name::Name;
use super::{Resolver, Socket, UpstreamAddress};

/// The address of a member. A name is one member with one limit, regardless of its number of addresses.
#[derive(Debug, Clone)]
pub enum Endpoint {
    /// An IP address and a port.
    Ip(SocketAddr),
    /// A Unix socket.
    Unix(Arc<UnixPath>),
    /// The addresses of a name.
    Name(Arc<Name>),
}

impl Endpoint {
    /// Creates the endpoint for an address. A name is not looked up yet.
    #[must_use]
    pub fn new(address: &UpstreamAddress, resolver: &Resolver) -> Self {
        match address {
            UpstreamAddress::Ip(address) => Self::Ip(*address),
            UpstreamAddress::Unix(path) => Self::Unix(Arc::new(path.clone().into())),
            UpstreamAddress::Name { host, port } => {
                Self::Name(Arc::new(Name::new(host, *port, resolver.clone())))
            }
        }
    }

    /// Opens a connection within `time`. All addresses of a name share this time.
    ///
    /// # Errors
    ///
    /// Nothing listens at the address, it accepts no connection in time, or there is no descriptor for the
    /// socket.
    pub async fn connect(&self, time: Duration) -> io::Result<Socket> {
        let connected = match self {
            Self::Ip(address) => timeout(time, Socket::connect(*address)).await,
            Self::Unix(path) => timeout(time, Socket::connect_unix(&path.0)).await,
            Self::Name(name) => return name.connect(time).await,
        };
        connected.unwrap_or_else(|_| {
            let why = format!("it accepts no connection within {time:?} (`connect_timeout`)");
            Err(io::Error::new(io::ErrorKind::TimedOut, why))
        })
    }

    /// Returns its addresses: of a name, those that it resolves to.
    pub fn addresses(&self) -> Vec<String> {
        match self {
            Self::Name(name) => name.addresses().iter().map(ToString::to_string).collect(),
            other => vec![other.to_string()],
        }
    }

    /// Returns whether this endpoint still has the address of a connection: that of a name may have changed.
    pub(super) fn still_has(&self, address: Option<SocketAddr>) -> bool {
        match (self, address) {
            (Self::Name(name), Some(address)) => name.has(address),
            _ => true,
        }
    }
}

impl From<Endpoint> for UpstreamName {
    fn from(endpoint: Endpoint) -> Self {
        match endpoint {
            Endpoint::Ip(address) => Self::Ip(address),
            Endpoint::Unix(path) => Self::Other(path),
            Endpoint::Name(name) => Self::Other(name),
        }
    }
}

/// The path of a Unix socket.
#[derive(Debug)]
pub struct UnixPath(PathBuf);

impl From<PathBuf> for UnixPath {
    fn from(path: PathBuf) -> Self {
        Self(path)
    }
}

impl fmt::Display for UnixPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unix:{}", self.0.display())
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(address) => address.fmt(f),
            Self::Unix(path) => path.fmt(f),
            Self::Name(name) => name.fmt(f),
        }
    }
}
