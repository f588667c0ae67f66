//! Publishes the body of a request: each line is a message, and is sent as soon as it is complete.

use std::sync::Arc;

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use rudy_log::{LINE_BYTES_MAX, Lines};
use rudy_pipeline::pages;
use rudy_service::{RequestBody, Response};

use crate::topic::{Batch, History, Topic};

/// The number of bytes that are published at once. A subscriber that needs a part of a batch holds all of it
/// in memory.
const BATCH_BYTES: usize = 64 * 1024;

/// Publishes the lines of `body`; `headers` are those of the request.
pub(super) async fn publish_body(
    topic: Arc<Topic>,
    mut body: RequestBody,
    history: History,
    headers: HeaderMap,
) -> Response {
    let mut lines = Lines::default();
    let mut publisher = Publisher { topic, history, batch: Batch::default(), accepted: 0, error: None };
    while let Some(piece) = body.next_piece().await {
        match piece {
            Ok(piece) => lines.push(&piece, &mut |text, is_cut| publisher.push(text, is_cut)),
            // An incomplete line is not published.
            Err(error) => return publisher.reject(&headers, StatusCode::BAD_REQUEST, &error.to_string()),
        }
        publisher.publish();
        if let Some((status, why)) = publisher.error.take() {
            return publisher.reject(&headers, status, &why);
        }
    }
    lines.finish(&mut |text, is_cut| publisher.push(text, is_cut));
    let id = publisher.publish();
    match publisher.error.take() {
        Some((status, why)) => publisher.reject(&headers, status, &why),
        None if publisher.accepted == 0 => {
            publisher.reject(&headers, StatusCode::BAD_REQUEST, "the body has no lines")
        }
        None => accepted(id),
    }
}

struct Publisher {
    topic: Arc<Topic>,
    history: History,
    batch: Batch,
    /// The number of lines that were published or are in the batch.
    accepted: u64,
    /// The error of the line after them.
    error: Option<(StatusCode, String)>,
}

impl Publisher {
    fn push(&mut self, text: &[u8], is_cut: bool) {
        if self.error.is_some() {
            return;
        }
        if is_cut {
            let why = format!("it is longer than {LINE_BYTES_MAX} bytes");
            self.error = Some((StatusCode::PAYLOAD_TOO_LARGE, why));
            return;
        }
        let Ok(text) = std::str::from_utf8(text) else {
            self.error = Some((StatusCode::BAD_REQUEST, "it is not UTF-8".to_owned()));
            return;
        };
        self.batch.push(text);
        self.accepted += 1;
        if self.batch.bytes() >= BATCH_BYTES {
            self.publish();
        }
    }

    /// Publishes the batch. Returns the id of the last message.
    fn publish(&mut self) -> HeaderValue {
        let id = self.topic.publish(&self.batch, self.history).to_string();
        self.batch.clear();
        // Digits and a hyphen are a valid field value.
        HeaderValue::from_str(&id).unwrap_or_else(|_| HeaderValue::from_static(""))
    }

    fn reject(&self, headers: &HeaderMap, status: StatusCode, why: &str) -> Response {
        let explanation =
            format!("Line {}: {why}. {} lines before it were published.", self.accepted + 1, self.accepted);
        pages::error(status, headers, &explanation)
    }
}

/// Returns the response with the id of the last message: a client that subscribes after this id misses no
/// message.
fn accepted(id: HeaderValue) -> Response {
    let mut response = Response::new(StatusCode::NO_CONTENT);
    response.headers_mut().insert(HeaderName::from_static("last-event-id"), id);
    response
}
