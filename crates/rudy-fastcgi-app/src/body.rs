//! Bodies that come in pieces, of requests and of answers.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use http_body::{Frame, SizeHint};
use tokio::sync::mpsc;

/// A body, whole or in pieces as they come.
///
/// A request has one, and an answer may have one; it is also an [`http_body::Body`], so that what is written for other
/// servers reads it, and what other libraries make can be answered with.
#[derive(Debug)]
pub struct Body {
    source: Source,
}

/// The other end of [`Body::channel`].
#[derive(Debug)]
#[must_use = "a body that is not finished is a body that was cut off"]
pub struct BodySender {
    pieces: mpsc::Sender<Piece>,
}

/// Why a body is not whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyError {
    /// The web server has given the request up, or has closed the connection.
    Aborted,
    /// Less came than `CONTENT_LENGTH` said (section 6.2).
    Truncated {
        /// Bytes that came.
        received: u64,
        /// Bytes that were to come.
        expected: u64,
    },
    /// It was to be gathered, and is larger than was allowed.
    TooLarge {
        /// Bytes that were allowed.
        limit: usize,
    },
    /// Whoever sent it has gone without [`BodySender::finish`].
    Unfinished,
}

#[derive(Debug)]
enum Source {
    /// `None` when it has been taken.
    Whole(Option<Bytes>),
    Pieces {
        pieces: mpsc::Receiver<Piece>,
        received: u64,
        expected: Option<u64>,
        /// What the end of the pieces without [`Piece::End`] means.
        lost: BodyError,
        is_over: bool,
    },
}

/// What a body consists of while it comes.
#[derive(Debug)]
pub(super) enum Piece {
    Data(Bytes),
    End,
}

/// Pieces that wait for whoever reads them. With those that the responder reads, of 16 KiB, that is 64 KiB for each body.
const PIECES: usize = 4;

impl Body {
    /// Nothing.
    #[must_use]
    pub fn empty() -> Self {
        Self { source: Source::Whole(None) }
    }

    /// A body that is sent piece by piece, and what it is sent with: a sender waits until its pieces are taken.
    pub fn channel() -> (BodySender, Self) {
        let (pieces, body) = Self::pieces(None, BodyError::Unfinished);
        (BodySender { pieces }, body)
    }

    /// The next piece, which may come late; `None` at the end.
    pub async fn next(&mut self) -> Option<Result<Bytes, BodyError>> {
        std::future::poll_fn(|context| self.poll_next(context)).await
    }

    /// All of it, if that is no more than `limit` bytes.
    ///
    /// # Errors
    ///
    /// It is larger, or not whole.
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
    /// Sends a piece, and waits while others are still to be taken. An empty piece is none.
    ///
    /// # Errors
    ///
    /// Nobody takes it any more: the request is over.
    pub async fn send(&mut self, data: impl Into<Bytes>) -> Result<(), BodyError> {
        let data = data.into();
        if data.is_empty() {
            return Ok(());
        }
        self.pieces.send(Piece::Data(data)).await.map_err(|_| BodyError::Aborted)
    }

    /// The body is whole. A sender that is dropped instead leaves an answer that was cut off.
    ///
    /// # Errors
    ///
    /// Nobody takes it any more: the request is over.
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

impl fmt::Display for BodyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Aborted => f.write_str("the web server has given the request up"),
            Self::Truncated { received, expected } => {
                write!(f, "the body ended after {received} of {expected} bytes")
            }
            Self::TooLarge { limit } => {
                write!(f, "the body is larger than the {limit} bytes that are allowed")
            }
            Self::Unfinished => f.write_str("whoever sent the body has gone without finishing it"),
        }
    }
}

impl std::error::Error for BodyError {}
