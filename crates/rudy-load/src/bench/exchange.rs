//! The requests in flight on one connection. Records their results.

use std::collections::VecDeque;
use std::time::Instant;

use http::HeaderMap;
use rudy_http::h1::client::ResponseHead;

use super::plan::{BodyProperty, Expected};
use super::recorder::Recorder;
use crate::Failure;
use crate::connection::Observer;

/// A request in flight.
#[derive(Debug, Clone, Copy)]
pub(super) struct SentRequest {
    /// The due time; in a closed loop, the time of the send.
    pub(super) due: Instant,
    /// The time of the send, or of the end of the connection attempt that delayed it.
    pub(super) sent_at: Instant,
    /// The index of the request in the mix.
    pub(super) request: u32,
}

/// A response of which a part was received.
#[derive(Debug, Clone, Copy, Default)]
struct PartialResponse {
    status: u16,
    body_bytes: u64,
    /// Whether the body so far differs from the expected one.
    has_other_content: bool,
    /// The checksum of the body so far, if the plan compares checksums.
    checksum: u64,
}

/// The requests in flight on a connection, oldest first, and the response to the oldest.
#[derive(Debug, Default)]
pub(super) struct Exchange {
    pub(super) in_flight: VecDeque<SentRequest>,
    first_byte: Option<Instant>,
    response: PartialResponse,
    /// The start of the connection attempt, then the end of the TCP handshake.
    pub(super) connect_phase_start: Option<Instant>,
}

impl Exchange {
    /// Fails all requests in flight. Records those that were due in the measurement.
    pub(super) fn fail(
        &mut self,
        failure: &Failure,
        measurement_start: Instant,
        now: Instant,
        recorder: &mut Recorder,
    ) {
        for sent in self.in_flight.drain(..) {
            if sent.due >= measurement_start {
                recorder.record_failure(failure, now.saturating_duration_since(sent.due));
            } else {
                recorder.warmup_spillover += now.saturating_duration_since(measurement_start);
            }
        }
        (self.first_byte, self.response) = (None, PartialResponse::default());
    }
}

/// Records the events of one connection.
pub(super) struct ExchangeObserver<'a> {
    pub(super) exchange: &'a mut Exchange,
    pub(super) recorder: &'a mut Recorder,
    pub(super) expected: &'a Expected,
    /// The length or checksum of the first response to each request of the mix, if responses are compared
    /// with it.
    pub(super) first_responses: &'a mut [Option<u64>],
    /// The end of the warm-up. Requests that were due before it are not recorded.
    pub(super) measurement_start: Instant,
    /// The number of requests that have ended since the creation of the observer.
    pub(super) ended: usize,
    /// Whether requests have due times.
    pub(super) is_open_loop: bool,
}

impl Observer for ExchangeObserver<'_> {
    fn connected(&mut self, now: Instant) {
        // Connections that are opened during the warm-up do not count; those that are opened before it do, because
        // the measurement start is then still in the past.
        let counts = now >= self.measurement_start;
        self.recorder.opened += u64::from(counts);
        if let Some(start) = self.exchange.connect_phase_start.replace(now)
            && counts
        {
            self.recorder.connect.record(now - start);
        }
        self.set_sent_at(now);
    }

    fn tls_established(&mut self, now: Instant) {
        if let Some(connected) = self.exchange.connect_phase_start
            && now >= self.measurement_start
        {
            self.recorder.tls.record(now - connected);
        }
        self.set_sent_at(now);
    }

    fn received(&mut self, bytes: usize, now: Instant) {
        if now >= self.measurement_start {
            self.recorder.received_bytes += bytes as u64;
        }
        self.exchange.first_byte.get_or_insert(now);
    }

    fn head(&mut self, head: &ResponseHead<'_>) {
        self.exchange.response = PartialResponse { status: head.status(), ..PartialResponse::default() };
    }

    fn data(&mut self, bytes: &[u8]) {
        let response = &mut self.exchange.response;
        if let Some(body) = &self.expected.body {
            let start = usize::try_from(response.body_bytes).unwrap_or(usize::MAX);
            response.has_other_content |= body.get(start..start.saturating_add(bytes.len())) != Some(bytes);
        }
        response.body_bytes += bytes.len() as u64;
        if self.expected.same_as_first == Some(BodyProperty::Checksum) {
            response.checksum = fnv_1a(response.checksum, bytes);
        }
    }

    fn end(&mut self, _trailers: Option<&HeaderMap>, now: Instant) {
        self.ended += 1;
        let response = std::mem::take(&mut self.exchange.response);
        // The next response may have been received with the end of this one.
        let first_byte = self.exchange.first_byte.take().unwrap_or(now);
        if let Some(next) = self.exchange.in_flight.front().copied() {
            self.exchange.in_flight.pop_front();
            if next.due >= self.measurement_start {
                self.record(next, response, first_byte, now);
            } else {
                self.recorder.warmup_spillover += now.saturating_duration_since(self.measurement_start);
            }
        }
    }
}

impl ExchangeObserver<'_> {
    /// Sets the send time of the requests that waited for the connection.
    fn set_sent_at(&mut self, now: Instant) {
        for sent in &mut self.exchange.in_flight {
            sent.sent_at = now;
        }
    }

    /// Whether the response equals the first one to the same request in the property to compare.
    fn matches_first(&mut self, request: u32, response: PartialResponse) -> bool {
        let value = match self.expected.same_as_first {
            None => return true,
            Some(BodyProperty::Length) => response.body_bytes,
            Some(BodyProperty::Checksum) => response.checksum,
        };
        match self.first_responses.get_mut(request as usize) {
            Some(first) => *first.get_or_insert(value) == value,
            None => true,
        }
    }

    fn record(&mut self, sent: SentRequest, response: PartialResponse, first_byte: Instant, now: Instant) {
        let matches_first = self.matches_first(sent.request, response);
        let recorder = &mut *self.recorder;
        recorder.differing_responses += u64::from(!matches_first);
        recorder.body_bytes += response.body_bytes;
        let is_expected = matches_first
            && !response.has_other_content
            && self.expected.bytes().is_none_or(|bytes| bytes == response.body_bytes);
        let is_success = response.status < 400 && is_expected;
        if response.status < 400 && !is_expected {
            recorder.record_unexpected_body(response.body_bytes, self.expected.bytes());
        }
        recorder.record_response(response.status, now.saturating_duration_since(sent.due), is_success);
        recorder.first_byte.record(first_byte.saturating_duration_since(sent.sent_at));
        if self.is_open_loop {
            recorder.service.record(now.saturating_duration_since(sent.sent_at));
        }
    }
}

/// FNV-1a with 64 bits, from 0. Detects accidental changes, not forgeries.
fn fnv_1a(checksum: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(checksum, |sum, &byte| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}
