//! The spans of an exchange: what requests to others, and the steps that take time, have done for it.

use std::sync::Arc;
use std::time::Instant;

use http::StatusCode;
use rudy_trace::SpanId;

use super::notes::{RouteName, UpstreamName};
use super::trace::make_span_id;

/// The maximum number of spans of an exchange, beside its own: a request has a few, and attempts are bounded by other limits, too.
const SPANS_MAX: usize = 32;

/// The spans of an exchange that is recorded.
#[derive(Debug)]
pub struct Spans {
    /// The one of the exchange itself.
    own: SpanId,
    /// Its children, and theirs, in the order of their beginnings.
    pub children: Vec<Span>,
    /// The routes that internal redirects led to, with their times.
    pub redirects: Vec<(Instant, Arc<RouteName>)>,
}

/// A span.
#[derive(Debug)]
pub struct Span {
    /// Its id.
    pub id: SpanId,
    /// The span that it is a part of.
    pub parent: SpanId,
    /// What it is.
    pub what: Work,
    /// When it began.
    pub begun: Instant,
    /// When it ended. `None` if it lasts as long as the exchange.
    pub ended: Option<Instant>,
    /// The address to which a request was sent.
    pub address: Option<UpstreamName>,
    /// The status of the response.
    pub status: Option<StatusCode>,
    /// Why it has failed, without parts that differ from request to request.
    pub error: Option<String>,
}

/// What takes the time of a span.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// The question whether the request is allowed.
    Authorization,
    /// The search for a stored response. What it needs of the origin is a part of it.
    Cache,
    /// A request to an upstream or app over the protocol with this name.
    Upstream(&'static str),
}

impl Spans {
    /// The spans of an exchange with this span.
    pub(super) fn new(own: SpanId) -> Self {
        Self { own, children: Vec::new(), redirects: Vec::new() }
    }

    /// Begins a span, as a part of the search for a stored response if there is one. `None` if there are too many.
    pub(super) fn begin(&mut self, what: Work, now: Instant) -> Option<SpanId> {
        if self.children.len() == SPANS_MAX {
            return None;
        }
        let around = self.children.iter().rfind(|span| span.what == Work::Cache && span.ended.is_none());
        let parent = around.map_or(self.own, |span| span.id);
        let id = make_span_id();
        let (ended, address, status, error) = (None, None, None, None);
        self.children.push(Span { id, parent, what, begun: now, ended, address, status, error });
        Some(id)
    }

    /// Returns the span of the last request to an upstream.
    pub(super) fn upstream(&mut self) -> Option<&mut Span> {
        self.children.iter_mut().rfind(|span| matches!(span.what, Work::Upstream(_)))
    }

    /// Ends the last span of this kind, unless it has ended.
    pub(super) fn end(&mut self, what: Work, now: Instant) -> Option<&mut Span> {
        let mut open = self.children.iter_mut().rev().filter(|span| span.ended.is_none());
        let span = open.find(|span| span.what == what)?;
        span.ended = Some(now);
        Some(span)
    }
}
