//! The flags of `rudy replay`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueHint};
use http::Method;
use rudy_command::{CommandError, Exit};
use rudy_replay::source::{Format, Pattern, REQUESTS_MAX};
use rudy_replay::{CommandOptions, Options, Source, Values};
use rudy_request::{Protocols, Url};
use rudy_units::Rate;

use crate::get::TrustFlags;
use crate::values::time;

/// Maximum number of pages and files of a crawl, unless there is another limit.
const CRAWL_LIMIT: usize = 1000;

/// Timeout for a connection to a server.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Compare two servers by the requests of an access log
///
/// Sends each request to both servers, one after the other, and compares the responses: status, header fields, body, targets of redirects,
/// cookies, compression, conditional requests and ranges. Prints each difference once, with its count and a curl command. The servers can be
/// of any kind.
///
/// Fields that always differ, such as Date and Server, are not compared. A difference that two responses of the old server have, too, is not
/// counted.
#[derive(Debug, Args)]
#[command(
    arg_required_else_help = true,
    after_help = "Examples:
  rudy replay http://127.0.0.1 http://127.0.0.1:8080 --log /var/log/nginx/access.log
  rudy replay http://127.0.0.1 http://127.0.0.1:8080 --log access.log --format '$host $request_method $request_uri'
  rudy replay http://127.0.0.1 http://127.0.0.1:8080 --crawl http://example.org/ --html report.html
  rudy replay https://old.example https://new.example --urls urls.txt --host example.org --json

TIME is 10s, 2m, 500ms, or a number of seconds. RATE is requests per second.
Exit codes: 0 no difference, 1 cannot run, 2 invalid arguments or log, 3 differences, 130 interrupted."
)]
#[group(skip)]
pub(crate) struct Replay {
    /// URL of the server whose responses are expected, without a path
    #[arg(value_name = "OLD")]
    old: Url,
    /// URL of the server to compare with it
    #[arg(value_name = "NEW")]
    new: Url,
    #[command(flatten)]
    source: SourceFlags,
    /// `log_format` of nginx that the log has [default: combined, common or JSON, by the first line]
    #[arg(long, value_name = "FORMAT", requires = "log", help_heading = "Requests")]
    format: Option<Pattern>,
    /// Methods to send
    #[arg(
        long,
        value_name = "METHODS",
        value_delimiter = ',',
        default_value = "GET,HEAD,OPTIONS",
        help_heading = "Requests"
    )]
    methods: Vec<Method>,
    /// Maximum number of requests [default: 1000 for --crawl, otherwise all]
    #[arg(long, value_name = "N", help_heading = "Requests")]
    limit: Option<usize>,
    /// Send each method and URL once
    #[arg(long, help_heading = "Requests")]
    unique: bool,
    /// Maximum rate of requests to each server
    #[arg(long, value_name = "RATE", default_value = "10", value_parser = rate, help_heading = "Requests")]
    rate: f64,
    /// Number of URLs to request again with conditions and ranges
    #[arg(long, value_name = "N", default_value = "100", help_heading = "Requests")]
    samples: usize,
    /// Host to send instead of that of the log or the URL
    #[arg(long, value_name = "NAME", value_parser = host, help_heading = "Requests")]
    host: Option<String>,
    /// Use HTTP/2, also with http [default: HTTP/1.1]
    #[arg(long, help_heading = "Requests")]
    http2: bool,
    /// Maximum time for a request
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = time, help_heading = "Requests")]
    timeout: Duration,
    #[command(flatten)]
    trust: TrustFlags,
    /// Header field that is not compared (repeatable)
    #[arg(long, value_name = "FIELD", help_heading = "Comparison")]
    ignore: Vec<http::HeaderName>,
    /// Do not compare the bodies and types of redirects and errors, which servers make themselves
    #[arg(long, help_heading = "Comparison")]
    ignore_error_pages: bool,
    /// Write the report as a page
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Output")]
    html: Option<PathBuf>,
    /// Print the report as JSON
    #[arg(long, help_heading = "Output")]
    json: bool,
    /// Show values of queries, cookies and credentials
    #[arg(long, help_heading = "Output")]
    show_values: bool,
}

// No documentation, which would become that of the command.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct SourceFlags {
    /// Access log, or - for standard input
    #[arg(long, value_name = "FILE|-", value_hint = ValueHint::FilePath, help_heading = "Source")]
    log: Option<PathBuf>,
    /// File with a URL or a path per line
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Source")]
    urls: Option<PathBuf>,
    /// HTTP archive, as browsers export it
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Source")]
    har: Option<PathBuf>,
    /// Page whose links to the same host are followed; its host is sent to both servers
    #[arg(long, value_name = "URL", help_heading = "Source")]
    crawl: Option<Url>,
}

impl Replay {
    pub(crate) fn run(self) -> Exit {
        match self.options() {
            Ok(options) => rudy_replay::replay(&options),
            Err(error) => error.report(),
        }
    }

    fn options(self) -> Result<CommandOptions, CommandError> {
        for url in [&self.old, &self.new] {
            if url.target() != "/" {
                let message = format!("{url} has a path; name only the server: paths are from the requests");
                return Err(CommandError::Arguments(message));
            }
        }
        let source = self.source.source(self.format)?;
        let is_crawl = matches!(source, Source::Crawl(_));
        let requests = rudy_request::Options {
            protocols: if self.http2 { Protocols::Http2 } else { Protocols::Http1 },
            access: self.trust.into(),
            timeout: Some(self.timeout),
            connect_timeout: Some(CONNECT_TIMEOUT),
            ..rudy_request::Options::default()
        };
        Ok(CommandOptions {
            source,
            limit: self.limit.unwrap_or(if is_crawl { CRAWL_LIMIT } else { REQUESTS_MAX }),
            is_unique: self.unique,
            is_json: self.json,
            html: self.html,
            replay: Options {
                old: self.old,
                new: self.new,
                host: self.host,
                methods: self.methods,
                rate: self.rate,
                samples: self.samples,
                ignored: self.ignore.iter().map(|name| name.as_str().to_owned()).collect(),
                ignores_error_pages: self.ignore_error_pages,
                values: if self.show_values { Values::Shown } else { Values::Masked },
                requests,
            },
        })
    }
}

impl SourceFlags {
    fn source(self, format: Option<Pattern>) -> Result<Source, CommandError> {
        let format = format.map_or(Format::Detected, Format::Pattern);
        let sources = [
            self.log.map(|path| Source::Log(path, format)),
            self.urls.map(Source::Urls),
            self.har.map(Source::Har),
            self.crawl.map(Source::Crawl),
        ];
        let missing = || CommandError::Arguments("name --log, --urls, --har or --crawl".to_owned());
        sources.into_iter().flatten().next().ok_or_else(missing)
    }
}

fn rate(text: &str) -> Result<f64, String> {
    match text.parse::<Rate>()? {
        Rate::Constant(rate) if rate > 0.0 => Ok(rate),
        _ => Err("expected a number above 0, such as 10 or 0.5".to_owned()),
    }
}

fn host(text: &str) -> Result<String, String> {
    let is_host = text.parse::<http::uri::Authority>().is_ok() && !text.contains('@');
    if is_host { Ok(text.to_owned()) } else { Err("expected a host, such as example.org".to_owned()) }
}
