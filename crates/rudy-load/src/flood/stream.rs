//! The state of a stream of a flood, which is a connection with HTTP/1.1. Records its events.

use std::time::{Duration, Instant};

use http::HeaderMap;
use rudy_message::client::ResponseHead;
use rudy_request::{Failure, Observer, Transport};
use rudy_stats::stream_schedule::StreamSchedule;

use super::measurement::Measurement;
use super::plan::Plan;

/// The numbers of streams by phase.
#[derive(Debug, Default)]
pub(super) struct Counts {
    /// Streams that are open.
    pub(super) open: u32,
    /// Streams that are open or waiting.
    pub(super) active: u32,
}

/// The phase of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// Its connection is not open, or the server allows no further streams.
    Waiting,
    Open,
    Over,
}

/// A stream.
#[derive(Debug)]
pub(super) struct StreamState {
    pub(super) phase: Phase,
    pub(super) schedule: StreamSchedule,
    /// The number of greetings received: chunks before the schedule starts.
    greetings: u32,
    /// The start of the current step, from the start of the flood: connecting, waiting for the first byte, waiting for
    /// the next chunk.
    pub(super) phase_start: Duration,
    pub(super) has_responded: bool,
    /// Whether the response is complete.
    pub(super) has_ended: bool,
}

/// The number of the stream at a place of its connection: a client uses odd ones in order (RFC 9113 §5.1.1).
pub(super) fn stream_number(place: usize) -> u32 {
    u32::try_from(place * 2 + 1).unwrap_or(u32::MAX)
}

impl StreamState {
    pub(super) fn new(now: Duration) -> Self {
        Self {
            phase: Phase::Waiting,
            schedule: StreamSchedule::default(),
            greetings: 0,
            phase_start: now,
            has_responded: false,
            has_ended: false,
        }
    }

    pub(super) fn open(&mut self, counts: &mut Counts) {
        if self.phase == Phase::Waiting {
            self.phase = Phase::Open;
            counts.open += 1;
        }
    }

    pub(super) fn end(&mut self, counts: &mut Counts) {
        if self.phase != Phase::Over {
            counts.open -= u32::from(self.phase == Phase::Open);
            counts.active -= 1;
            self.phase = Phase::Over;
        }
    }
}

/// Records the events of one connection.
pub(super) struct StreamObserver<'a> {
    pub(super) plan: &'a Plan,
    pub(super) start: Instant,
    /// The time of the current event.
    pub(super) now: Duration,
    pub(super) measurement: &'a mut Measurement,
    pub(super) counts: &'a mut Counts,
    /// The streams of the connection.
    pub(super) streams: &'a mut [StreamState],
    /// The place of the current stream.
    pub(super) current: usize,
}

impl StreamObserver<'_> {
    /// Handles bytes of the current stream.
    fn respond(&mut self) {
        let stream = &mut self.streams[self.current];
        if !stream.has_responded {
            stream.has_responded = true;
            self.measurement.first_byte.record(self.now.saturating_sub(stream.phase_start));
        }
    }
}

impl Observer for StreamObserver<'_> {
    fn connected(&mut self, now: Instant, _transport: &Transport) {
        let now = now - self.start;
        // With HTTP/2, streams are opened later.
        self.measurement.opened += u64::from(self.plan.security.is_none() && self.plan.streams.is_none());
        self.measurement.connect.record(now.saturating_sub(self.streams[0].phase_start));
        for stream in &mut *self.streams {
            stream.phase_start = now;
        }
    }

    fn tls_established(&mut self, _now: Instant, _transport: &Transport) {
        self.measurement.opened += u64::from(self.plan.streams.is_none());
    }

    fn received(&mut self, bytes: usize, now: Instant) {
        self.now = now - self.start;
        self.measurement.received_bytes += bytes as u64;
        self.respond();
    }

    fn received_frames(&mut self, bytes: usize, now: Instant) {
        self.now = now - self.start;
        self.measurement.received_bytes += bytes as u64;
    }

    fn stream(&mut self, stream: u32, _now: Instant) {
        self.current = (stream as usize / 2).min(self.streams.len() - 1);
        self.respond();
    }

    fn failed(&mut self, failure: Failure, _now: Instant) {
        self.streams[self.current].end(self.counts);
        self.measurement.record_failure(&failure);
    }

    fn head(&mut self, head: &ResponseHead<'_>) {
        self.measurement.record_status(head.status());
    }

    fn data(&mut self, _bytes: &[u8]) {}

    fn chunk(&mut self) {
        self.measurement.chunks += 1;
        if self.plan.holds_idle {
            return;
        }
        let stream = &mut self.streams[self.current];
        if stream.greetings < self.plan.greetings {
            stream.greetings += 1;
            return;
        }
        if let Some(delay) = stream.schedule.chunk(self.now, self.plan.interval) {
            self.measurement.chunk_delay.record(delay);
            self.measurement.gap.record(self.now.saturating_sub(stream.phase_start));
        }
        stream.phase_start = self.now;
    }

    fn end(&mut self, _trailers: Option<&HeaderMap>, _now: Instant) {
        let stream = &mut self.streams[self.current];
        stream.has_ended = true;
        // With HTTP/1.1, the caller closes the connection.
        if self.plan.streams.is_some() && !self.plan.holds_idle {
            stream.end(self.counts);
            self.measurement.closed_by_server += 1;
        }
    }
}
