//! Why an app cannot be served.

use std::fmt;
use std::io;

use crate::Listen;

/// Why an app is not, or no longer, served.
#[derive(Debug)]
pub enum ServeError {
    /// The environment names somebody who may connect, and it is no address (`FCGI_WEB_SERVER_ADDRS`, section 3.2).
    BadPeer {
        /// What it names.
        address: String,
    },
    /// No connection can be accepted any more.
    CannotAccept {
        /// Where.
        listen: Listen,
        /// Why.
        error: io::Error,
    },
    /// The socket is no listening socket, or cannot be made.
    CannotListen {
        /// Where.
        listen: Listen,
        /// Why.
        error: io::Error,
    },
    /// No requests at once are allowed, so none would ever be answered.
    ZeroLimit,
}

impl fmt::Display for ServeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BadPeer { address } => {
                write!(f, "FCGI_WEB_SERVER_ADDRS names `{address}`, which is no IP address")
            }
            Self::CannotAccept { listen, error } => {
                write!(f, "cannot accept connections on {listen}: {error}")
            }
            Self::CannotListen { listen, error } => write!(f, "cannot listen on {listen}: {error}"),
            Self::ZeroLimit => f.write_str("at most 0 requests at once: at least one has to be allowed"),
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
