//! What a service is asked and what it answers, whatever the protocol and the engine.

use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode};
use rudy_http::h1::PreparedHead;

use crate::{Body, RequestBody, Upgrade};

/// A request, its body arriving while the service already works on it.
pub type Request = http::Request<RequestBody>;

/// An answer now, or the promise of one.
pub enum Reply {
    /// Needs no waiting: no future is made for it.
    Now(Response),
    /// Ready when the future is. The future is dropped when its client disconnects. It may wait for a
    /// [`Deadline`](crate::Deadline), which costs no timer of its own.
    Later(Pin<Box<dyn Future<Output = Response> + Send>>),
}

impl Reply {
    /// Waits for the answer, if it has to be waited for.
    pub async fn response(self) -> Response {
        match self {
            Self::Now(response) => response,
            Self::Later(response) => response.await,
        }
    }
}

impl From<Response> for Reply {
    fn from(response: Response) -> Self {
        Self::Now(response)
    }
}

/// An answer: its head and its body.
///
/// `Date`, `Connection`, `Content-Length` and `Transfer-Encoding` are the connection's to add; a service does not set
/// them. The body of an answer to HEAD is given as for GET: the connection sends only its length.
pub struct Response {
    /// Status and fields.
    pub head: Head,
    /// What follows them.
    pub body: Body,
    /// Who takes the connection over after a `101 Switching Protocols`.
    pub upgrade: Option<Upgrade>,
}

impl Response {
    /// An answer with this status, no fields and no body.
    #[must_use]
    pub fn new(status: StatusCode) -> Self {
        Self { head: Head::Fields(status, HeaderMap::new()), body: Body::Empty, upgrade: None }
    }

    /// An answer whose head was encoded beforehand.
    #[must_use]
    pub fn prepared(head: Arc<PreparedHead>, body: Body) -> Self {
        Self { head: Head::Prepared(head), body, upgrade: None }
    }

    /// A short text, with its media type.
    #[must_use]
    pub fn text(status: StatusCode, media_type: &'static str, text: impl Into<Bytes>) -> Self {
        let mut response = Self::new(status);
        response.headers_mut().insert(http::header::CONTENT_TYPE, HeaderValue::from_static(media_type));
        response.body = Body::Bytes(text.into());
        response
    }

    /// The status.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        match &self.head {
            Head::Fields(status, _) => *status,
            Head::Prepared(prepared) => prepared.status(),
        }
    }

    /// Sends it with another status; a prepared head is taken apart for it.
    pub fn set_status(&mut self, status: StatusCode) {
        self.head = Head::Fields(status, std::mem::take(self.headers_mut()));
    }

    /// The fields.
    #[must_use]
    pub fn headers(&self) -> &HeaderMap {
        match &self.head {
            Head::Fields(_, headers) => headers,
            Head::Prepared(prepared) => prepared.headers(),
        }
    }

    /// The fields, to be changed: a prepared head is taken apart for it, so do this before preparing where you can.
    pub fn headers_mut(&mut self) -> &mut HeaderMap {
        if let Head::Prepared(prepared) = &self.head {
            self.head = Head::Fields(prepared.status(), prepared.headers().clone());
        }
        match &mut self.head {
            Head::Fields(_, headers) => headers,
            Head::Prepared(_) => unreachable!("taken apart above"),
        }
    }
}

/// The head of an answer, encoded beforehand or not.
pub enum Head {
    /// Status and fields, encoded when they are sent.
    Fields(StatusCode, HeaderMap),
    /// Already encoded; shared by everybody who gets this answer.
    Prepared(Arc<PreparedHead>),
}
