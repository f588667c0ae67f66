//! What one thread recorded in one interval. The whole run is the sum of its intervals, so figures shown
//! during the run and at its end agree.

use std::time::Duration;

use rudy_stats::Histogram;

use crate::{Failure, FailureKind};

/// Statuses have three digits (RFC 9110 §15); some services answer 999.
const STATUSES: usize = 1000;

/// Counts and latency histograms, in constant memory.
#[derive(Debug, Clone)]
pub struct Recorder {
    /// Successful responses: to the last byte, from the due time (open loop) or the send (closed loop).
    pub latency: Histogram,
    /// The same for failed responses and for requests without a response.
    pub latency_failed: Histogram,
    /// To the last byte, from the send.
    pub service: Histogram,
    /// To the first byte, from the send.
    pub first_byte: Histogram,
    /// From the start of the connection attempt to TCP connected.
    pub connect: Histogram,
    /// From TCP connected to the end of the TLS handshake.
    pub tls: Histogram,
    /// Delay between due time and send.
    pub lag: Histogram,
    /// Responses by status.
    pub statuses: Box<[u64; STATUSES]>,
    /// Requests without a response, by [`FailureKind`].
    pub failures: [u64; FailureKind::ALL.len()],
    /// Responses with a successful status and an unexpected body.
    pub unexpected: u64,
    /// Responses, of any status, that differ from the first response to the same request.
    pub unlike_the_first: u64,
    /// Successful responses.
    pub right: u64,
    /// Requests sent.
    pub sent: u64,
    /// Bytes received since the warm-up, header included.
    pub received_bytes: u64,
    /// Bytes of bodies.
    pub body_bytes: u64,
    /// Maximum number of requests in flight at once, on the thread with the most.
    pub most_under_way: u64,
    /// Connections opened, except during the warm-up.
    pub opened: u64,
    /// Connections that the server closed without a request in flight.
    pub ended: u64,
    /// Total time during the measurement in which requests of the warm-up were in flight. A late response
    /// blocks its connection.
    pub carried_over: Duration,
    /// An example of an unexpected body.
    pub unexpected_example: Option<String>,
    /// An example of each kind of failure.
    pub examples: [Option<String>; FailureKind::ALL.len()],
}

impl Default for Recorder {
    fn default() -> Self {
        Self {
            latency: Histogram::new(),
            latency_failed: Histogram::new(),
            service: Histogram::new(),
            first_byte: Histogram::new(),
            connect: Histogram::new(),
            tls: Histogram::new(),
            lag: Histogram::new(),
            statuses: Box::new([0; STATUSES]),
            failures: [0; FailureKind::ALL.len()],
            unexpected: 0,
            unlike_the_first: 0,
            right: 0,
            sent: 0,
            received_bytes: 0,
            body_bytes: 0,
            most_under_way: 0,
            opened: 0,
            ended: 0,
            carried_over: Duration::ZERO,
            unexpected_example: None,
            examples: Default::default(),
        }
    }
}

impl Recorder {
    /// Counts a request without a response, given up this long after its due time or send.
    pub fn fail(&mut self, failure: &Failure, after: Duration) {
        let kind = failure.kind() as usize;
        self.failures[kind] += 1;
        self.latency_failed.record(after);
        self.examples[kind].get_or_insert_with(|| failure.to_string());
    }

    /// Counts a response with a successful status and an unexpected body.
    pub fn unexpected(&mut self, body_bytes: u64, expected_bytes: Option<u64>) {
        self.unexpected += 1;
        self.unexpected_example.get_or_insert_with(|| match expected_bytes {
            Some(expected) if expected != body_bytes => {
                format!("a body of {body_bytes} bytes instead of {expected}")
            }
            _ => format!("a body of {body_bytes} bytes, as long as expected, with different content"),
        });
    }

    /// Counts a status.
    pub fn status(&mut self, status: u16) {
        if let Some(count) = self.statuses.get_mut(usize::from(status)) {
            *count += 1;
        }
    }

    /// Complete responses, successful or not.
    #[must_use]
    pub fn answers(&self) -> u64 {
        self.statuses.iter().sum()
    }

    /// Requests that ended without a complete response.
    #[must_use]
    pub fn failed(&self) -> u64 {
        self.failures.iter().sum()
    }

    /// Requests that ended, with or without a response.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.answers() + self.failed()
    }

    /// Adds the counts of another recorder.
    pub fn merge(&mut self, other: &Self) {
        self.latency.merge(&other.latency);
        self.latency_failed.merge(&other.latency_failed);
        self.service.merge(&other.service);
        self.first_byte.merge(&other.first_byte);
        self.connect.merge(&other.connect);
        self.tls.merge(&other.tls);
        self.lag.merge(&other.lag);
        for (count, more) in self.statuses.iter_mut().zip(other.statuses.iter()) {
            *count += more;
        }
        for (count, more) in self.failures.iter_mut().zip(&other.failures) {
            *count += more;
        }
        self.unexpected += other.unexpected;
        self.unlike_the_first += other.unlike_the_first;
        self.right += other.right;
        self.sent += other.sent;
        self.received_bytes += other.received_bytes;
        self.body_bytes += other.body_bytes;
        self.most_under_way = self.most_under_way.max(other.most_under_way);
        self.opened += other.opened;
        self.ended += other.ended;
        self.carried_over += other.carried_over;
        if self.unexpected_example.is_none() {
            self.unexpected_example.clone_from(&other.unexpected_example);
        }
        for (example, other) in self.examples.iter_mut().zip(&other.examples) {
            if example.is_none() {
                example.clone_from(other);
            }
        }
    }
}
