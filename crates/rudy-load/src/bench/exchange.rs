//! The requests in flight on one connection, and the recording of their results.

use std::collections::VecDeque;
use std::time::Instant;

use http::HeaderMap;
use rudy_http::h1::client::ResponseHead;

use super::plan::{Expected, Repeat};
use super::recorder::Recorder;
use crate::Failure;
use crate::connection::Observer;

/// A request that was sent.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sent {
    /// The due time; in the closed loop, the time of the send.
    pub(super) due: Instant,
    pub(super) at: Instant,
    /// The index of the request in the mix.
    pub(super) request: u32,
}

/// The response that is being received.
#[derive(Debug, Clone, Copy, Default)]
struct Coming {
    status: u16,
    body_bytes: u64,
    /// Whether the body differs from the expected one.
    differs: bool,
    /// The checksum of the body, if the plan compares checksums.
    checksum: u64,
}

/// The requests of a connection, oldest first, and the response to the oldest.
#[derive(Debug, Default)]
pub(super) struct Exchange {
    pub(super) in_flight: VecDeque<Sent>,
    first_byte: Option<Instant>,
    coming: Coming,
    /// The start of the connection attempt, then the time at which TCP connected.
    pub(super) connecting_since: Option<Instant>,
}

impl Exchange {
    /// Fails all requests in flight, and records those that count.
    pub(super) fn fail(&mut self, failure: &Failure, since: Instant, now: Instant, recorder: &mut Recorder) {
        for sent in self.in_flight.drain(..) {
            if sent.due >= since {
                recorder.fail(failure, now.saturating_duration_since(sent.due));
            } else {
                recorder.warmup_spillover += now.saturating_duration_since(since);
            }
        }
        (self.first_byte, self.coming) = (None, Coming::default());
    }
}

/// Records the events of one connection.
pub(super) struct ExchangeObserver<'a> {
    pub(super) exchange: &'a mut Exchange,
    pub(super) recorder: &'a mut Recorder,
    pub(super) expected: &'a Expected,
    /// The length or checksum of the first response to each request of the mix, if responses are compared
    /// with it.
    pub(super) first: &'a mut [Option<u64>],
    /// Requests that were due before this time are not recorded.
    pub(super) since: Instant,
    /// Number of requests that ended since creation.
    pub(super) ended: usize,
    /// Whether send and due times differ (open loop).
    pub(super) is_paced: bool,
}

impl Observer for ExchangeObserver<'_> {
    fn connected(&mut self, now: Instant) {
        // Connections count while they are opened for the run, but not during the warm-up.
        let counts = now >= self.since;
        self.recorder.opened += u64::from(counts);
        if let Some(started) = self.exchange.connecting_since.replace(now)
            && counts
        {
            self.recorder.connect.record(now - started);
        }
        self.sent_now(now);
    }

    fn tls_established(&mut self, now: Instant) {
        if let Some(connected) = self.exchange.connecting_since
            && now >= self.since
        {
            self.recorder.tls.record(now - connected);
        }
        self.sent_now(now);
    }

    fn received(&mut self, bytes: usize, now: Instant) {
        if now >= self.since {
            self.recorder.received_bytes += bytes as u64;
        }
        self.exchange.first_byte.get_or_insert(now);
    }

    fn head(&mut self, head: &ResponseHead<'_>) {
        self.exchange.coming = Coming { status: head.status(), ..Coming::default() };
    }

    fn data(&mut self, bytes: &[u8]) {
        let coming = &mut self.exchange.coming;
        if let Some(body) = &self.expected.body {
            let at = usize::try_from(coming.body_bytes).unwrap_or(usize::MAX);
            coming.differs |= body.get(at..at.saturating_add(bytes.len())) != Some(bytes);
        }
        coming.body_bytes += bytes.len() as u64;
        if self.expected.repeats == Some(Repeat::Checksum) {
            coming.checksum = fnv_1a(coming.checksum, bytes);
        }
    }

    fn end(&mut self, _trailers: Option<&HeaderMap>, now: Instant) {
        self.ended += 1;
        let coming = std::mem::take(&mut self.exchange.coming);
        // The next response may be in the same bytes, received at the same time.
        let first_byte = self.exchange.first_byte.take().unwrap_or(now);
        if let Some(next) = self.exchange.in_flight.front().copied() {
            self.exchange.in_flight.pop_front();
            if next.due >= self.since {
                self.record(next, coming, first_byte, now);
            } else {
                self.recorder.warmup_spillover += now.saturating_duration_since(self.since);
            }
        }
    }
}

impl ExchangeObserver<'_> {
    /// Updates the send time of requests that waited for the connection.
    fn sent_now(&mut self, now: Instant) {
        for sent in &mut self.exchange.in_flight {
            sent.at = now;
        }
    }

    /// Whether the response matches the first one to the same request.
    fn repeats(&mut self, request: u32, coming: Coming) -> bool {
        let value = match self.expected.repeats {
            None => return true,
            Some(Repeat::Bytes) => coming.body_bytes,
            Some(Repeat::Checksum) => coming.checksum,
        };
        match self.first.get_mut(request as usize) {
            Some(first) => *first.get_or_insert(value) == value,
            None => true,
        }
    }

    fn record(&mut self, sent: Sent, coming: Coming, first_byte: Instant, now: Instant) {
        let repeats = self.repeats(sent.request, coming);
        let recorder = &mut *self.recorder;
        recorder.unlike_the_first += u64::from(!repeats);
        recorder.body_bytes += coming.body_bytes;
        let is_expected = repeats
            && !coming.differs
            && self.expected.bytes().is_none_or(|bytes| bytes == coming.body_bytes);
        let is_success = coming.status < 400 && is_expected;
        if coming.status < 400 && !is_expected {
            recorder.unexpected(coming.body_bytes, self.expected.bytes());
        }
        recorder.response(coming.status, now.saturating_duration_since(sent.due), is_success);
        recorder.first_byte.record(first_byte.saturating_duration_since(sent.at));
        if self.is_paced {
            recorder.service.record(now.saturating_duration_since(sent.at));
        }
    }
}

/// FNV-1a with 64 bits, from 0. Detects accidental changes, not forgeries.
fn fnv_1a(checksum: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(checksum, |sum, &byte| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}
