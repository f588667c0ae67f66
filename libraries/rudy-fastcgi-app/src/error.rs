//! Errors of an app's server.

use std::fmt;
use std::io;

use crate::Listen;

/// Why an app cannot be served.
#[derive(Debug)]
pub enum ServeError {
    /// `FCGI_WEB_SERVER_ADDRS` contains an invalid address (section 3.2).
    BadPeer {
        /// The invalid address.
        address: String,
    },
    /// Accepting connections failed.
    CannotAccept {
        /// The listen address.
        listen: Listen,
        /// The cause.
        error: io::Error,
    },
    /// The socket is not a listening socket, or cannot be created.
    CannotListen {
        /// The listen address.
        listen: Listen,
        /// The cause.
        error: io::Error,
    },
    /// The maximum number of connections or requests is 0.
    ZeroLimit,
}

impl fmt::Display for ServeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BadPeer { address } => {
                write!(f, "FCGI_WEB_SERVER_ADDRS contains `{address}`, which is not an IP address")
            }
            Self::CannotAccept { listen, error } => {
                write!(f, "cannot accept connections on {listen}: {error}")
            }
            Self::CannotListen { listen, error } => write!(f, "cannot listen on {listen}: {error}"),
            Self::ZeroLimit => {
                f.write_str("the maximum number of requests or connections is 0, expected at least 1")
            }
        }
    }
}

impl std::error::Error for ServeError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::CannotAccept { error, .. } | Self::CannotListen { error, .. } => Some(error),
            Self::BadPeer { .. } | Self::ZeroLimit => None,
        }
    }
}
