//! How a log is replayed.

use http::Method;
use rudy_request::Url;

use crate::mask::Values;

/// The options of a replay.
#[derive(Debug, Clone)]
pub struct Options {
    /// The server whose responses are expected. Its URL has no path.
    pub old: Url,
    /// The server that is compared with it.
    pub new: Url,
    /// The Host field of all requests, instead of the host of the log or the URL.
    pub host: Option<String>,
    /// The methods that are sent.
    pub methods: Vec<Method>,
    /// Maximum number of requests per second to each server.
    pub rate: f64,
    /// Number of URLs that are requested again with conditions and ranges.
    pub samples: usize,
    /// Names of fields that are not compared, in lower case.
    pub ignored: Vec<String>,
    /// Whether the pages of redirects and errors are not compared.
    pub ignores_error_pages: bool,
    /// Whether reports show values of queries, cookies and credentials.
    pub values: Values,
    /// How requests are sent.
    pub requests: rudy_request::Options,
}
