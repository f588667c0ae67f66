//! Addresses to listen on.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

/// Where an app listens.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Listen {
    /// The socket on descriptor 0, which the parent process has opened (Unix or TCP, section 2.2).
    #[default]
    Descriptor,
    /// A TCP address. Port 0 selects any free port.
    Tcp(SocketAddr),
    /// A Unix socket. Replaces a stale socket file, on which no process listens.
    Unix(PathBuf),
}

/// Parses `unix:PATH` or an IP address with a port.
impl FromStr for Listen {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.strip_prefix("unix:") {
            Some("") => Err("`unix:` needs the path of a socket, such as `unix:/run/app.sock`".to_owned()),
            Some(path) => Ok(Self::Unix(path.into())),
            None => text.parse().map(Self::Tcp).map_err(|_| {
                format!("`{text}` is not an address: expected one such as `127.0.0.1:9000`, or `unix:PATH`")
            }),
        }
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Descriptor => f.write_str("descriptor 0"),
            Self::Tcp(address) => write!(f, "{address}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_parsed_and_invalid_ones_rejected() {
        assert_eq!("unix:/run/app".parse(), Ok(Listen::Unix("/run/app".into())));
        assert_eq!("[::1]:9000".parse(), Ok(Listen::Tcp("[::1]:9000".parse().expect("an address"))));
        for invalid in ["localhost:9000", "9000", "unix:", ""] {
            assert!(invalid.parse::<Listen>().is_err(), "{invalid}");
        }
    }
}
