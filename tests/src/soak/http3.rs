//! Requests over HTTP/3, one after another on a connection.

use std::io;
use std::time::Instant;

use http::{HeaderMap, HeaderValue, Method, header};
use rudy_request::{
    Access, Error, Failure, FailureKind, Options, Output, Protocols, Report, Session, Stop, Template, Trust,
    Waiter,
};

use super::client::{Client, Unusable};
use super::request::{BodyCheck, Request};
use super::stream::HOST;
use super::tally::SentRequest;
use super::wire::{RequestError, TIMEOUT};

impl Client<'_> {
    /// Sends requests, some of which it cancels with the connection. Only addresses with TLS have HTTP/3.
    pub(super) fn over_http3(&mut self) -> Result<(), Unusable> {
        if self.address.tls.is_none() {
            return Ok(());
        }
        let access = Access { trust: Trust::All, ..Access::default() };
        let options =
            Options { protocols: Protocols::Http3, access, timeout: Some(TIMEOUT), ..Options::default() };
        let (_stop, stopped) = Stop::new().map_err(|error| {
            self.tally.failure(&format!("a client over HTTP/3 has no descriptors: {error}"));
            Unusable
        })?;
        let waiter = Waiter::stoppable(stopped);
        let mut session = Session::new(&options, &waiter);
        for number in 0..self.random.within(1..12) {
            let request = match self.random.below(10) {
                0 => Request::large(&mut self.random),
                1 | 2 => Request::upload(&mut self.random, 1_000..300_000),
                3 => Request::events(&mut self.random),
                _ => Request::quick(&mut self.random),
            };
            let cancels_at = self.random.chance(10).then(|| self.random.below(20_000));
            let sent_request = SentRequest { name: &request.name, at: Instant::now(), reused: number > 0 };
            match self.exchange_over_http3(&mut session, &request, cancels_at) {
                Ok(status) => self.tally.response(sent_request, status),
                Err(error) => {
                    self.tally.request_error(sent_request, &error);
                    return Err(Unusable);
                }
            }
        }
        Ok(())
    }

    /// Sends a request, and returns the status of the complete response.
    fn exchange_over_http3(
        &self,
        session: &mut Session<'_>,
        request: &Request,
        cancels_at: Option<usize>,
    ) -> Result<u16, RequestError> {
        let url = format!("https://{}{}", self.address.socket, request.target());
        let url = url.parse().map_err(|error| RequestError::Invalid(format!("{url}: {error}")))?;
        let mut body = Body { received: Vec::new(), cancels_at };
        let (report, error) = session.send(&url, &request.http3(), false, &mut body);
        if let Some(error) = error {
            return Err(request_error(&report, &error));
        }
        let status = report.head.as_ref().map_or(0, |head| head.status);
        if status == 200 {
            let mut check = BodyCheck::new(&request.expected);
            check.check_piece(&body.received)?;
            check.check_end()?;
        }
        Ok(status)
    }
}

/// The body of a response.
struct Body {
    received: Vec<u8>,
    cancels_at: Option<usize>,
}

impl Output for Body {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.received.extend_from_slice(bytes);
        let is_cancelled = self.cancels_at.is_some_and(|at| self.received.len() >= at);
        if is_cancelled { Err(io::Error::other("cancelled")) } else { Ok(()) }
    }
}

/// Returns the error of a request without a complete response.
fn request_error(report: &Report, error: &Error) -> RequestError {
    match error {
        Error::Output(_) => RequestError::Cancelled,
        Error::Failed(Failure::Timeout) | Error::ConnectTimeout => RequestError::Timeout(error.to_string()),
        Error::Failed(Failure::Refused) => RequestError::Closed,
        Error::Failed(failure) if matches!(failure.kind(), FailureKind::Malformed | FailureKind::Tls) => {
            RequestError::Invalid(error.to_string())
        }
        _ if report.head.is_none() => RequestError::Closed,
        _ => RequestError::Truncated(format!("{error} in a body over HTTP/3")),
    }
}

impl Request {
    /// Returns the request for HTTP/3.
    fn http3(&self) -> Template {
        let mut fields = HeaderMap::new();
        fields.insert(header::HOST, HeaderValue::from_static(HOST));
        let method = Method::from_bytes(self.method().as_bytes()).expect("a method");
        let body = (method != Method::GET).then(|| self.body.clone().into());
        Template { method, fields, body, protocols: Protocols::Http3, ..Template::default() }
    }
}
