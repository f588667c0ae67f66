//! One of the two servers, with its connection.

use http::header::{ACCEPT_ENCODING, HOST};
use http::{HeaderMap, HeaderValue};
use rudy_request::{Error, Session, Template, Url, Waiter};

use crate::compare::Side;
use crate::response::{Body, Failed, Outcome, Response};
use crate::{Options, Request};

/// The codings that requests accept, unless they have a field of their own. All browsers accept them over HTTPS.
pub(crate) const CODINGS: &str = "gzip, br, zstd";

/// Sends requests to a server.
pub(crate) struct Server<'a> {
    options: &'a Options,
    origin: &'a Url,
    session: Session<'a>,
}

/// Why a request has no outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NotSent {
    /// A signal has interrupted it.
    Interrupted(u8),
    /// It is no valid request.
    Invalid,
}

impl<'a> Server<'a> {
    pub(crate) fn new(options: &'a Options, origin: &'a Url, waiter: &'a Waiter) -> Self {
        Self { options, origin, session: Session::new(&options.requests, waiter) }
    }

    /// Waits, and closes the connection when the server does. The error is a signal.
    pub(crate) fn rest(&mut self, until: std::time::Instant) -> Result<(), u8> {
        self.session.rest(Some(until))
    }

    /// The server as the request names it.
    pub(crate) fn side(&self, request: &Request) -> Option<Side> {
        let origin = self.origin.to_string();
        let url: Url = format!("{}{}", origin.strip_suffix('/')?, request.target).parse().ok()?;
        let host = self.options.host.clone().or_else(|| request.host.clone());
        Some(Side { host: host.unwrap_or_else(|| url.authority()), url })
    }

    /// Sends a request with additional fields, which replace its own.
    pub(crate) fn send(&mut self, request: &Request, fields: &HeaderMap) -> Result<Outcome, NotSent> {
        let side = self.side(request).ok_or(NotSent::Invalid)?;
        let template = self.template(request, &side, fields).ok_or(NotSent::Invalid)?;
        let mut body = Body::default();
        let (report, error) = self.session.send(&side.url, &template, false, &mut body);
        Ok(match (error, report.head) {
            (Some(Error::Interrupted(signal)), _) => return Err(NotSent::Interrupted(signal)),
            (Some(Error::Request(_)), _) => return Err(NotSent::Invalid),
            (Some(error), _) => Err(Failed { kind: error.name(), message: error.to_string() }),
            (None, Some(head)) => Ok(Response { status: head.status, fields: head.fields, body }),
            (None, None) => Err(Failed { kind: "malformed", message: "no response".to_owned() }),
        })
    }

    fn template(&self, request: &Request, side: &Side, fields: &HeaderMap) -> Option<Template> {
        let mut template = Template {
            method: request.method.clone(),
            fields: request.fields.clone(),
            body: request.body.clone(),
            protocols: self.options.requests.protocols,
            ..Template::default()
        };
        template.fields.entry(ACCEPT_ENCODING).or_insert(HeaderValue::from_static(CODINGS));
        template.fields.insert(HOST, side.host.parse().ok()?);
        for (name, value) in fields {
            template.fields.insert(name, value.clone());
        }
        Some(template)
    }
}
