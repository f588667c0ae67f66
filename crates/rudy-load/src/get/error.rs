//! Why a request was not answered whole, or not at all.

use std::fmt;
use std::io;

use rudy_http::h1::client::RequestError;

use crate::{AccessError, Failure, UrlError};

/// Why a request went no further.
#[derive(Debug)]
pub(super) enum GetError {
    /// The server could not be looked up, or its certificate not be judged.
    Access(AccessError),
    /// Connecting, sending or receiving failed.
    Failed(Failure),
    /// The proxy would not open a tunnel.
    TunnelRefused(u16),
    /// The proxy that the environment names is none that is spoken here.
    Proxy(String),
    /// The request cannot be written.
    Request(RequestError),
    /// The body could not be written where it was to go.
    Output(io::Error),
    /// The kernel would not wait.
    Wait(io::Error),
    /// Connecting took longer than the time for it.
    ConnectTimeout,
    /// A redirect to something that is no URL.
    Location(UrlError),
    /// One redirect more than are followed.
    TooManyRedirects(u32),
    /// A signal asked to end.
    Interrupted(u8),
}

impl GetError {
    /// What it is called in a report for programs.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Access(AccessError::Lookup(..)) => "lookup",
            Self::Access(_) => "tls",
            Self::Failed(failure) => failure.kind().name(),
            Self::TunnelRefused(_) | Self::Proxy(_) => "proxy",
            Self::Request(_) => "request",
            Self::Output(_) => "output",
            Self::Wait(_) => "system",
            Self::ConnectTimeout => "connect_timeout",
            Self::Location(_) | Self::TooManyRedirects(_) => "redirect",
            Self::Interrupted(_) => "interrupted",
        }
    }
}

impl fmt::Display for GetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Access(error) => error.fmt(f),
            Self::Failed(failure) => failure.fmt(f),
            Self::TunnelRefused(status) => {
                write!(f, "the proxy answered CONNECT with {status}: no tunnel to the server")
            }
            Self::Proxy(reason) => f.write_str(reason),
            Self::Request(error) => error.fmt(f),
            Self::Output(error) => write!(f, "cannot write the body: {error}"),
            Self::Wait(error) => write!(f, "cannot wait for the connection: {error}"),
            Self::ConnectTimeout => f.write_str("no connection within the time for it (--connect-timeout)"),
            Self::Location(error) => write!(f, "the redirect leads nowhere: {error}"),
            Self::TooManyRedirects(most) => write!(f, "more than {most} redirects in a row (--max-redirs)"),
            Self::Interrupted(_) => f.write_str("interrupted"),
        }
    }
}

impl std::error::Error for GetError {}

impl From<Failure> for GetError {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl From<AccessError> for GetError {
    fn from(error: AccessError) -> Self {
        Self::Access(error)
    }
}
