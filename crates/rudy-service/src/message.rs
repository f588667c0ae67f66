//! Requests and responses of a service, independent of the protocol and the engine.

use std::any::Any;
use std::ops::{Deref, DerefMut};
use std::pin::Pin;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use rudy_message::semantics::field::ChangeFields;
use rudy_message::{LazyHead, PreparedHead, ReceivedHead, RequestHead, ResponseHead};

use crate::{Body, RequestBody, Upgrade};

/// A request. Its body may still be arriving while the service handles it.
///
/// Its head borrows what the connection has received: a service that waits needs [`Self::into_owned`].
#[derive(Debug, Default)]
pub struct Request<'a> {
    head: LazyHead<'a>,
    body: RequestBody,
    /// What the service knows about the request, in a type of its own.
    pub state: Option<Box<dyn Any + Send + Sync>>,
}

impl<'a> Request<'a> {
    /// Creates a request without a state.
    #[must_use]
    #[inline]
    pub fn new(head: LazyHead<'a>, body: RequestBody) -> Self {
        Self { head, body, state: None }
    }

    /// Returns the request with a copy of what it borrows.
    #[must_use]
    pub fn into_owned(self) -> Request<'static> {
        self.sharing(&OnceLock::new())
    }

    /// As [`LazyHead::sharing`].
    #[must_use]
    pub fn sharing(self, copy: &OnceLock<Arc<RequestHead<'static>>>) -> Request<'static> {
        Request { head: self.head.sharing(copy), body: self.body, state: self.state }
    }

    /// Returns a request with the same head, without a body or a state.
    #[must_use]
    pub fn copy_head(&self) -> Self {
        Self::new(self.head.clone(), RequestBody::empty())
    }

    /// Returns the body.
    #[must_use]
    pub fn body(&self) -> &RequestBody {
        &self.body
    }

    /// Returns the body to change it.
    pub fn body_mut(&mut self) -> &mut RequestBody {
        &mut self.body
    }

    /// Returns the body alone.
    #[must_use]
    pub fn into_body(self) -> RequestBody {
        self.body
    }

    /// Returns the head and the body alone.
    #[must_use]
    pub fn into_parts(self) -> (LazyHead<'a>, RequestBody) {
        (self.head, self.body)
    }
}

impl<'a> Deref for Request<'a> {
    type Target = LazyHead<'a>;

    fn deref(&self) -> &LazyHead<'a> {
        &self.head
    }
}

impl DerefMut for Request<'_> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.head
    }
}

impl From<http::Request<RequestBody>> for Request<'static> {
    /// Creates a request that was not received. Its extensions are lost.
    fn from(request: http::Request<RequestBody>) -> Self {
        let (head, body) = request.into_parts();
        Self::new(head.into(), body)
    }
}

/// A response, now or later.
pub enum Reply {
    /// A response that needs no future.
    Now(Response),
    /// A future response. The connection drops the future when the client disconnects. To wait for a time,
    /// use a [`Deadline`](crate::Deadline), which needs no timer of tokio.
    Later(Pin<Box<dyn Future<Output = Response> + Send>>),
}

impl Reply {
    /// Awaits the response.
    pub async fn response(self) -> Response {
        match self {
            Self::Now(response) => response,
            Self::Later(response) => response.await,
        }
    }

    /// Changes the response, now or later.
    #[must_use]
    pub fn map(self, change: impl FnOnce(Response) -> Response + Send + 'static) -> Self {
        match self {
            Self::Now(response) => Self::Now(change(response)),
            Self::Later(response) => Self::Later(Box::pin(async move { change(response.await) })),
        }
    }
}

impl From<Response> for Reply {
    fn from(response: Response) -> Self {
        Self::Now(response)
    }
}

/// A response: its head and its body.
///
/// The connection adds `Connection`, `Content-Length` and `Transfer-Encoding`; a service does not set them. It adds
/// `Date` if there is none from an origin. A response to HEAD has the same body as one to GET; the connection sends only the length.
pub struct Response {
    /// The status and the header fields.
    pub head: Head,
    /// The body.
    pub body: Body,
    /// Takes over the connection after a `101 Switching Protocols`.
    pub upgrade: Option<Upgrade>,
    /// Whether the service has chosen the content coding.
    pub is_negotiated: bool,
    /// The status of the error that the response expresses in another way than by its own status, as gRPC does.
    pub error_status: Option<StatusCode>,
    /// What the service knows about the response, in a type of its own.
    pub state: Option<Box<dyn Any + Send + Sync>>,
}

impl Response {
    /// Creates a response with this status, without header fields or body.
    #[must_use]
    pub fn new(status: StatusCode) -> Self {
        Self::with_head(Head::Fields(status, HeaderMap::new()))
    }

    /// Creates a response with this head and without a body.
    #[must_use]
    pub fn with_head(head: Head) -> Self {
        Self { head, body: Body::Empty, upgrade: None, is_negotiated: false, error_status: None, state: None }
    }

    /// Creates a response whose head is already encoded.
    #[must_use]
    pub fn prepared(head: Arc<PreparedHead>, body: Body) -> Self {
        Self { body, ..Self::with_head(Head::Prepared(head)) }
    }

    /// Creates a short text response with a media type.
    #[must_use]
    pub fn text(status: StatusCode, media_type: &'static str, text: impl Into<Bytes>) -> Self {
        let mut response = Self::new(status);
        response.headers_mut().insert(http::header::CONTENT_TYPE, HeaderValue::from_static(media_type));
        response.body = Body::Bytes(text.into());
        response
    }

    /// Returns the status.
    #[must_use]
    #[inline]
    pub fn status(&self) -> StatusCode {
        self.head.status()
    }

    /// Whether more follows than the connection takes at once, so that the response is not complete yet.
    #[must_use]
    #[inline]
    pub fn takes_time(&self) -> bool {
        self.upgrade.is_some() || !self.body.is_small()
    }

    /// Whether the response is the one to a request that was rejected with this status.
    #[must_use]
    pub fn is_for_status(&self, status: StatusCode) -> bool {
        self.status() == status || self.error_status == Some(status)
    }

    /// Returns the value of the first header field with this name.
    #[must_use]
    pub fn header(&self, name: &HeaderName) -> Option<&[u8]> {
        self.head.get(name)
    }

    /// Sets the status. Replaces another head with its fields.
    pub fn set_status(&mut self, status: StatusCode) {
        self.head.set_status(status);
    }

    /// Returns the header fields.
    #[must_use]
    pub fn headers(&self) -> &HeaderMap {
        self.head.headers()
    }

    /// Returns the header fields, mutable. Replaces another head with its fields, so change the fields before
    /// preparing the head.
    pub fn headers_mut(&mut self) -> &mut HeaderMap {
        self.head.headers_mut()
    }
}

/// The head of a response.
pub enum Head {
    /// The status and the fields, encoded when they are sent.
    Fields(StatusCode, HeaderMap),
    /// An encoded head, shared by all responses that use it.
    Prepared(Arc<PreparedHead>),
    /// A head that was received from an upstream.
    Received(ReceivedHead),
}

/// Changes to a received head need no map.
impl ChangeFields for Response {
    fn get_all<'s>(&'s self, name: &HeaderName) -> impl Iterator<Item = &'s [u8]> {
        let (received, map) = match &self.head {
            Head::Received(received) => (Some(received), None),
            Head::Fields(..) | Head::Prepared(_) => (None, Some(self.headers())),
        };
        let received = received.into_iter().flat_map(move |head| head.get_all(name));
        received.chain(map.into_iter().flat_map(move |map| ChangeFields::get_all(map, name)))
    }

    fn get(&self, name: &HeaderName) -> Option<&[u8]> {
        self.header(name)
    }

    fn remove(&mut self, name: &HeaderName) {
        match &mut self.head {
            Head::Received(received) => received.remove(name),
            Head::Fields(..) | Head::Prepared(_) => drop(self.headers_mut().remove(name)),
        }
    }

    fn add(&mut self, name: HeaderName, value: HeaderValue) {
        match &mut self.head {
            Head::Received(received) => received.add(name, value),
            Head::Fields(..) | Head::Prepared(_) => drop(self.headers_mut().append(name, value)),
        }
    }
}

impl Head {
    /// Returns the status.
    #[must_use]
    #[inline]
    pub fn status(&self) -> StatusCode {
        self.encodable().status()
    }

    /// As [`Response::header`].
    #[must_use]
    pub fn get(&self, name: &HeaderName) -> Option<&[u8]> {
        match self {
            Self::Received(received) => ChangeFields::get(received, name),
            Self::Fields(..) | Self::Prepared(_) => self.headers().get(name).map(HeaderValue::as_bytes),
        }
    }

    /// As [`Response::headers`].
    #[must_use]
    pub fn headers(&self) -> &HeaderMap {
        match self {
            Self::Fields(_, headers) => headers,
            Self::Prepared(prepared) => prepared.headers(),
            Self::Received(received) => received.headers(),
        }
    }

    /// As [`Response::set_status`].
    pub fn set_status(&mut self, status: StatusCode) {
        *self = Self::Fields(status, std::mem::take(self.headers_mut()));
    }

    /// As [`Response::headers_mut`].
    pub fn headers_mut(&mut self) -> &mut HeaderMap {
        match self {
            Self::Fields(..) => {}
            Self::Prepared(prepared) => *self = Self::Fields(prepared.status(), prepared.headers().clone()),
            Self::Received(received) => *self = Self::Fields(received.status(), received.take_headers()),
        }
        match self {
            Self::Fields(_, headers) => headers,
            Self::Prepared(_) | Self::Received(_) => unreachable!("replaced with its fields above"),
        }
    }

    /// Returns the head for the encoder of a protocol.
    #[must_use]
    #[inline]
    pub fn encodable(&self) -> ResponseHead<'_> {
        match self {
            Self::Fields(status, headers) => ResponseHead::Fields(*status, headers),
            Self::Prepared(prepared) => ResponseHead::Prepared(prepared),
            Self::Received(received) => ResponseHead::Received(received),
        }
    }
}
