//! Takes what is published: each line of a request's body is a message, and goes out as soon as it is whole.

use std::sync::Arc;

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use rudy_net::{RequestBody, Response};

use crate::follow::{LINE_BYTES_MAX, Lines};
use crate::pages;
use crate::topic::{Batch, History, Topic};

/// So many bytes of lines are published at once: the piece of which a listener is sent a part is kept as a whole.
const BATCH_BYTES: usize = 64 * 1024;

/// Publishes the lines of `body`. `headers` are the request's.
pub(super) async fn receive(
    topic: Arc<Topic>,
    mut body: RequestBody,
    history: History,
    headers: HeaderMap,
) -> Response {
    let mut lines = Lines::default();
    let mut intake = Intake { topic, history, batch: Batch::default(), taken: 0, wrong: None };
    while let Some(piece) = body.next_piece().await {
        match piece {
            Ok(piece) => lines.push(&piece, &mut |text, is_cut| intake.take(text, is_cut)),
            // Half a line is none.
            Err(error) => return intake.refuse(&headers, StatusCode::BAD_REQUEST, &error.to_string()),
        }
        intake.publish();
        if let Some((status, why)) = intake.wrong.take() {
            return intake.refuse(&headers, status, &why);
        }
    }
    lines.finish(&mut |text, is_cut| intake.take(text, is_cut));
    let id = intake.publish();
    match intake.wrong.take() {
        Some((status, why)) => intake.refuse(&headers, status, &why),
        None if intake.taken == 0 => {
            intake.refuse(&headers, StatusCode::BAD_REQUEST, "there is no line in the body")
        }
        None => accepted(id),
    }
}

struct Intake {
    topic: Arc<Topic>,
    history: History,
    batch: Batch,
    /// Lines that were published or are in the batch.
    taken: u64,
    /// What is wrong with the line after them.
    wrong: Option<(StatusCode, String)>,
}

impl Intake {
    fn take(&mut self, text: &[u8], is_cut: bool) {
        if self.wrong.is_some() {
            return;
        }
        if is_cut {
            let why = format!("it is longer than {LINE_BYTES_MAX} bytes");
            self.wrong = Some((StatusCode::PAYLOAD_TOO_LARGE, why));
            return;
        }
        let Ok(text) = std::str::from_utf8(text) else {
            self.wrong = Some((StatusCode::BAD_REQUEST, "it is not UTF-8".to_owned()));
            return;
        };
        self.batch.push(text);
        self.taken += 1;
        if self.batch.bytes() >= BATCH_BYTES {
            self.publish();
        }
    }

    /// Returns the id of the last message.
    fn publish(&mut self) -> HeaderValue {
        let id = self.topic.publish(&self.batch, self.history).to_string();
        self.batch.clear();
        // Digits and a hyphen are fit for a field.
        HeaderValue::from_str(&id).unwrap_or_else(|_| HeaderValue::from_static(""))
    }

    fn refuse(&self, headers: &HeaderMap, status: StatusCode, why: &str) -> Response {
        let explanation =
            format!("Line {}: {why}. {} lines before it were published.", self.taken + 1, self.taken);
        pages::error(status, headers, &explanation)
    }
}

/// Published, with the id of the last message: whoever listens after it misses nothing.
fn accepted(id: HeaderValue) -> Response {
    let mut response = Response::new(StatusCode::NO_CONTENT);
    response.headers_mut().insert(HeaderName::from_static("last-event-id"), id);
    response
}
