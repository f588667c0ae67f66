//! Records the timings and sizes of one request.

use std::io;
use std::time::{Duration, Instant};

use http::HeaderMap;
use rudy_message::Framing;
use rudy_message::client::ResponseHead;

use super::output::Output;
use super::redirect::is_redirect;
use crate::Failure;
use crate::connection::Observer;
use crate::transport::Transport;

/// The times of curl's phases, from the start of the request. Zero for phases that did not happen, on a
/// reused connection or without TLS.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Phases {
    /// The name lookup was complete.
    pub(super) name_lookup: Duration,
    /// TCP was connected.
    pub(super) connect: Duration,
    /// The TLS handshake with the server was complete.
    pub(super) app_connect: Duration,
    /// The first byte of the response arrived.
    pub(super) start_transfer: Duration,
    /// The request was complete.
    pub(crate) total: Duration,
}

/// The head of a response.
#[derive(Debug, Clone)]
pub(crate) struct Head {
    pub(crate) status: u16,
    pub(super) reason: String,
    pub(super) version: http::Version,
    /// The announced length of the body.
    pub(super) length: Option<u64>,
    pub(super) location: Option<Vec<u8>>,
    pub(crate) retry_after: Option<Vec<u8>>,
    pub(crate) etag: Option<Vec<u8>>,
    pub(crate) last_modified: Option<Vec<u8>>,
}

/// The rules by which head and body are written to the output.
#[derive(Debug, Clone, Copy)]
pub(super) struct BodyRules {
    pub(super) shows_head: bool,
    /// Whether redirects are followed, so that their bodies are not written.
    pub(super) follows_redirects: bool,
    /// Whether the body of a response with an error status is not written.
    pub(super) fails: bool,
}

/// Records the events of one request.
#[derive(Debug)]
pub(super) struct RequestObserver<'a> {
    started: Instant,
    rules: BodyRules,
    output: &'a mut Output,
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
    pub(super) fn new(started: Instant, rules: BodyRules, output: &'a mut Output) -> Self {
        Self {
            started,
            rules,
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
        let is_followed_redirect = |head: &Head| is_redirect(head.status) && head.location.is_some();
        self.rules.follows_redirects && self.head.as_ref().is_some_and(is_followed_redirect)
    }

    fn write(&mut self, bytes: &[u8]) {
        if self.write_error.is_none() {
            self.write_error = self.output.write(bytes).err();
        }
    }

    fn write_head(&mut self, head: &ResponseHead<'_>) {
        self.head_bytes += head.raw().len() as u64;
        if self.rules.shows_head {
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
            // Control characters from the server could change the state of the terminal.
            reason: head.reason().escape_ascii().to_string(),
            version: head.version(),
            length: match head.framing() {
                Framing::Length(length) => Some(length),
                _ => None,
            },
            location: head.get("location").map(<[u8]>::to_vec),
            retry_after: head.get("retry-after").map(<[u8]>::to_vec),
            etag: head.get("etag").map(<[u8]>::to_vec),
            last_modified: head.get("last-modified").map(<[u8]>::to_vec),
        });
        self.writes_body = !(self.is_followed_redirect() || (self.rules.fails && head.status() >= 400));
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

/// Observes an idle connection, on which no data is expected.
pub(super) struct IdleObserver;

impl Observer for IdleObserver {
    fn head(&mut self, _head: &ResponseHead<'_>) {}

    fn data(&mut self, _bytes: &[u8]) {}

    fn end(&mut self, _trailers: Option<&HeaderMap>, _now: Instant) {}
}
