//! The requests in flight on one connection. Records their results.

use std::collections::VecDeque;
use std::time::Instant;

use http::HeaderMap;
use rudy_message::client::ResponseHead;
use rudy_request::{EarlyData, Failure, Observer, Transport};

use super::plan::{BodyProperty, Expected};
use super::recorder::Recorder;

/// How often a request is sent again that the server refuses. A server that refuses it on several connections has a reason.
const REPEATS_MAX: u8 = 3;

/// A request in flight.
#[derive(Debug, Clone, Copy)]
pub(super) struct SentRequest {
    /// The due time; in a closed loop, the time of the send.
    pub(super) due: Instant,
    /// The time of the send, or of the end of the connection attempt that delayed it.
    pub(super) sent_at: Instant,
    /// The index of the request in the mix.
    pub(super) request: u32,
    /// How often it was sent again.
    pub(super) repeats: u8,
}

impl SentRequest {
    /// Records that it had no response. One that waited for a connection which failed was not sent, and has no schedule delay.
    pub(super) fn record_failure(
        &self,
        failure: &Failure,
        now: Instant,
        is_open_loop: bool,
        recorder: &mut Recorder,
    ) {
        if is_open_loop && !matches!(failure, Failure::Connect(_) | Failure::Tls(_)) {
            recorder.schedule_delay.record(self.sent_at.saturating_duration_since(self.due));
        }
        recorder.record_failure(failure, now.saturating_duration_since(self.due));
    }
}

/// A request in flight on a stream of HTTP/2, and its response.
#[derive(Debug)]
struct Stream {
    number: u32,
    sent: SentRequest,
    first_byte: Option<Instant>,
    response: PartialResponse,
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

/// The requests in flight on a connection, oldest first, and the response to the oldest. With HTTP/2, each request on a stream has
/// its own response, and the others wait for a stream.
#[derive(Debug, Default)]
pub(super) struct Exchange {
    pub(super) in_flight: VecDeque<SentRequest>,
    /// The streams of HTTP/2, by number.
    streams: VecDeque<Stream>,
    first_byte: Option<Instant>,
    response: PartialResponse,
    /// The start of the connection attempt, then the end of the TCP handshake.
    pub(super) connect_phase_start: Option<Instant>,
}

impl Exchange {
    /// The number of requests in flight.
    pub(super) fn len(&self) -> usize {
        self.in_flight.len() + self.streams.len()
    }

    /// The number of requests on streams of HTTP/2.
    pub(super) fn stream_count(&self) -> usize {
        self.streams.len()
    }

    /// Moves the oldest waiting request to a stream. `late` is the time, if it has waited since it was assigned.
    pub(super) fn start_stream(&mut self, number: u32, late: Option<Instant>) {
        let Some(mut sent) = self.in_flight.pop_front() else { return };
        sent.sent_at = late.unwrap_or(sent.sent_at);
        self.streams.push_back(Stream {
            number,
            sent,
            first_byte: None,
            response: PartialResponse::default(),
        });
    }

    /// The oldest request in flight.
    pub(super) fn oldest(&self) -> Option<&SentRequest> {
        match self.streams.front() {
            Some(stream) => Some(&stream.sent),
            None => self.in_flight.front(),
        }
    }

    /// Removes the requests in flight that fulfil a condition. Returns them with their streams.
    pub(super) fn take_if(
        &mut self,
        condition: impl Fn(&SentRequest) -> bool,
    ) -> Vec<(SentRequest, Option<u32>)> {
        let mut taken = Vec::new();
        self.streams.retain(|stream| {
            let is_taken = condition(&stream.sent);
            if is_taken {
                taken.push((stream.sent, Some(stream.number)));
            }
            !is_taken
        });
        self.in_flight.retain(|sent| {
            let is_taken = condition(sent);
            if is_taken {
                taken.push((*sent, None));
            }
            !is_taken
        });
        taken
    }

    /// Fails all requests in flight. Records those that were due in the measurement.
    pub(super) fn fail(
        &mut self,
        failure: &Failure,
        measurement_start: Instant,
        now: Instant,
        is_open_loop: bool,
        recorder: &mut Recorder,
    ) {
        let on_streams = self.streams.drain(..).map(|stream| stream.sent);
        for sent in self.in_flight.drain(..).chain(on_streams) {
            if sent.due >= measurement_start {
                sent.record_failure(failure, now, is_open_loop, recorder);
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
    /// The end of the run; `None` while requests are sent after it.
    pub(super) end: Option<Instant>,
    /// The number of requests that have ended since the creation of the observer.
    pub(super) ended: usize,
    /// The index of the current stream of HTTP/2.
    pub(super) current: Option<usize>,
    /// Whether requests have due times.
    pub(super) is_open_loop: bool,
}

impl Observer for ExchangeObserver<'_> {
    fn connected(&mut self, now: Instant, _transport: &Transport) {
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

    fn tls_established(&mut self, now: Instant, transport: &Transport) {
        let handshake = transport.tls_handshake();
        if let (Some(connected), Some(handshake)) = (self.exchange.connect_phase_start, &handshake)
            && now >= self.measurement_start
        {
            self.recorder.tls.record(now - connected);
            self.recorder.handshakes.record(handshake);
        }
        // A request in early data was sent before the handshake.
        if handshake.is_none_or(|handshake| handshake.early_data != EarlyData::Accepted) {
            self.set_sent_at(now);
        }
    }

    fn received(&mut self, bytes: usize, now: Instant) {
        self.received_frames(bytes, now);
        self.exchange.first_byte.get_or_insert(now);
    }

    fn received_frames(&mut self, bytes: usize, now: Instant) {
        if now >= self.measurement_start {
            self.recorder.received_bytes += bytes as u64;
        }
        if self.end.is_some_and(|end| now >= end) {
            self.recorder.received_bytes_after_end += bytes as u64;
        }
    }

    fn stream(&mut self, stream: u32, now: Instant) {
        let streams = &mut self.exchange.streams;
        self.current = streams.binary_search_by_key(&stream, |stream| stream.number).ok();
        if let Some(stream) = self.current.and_then(|current| streams.get_mut(current)) {
            stream.first_byte.get_or_insert(now);
        }
    }

    fn failed(&mut self, failure: Failure, now: Instant) {
        let stream = self.current.take().and_then(|current| self.exchange.streams.remove(current));
        let Some(Stream { mut sent, .. }) = stream else { return };
        if matches!(failure, Failure::Refused) && sent.repeats < REPEATS_MAX {
            sent.repeats += 1;
            self.recorder.repeated += u64::from(sent.due >= self.measurement_start);
            return self.exchange.in_flight.push_front(sent);
        }
        self.ended += 1;
        if sent.due >= self.measurement_start {
            sent.record_failure(&failure, now, self.is_open_loop, self.recorder);
        }
    }

    fn head(&mut self, head: &ResponseHead<'_>) {
        *self.response() = PartialResponse { status: head.status(), ..PartialResponse::default() };
    }

    fn data(&mut self, bytes: &[u8]) {
        let expected = self.expected;
        let response = self.response();
        if let Some(body) = &expected.body {
            let start = usize::try_from(response.body_bytes).unwrap_or(usize::MAX);
            response.has_other_content |= body.get(start..start.saturating_add(bytes.len())) != Some(bytes);
        }
        response.body_bytes += bytes.len() as u64;
        if expected.same_as_first == Some(BodyProperty::Checksum) {
            response.checksum = fnv_1a(response.checksum, bytes);
        }
    }

    fn end(&mut self, _trailers: Option<&HeaderMap>, now: Instant) {
        self.ended += 1;
        if let Some(current) = self.current.take() {
            let stream = self.exchange.streams.remove(current);
            if let Some(Stream { sent, first_byte, response, .. }) = stream {
                self.record_if_measured(sent, response, first_byte.unwrap_or(now), now);
            }
            return;
        }
        let response = std::mem::take(&mut self.exchange.response);
        // The next response may have been received with the end of this one.
        let first_byte = self.exchange.first_byte.take().unwrap_or(now);
        if let Some(next) = self.exchange.in_flight.front().copied() {
            self.exchange.in_flight.pop_front();
            self.record_if_measured(next, response, first_byte, now);
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

    /// The response to the current stream, or to the oldest request of HTTP/1.1.
    fn response(&mut self) -> &mut PartialResponse {
        match self.current.and_then(|current| self.exchange.streams.get_mut(current)) {
            Some(stream) => &mut stream.response,
            None => &mut self.exchange.response,
        }
    }

    fn record_if_measured(
        &mut self,
        sent: SentRequest,
        response: PartialResponse,
        first_byte: Instant,
        now: Instant,
    ) {
        if sent.due >= self.measurement_start {
            self.record(sent, response, first_byte, now);
        } else {
            self.recorder.warmup_spillover += now.saturating_duration_since(self.measurement_start);
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
            recorder.schedule_delay.record(sent.sent_at.saturating_duration_since(sent.due));
        }
    }
}

/// FNV-1a with 64 bits, from 0. Detects accidental changes, not forgeries.
fn fnv_1a(checksum: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(checksum, |sum, &byte| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}
