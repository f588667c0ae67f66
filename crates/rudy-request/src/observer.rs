//! Records the timings and sizes of one request.

use std::io;
use std::time::{Duration, Instant};

use http::{HeaderMap, HeaderName, HeaderValue, header};
use rudy_message::Framing;
use rudy_message::client::ResponseHead;

use crate::connection::Observer;
use crate::redirect::is_redirect;
use crate::report::{Head, Phases};
use crate::{Failure, Options, Output, Transport};

/// Records the events of one request.
pub(super) struct RequestObserver<'a> {
    started: Instant,
    options: &'a Options,
    output: &'a mut dyn Output,
    writes_body: bool,
    pub(super) phases: Phases,
    pub(super) informational: Vec<u16>,
    pub(super) head: Option<Head>,
    pub(super) head_bytes: u64,
    pub(super) body_bytes: u64,
    pub(super) trailers: Option<HeaderMap>,
    pub(super) has_ended: bool,
    pub(super) write_error: Option<io::Error>,
    /// The failure of an HTTP/2 stream.
    pub(super) failure: Option<Failure>,
}

/// Maximum number of interim responses whose status is reported. Their bytes always count.
const INFORMATIONAL_MAX: usize = 16;

impl<'a> RequestObserver<'a> {
    pub(super) fn new(started: Instant, options: &'a Options, output: &'a mut dyn Output) -> Self {
        Self {
            started,
            options,
            output,
            writes_body: false,
            phases: Phases::default(),
            informational: Vec::new(),
            head: None,
            head_bytes: 0,
            body_bytes: 0,
            trailers: None,
            has_ended: false,
            write_error: None,
            failure: None,
        }
    }

    /// The time elapsed so far.
    pub(super) fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// Whether any part of a response has been received.
    pub(super) fn has_received(&self) -> bool {
        !self.phases.start_transfer.is_zero()
    }

    /// Whether the response is a redirect to follow.
    pub(super) fn is_followed_redirect(&self) -> bool {
        let is_followed_redirect =
            |head: &Head| is_redirect(head.status) && head.fields.contains_key(header::LOCATION);
        self.options.redirects.is_some() && self.head.as_ref().is_some_and(is_followed_redirect)
    }

    fn write(&mut self, bytes: &[u8]) {
        if self.write_error.is_none() {
            self.write_error = self.output.write(bytes).err();
        }
    }

    fn write_head(&mut self, head: &ResponseHead<'_>) {
        self.head_bytes += head.raw().len() as u64;
        if self.options.shows_head {
            self.write(head.raw());
        }
    }
}

impl Observer for RequestObserver<'_> {
    fn connected(&mut self, now: Instant, _transport: &Transport) {
        self.phases.connect = now - self.started;
    }

    fn tls_established(&mut self, now: Instant, _transport: &Transport) {
        self.phases.app_connect = now - self.started;
    }

    fn received(&mut self, _bytes: usize, now: Instant) {
        if !self.has_received() {
            self.phases.start_transfer = now - self.started;
        }
    }

    fn stream(&mut self, _stream: u32, now: Instant) {
        self.received(0, now);
    }

    fn failed(&mut self, failure: Failure, _now: Instant) {
        self.failure = Some(failure);
    }

    fn informational(&mut self, head: &ResponseHead<'_>) {
        if self.informational.len() < INFORMATIONAL_MAX {
            self.informational.push(head.status());
        }
        self.write_head(head);
    }

    fn head(&mut self, head: &ResponseHead<'_>) {
        self.write_head(head);
        self.head = Some(Head {
            status: head.status(),
            reason: head.reason().escape_ascii().to_string(),
            version: head.version(),
            length: match head.framing() {
                Framing::Length(length) => Some(length),
                _ => None,
            },
            fields: head.fields().filter_map(field).collect(),
        });
        self.writes_body = !(self.is_followed_redirect() || (self.options.fails && head.status() >= 400));
    }

    fn data(&mut self, bytes: &[u8]) {
        self.body_bytes += bytes.len() as u64;
        if self.writes_body {
            self.write(bytes);
        }
    }

    fn end(&mut self, trailers: Option<&HeaderMap>, _now: Instant) {
        self.trailers = trailers.filter(|trailers| !trailers.is_empty()).cloned();
        self.has_ended = true;
        if let Err(error) = self.output.end() {
            self.write_error.get_or_insert(error);
        }
    }
}

/// A field of a response, whose head is valid.
fn field((name, value): (&str, &[u8])) -> Option<(HeaderName, HeaderValue)> {
    Some((name.parse().ok()?, HeaderValue::from_bytes(value).ok()?))
}

/// Observes an idle connection, on which no data is expected.
pub(super) struct IdleObserver;

impl Observer for IdleObserver {
    fn head(&mut self, _head: &ResponseHead<'_>) {}

    fn data(&mut self, _bytes: &[u8]) {}

    fn end(&mut self, _trailers: Option<&HeaderMap>, _now: Instant) {}
}
