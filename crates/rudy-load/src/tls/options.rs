//! The options of `rudy tls`.

use std::path::PathBuf;
use std::time::Duration;

use rudy_request::{Access, Url, UrlError};

/// The options of `rudy tls`.
#[derive(Debug, Clone)]
pub struct Options {
    /// The server, as an `https` URL.
    pub server: Url,
    /// The name to send (SNI), for which the certificate must be valid; `None` is the host.
    pub server_name: Option<String>,
    /// The server to connect to instead.
    pub connect: Option<Url>,
    /// The trusted certificates, or a Unix socket.
    pub access: Access,
    /// Files with revocation lists.
    pub revocation_lists: Vec<PathBuf>,
    /// A certificate that expires within this time is a problem.
    pub expires_within: Option<Duration>,
    /// Timeout of each connection, from the name lookup to the response.
    pub timeout: Duration,
    /// Whether the report is JSON.
    pub is_json: bool,
}

/// Parses `HOST[:PORT]`, or an `https` URL.
///
/// # Errors
///
/// The text is neither.
pub fn parse_server(text: &str) -> Result<Url, UrlError> {
    let url: Url = if text.contains("://") { text.parse()? } else { format!("https://{text}").parse()? };
    if url.is_secure() { Ok(url) } else { Err(UrlError::new(text, "TLS needs https")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_a_host_and_a_port_or_an_https_url() {
        for (text, expected) in [
            ("example.org", "example.org:443"),
            ("example.org:8443", "example.org:8443"),
            ("[::1]:8443", "[::1]:8443"),
            ("https://example.org/a", "example.org:443"),
        ] {
            assert_eq!(parse_server(text).unwrap().host_and_port(), expected);
        }
        for text in ["http://example.org/", "", "a b"] {
            assert!(parse_server(text).is_err(), "{text}");
        }
    }
}
