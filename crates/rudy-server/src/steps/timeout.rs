//! The step that limits how long a handler may take to begin its response.

use std::future::poll_fn;
use std::task::Poll;
use std::time::{Duration, Instant};

use http::StatusCode;
use rudy_net::{Deadline, Reply, Request, Response};

use super::{HeadCall, Next, Step};
use crate::handlers::Call;
use crate::pages;

/// Responds with 504 if the handler does not begin its response in time. Its work is cancelled.
#[derive(Debug)]
pub(super) struct RequestTimeout(pub(super) Duration);

impl Step for RequestTimeout {
    fn call(&self, request: Request, call: Call<'_>, next: Next) -> Reply {
        let fields = request.headers().clone();
        let mut response = match next.call(request, call) {
            Reply::Now(response) => return response.into(),
            Reply::Later(response) => response,
        };
        let mut deadline = Deadline::at(Instant::now() + self.0);
        Reply::Later(Box::pin(poll_fn(move |cx| match response.as_mut().poll(cx) {
            Poll::Ready(response) => Poll::Ready(response),
            Poll::Pending => deadline.poll_passed(cx).map(|()| {
                let explanation = "The server did not respond in time (`request_timeout`).";
                pages::error(StatusCode::GATEWAY_TIMEOUT, &fields, explanation)
            }),
        })))
    }

    fn describe(&self) -> Vec<String> {
        vec![format!("timeout: 504 without a response in {:?}", self.0)]
    }

    /// The response is there already.
    fn finish(&self, response: Response, _call: HeadCall<'_>) -> Option<Response> {
        Some(response)
    }

    fn can_finish(&self) -> bool {
        true
    }
}
