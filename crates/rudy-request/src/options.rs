//! How requests are sent.

use std::num::NonZeroU32;
use std::time::Duration;

use crate::{Access, Protocols};

/// How a [`Session`](crate::Session) sends requests.
#[derive(Debug, Clone)]
pub struct Options {
    /// The protocols to offer.
    pub protocols: Protocols,
    /// Whether connections are reused.
    pub keeps_alive: bool,
    /// The trusted certificates, or a Unix socket.
    pub access: Access,
    /// Maximum number of consecutive redirects; `None` follows none. The body of a redirect that is followed is not written.
    pub redirects: Option<NonZeroU32>,
    /// Timeout of the whole request, including the name lookup.
    pub timeout: Option<Duration>,
    /// Timeout of name lookup, connection and TLS handshake.
    pub connect_timeout: Option<Duration>,
    /// Whether the heads of responses are written too.
    pub shows_head: bool,
    /// Whether a status of 400 or above is an error whose body is omitted.
    pub fails: bool,
}

impl Default for Options {
    /// HTTP/1.1 without timeouts and redirects, over connections that can be reused.
    fn default() -> Self {
        Self {
            protocols: Protocols::default(),
            keeps_alive: true,
            access: Access::default(),
            redirects: None,
            timeout: None,
            connect_timeout: None,
            shows_head: false,
            fails: false,
        }
    }
}
