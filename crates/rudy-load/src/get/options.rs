//! What the command line says.

use std::num::{NonZeroU32, NonZeroU64};
use std::path::PathBuf;
use std::time::Duration;

use http::{HeaderName, HeaderValue, Method};

use crate::get::proxy::Proxies;
use crate::{Access, Url};

/// Everything that `rudy get` can be told.
#[derive(Debug, Clone)]
pub struct Options {
    /// What to ask, in this order.
    pub urls: Vec<Url>,
    /// The method; `None` is GET, or POST with a body.
    pub method: Option<Method>,
    /// Fields of each request.
    pub fields: Vec<(HeaderName, HeaderValue)>,
    /// The body: a text, `@FILE`, or `@-` for standard input.
    pub body: Option<String>,
    /// HTTP/1.0 instead of HTTP/1.1.
    pub is_http_10: bool,
    /// Whether a connection may carry more than one request.
    pub keeps_alive: bool,
    /// How servers are reached.
    pub access: Access,
    /// What stands between us and them.
    pub proxies: Proxies,
    /// Redirects in a row that are followed. `None` follows none.
    pub redirects: Option<NonZeroU32>,
    /// How often the URLs are asked.
    pub repeat: NonZeroU64,
    /// Between one round and the next.
    pub interval: Duration,
    /// Whether a server that wants fewer requests is given time.
    pub backs_off: bool,
    /// For a whole answer, from the lookup on.
    pub timeout: Option<Duration>,
    /// For the lookup, connecting and TLS.
    pub connect_timeout: Option<Duration>,
    /// Where the body goes, instead of standard output.
    pub output: Option<PathBuf>,
    /// Whether the heads go there too.
    pub shows_head: bool,
    /// Whether a status from 400 on is an error, and its body left out.
    pub fails: bool,
    /// Whether the report is an object of JSON on standard output.
    pub is_json: bool,
    /// Whether there is no report.
    pub is_quiet: bool,
}
