//! The request body for an app.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::Body as _;
use rudy_net::RequestBody;

use super::failure::Failure;
use crate::buffer::{MEMORY_BYTES_MAX, StoredBody};

/// A request body that is read piece by piece.
#[derive(Debug, Default)]
pub(super) struct Upload {
    source: Source,
    /// Whether the end of the body was sent to the app.
    is_ended: bool,
}

#[derive(Debug, Default)]
enum Source {
    #[default]
    Empty,
    /// A body that comes from the client.
    Client(RequestBody),
    /// A complete body that was stored.
    Stored(Box<StoredBody>),
}

impl Upload {
    /// Creates an upload of a body that is passed on as it comes in.
    pub(super) fn of_client(body: RequestBody) -> Self {
        if body.is_end_stream() {
            return Self::default();
        }
        Self { source: Source::Client(body), is_ended: false }
    }

    /// Creates an upload of a stored body.
    pub(super) fn stored(stored: StoredBody) -> Self {
        Self { source: Source::Stored(Box::new(stored)), is_ended: false }
    }

    /// Returns the length in bytes, if known.
    pub(super) fn length(&self) -> Option<u64> {
        match &self.source {
            Source::Empty => Some(0),
            Source::Client(body) => body.size_hint().exact(),
            Source::Stored(stored) => Some(stored.length()),
        }
    }

    /// Returns the next piece; `None` at the end.
    pub(super) fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Failure>>> {
        let body = match &mut self.source {
            Source::Empty => return Poll::Ready(None),
            Source::Stored(stored) => return stored.poll_piece(cx).map_err(Failure::from_disk),
            Source::Client(body) => body,
        };
        loop {
            return Poll::Ready(match ready!(Pin::new(&mut *body).poll_frame(cx)) {
                None => None,
                Some(Err(error)) => Some(Err(Failure::Client(error))),
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => Some(Ok(data)),
                    // CGI has no trailers.
                    Err(_) => continue,
                },
            });
        }
    }

    /// Returns whether the whole body is in memory.
    pub(super) fn is_in_memory(&self) -> bool {
        match &self.source {
            Source::Empty => true,
            Source::Client(_) => false,
            Source::Stored(stored) => stored.length() <= MEMORY_BYTES_MAX,
        }
    }

    /// Marks the body as sent completely.
    pub(super) fn end(&mut self) {
        self.is_ended = true;
    }

    /// Returns whether nothing more is sent to the app.
    pub(super) fn is_ended(&self) -> bool {
        self.is_ended
    }

    /// Returns whether the next piece depends on the client.
    pub(super) fn waits_for_client(&self) -> bool {
        !self.is_ended && matches!(self.source, Source::Client(_))
    }

    /// Returns the same body from its start for another attempt; `None` if it was passed on as it came in.
    pub(super) fn rewind(self) -> Option<Self> {
        let source = match self.source {
            Source::Empty => Source::Empty,
            Source::Client(_) => return None,
            Source::Stored(mut stored) => {
                stored.rewind();
                Source::Stored(stored)
            }
        };
        Some(Self { source, is_ended: false })
    }
}
