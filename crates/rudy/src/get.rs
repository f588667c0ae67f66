//! The flags of `rudy get`.

use std::num::{NonZeroU32, NonZeroU64};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use http::{HeaderName, HeaderValue, Method};
use rudy_load::get::Options;
use rudy_request::{Access, Protocols, Trust, Url, parse_field};

use crate::values::{time, unsupported};

/// Fetch URLs and show where the time of each request goes
///
/// Writes response bodies to standard output, and a report of each request to standard error: status, connection, sizes,
/// and timings with curl's names, in seconds from the start of the request. Reuses the connection to each server.
///
/// An incomplete response is an error; the received part is still written. After a status of 429, 503 or 999, or a
/// Retry-After field, waits before the next request to the server: for the requested time, or 1 s, 2 s, 4 s, up to 60 s.
///
/// Does not use proxies; use curl for that.
#[derive(Debug, Args)]
#[command(
    arg(unsupported("-v", "the report on standard error is always on; add the response head with -i")),
    arg(unsupported("-u", "send credentials with -H 'Authorization: ...'")),
    arg(unsupported("-A", "set the user agent with -H 'User-Agent: ...'")),
    arg(unsupported("-x", "rudy get does not use proxies; use `curl -x`")),
    arg(unsupported("-w", "print all timings as JSON with --json")),
    after_help = "Examples:
  rudy get http://127.0.0.1:8080/                    print the body and the timings
  rudy get -i -o page.html https://example.org/      write head and body to a file
  rudy get --repeat 5 --interval 1 http://127.0.0.1:8080/ -o /dev/null
  rudy get --http3 https://example.org/             use HTTP/3
  rudy get --http2-prior-knowledge http://127.0.0.1:8080/   use HTTP/2 without TLS
  rudy get -b '{\"a\":1}' -H 'Content-Type: application/json' http://127.0.0.1:8080/
  rudy get --json http://127.0.0.1:8080/ | jq .time_total_s

TIME is 10s, 2m, 500ms, or a number of seconds.
Exit codes: 0 all responses complete, 1 a request failed, 2 invalid arguments, 22 error status (--fail), 130 interrupted."
)]
pub(crate) struct Get {
    /// URLs to fetch, in this order
    #[arg(value_name = "URL", required = true)]
    url: Vec<Url>,
    /// Request header field, such as "Accept: text/html" (repeatable)
    #[arg(short = 'H', long, value_name = "FIELD", value_parser = parse_field, help_heading = "Requests")]
    header: Vec<(HeaderName, HeaderValue)>,
    /// Request method [default: GET, or POST with a body]
    #[arg(
        short,
        long,
        visible_short_alias = 'X',
        alias = "request",
        value_name = "METHOD",
        help_heading = "Requests"
    )]
    method: Option<Method>,
    /// Send a HEAD request and write the response head
    #[arg(short = 'I', long, conflicts_with_all = ["method", "body"], help_heading = "Requests")]
    head: bool,
    /// Request body: text, @FILE, or @- for standard input
    #[arg(
        short,
        long,
        visible_short_alias = 'd',
        alias = "data",
        value_name = "TEXT|@FILE",
        help_heading = "Requests"
    )]
    body: Option<String>,
    /// Use HTTP/1.0
    #[arg(long = "http1.0", group = "version", help_heading = "Requests")]
    http_10: bool,
    /// Use HTTP/1.1
    #[arg(long = "http1.1", group = "version", help_heading = "Requests")]
    http_11: bool,
    /// Offer HTTP/2 and HTTP/1.1 to https servers (the default)
    #[arg(long, group = "version", help_heading = "Requests")]
    http2: bool,
    /// Use HTTP/2, also with http
    #[arg(long, group = "version", help_heading = "Requests")]
    http2_prior_knowledge: bool,
    /// Use HTTP/3, over UDP
    #[arg(long, group = "version", help_heading = "Requests")]
    http3: bool,
    /// Follow redirects; does not send credentials to other servers
    #[arg(short = 'L', long, help_heading = "Requests")]
    location: bool,
    /// Maximum number of consecutive redirects
    #[arg(long, value_name = "N", default_value = "10", requires = "location", help_heading = "Requests")]
    max_redirs: NonZeroU32,
    /// Number of times to fetch the URLs
    #[arg(long, value_name = "N", default_value = "1", help_heading = "Requests")]
    repeat: NonZeroU64,
    /// Pause between repetitions
    #[arg(long, value_name = "TIME", default_value = "0", value_parser = time, help_heading = "Requests")]
    interval: Duration,
    /// Do not wait after 429, 503, 999 or Retry-After
    #[arg(long, help_heading = "Requests")]
    no_backoff: bool,
    /// Maximum time for the whole request, name lookup included [default: none]
    #[arg(long, value_name = "TIME", value_parser = time, help_heading = "Requests")]
    timeout: Option<Duration>,
    /// Open a new connection for each request
    #[arg(long, help_heading = "Connections")]
    no_keepalive: bool,
    /// Maximum time for name lookup, connection and TLS handshake
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = time, help_heading = "Connections")]
    connect_timeout: Duration,
    #[command(flatten)]
    server: ServerFlags,
    /// Write the bodies to this file
    #[arg(short, long, value_name = "FILE", help_heading = "Output")]
    output: Option<PathBuf>,
    /// Write the head of each response before its body
    #[arg(short, long, help_heading = "Output")]
    include: bool,
    /// Treat a status of 400 or above as an error, and omit its body
    #[arg(short, long, help_heading = "Output")]
    fail: bool,
    /// Print a JSON object per request to standard output instead of the report; bodies go to -o only
    #[arg(long, help_heading = "Output")]
    json: bool,
    /// Print errors only
    #[arg(short, long, visible_short_alias = 's', alias = "silent", help_heading = "Output")]
    quiet: bool,
}

/// The variables from which curl takes a proxy. It ignores `HTTP_PROXY`: in a CGI program, a client sets it.
const PROXY_VARIABLES: [&str; 5] = ["https_proxy", "HTTPS_PROXY", "http_proxy", "all_proxy", "ALL_PROXY"];

fn is_set(variable: &str) -> bool {
    std::env::var_os(variable).is_some_and(|value| !value.is_empty())
}

// The flags for the certificates of servers. No documentation, which would become that of the command.
#[derive(Debug, Args)]
pub(crate) struct TrustFlags {
    /// Skip certificate verification
    #[arg(short = 'k', long, conflicts_with = "cacert", help_heading = "Connections")]
    insecure: bool,
    /// CA certificates to trust instead of the system's, in PEM format
    #[arg(long, value_name = "FILE", help_heading = "Connections")]
    cacert: Option<PathBuf>,
}

// The flags for the server of a request.
#[derive(Debug, Args)]
pub(crate) struct ServerFlags {
    #[command(flatten)]
    trust: TrustFlags,
    /// Connect to this Unix socket instead of the host in the URL
    #[arg(long, value_name = "PATH", help_heading = "Connections")]
    unix_socket: Option<PathBuf>,
}

impl From<TrustFlags> for Access {
    fn from(TrustFlags { insecure, cacert }: TrustFlags) -> Self {
        let trust = if insecure { Trust::All } else { cacert.map_or(Trust::Platform, Trust::File) };
        Self { trust, ..Self::default() }
    }
}

impl From<ServerFlags> for Access {
    fn from(ServerFlags { trust, unix_socket }: ServerFlags) -> Self {
        Self { unix_socket, ..trust.into() }
    }
}

impl From<Get> for Options {
    fn from(get: Get) -> Self {
        let requests = rudy_request::Options {
            protocols: match (get.http_10 || get.http_11, get.http2_prior_knowledge, get.http3) {
                (true, _, _) => Protocols::Http1,
                (_, true, _) => Protocols::Http2,
                (_, _, true) => Protocols::Http3,
                _ => Protocols::Any,
            },
            keeps_alive: !get.no_keepalive,
            access: get.server.into(),
            redirects: get.location.then_some(get.max_redirs),
            timeout: get.timeout,
            connect_timeout: Some(get.connect_timeout),
            shows_head: get.include || get.head,
            fails: get.fail,
        };
        Self {
            urls: get.url,
            method: get.head.then_some(Method::HEAD).or(get.method),
            fields: get.header,
            body: get.body,
            is_http_10: get.http_10,
            requests,
            proxy_variable: PROXY_VARIABLES.into_iter().find(|name| is_set(name)),
            repeat: get.repeat,
            interval: get.interval,
            backs_off: !get.no_backoff,
            output: get.output,
            is_json: get.json,
            is_quiet: get.quiet,
        }
    }
}
