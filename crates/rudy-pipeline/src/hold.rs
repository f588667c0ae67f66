//! What waits for the end of a response, or ends it.

use std::future::poll_fn;
use std::task::Poll;
use std::time::Instant;

use http::StatusCode;
use rudy_limit::Slot;
use rudy_service::{Body, Deadline, Reply, Response, Upgrade};

use super::pieces::Pieces;
use crate::pages::{self, Form};

/// Replaces a response that comes later than at a time by 504 in a form. Its work is cancelled.
pub(super) fn limit(reply: Reply, timeout: Option<(Instant, Form)>) -> Reply {
    let (mut response, (until, form)) = match (reply, timeout) {
        (Reply::Later(response), Some(timeout)) => (response, timeout),
        (reply, _) => return reply,
    };
    let mut deadline = Deadline::at(until);
    Reply::Later(Box::pin(poll_fn(move |cx| match response.as_mut().poll(cx) {
        Poll::Ready(response) => Poll::Ready(response),
        Poll::Pending => deadline.poll_passed(cx).map(|()| {
            let explanation = "The server did not respond in time (`request_timeout`).";
            pages::error_of_form(form, StatusCode::GATEWAY_TIMEOUT, explanation)
        }),
    })))
}

/// Keeps a request in progress until its response was sent, or until the connection in another protocol has ended. All steps come
/// before, because they may replace the body, and because a body that is held does not show that it is stored.
pub(super) fn hold(mut response: Response, slots: Vec<Slot>) -> Response {
    if slots.is_empty() || !response.takes_time() {
        return response;
    }
    if let Some(upgrade) = response.upgrade.take() {
        response.upgrade = Some(hold_upgrade(upgrade, slots));
    } else {
        let body = std::mem::replace(&mut response.body, Body::Empty);
        response.body = Body::Stream(Box::new(Pieces::new(body, slots)));
    }
    response
}

fn hold_upgrade(upgrade: Upgrade, slots: Vec<Slot>) -> Upgrade {
    Box::new(move |upgraded| {
        let tunnel = upgrade(upgraded);
        Box::pin(async move {
            tunnel.await;
            drop(slots);
        })
    })
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::unix::net::UnixStream;
    use std::sync::Arc;
    use std::task::Context;

    use rudy_limit::{KeyHasher, Slots};
    use rudy_service::{BodyError, BodyPiece, BodyStream, Piped};

    use super::*;

    /// A body that the kernel moves from a socket.
    struct FromSocket(UnixStream);

    impl BodyStream for FromSocket {
        fn poll_piece(
            &mut self,
            _cx: &mut Context<'_>,
            _now: Instant,
            _max: u64,
        ) -> Poll<Option<Result<BodyPiece, BodyError>>> {
            Poll::Pending
        }

        fn take_piped(&mut self, max: u64) -> Option<Piped> {
            Piped::receive(&self.0, max).ok()
        }
    }

    #[test]
    fn a_body_with_slots_is_still_moved_by_the_kernel() {
        let slots = Arc::new(Slots::new(1));
        let slot = slots.acquire(KeyHasher::default().start().finish()).unwrap();
        let (socket, mut upstream) = UnixStream::pair().unwrap();
        upstream.write_all(b"bytes").unwrap();
        let mut response = Response::new(StatusCode::OK);
        response.body = Body::Stream(Box::new(FromSocket(socket)));
        let Body::Stream(mut body) = hold(response, vec![slot]).body else { panic!("it is a stream") };
        assert_eq!(body.take_piped(100).map(|piped| piped.length()), Some(5));
        assert_eq!(slots.keys(), 1);
        drop(body);
        assert_eq!(slots.keys(), 0);
    }
}
