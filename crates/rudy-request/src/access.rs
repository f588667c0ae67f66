//! Name lookup and TLS setup for a server.

use std::fmt;
use std::io;
use std::net::ToSocketAddrs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;
use rustls::client::Resumption;
use rustls::pki_types::ServerName;

use crate::sessions::SessionStore;
use crate::{Protocols, Relay, Remote, Security, Trust, TrustError, Url};

/// The trusted certificates of servers, and the Unix socket to connect to instead of the host.
#[derive(Debug, Clone, Default)]
pub struct Access {
    /// The certificates to accept.
    pub trust: Trust,
    /// A Unix socket to connect to, instead of the URL's host.
    pub unix_socket: Option<PathBuf>,
    /// What TLS remembers of earlier connections.
    pub sessions: Sessions,
    /// The round-trip time that a relay simulates; `None` connects directly.
    pub round_trip: Option<Duration>,
}

/// What TLS remembers of earlier connections to a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Sessions {
    /// Resumes sessions.
    #[default]
    Resumed,
    /// Resumes sessions, and sends the request with the first message of the handshake.
    EarlyData,
    /// Each handshake is a full one.
    Full,
}

impl Sessions {
    /// The name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Resumed => "resumed",
            Self::EarlyData => "early_data",
            Self::Full => "full",
        }
    }

    fn configure(self, config: Arc<ClientConfig>) -> Arc<ClientConfig> {
        let mut config = Arc::unwrap_or_clone(config);
        config.resumption = match self {
            Self::Full => Resumption::disabled(),
            Self::Resumed | Self::EarlyData => Resumption::store(Arc::new(SessionStore::default())),
        };
        config.enable_early_data = self == Self::EarlyData;
        Arc::new(config)
    }
}

/// The addresses of a server, and its TLS configuration.
#[derive(Debug, Clone)]
pub struct Route {
    /// The addresses in the order of the system's resolver. Never empty.
    pub remotes: Vec<Remote>,
    /// TLS, for an `https` URL.
    pub security: Option<Security>,
    /// The relay that the remotes lead to; keep it while they are used.
    pub relay: Option<Arc<Relay>>,
}

/// The error of a server whose address or TLS configuration is not available.
#[derive(Debug)]
pub enum AccessError {
    /// The name has no address.
    Lookup(String, io::Error),
    /// The name is not valid in a certificate.
    Name(String),
    /// The trusted certificates cannot be loaded.
    Trust(TrustError),
    /// The relay cannot be started.
    Relay(io::Error),
}

impl fmt::Display for AccessError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lookup(host, error) => {
                let error = error.to_string();
                let reason = error.strip_prefix("failed to lookup address information: ").unwrap_or(&error);
                write!(f, "no address for {host:?}: {reason}")
            }
            Self::Name(host) => write!(f, "{host:?} is not a valid name for a certificate"),
            Self::Trust(error) => error.fmt(f),
            Self::Relay(error) => write!(f, "cannot start the relay of --round-trip: {error}"),
        }
    }
}

impl std::error::Error for AccessError {}

impl Access {
    /// Looks up the addresses of the server of `url`. Call it once per server: the route holds the TLS session cache.
    pub fn route(&self, url: &Url) -> Result<Route, AccessError> {
        let remotes = match &self.unix_socket {
            Some(path) => vec![Remote::Unix(path.clone())],
            None => look_up(url.host(), url.port())?,
        };
        let security = if url.is_secure() { Some(self.security(url.host())?) } else { None };
        let (remotes, relay) = self.relayed(remotes)?;
        Ok(Route { remotes, security, relay })
    }

    /// The remotes behind a relay, if a round-trip time is simulated.
    pub fn relayed(&self, remotes: Vec<Remote>) -> Result<(Vec<Remote>, Option<Arc<Relay>>), AccessError> {
        match (self.round_trip, remotes.first()) {
            (Some(round_trip), Some(Remote::Ip(address))) => {
                let relay = Relay::start(*address, round_trip).map_err(AccessError::Relay)?;
                Ok((vec![Remote::Ip(relay.address())], Some(Arc::new(relay))))
            }
            _ => Ok((remotes, None)),
        }
    }

    fn security(&self, host: &str) -> Result<Security, AccessError> {
        let config = self.trust.client_config().map_err(AccessError::Trust)?;
        Security::new(self.sessions.configure(config), host)
    }
}

impl Security {
    /// The parameters for a host, which is a name or an IP address.
    pub fn new(config: Arc<ClientConfig>, host: &str) -> Result<Self, AccessError> {
        let name = ServerName::try_from(host.to_owned()).map_err(|_| AccessError::Name(host.to_owned()))?;
        Ok(Self { config, name })
    }

    /// The parameters with these protocols in ALPN.
    #[must_use]
    pub fn offering(self, protocols: Protocols) -> Self {
        Self { config: protocols.configure(self.config), ..self }
    }
}

/// Looks up the addresses of a name, in the order of the system's resolver. Blocks until the resolver returns.
pub(crate) fn look_up(host: &str, port: u16) -> Result<Vec<Remote>, AccessError> {
    let error = |error| AccessError::Lookup(host.to_owned(), error);
    let remotes: Vec<_> = (host, port).to_socket_addrs().map_err(error)?.map(Remote::Ip).collect();
    if remotes.is_empty() { Err(error(io::ErrorKind::NotFound.into())) } else { Ok(remotes) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ip_address_is_used_as_it_is_and_an_unknown_name_is_an_error() {
        let route = Access::default().route(&"http://127.0.0.1:81/".parse().unwrap()).unwrap();
        assert_eq!(route.remotes, [Remote::Ip(([127, 0, 0, 1], 81).into())]);
        assert!(route.security.is_none());
        let error = Access::default().route(&"http://unknown.invalid/".parse().unwrap()).unwrap_err();
        assert!(error.to_string().starts_with("no address for \"unknown.invalid\": "), "{error}");
    }

    #[test]
    fn a_unix_socket_replaces_every_host() {
        let access = Access { unix_socket: Some("/run/a.sock".into()), ..Access::default() };
        let route = access.route(&"http://unknown.invalid/".parse().unwrap()).unwrap();
        assert_eq!(route.remotes, [Remote::Unix("/run/a.sock".into())]);
    }

    #[test]
    fn https_checks_the_certificate_for_an_ip_address() {
        let access = Access { trust: Trust::All, ..Access::default() };
        for host in ["127.0.0.1", "[::1]"] {
            let route = access.route(&format!("https://{host}/").parse().unwrap()).unwrap();
            assert!(matches!(route.security.unwrap().name, ServerName::IpAddress(_)));
        }
    }
}
