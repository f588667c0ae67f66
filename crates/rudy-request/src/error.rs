//! Errors of requests.

use std::fmt;
use std::io;

use rudy_message::client::RequestError;

use crate::{AccessError, Failure, UrlError};

/// The error of a request.
#[derive(Debug)]
pub enum Error {
    /// The name lookup failed, or the certificates cannot be loaded.
    Access(AccessError),
    /// Connecting, sending or receiving failed.
    Failed(Failure),
    /// The request cannot be built.
    Request(RequestError),
    /// The body could not be written to its output.
    Output(io::Error),
    /// The kernel could not wait.
    Wait(io::Error),
    /// The timeout for connecting has passed.
    ConnectTimeout,
    /// The target of a redirect is not a URL.
    Location(UrlError),
    /// There were more redirects in sequence than this maximum.
    TooManyRedirects(u32),
    /// A signal interrupted the request.
    Interrupted(u8),
}

impl Error {
    /// The name in JSON reports.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Access(AccessError::Lookup(..)) => "lookup",
            Self::Access(_) => "tls",
            Self::Failed(failure) => failure.kind().name(),
            Self::Request(_) => "request",
            Self::Output(_) => "output",
            Self::Wait(_) => "system",
            Self::ConnectTimeout => "connect_timeout",
            Self::Location(_) | Self::TooManyRedirects(_) => "redirect",
            Self::Interrupted(_) => "interrupted",
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Access(error) => error.fmt(f),
            Self::Failed(failure) => failure.fmt(f),
            Self::Request(error) => error.fmt(f),
            Self::Output(error) => write!(f, "cannot write the body: {error}"),
            Self::Wait(error) => write!(f, "cannot wait for the connection: {error}"),
            Self::ConnectTimeout => f.write_str("no connection within the timeout (--connect-timeout)"),
            Self::Location(error) => write!(f, "the target of the redirect is invalid: {error}"),
            Self::TooManyRedirects(max) => write!(f, "more than {max} consecutive redirects (--max-redirs)"),
            Self::Interrupted(_) => f.write_str("interrupted"),
        }
    }
}

impl std::error::Error for Error {}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl From<AccessError> for Error {
    fn from(error: AccessError) -> Self {
        Self::Access(error)
    }
}
