//! The flags of `rudy get`.

use std::num::{NonZeroU32, NonZeroU64};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use http::{HeaderName, HeaderValue, Method};
use rudy_load::get::{Options, Proxies};
use rudy_load::{Access, Trust, Url, parse_field};

use crate::values::{elsewhere, time};

/// Ask a server, and see where the time of the request goes.
///
/// The body goes to standard output as it comes. Standard error tells of each request what it was answered, over which connection,
/// how many bytes came, when (with curl's names, in seconds from its start), and how the connection ended. Each server is asked over
/// one connection, where it allows that.
///
/// An answer that is not whole is an error, and what came of it is written all the same. A server that answers 429, 503 or 999, or
/// sends Retry-After, is left alone for as long as it asks, or for 1 s, 2 s, 4 s, up to 60 s, before it is asked again.
///
/// Proxies are taken from `http_proxy`, `https_proxy`, `all_proxy` and `no_proxy`, as curl does.
#[derive(Debug, Args)]
#[command(
    arg(elsewhere("-v", "what went on is told on standard error, and -i writes the head too")),
    arg(elsewhere("-u", "credentials are a field: -H 'Authorization: ...'")),
    arg(elsewhere("-A", "the agent is a field: -H 'User-Agent: ...'")),
    arg(elsewhere("-x", "a proxy is named by the variables http_proxy and https_proxy")),
    arg(elsewhere("-w", "every figure is in --json")),
    after_help = "Examples:
  rudy get http://127.0.0.1:8080/                    the body, and where the time went
  rudy get -i -o page.html https://example.org/      head and body in a file
  rudy get --repeat 5 --interval 1 http://127.0.0.1:8080/ -o /dev/null
  rudy get -b '{\"a\":1}' -H 'Content-Type: application/json' http://127.0.0.1:8080/
  rudy get --json http://127.0.0.1:8080/ | jq .time_total_s

Times are 10s, 2m, 500ms, or a number of seconds.
Exit codes: 0 every answer came whole, 1 one did not, 2 bad arguments, 22 an error was answered (--fail), 130 interrupted."
)]
pub(crate) struct Get {
    /// What to ask, in this order
    #[arg(value_name = "URL", required = true)]
    url: Vec<Url>,
    /// A field of each request, "Name: value"; may be given again
    #[arg(short = 'H', long, value_name = "FIELD", value_parser = parse_field, help_heading = "Requests")]
    header: Vec<(HeaderName, HeaderValue)>,
    /// The method [default: GET, or POST with a body]
    #[arg(
        short,
        long,
        visible_short_alias = 'X',
        alias = "request",
        value_name = "METHOD",
        help_heading = "Requests"
    )]
    method: Option<Method>,
    /// Ask for the head alone (HEAD), and write it
    #[arg(short = 'I', long, conflicts_with_all = ["method", "body"], help_heading = "Requests")]
    head: bool,
    /// The body: a text, @FILE, or @- for standard input
    #[arg(
        short,
        long,
        visible_short_alias = 'd',
        alias = "data",
        value_name = "TEXT|@FILE",
        help_heading = "Requests"
    )]
    body: Option<String>,
    /// Ask in HTTP/1.0
    #[arg(long = "http1.0", help_heading = "Requests")]
    http_10: bool,
    /// Follow redirects; credentials stay with the server they were meant for
    #[arg(short = 'L', long, help_heading = "Requests")]
    location: bool,
    /// Follow at most N redirects in a row
    #[arg(long, value_name = "N", default_value = "10", requires = "location", help_heading = "Requests")]
    max_redirs: NonZeroU32,
    /// Ask for the URLs N times
    #[arg(long, value_name = "N", default_value = "1", help_heading = "Requests")]
    repeat: NonZeroU64,
    /// Wait so long between one time and the next
    #[arg(long, value_name = "TIME", default_value = "0", value_parser = time, help_heading = "Requests")]
    interval: Duration,
    /// Do not wait for servers that ask for fewer requests
    #[arg(long, help_heading = "Requests")]
    no_backoff: bool,
    /// For a whole answer, from the lookup on [default: as long as it takes]
    #[arg(long, value_name = "TIME", value_parser = time, help_heading = "Requests")]
    timeout: Option<Duration>,
    /// A new connection for each request
    #[arg(long, help_heading = "Connections")]
    no_keepalive: bool,
    /// For the lookup, connecting and TLS
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = time, help_heading = "Connections")]
    connect_timeout: Duration,
    /// Accept any certificate
    #[arg(short = 'k', long, conflicts_with = "cacert", help_heading = "Connections")]
    insecure: bool,
    /// Accept the certificates in this PEM file and what they have signed, and no others
    #[arg(long, value_name = "FILE", help_heading = "Connections")]
    cacert: Option<PathBuf>,
    /// Connect to this socket in the file system, whatever the URL's host
    #[arg(long, value_name = "PATH", help_heading = "Connections")]
    unix_socket: Option<PathBuf>,
    /// Hosts that are reached without a proxy, instead of those in `no_proxy`; * for all
    #[arg(long, value_name = "HOSTS", help_heading = "Connections")]
    noproxy: Option<String>,
    /// Write bodies there, one after the other
    #[arg(short, long, value_name = "FILE", help_heading = "Output")]
    output: Option<PathBuf>,
    /// Write the head of each answer before its body
    #[arg(short, long, help_heading = "Output")]
    include: bool,
    /// Take a status from 400 on for an error, and leave its body out
    #[arg(short, long, help_heading = "Output")]
    fail: bool,
    /// Write an object for each request to standard output, instead of the report; bodies go to -o, or are only counted
    #[arg(long, help_heading = "Output")]
    json: bool,
    /// No report, only errors
    #[arg(short, long, visible_short_alias = 's', alias = "silent", help_heading = "Output")]
    quiet: bool,
}

impl From<Get> for Options {
    fn from(get: Get) -> Self {
        let trust = match (get.insecure, get.cacert) {
            (true, _) => Trust::Anyone,
            (false, Some(file)) => Trust::File(file),
            (false, None) => Trust::Platform,
        };
        Self {
            urls: get.url,
            method: get.head.then_some(Method::HEAD).or(get.method),
            fields: get.header,
            body: get.body,
            is_http_10: get.http_10,
            keeps_alive: !get.no_keepalive,
            access: Access { trust, unix_socket: get.unix_socket },
            proxies: Proxies::read(|name| std::env::var(name).ok(), get.noproxy.as_deref()),
            redirects: get.location.then_some(get.max_redirs),
            repeat: get.repeat,
            interval: get.interval,
            backs_off: !get.no_backoff,
            timeout: get.timeout,
            connect_timeout: Some(get.connect_timeout),
            output: get.output,
            shows_head: get.include || get.head,
            fails: get.fail,
            is_json: get.json,
            is_quiet: get.quiet,
        }
    }
}
