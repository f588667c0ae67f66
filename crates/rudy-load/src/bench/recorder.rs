//! What one thread has seen in one interval. The whole run is the sum of its intervals, so that the figures that are
//! shown on the way and those at the end cannot differ.

use std::time::Duration;

use rudy_stats::Histogram;

use crate::{Failure, FailureKind};

/// Statuses have three digits (RFC 9110 §15); some services answer 999.
const STATUSES: usize = 1000;

/// Counts and times, of a fixed size whatever their number.
#[derive(Debug, Clone)]
pub struct Recorder {
    /// Of right answers: to the last byte, from when the request was due (open loop) or sent (closed loop).
    pub latency: Histogram,
    /// The same of answers that were whole and wrong, and of what was given up.
    pub latency_failed: Histogram,
    /// To the last byte, from the send.
    pub service: Histogram,
    /// To the first byte, from the send.
    pub first_byte: Histogram,
    /// To a connection.
    pub connect: Histogram,
    /// From a connection to TLS.
    pub tls: Histogram,
    /// By how much requests were sent later than they were due.
    pub lag: Histogram,
    /// Answers by status.
    pub statuses: Box<[u64; STATUSES]>,
    /// Requests without an answer, by [`FailureKind`].
    pub failures: [u64; FailureKind::ALL.len()],
    /// Answers whose status is right and whose body is not.
    pub unexpected: u64,
    /// Answers, of any status, that are not as the first to the same request.
    pub unlike_the_first: u64,
    /// Right answers.
    pub right: u64,
    /// Requests sent.
    pub sent: u64,
    /// Bytes received since the warm-up, heads included.
    pub received_bytes: u64,
    /// Bytes of bodies.
    pub body_bytes: u64,
    /// Requests that were under way at once, at most, on the thread that had most.
    pub most_under_way: u64,
    /// Connections that came to stand, but for those of the warm-up.
    pub opened: u64,
    /// Connections that the server ended while nothing was under way.
    pub ended: u64,
    /// Time that requests of the warm-up took of what counts, all together: an answer that comes late holds its connection.
    pub carried_over: Duration,
    /// What was wrong with one of them, to show.
    pub unexpected_example: Option<String>,
    /// One failure of each kind, to show.
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
    /// Counts a request that got no answer, given up this long after it was due or sent.
    pub fn fail(&mut self, failure: &Failure, after: Duration) {
        let kind = failure.kind() as usize;
        self.failures[kind] += 1;
        self.latency_failed.record(after);
        self.examples[kind].get_or_insert_with(|| failure.to_string());
    }

    /// Counts an answer whose status is right and whose body is not.
    pub fn unexpected(&mut self, body_bytes: u64, expected_bytes: Option<u64>) {
        self.unexpected += 1;
        self.unexpected_example.get_or_insert_with(|| match expected_bytes {
            Some(expected) if expected != body_bytes => {
                format!("a body of {body_bytes} bytes instead of {expected}")
            }
            _ => format!("a body of {body_bytes} bytes, as many as expected, and not the same"),
        });
    }

    /// Counts a status.
    pub fn status(&mut self, status: u16) {
        if let Some(count) = self.statuses.get_mut(usize::from(status)) {
            *count += 1;
        }
    }

    /// Whole answers, right or wrong.
    #[must_use]
    pub fn answers(&self) -> u64 {
        self.statuses.iter().sum()
    }

    /// Requests that ended without a whole answer.
    #[must_use]
    pub fn failed(&self) -> u64 {
        self.failures.iter().sum()
    }

    /// Requests that have ended, one way or the other.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.answers() + self.failed()
    }

    /// Adds what another has seen.
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
