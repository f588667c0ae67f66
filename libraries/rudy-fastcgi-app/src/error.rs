//! Errors of an app's server.

use std::io;

use crate::Listen;

/// Why an app cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// `FCGI_WEB_SERVER_ADDRS` contains an invalid address (section 3.2).
    #[error("FCGI_WEB_SERVER_ADDRS contains `{address}`, which is not an IP address")]
    BadPeer {
        /// The invalid address.
        address: String,
    },
    /// Accepting connections failed.
    #[error("cannot accept connections on {listen}: {error}")]
    CannotAccept {
        /// The listen address.
        listen: Listen,
        /// The cause.
        #[source]
        error: io::Error,
    },
    /// The socket is not a listening socket, or cannot be created.
    #[error("cannot listen on {listen}: {error}")]
    CannotListen {
        /// The listen address.
        listen: Listen,
        /// The cause.
        #[source]
        error: io::Error,
    },
    /// The maximum number of connections or requests is 0.
    #[error("the maximum number of requests or connections is 0, expected at least 1")]
    ZeroLimit,
}
