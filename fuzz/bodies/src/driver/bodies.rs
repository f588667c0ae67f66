//! Response bodies that take time.

use std::task::{Context, Poll, ready};
use std::time::Instant;

use rudy_service::{BodyError, BodyPiece, BodyStream, RequestBody};

use super::service::{Log, trailers};
use super::task::{Kind, Task};

/// A body in five pieces. Every other one is a part of a file.
pub(super) struct Pieces {
    task: Task,
    sent: usize,
    /// Whether the pause before the next piece is over.
    has_paused: bool,
    has_trailed: bool,
    log: Log,
}

impl Pieces {
    pub(super) fn new(task: Task, log: Log) -> Self {
        Self { task, sent: 0, has_paused: false, has_trailed: false, log }
    }
}

impl BodyStream for Pieces {
    fn poll_piece(
        &mut self,
        cx: &mut Context<'_>,
        _: Instant,
        max: u64,
    ) -> Poll<Option<Result<BodyPiece, BodyError>>> {
        let Task { kind, bytes, number } = self.task;
        if kind != Kind::Sized && !self.has_paused {
            ready!(self.log.poll_turn(number, cx));
            self.has_paused = true;
        }
        let (start, size) = (self.sent, (bytes / 5 + 1).min(bytes - self.sent));
        let size = size.min(usize::try_from(max).unwrap_or(usize::MAX));
        if size == 0 {
            return Poll::Ready(match kind {
                Kind::Failing => Some(Err("a body fails".into())),
                Kind::Stream if !std::mem::replace(&mut self.has_trailed, true) => {
                    Some(Ok(BodyPiece::Trailers(trailers())))
                }
                _ => None,
            });
        }
        (self.sent, self.has_paused) = (start + size, false);
        self.log.step(number, |_| {});
        let mut file = self.task.file();
        (file.start, file.length) = (file.start + start as u64, size as u64);
        let is_file = start * 10 / bytes % 2 == 1;
        let piece = if is_file {
            BodyPiece::File(file)
        } else {
            BodyPiece::Data(self.task.body(start..start + size))
        };
        Poll::Ready(Some(Ok(piece)))
    }

    fn length(&self) -> Option<u64> {
        (self.task.kind == Kind::Sized).then_some((self.task.bytes - self.sent) as u64)
    }
}

/// The body of the request.
pub(super) struct Echo {
    pub(super) number: usize,
    pub(super) body: RequestBody,
    pub(super) log: Log,
}

impl BodyStream for Echo {
    fn poll_piece(
        &mut self,
        cx: &mut Context<'_>,
        _: Instant,
        _: u64,
    ) -> Poll<Option<Result<BodyPiece, BodyError>>> {
        let frame = ready!(self.log.poll_frame(self.number, &mut self.body, cx));
        Poll::Ready(frame.map(|frame| {
            let piece = frame?.into_data().map(BodyPiece::Data);
            Ok(piece.unwrap_or_else(|frame| BodyPiece::Trailers(frame.into_trailers().unwrap_or_default())))
        }))
    }
}
