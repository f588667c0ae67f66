//! The options of `rudy get`.

use std::num::{NonZeroU32, NonZeroU64};
use std::path::PathBuf;
use std::time::Duration;

use http::{HeaderName, HeaderValue, Method};

use crate::{Access, Protocols, Url};

/// The options of `rudy get`.
#[derive(Debug, Clone)]
pub struct Options {
    /// URLs to fetch, in this order.
    pub urls: Vec<Url>,
    /// The method; `None` is GET, or POST with a body.
    pub method: Option<Method>,
    /// Header fields of each request.
    pub fields: Vec<(HeaderName, HeaderValue)>,
    /// The body: text, `@FILE`, or `@-` for standard input.
    pub body: Option<String>,
    /// HTTP/1.0 instead of HTTP/1.1.
    pub is_http_10: bool,
    /// The protocols to offer.
    pub protocols: Protocols,
    /// Whether connections are reused.
    pub keeps_alive: bool,
    /// The trusted certificates, or a Unix socket.
    pub access: Access,
    /// An environment variable that sets a proxy, which is not used.
    pub proxy_variable: Option<&'static str>,
    /// Maximum number of consecutive redirects; `None` follows none.
    pub redirects: Option<NonZeroU32>,
    /// Number of times to fetch the URLs.
    pub repeat: NonZeroU64,
    /// The pause between repetitions.
    pub interval: Duration,
    /// Whether to wait when a server asks for fewer requests.
    pub backs_off: bool,
    /// Timeout of the whole request, including the name lookup.
    pub timeout: Option<Duration>,
    /// Timeout of name lookup, connection and TLS handshake.
    pub connect_timeout: Option<Duration>,
    /// The file for bodies, instead of standard output.
    pub output: Option<PathBuf>,
    /// Whether the heads of responses are written too.
    pub shows_head: bool,
    /// Whether a status of 400 or above is an error whose body is omitted.
    pub fails: bool,
    /// Whether the report is a JSON object on standard output.
    pub is_json: bool,
    /// Whether to suppress the report.
    pub is_quiet: bool,
}

impl Options {
    /// One GET request without timeouts, whose connection can be reused, and no report.
    pub(crate) fn new(url: Url) -> Self {
        Self {
            urls: vec![url],
            method: None,
            fields: Vec::new(),
            body: None,
            is_http_10: false,
            protocols: Protocols::default(),
            keeps_alive: true,
            access: Access::default(),
            proxy_variable: None,
            redirects: None,
            repeat: NonZeroU64::MIN,
            interval: Duration::ZERO,
            backs_off: true,
            timeout: None,
            connect_timeout: None,
            output: None,
            shows_head: false,
            fails: false,
            is_json: false,
            is_quiet: true,
        }
    }
}
