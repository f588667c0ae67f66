//! The options of `rudy get`.

use std::num::NonZeroU64;
use std::path::PathBuf;
use std::time::Duration;

use http::{HeaderName, HeaderValue, Method};
use rudy_request::Url;

/// The options of `rudy get`.
#[derive(Debug, Clone)]
pub struct Options {
    /// How requests are sent.
    pub requests: rudy_request::Options,
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
    /// An environment variable that sets a proxy, which is not used.
    pub proxy_variable: Option<&'static str>,
    /// Number of times to fetch the URLs.
    pub repeat: NonZeroU64,
    /// The pause between repetitions.
    pub interval: Duration,
    /// Whether to wait when a server asks for fewer requests.
    pub backs_off: bool,
    /// The file for bodies, instead of standard output.
    pub output: Option<PathBuf>,
    /// Whether the report is a JSON object on standard output.
    pub is_json: bool,
    /// Whether to suppress the report.
    pub is_quiet: bool,
}
