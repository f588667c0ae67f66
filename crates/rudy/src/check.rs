//! The flags of `rudy check`.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::Args;
use http::{HeaderName, HeaderValue, Method};
use rudy_request::parse_field;
use rudy_server::run::{self, Exit, ExplainedRequest};

/// Validate a configuration file and print its effective settings
///
/// Prints the listening addresses, the sites, and their routes in matching order. Reports all errors at once,
/// with file and line.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  rudy check /etc/rudy/rudy.toml
  rudy check --explain https://example.org/blog/
  rudy check --explain https://example.org/admin/ --from 192.0.2.7 --method POST

Exit codes: 0 valid, 2 invalid.")]
#[group(skip)]
pub(crate) struct Check {
    /// Show which site, route and steps a request for this URL would meet, instead of all settings
    #[arg(long, value_name = "URL")]
    explain: Option<String>,
    /// Address of the client: shows which access rule decides
    #[arg(long, value_name = "ADDRESS", requires = "explain")]
    from: Option<IpAddr>,
    /// Method of the request
    #[arg(long, value_name = "METHOD", requires = "explain", default_value_t = Method::GET)]
    method: Method,
    /// Header field of the request, such as "Accept: text/html" (repeatable)
    #[arg(long, value_name = "FIELD", requires = "explain", value_parser = parse_field)]
    header: Vec<(HeaderName, HeaderValue)>,
    /// Configuration file to validate
    #[arg(value_name = "FILE", default_value = "rudy.toml")]
    config: PathBuf,
    /// The same, as `rudy serve` spells it
    #[arg(long = "config", value_name = "FILE", hide = true, conflicts_with = "config")]
    option: Option<PathBuf>,
}

impl Check {
    pub(crate) fn run(self) -> Exit {
        let config = self.option.unwrap_or(self.config);
        let Some(url) = self.explain else { return run::check(&config) };
        let (from, method, fields) = (self.from, self.method, self.header.into_iter().collect());
        run::explain(&config, &ExplainedRequest { url, from, method, fields })
    }
}
