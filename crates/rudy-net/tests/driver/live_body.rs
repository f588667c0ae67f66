//! Live bodies: one with a piece at each interval, one that stays silent, one that is always ready.

use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::StatusCode;
use rudy_service::{Body, BodyError, BodyPiece, BodyStream, Deadline, Response};

pub(crate) const INTERVAL: Duration = Duration::from_millis(20);

/// Larger than the socket buffers of a peer that does not read.
pub(crate) const LARGE: &[u8] = &[b'x'; 4 << 20];

/// A body with a piece at each interval; its path selects variations.
struct Beat {
    next: Instant,
    left: u32,
    piece: &'static [u8],
    panics: bool,
    /// How far a peer may fall behind.
    patience: Duration,
}

pub(crate) fn respond(path: &str) -> Response {
    let next = Instant::now() + INTERVAL;
    let beat = Beat { next, left: u32::MAX, piece: b"tick\n", panics: false, patience: 2 * INTERVAL };
    let beat = match path {
        "/live/three" => Beat { left: 3, ..beat },
        "/live/large" => Beat { piece: LARGE, ..beat },
        "/live/large-and-patient" => Beat { piece: LARGE, patience: Duration::from_mins(1), ..beat },
        "/live/panic" => Beat { panics: true, ..beat },
        _ => beat,
    };
    let mut response = Response::new(StatusCode::OK);
    response.body = match path {
        "/live/silent" => Body::Stream(Box::new(Silence)),
        "/live/endless" => Body::Stream(Box::new(Endless)),
        _ => Body::Stream(Box::new(beat)),
    };
    response
}

impl BodyStream for Beat {
    fn poll_piece(
        &mut self,
        cx: &mut Context<'_>,
        now: Instant,
        _max: u64,
    ) -> Poll<Option<Result<BodyPiece, BodyError>>> {
        if self.left == 0 {
            return Poll::Ready(None);
        }
        if now < self.next {
            return Deadline::at(self.next).poll_passed(cx).map(|()| None);
        }
        assert!(!self.panics, "on purpose, in a live body");
        self.next += INTERVAL;
        self.left -= 1;
        piece(Bytes::from_static(self.piece))
    }

    fn poll_blocked(&mut self, cx: &mut Context<'_>, _now: Instant) -> Poll<()> {
        Deadline::at(self.next + self.patience).poll_passed(cx)
    }

    fn is_live(&self) -> bool {
        true
    }
}

fn piece(bytes: Bytes) -> Poll<Option<Result<BodyPiece, BodyError>>> {
    Poll::Ready(Some(Ok(BodyPiece::Data(bytes))))
}

/// Has no pieces, and no time for the next one.
struct Silence;

impl BodyStream for Silence {
    fn poll_piece(
        &mut self,
        _: &mut Context<'_>,
        _: Instant,
        _: u64,
    ) -> Poll<Option<Result<BodyPiece, BodyError>>> {
        Poll::Pending
    }

    fn is_live(&self) -> bool {
        true
    }
}

/// Always has another piece.
struct Endless;

impl BodyStream for Endless {
    fn poll_piece(
        &mut self,
        _: &mut Context<'_>,
        _: Instant,
        _: u64,
    ) -> Poll<Option<Result<BodyPiece, BodyError>>> {
        piece(work())
    }

    fn is_live(&self) -> bool {
        true
    }
}

/// Returns a piece that takes a moment to create, like a compressed one.
pub(crate) fn work() -> Bytes {
    std::thread::sleep(Duration::from_micros(200));
    Bytes::from_static(&LARGE[..16 * 1024])
}
