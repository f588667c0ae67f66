//! The step that limits how long a handler may take to begin its response.

use std::future::poll_fn;
use std::task::Poll;
use std::time::{Duration, Instant};

use http::StatusCode;
use rudy_net::{Deadline, Reply};

use super::{Flow, Passage, Step};
use crate::handlers::Call;
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

/// Responds with 504 if the handler does not begin its response in time. Its work is cancelled.
#[derive(Debug)]
pub(super) struct RequestTimeout(pub(super) Duration);

impl Step for RequestTimeout {
    fn request(&self, passage: &mut Passage<'_>, _: &Call<'_>) -> Flow {
        let form = Form::preferred(passage.request.headers());
        passage.kept.timeout = Some((Instant::now() + self.0, form));
        Flow::Continue
    }

    fn describe(&self) -> Vec<String> {
        vec![format!("timeout: 504 without a response in {:?}", self.0)]
    }
}
