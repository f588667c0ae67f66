//! A body of any kind as pieces.

use std::task::{Context, Poll};
use std::time::Instant;

use rudy_service::{Body, BodyError, BodyPiece, BodyStream, FileRange, Piped};

/// Yields the pieces of a body. Those in memory and in files are no longer than the connection can send; files are still sent by
/// the kernel. Something else may be held until the body is dropped: after its end, or when the client is gone.
pub struct Pieces<H = ()> {
    body: Body,
    _held: H,
}

impl<H> Pieces<H> {
    /// The pieces of a body, which holds something.
    pub fn new(body: Body, held: H) -> Self {
        Self { body, _held: held }
    }
}

impl<H: Send> BodyStream for Pieces<H> {
    fn poll_piece(
        &mut self,
        cx: &mut Context<'_>,
        now: Instant,
        max: u64,
    ) -> Poll<Option<Result<BodyPiece, BodyError>>> {
        let piece = match &mut self.body {
            Body::Stream(stream) => return stream.poll_piece(cx, now, max),
            Body::Bytes(bytes) if !bytes.is_empty() => {
                let length = usize::try_from(max).unwrap_or(usize::MAX).min(bytes.len());
                BodyPiece::Data(bytes.split_to(length))
            }
            Body::File(range) if range.length > 0 => {
                let first = FileRange { length: range.length.min(max), ..range.clone() };
                range.start += first.length;
                range.length -= first.length;
                BodyPiece::File(first)
            }
            Body::Empty | Body::Silence | Body::Bytes(_) | Body::File(_) => return Poll::Ready(None),
        };
        Poll::Ready(Some(Ok(piece)))
    }

    fn take_piped(&mut self, max: u64) -> Option<Piped> {
        if let Body::Stream(stream) = &mut self.body { stream.take_piped(max) } else { None }
    }

    fn poll_blocked(&mut self, cx: &mut Context<'_>, now: Instant) -> Poll<()> {
        if let Body::Stream(stream) = &mut self.body { stream.poll_blocked(cx, now) } else { Poll::Pending }
    }

    fn due(&self) -> Option<Instant> {
        if let Body::Stream(stream) = &self.body { stream.due() } else { None }
    }

    fn length(&self) -> Option<u64> {
        self.body.length()
    }

    fn is_live(&self) -> bool {
        if let Body::Stream(stream) = &self.body { stream.is_live() } else { false }
    }

    fn end(&mut self) -> bool {
        if let Body::Stream(stream) = &mut self.body { stream.end() } else { false }
    }
}
