//! The request body for an upstream.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, header};
use http_body::Body as _;
use rudy_net::{RequestBody, RequestBodyError};

use crate::buffer::{MEMORY_BYTES_MAX, StoredBody};

/// A request body that is read piece by piece: first what was stored of it, then the rest from the client.
#[derive(Debug, Default)]
pub(crate) struct Upload {
    stored: Option<Box<StoredBody>>,
    /// `None` if it is empty. In boxes, because a request that waits for a connection stores this, and most have no body.
    client: Option<Box<RequestBody>>,
    /// Whether any of `client` was read, so that the body cannot be sent again.
    has_read_client: bool,
    /// The trailers, which only a body from the client has.
    trailers: Option<Box<HeaderMap>>,
    /// Whether the end of the body was sent to the upstream.
    is_ended: bool,
}

/// Why a request body cannot be read.
#[derive(Debug)]
pub(crate) enum UploadError {
    /// The client did not send it.
    Client(RequestBodyError),
    /// The stored body cannot be read.
    Disk(io::Error),
}

impl Upload {
    /// Creates an upload of a body that is passed on as it comes in.
    pub(crate) fn of_client(client: RequestBody) -> Self {
        let client = (!client.is_end_stream()).then(|| Box::new(client));
        Self { client, ..Self::default() }
    }

    /// Creates an upload of a stored body.
    pub(crate) fn stored(stored: StoredBody) -> Self {
        Self { stored: Some(Box::new(stored)), ..Self::default() }
    }

    /// Creates an upload of a body whose start was stored, maybe all of it with its trailers.
    pub(crate) fn begun(start: StoredBody, trailers: Option<HeaderMap>, rest: RequestBody) -> Self {
        Self { stored: Some(Box::new(start)), trailers: trailers.map(Box::new), ..Self::of_client(rest) }
    }

    /// Returns the length in bytes, if known.
    pub(crate) fn length(&self) -> Option<u64> {
        let stored = self.stored.as_ref().map_or(0, |stored| stored.length());
        let rest = self.client.as_ref().map_or(Some(0), |client| client.size_hint().exact())?;
        Some(stored + rest)
    }

    /// Returns the next piece; `None` at the end.
    pub(crate) fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, UploadError>>> {
        if let Some(stored) = &mut self.stored
            && let Some(piece) = ready!(stored.poll_piece(cx))
        {
            return Poll::Ready(Some(piece.map_err(UploadError::Disk)));
        }
        let Some(client) = &mut self.client else { return Poll::Ready(None) };
        loop {
            let frame = ready!(Pin::new(&mut **client).poll_frame(cx));
            self.has_read_client |= frame.is_some();
            return Poll::Ready(match frame {
                None => None,
                Some(Err(error)) => Some(Err(UploadError::Client(error))),
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => Some(Ok(data)),
                    Err(frame) => {
                        self.trailers = frame.into_trailers().ok().map(Box::new);
                        continue;
                    }
                },
            });
        }
    }

    /// Returns the trailers, after the last piece.
    pub(crate) fn trailers(&self) -> Option<&HeaderMap> {
        self.trailers.as_deref()
    }

    /// Returns whether the whole body is in memory.
    pub(crate) fn is_in_memory(&self) -> bool {
        self.client.is_none() && self.stored.as_ref().is_none_or(|stored| stored.length() <= MEMORY_BYTES_MAX)
    }

    /// Marks the body as sent completely.
    pub(crate) fn end(&mut self) {
        self.is_ended = true;
    }

    /// Returns whether nothing more is sent to the upstream.
    pub(crate) fn is_ended(&self) -> bool {
        self.is_ended
    }

    /// Returns whether the next piece depends on the client.
    pub(crate) fn waits_for_client(&self) -> bool {
        !self.is_ended && self.client.is_some()
    }

    /// Returns the same body from its start for another attempt; `None` if a part from the client was passed on.
    pub(crate) fn rewind(mut self) -> Option<Self> {
        if self.has_read_client {
            return None;
        }
        if let Some(stored) = &mut self.stored {
            stored.rewind();
        }
        self.is_ended = false;
        Some(self)
    }
}

/// Returns whether the body of a request may be endless, and wait for the response.
pub(crate) fn may_be_endless(method: &Method, fields: &HeaderMap) -> bool {
    let is_grpc = |media_type: &HeaderValue| media_type.as_bytes().starts_with(b"application/grpc");
    *method == Method::CONNECT
        || fields.contains_key(header::UPGRADE)
        || fields.get(header::CONTENT_TYPE).is_some_and(is_grpc)
}
