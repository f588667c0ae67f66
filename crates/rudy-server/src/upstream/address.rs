//! Where an upstream listens.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

use crate::config::written_as_text;

/// The address of an upstream: `unix:/run/php/php-fpm.sock`, `127.0.0.1:9000` or `[::1]:9000`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum UpstreamAddress {
    /// An IP address and a port.
    Ip(SocketAddr),
    /// A Unix socket.
    Unix(PathBuf),
}

impl FromStr for UpstreamAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(path) = text.strip_prefix("unix:").filter(|path| !path.is_empty()) {
            return Ok(Self::Unix(path.into()));
        }
        let expected = "expected a socket, as in \"unix:/run/php/php-fpm.sock\", or an IP address and a port, as in \
                        \"127.0.0.1:9000\"";
        text.parse().map(Self::Ip).map_err(|_| expected.to_owned())
    }
}

written_as_text!(UpstreamAddress, "an address (\"127.0.0.1:9000\")",
    { "type": "string", "examples": ["unix:/run/php/php-fpm.sock", "127.0.0.1:9000", "[::1]:9000"] });

impl fmt::Display for UpstreamAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_read_as_it_is_written() {
        for text in ["unix:/run/php/php-fpm.sock", "127.0.0.1:9000", "[::1]:9000"] {
            assert_eq!(text.parse::<UpstreamAddress>().unwrap().to_string(), text);
        }
        for text in ["", "unix:", "localhost", "/run/app.sock", "127.0.0.1", "127.0.0.1:99999"] {
            assert!(text.parse::<UpstreamAddress>().unwrap_err().contains("unix:/run"), "{text}");
        }
    }
}
