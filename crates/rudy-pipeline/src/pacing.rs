//! Responses that are sent with a limited number of bytes per second.

use std::task::{Context, Poll, ready};
use std::time::Instant;

use rudy_limit::Pace;
use rudy_service::{Body, BodyError, BodyPiece, BodyStream, Response};

use crate::Pieces;

/// Some bytes per second, after some that are sent at full speed.
#[derive(Debug, Clone, Copy)]
pub struct Rate {
    /// At least 1.
    pub bytes_per_second: u64,
    /// What each response sends at full speed first.
    pub after: u64,
}

impl Rate {
    /// Makes the body of a response one that is sent with this rate, unless it is small.
    #[must_use]
    pub fn pace(self, mut response: Response) -> Response {
        let at_once = Pace::bytes_at_once(self.bytes_per_second, self.after);
        let is_small = response.body.length().is_some_and(|length| length <= at_once);
        if !is_small && response.upgrade.is_none() {
            let body = Pieces::new(std::mem::replace(&mut response.body, Body::Empty), ());
            response.body = Body::Stream(Box::new(PacedBody { body, rate: self, pace: None, due: None }));
        }
        response
    }
}

/// A body that is sent with a [`Pace`].
struct PacedBody {
    body: Pieces,
    rate: Rate,
    /// `None` until the first piece.
    pace: Option<Pace>,
    /// When the next piece may be sent, while it is too early.
    due: Option<Instant>,
}

impl BodyStream for PacedBody {
    fn poll_piece(
        &mut self,
        cx: &mut Context<'_>,
        now: Instant,
        max: u64,
    ) -> Poll<Option<Result<BodyPiece, BodyError>>> {
        if self.body.length() == Some(0) {
            return self.body.poll_piece(cx, now, max);
        }
        let Rate { bytes_per_second, after } = self.rate;
        let pace = self.pace.get_or_insert_with(|| Pace::new(bytes_per_second, after, now));
        let available = match pace.available(now) {
            Ok(available) => available,
            Err(due) => {
                self.due = Some(due);
                // As if the client did not read: the handler may read ahead.
                ready!(self.body.poll_blocked(cx, now));
                return Poll::Ready(Some(Err("the bandwidth is too low for the live response".into())));
            }
        };
        self.due = None;
        let piece = ready!(self.body.poll_piece(cx, now, max.min(available)));
        if let Some(Ok(piece)) = &piece {
            pace.spend(piece.length(), now);
        }
        Poll::Ready(piece)
    }

    fn poll_blocked(&mut self, cx: &mut Context<'_>, now: Instant) -> Poll<()> {
        self.body.poll_blocked(cx, now)
    }

    fn due(&self) -> Option<Instant> {
        self.due.or_else(|| self.body.due())
    }

    fn length(&self) -> Option<u64> {
        self.body.length()
    }

    fn is_live(&self) -> bool {
        self.body.is_live()
    }

    fn end(&mut self) -> bool {
        self.body.end()
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::sync::Arc;
    use std::task::Waker;
    use std::time::Duration;

    use http::StatusCode;
    use rudy_service::FileRange;

    use super::*;

    /// The lengths of the pieces of a body, with the milliseconds at which they are sent, on a clock that moves to the next deadline.
    fn pieces(body: Body, rate: Rate) -> Vec<(u64, u64)> {
        let mut response = Response::new(StatusCode::OK);
        response.body = body;
        let Body::Stream(mut stream) = rate.pace(response).body else { panic!("the body is paced") };
        let start = Instant::now();
        let (mut now, mut sent) = (start, Vec::new());
        let cx = &mut Context::from_waker(Waker::noop());
        loop {
            match stream.poll_piece(cx, now, 1000) {
                Poll::Ready(Some(Ok(piece))) => {
                    let ms = u64::try_from(now.duration_since(start).as_millis()).unwrap();
                    sent.push((ms, piece.length()));
                }
                Poll::Ready(None) => return sent,
                Poll::Ready(Some(Err(error))) => panic!("{error}"),
                Poll::Pending => {
                    let due = stream.due().unwrap();
                    assert!(due > now, "a wait has an end in the future");
                    now = due;
                }
            }
        }
    }

    fn file(length: u64) -> Body {
        let file = Arc::new(File::open("/dev/null").unwrap());
        Body::File(FileRange { file, start: 7, length, size: length + 7, modified_ns: 0 })
    }

    #[test]
    fn bytes_and_files_are_sent_in_pieces_at_the_rate() {
        let rate = Rate { bytes_per_second: 4000, after: 500 };
        let expected = [(0, 900), (100, 400), (200, 400), (300, 300)];
        assert_eq!(pieces(Body::Bytes(vec![0; 2000].into()), rate), expected);
        assert_eq!(pieces(file(2000), rate), expected);
    }

    #[test]
    fn a_piece_that_the_handler_does_not_split_delays_the_next_one() {
        let piece = |length| BodyPiece::Data(vec![0; length].into());
        let body = std::collections::VecDeque::from([piece(1000), piece(100), piece(300)]);
        let rate = Rate { bytes_per_second: 1000, after: 0 };
        assert_eq!(pieces(Body::Stream(Box::new(body)), rate), [(0, 1000), (1000, 100), (1100, 300)]);
    }

    #[test]
    fn a_small_response_stays_as_it_is() {
        let mut response = Response::text(StatusCode::OK, "text/plain", "hello");
        response = Rate { bytes_per_second: 50, after: 0 }.pace(response);
        assert!(matches!(response.body, Body::Bytes(_)));
        response = Rate { bytes_per_second: 49, after: 1 }.pace(response);
        assert!(matches!(response.body, Body::Bytes(_)));
        response = Rate { bytes_per_second: 49, after: 0 }.pace(response);
        assert_eq!(response.body.length(), Some(5));
        let Body::Stream(mut stream) = response.body else { panic!("it is paced") };
        let cx = &mut Context::from_waker(Waker::noop());
        let now = Instant::now();
        assert!(stream.poll_piece(cx, now, 100).is_ready() && stream.due().is_none());
        assert_eq!(stream.length(), Some(1));
        assert!(stream.poll_piece(cx, now, 100).is_pending() && stream.due().is_some());
        assert!(stream.poll_piece(cx, now + Duration::from_secs(1), 100).is_ready());
    }
}
