//! Streaming bodies of requests and responses.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use http_body::{Frame, SizeHint};
use tokio::sync::mpsc;

/// A body, complete or streamed.
///
/// It implements [`http_body::Body`], so code written for other servers can read it.
#[derive(Debug)]
pub struct Body {
    source: Source,
}

/// The sending side of [`Body::channel`].
#[derive(Debug)]
#[must_use = "a body that is not finished is a body that was cut off"]
pub struct BodySender {
    pieces: mpsc::Sender<Piece>,
}

/// Why a body is incomplete.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BodyError {
    /// The web server cancelled the request or closed the connection.
    #[error("the web server cancelled the request")]
    Aborted,
    /// The body is shorter than `CONTENT_LENGTH` (section 6.2).
    #[error("the body ended after {received} of {expected} bytes")]
    Truncated {
        /// Bytes received.
        received: u64,
        /// Bytes expected.
        expected: u64,
    },
    /// The body is larger than the limit passed to [`Body::collect`].
    #[error("the body is larger than the limit of {limit} bytes")]
    TooLarge {
        /// The limit in bytes.
        limit: usize,
    },
    /// The sender was dropped without [`BodySender::finish`].
    #[error("the sender of the body was dropped before it finished")]
    Unfinished,
}

#[derive(Debug)]
enum Source {
    /// `None` once it has been read.
    Whole(Option<Bytes>),
    Pieces {
        pieces: mpsc::Receiver<Piece>,
        received: u64,
        expected: Option<u64>,
        /// The error if the channel closes without [`Piece::End`].
        lost: BodyError,
        is_over: bool,
    },
}

/// An item of a streamed body.
#[derive(Debug)]
pub(super) enum Piece {
    Data(Bytes),
    End,
}

/// Number of queued pieces. With a read of 16 KiB per piece, 64 KiB for each body.
const PIECES: usize = 4;

impl Body {
    /// Returns an empty body.
    #[must_use]
    pub fn empty() -> Self {
        Self { source: Source::Whole(None) }
    }

    /// Returns a streamed body and its sender. The sender waits while the queue is full.
    pub fn channel() -> (BodySender, Self) {
        let (pieces, body) = Self::pieces(None, BodyError::Unfinished);
        (BodySender { pieces }, body)
    }

    /// Waits for the next piece. Returns `None` at the end.
    pub async fn next(&mut self) -> Option<Result<Bytes, BodyError>> {
        std::future::poll_fn(|context| self.poll_next(context)).await
    }

    /// Reads the whole body into memory.
    ///
    /// # Errors
    ///
    /// The body is larger than `limit` bytes, or incomplete.
    pub async fn collect(mut self, limit: usize) -> Result<Bytes, BodyError> {
        let mut all = BytesMut::new();
        while let Some(piece) = self.next().await {
            let piece = piece?;
            if all.len() + piece.len() > limit {
                return Err(BodyError::TooLarge { limit });
            }
            all.extend_from_slice(&piece);
        }
        Ok(all.freeze())
    }

    pub(super) fn pieces(expected: Option<u64>, lost: BodyError) -> (mpsc::Sender<Piece>, Self) {
        let (sender, pieces) = mpsc::channel(PIECES);
        (sender, Self { source: Source::Pieces { pieces, received: 0, expected, lost, is_over: false } })
    }

    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, BodyError>>> {
        let (pieces, received, expected, lost, is_over) = match &mut self.source {
            Source::Whole(bytes) => return Poll::Ready(bytes.take().map(Ok)),
            Source::Pieces { is_over: true, .. } => return Poll::Ready(None),
            Source::Pieces { pieces, received, expected, lost, is_over } => {
                (pieces, received, *expected, *lost, is_over)
            }
        };
        match ready!(pieces.poll_recv(context)) {
            Some(Piece::Data(data)) => {
                *received += data.len() as u64;
                Poll::Ready(Some(Ok(data)))
            }
            end => {
                *is_over = true;
                let error = match (end, expected) {
                    (None, _) => lost,
                    (_, Some(expected)) if *received < expected => {
                        BodyError::Truncated { received: *received, expected }
                    }
                    _ => return Poll::Ready(None),
                };
                Poll::Ready(Some(Err(error)))
            }
        }
    }
}

impl BodySender {
    /// Sends a piece, and waits while the queue is full. Does nothing for an empty piece.
    ///
    /// # Errors
    ///
    /// The receiver was dropped: the request has ended.
    pub async fn send(&mut self, data: impl Into<Bytes>) -> Result<(), BodyError> {
        let data = data.into();
        if data.is_empty() {
            return Ok(());
        }
        self.pieces.send(Piece::Data(data)).await.map_err(|_| BodyError::Aborted)
    }

    /// Ends the body. Dropping the sender without this call truncates the response.
    ///
    /// # Errors
    ///
    /// The receiver was dropped: the request has ended.
    pub async fn finish(self) -> Result<(), BodyError> {
        self.pieces.send(Piece::End).await.map_err(|_| BodyError::Aborted)
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        self.get_mut().poll_next(context).map_ok(Frame::data)
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.source, Source::Whole(None) | Source::Pieces { is_over: true, .. })
    }

    fn size_hint(&self) -> SizeHint {
        match &self.source {
            Source::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, Bytes::len) as u64),
            Source::Pieces { received, expected: Some(expected), .. } => {
                SizeHint::with_exact(expected.saturating_sub(*received))
            }
            Source::Pieces { .. } => SizeHint::default(),
        }
    }
}

impl Default for Body {
    fn default() -> Self {
        Self::empty()
    }
}

impl From<Bytes> for Body {
    fn from(bytes: Bytes) -> Self {
        Self { source: Source::Whole((!bytes.is_empty()).then_some(bytes)) }
    }
}

impl From<Vec<u8>> for Body {
    fn from(bytes: Vec<u8>) -> Self {
        Bytes::from(bytes).into()
    }
}

impl From<String> for Body {
    fn from(text: String) -> Self {
        Bytes::from(text).into()
    }
}

impl From<&'static str> for Body {
    fn from(text: &'static str) -> Self {
        Bytes::from_static(text.as_bytes()).into()
    }
}
