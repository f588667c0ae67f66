//! The versions of HTTP that a client offers, and the choice of one.

use std::io;
use std::sync::Arc;

use rustls::ClientConfig;

use crate::Failure;

const HTTP2: &[u8] = b"h2";
const HTTP1: &[u8] = b"http/1.1";

/// The versions of HTTP that a client offers to a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Protocols {
    /// HTTP/1.1, or HTTP/1.0.
    #[default]
    Http1,
    /// HTTP/2: with `https`, the server must choose it (ALPN); with `http`, it is used without a negotiation (prior knowledge).
    Http2,
    /// HTTP/3, over QUIC.
    Http3,
    /// With `https`, the server chooses HTTP/2 or HTTP/1.1; with `http`, HTTP/1.1 is used.
    Any,
}

impl Protocols {
    /// Whether each request may have a stream of its own: HTTP/2 or HTTP/3 can be chosen.
    #[must_use]
    pub fn may_have_streams(self) -> bool {
        self != Self::Http1
    }

    /// The TLS configuration with these protocols in ALPN.
    #[must_use]
    pub fn configure(self, config: Arc<ClientConfig>) -> Arc<ClientConfig> {
        let names: &[&[u8]] = match self {
            Self::Http1 | Self::Http3 => return config,
            Self::Http2 => &[HTTP2],
            Self::Any => &[HTTP2, HTTP1],
        };
        let mut config = ClientConfig::clone(&config);
        config.alpn_protocols = names.iter().map(|name| name.to_vec()).collect();
        Arc::new(config)
    }

    /// Whether a connection uses HTTP/2. `chosen` is the result of ALPN.
    pub fn choose_http2(self, is_secure: bool, chosen: Option<&[u8]>) -> Result<bool, Failure> {
        match (self, is_secure) {
            (Self::Http1 | Self::Http3, _) | (Self::Any, false) => Ok(false),
            (Self::Http2, false) => Ok(true),
            (_, true) if chosen == Some(HTTP2) => Ok(true),
            (Self::Any, true) => Ok(false),
            (Self::Http2, true) => {
                let reason = "the server does not support HTTP/2: its TLS did not choose h2 (ALPN)";
                Err(Failure::Tls(io::Error::other(reason)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn http_2_is_chosen_by_alpn_or_known_in_advance() {
        for (protocols, is_secure, chosen, expected) in [
            (Protocols::Http1, false, None, Some(false)),
            (Protocols::Http1, true, Some(HTTP1), Some(false)),
            (Protocols::Any, false, None, Some(false)),
            (Protocols::Any, true, None, Some(false)),
            (Protocols::Any, true, Some(HTTP1), Some(false)),
            (Protocols::Any, true, Some(HTTP2), Some(true)),
            (Protocols::Http2, false, None, Some(true)),
            (Protocols::Http2, true, Some(HTTP2), Some(true)),
            (Protocols::Http2, true, Some(HTTP1), None),
            (Protocols::Http2, true, None, None),
        ] {
            let result = protocols.choose_http2(is_secure, chosen);
            assert_eq!(result.ok(), expected, "{protocols:?} {is_secure} {chosen:?}");
        }
    }
}
