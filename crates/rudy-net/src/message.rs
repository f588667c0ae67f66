//! What a service is asked and what it answers, whatever the protocol and the engine.

use std::collections::VecDeque;
use std::fs::File;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode};
use rudy_http::h1::Prepared;

use crate::RequestBody;

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
    pub fn prepared(head: Arc<Prepared>, body: Body) -> Self {
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
    Prepared(Arc<Prepared>),
}

/// The body of an answer.
pub enum Body {
    /// Nothing.
    Empty,
    /// All of it, in memory.
    Bytes(Bytes),
    /// A piece of a file, sent by the kernel where the transport allows it.
    File(FileRange),
    /// Pieces one after the other, of a known length in all: a multipart range.
    Parts(VecDeque<Part>),
    /// Pieces, each when it is ready.
    Stream(Box<dyn BodyStream>),
    /// What comes whether or not the peer reads it.
    Live(Box<dyn Live>),
}

impl Body {
    /// The length in bytes, where it is known before the body is sent.
    #[must_use]
    pub fn length(&self) -> Option<u64> {
        match self {
            Self::Empty => Some(0),
            Self::Bytes(bytes) => Some(bytes.len() as u64),
            Self::File(range) => Some(range.length),
            Self::Parts(parts) => Some(parts.iter().map(Part::length).sum()),
            Self::Stream(stream) => stream.length(),
            Self::Live(_) => None,
        }
    }
}

/// A body whose pieces become ready one after the other. Dropping it cancels it.
pub trait BodyStream: Send {
    /// The next piece, `None` at the end; nothing comes after trailers. The connection polls a pending body again when the
    /// waker of `cx` is woken, or a [`Deadline`](crate::Deadline) that the body waits for has passed.
    fn poll_piece(
        &mut self,
        cx: &mut Context<'_>,
        now: Instant,
    ) -> Poll<Option<Result<BodyPiece, BodyError>>>;

    /// Called in place of [`Self::poll_piece`] while the client does not take what it was sent, so that a body can read ahead
    /// from its source.
    fn poll_ahead(&mut self, _cx: &mut Context<'_>, _now: Instant) {}

    /// The bytes that are still to come, where their number is known.
    fn length(&self) -> Option<u64> {
        None
    }
}

/// A piece of a [`BodyStream`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BodyPiece {
    /// Bytes of the body.
    Data(Bytes),
    /// The trailers, which end it.
    Trailers(HeaderMap),
}

/// Why a body breaks off.
pub type BodyError = Box<dyn std::error::Error + Send + Sync>;

/// A body whose pieces come at their own time, read or not: a ticking stream, a broadcast.
///
/// It has no timer of its own: the connection, which has one anyway, asks again when the body is [due](Self::due).
pub trait Live: Send {
    /// The next piece, `None` at the end. Pending, it is asked again when the waker of `cx` says so, or when it is due.
    fn poll_piece(&mut self, cx: &mut Context<'_>, now: Instant) -> Poll<Option<Bytes>>;

    /// Asked in place of [`Self::poll_piece`] while the peer does not take what it was sent: ready when the peer has fallen
    /// so far behind that it is dropped.
    fn poll_overrun(&mut self, cx: &mut Context<'_>, now: Instant) -> Poll<()>;

    /// When the body is polled again although nothing wakes it.
    fn due(&self) -> Option<Instant>;
}

/// A piece of a body made of several.
pub enum Part {
    /// In memory.
    Bytes(Bytes),
    /// In a file.
    File(FileRange),
}

impl Part {
    fn length(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::File(range) => range.length,
        }
    }
}

/// A piece of an open file. What was promised of the file is kept beside it, so that a change in place is noticed while
/// it is sent and cuts the connection: a length is never wrong.
#[derive(Debug, Clone)]
pub struct FileRange {
    /// The open file: a rename that replaces its name does not touch it.
    pub file: Arc<File>,
    /// Where the piece begins, in bytes.
    pub start: u64,
    /// How long it is, in bytes.
    pub length: u64,
    /// The file's whole size in bytes when the answer was made.
    pub size: u64,
    /// The file's modification time when the answer was made, in nanoseconds since 1970.
    pub modified_ns: i128,
}

/// Takes the connection over after a `101 Switching Protocols`.
pub type Upgrade = Box<dyn FnOnce(Upgraded) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send>;

/// A connection that speaks another protocol from here on.
pub struct Upgraded {
    /// What the peer had already sent after its request; comes before anything read from `io`.
    pub unread: Bytes,
    /// The connection. It is closed in order when this is dropped.
    pub io: Box<dyn crate::transport::Duplex>,
}
