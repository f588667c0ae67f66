//! How a server is reached: its name looked up, its certificate judged.

use std::fmt;
use std::io;
use std::net::ToSocketAddrs;
use std::path::PathBuf;
use std::sync::Arc;

use rustls::ClientConfig;
use rustls::pki_types::ServerName;

use crate::Url;
use crate::link::{Remote, Security};
use crate::tls::{Trust, TrustError};

/// What the caller says about how servers are reached.
#[derive(Debug, Clone, Default)]
pub struct Access {
    /// Which certificates are accepted.
    pub trust: Trust,
    /// A socket in the file system to connect to, whatever the URL's host.
    pub unix_socket: Option<PathBuf>,
}

/// Where a server is.
#[derive(Debug, Clone)]
pub struct Route {
    /// Its addresses, in the order in which the system would have them tried. Never empty.
    pub remotes: Vec<Remote>,
    /// TLS, where the URL says so.
    pub security: Option<Security>,
}

/// Why a server cannot be reached, before a packet was sent to it.
#[derive(Debug)]
pub enum AccessError {
    /// Its name has no address.
    Lookup(String, io::Error),
    /// Its name cannot stand in a certificate.
    Name(String),
    /// No certificate could be judged.
    Trust(TrustError),
}

impl fmt::Display for AccessError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lookup(host, error) => {
                let error = error.to_string();
                let reason = error.strip_prefix("failed to lookup address information: ").unwrap_or(&error);
                write!(f, "no address for {host:?}: {reason}")
            }
            Self::Name(host) => write!(f, "{host:?} is no name that a certificate could have"),
            Self::Trust(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for AccessError {}

impl Access {
    /// Looks up where `url` is. To be called once for a server: what TLS remembers of it to resume sessions is in the route.
    pub fn route(&self, url: &Url) -> Result<Route, AccessError> {
        let remotes = match &self.unix_socket {
            Some(path) => vec![Remote::Unix(path.clone())],
            None => look_up(url.host(), url.port())?,
        };
        let security = if url.is_secure() { Some(self.security(url.host())?) } else { None };
        Ok(Route { remotes, security })
    }

    fn security(&self, host: &str) -> Result<Security, AccessError> {
        Security::of(self.trust.client_config().map_err(AccessError::Trust)?, host)
    }
}

impl Security {
    /// With a host that is a name or an address.
    pub(crate) fn of(config: Arc<ClientConfig>, host: &str) -> Result<Self, AccessError> {
        let name = ServerName::try_from(host.to_owned()).map_err(|_| AccessError::Name(host.to_owned()))?;
        Ok(Self { config, name })
    }
}

/// The addresses of a name, in the order of the system. Blocks as long as the system's resolver does.
pub(crate) fn look_up(host: &str, port: u16) -> Result<Vec<Remote>, AccessError> {
    let error = |error| AccessError::Lookup(host.to_owned(), error);
    let remotes: Vec<_> = (host, port).to_socket_addrs().map_err(error)?.map(Remote::Ip).collect();
    if remotes.is_empty() { Err(error(io::ErrorKind::NotFound.into())) } else { Ok(remotes) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_needs_no_lookup_and_a_name_that_nobody_has_is_said() {
        let route = Access::default().route(&"http://127.0.0.1:81/".parse().unwrap()).unwrap();
        assert_eq!(route.remotes, [Remote::Ip(([127, 0, 0, 1], 81).into())]);
        assert!(route.security.is_none());
        let error = Access::default().route(&"http://nobody.invalid/".parse().unwrap()).unwrap_err();
        assert!(error.to_string().starts_with("no address for \"nobody.invalid\": "), "{error}");
    }

    #[test]
    fn a_socket_in_the_file_system_stands_for_every_host() {
        let access = Access { unix_socket: Some("/run/a.sock".into()), ..Access::default() };
        let route = access.route(&"http://nobody.invalid/".parse().unwrap()).unwrap();
        assert_eq!(route.remotes, [Remote::Unix("/run/a.sock".into())]);
    }

    #[test]
    fn https_has_the_name_that_the_certificate_must_have() {
        let access = Access { trust: Trust::Anyone, ..Access::default() };
        for host in ["127.0.0.1", "[::1]"] {
            let route = access.route(&format!("https://{host}/").parse().unwrap()).unwrap();
            assert!(matches!(route.security.unwrap().name, ServerName::IpAddress(_)));
        }
    }
}
