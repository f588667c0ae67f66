//! The connections of a flood.

use std::io;
use std::time::{Duration, Instant};

use http::HeaderMap;
use rudy_http::Limits;
use rudy_http::h1::client::ResponseHead;
use rudy_stats::stream_schedule::StreamSchedule;

use super::measurement::Measurement;
use super::plan::Plan;
use crate::connection::{Connection, DriveStatus, Observer};
use crate::poller::Poller;
use crate::{Failure, Protocols};

/// Size of the read buffer.
const SCRATCH_BYTES: usize = 64 * 1024;

/// A connection and its stream.
#[derive(Debug)]
struct StreamConnection {
    connection: Option<Connection>,
    stream: StreamSchedule,
    /// The number of greetings received: chunks before the schedule starts.
    greetings: u32,
    /// The start of the current phase, from the start of the flood: connecting, waiting for the first byte, waiting for
    /// the next chunk.
    phase_start: Duration,
    has_responded: bool,
}

pub(super) struct Connections<'p> {
    plan: &'p Plan,
    start: Instant,
    poller: Poller,
    limits: Limits,
    streams: Vec<StreamConnection>,
    runnable: Vec<u32>,
    scratch: Box<[u8]>,
    open: u32,
    /// The number of connections that are open or connecting.
    active: u32,
    pub(super) measurement: Measurement,
}

impl<'p> Connections<'p> {
    pub(super) fn new(plan: &'p Plan, start: Instant) -> io::Result<Self> {
        Ok(Self {
            plan,
            start,
            poller: Poller::new()?,
            limits: Limits::for_responses(),
            streams: Vec::with_capacity(plan.connections.get() as usize),
            runnable: Vec::new(),
            scratch: vec![0; SCRATCH_BYTES].into(),
            open: 0,
            active: 0,
            measurement: Measurement::default(),
        })
    }

    /// Number of connections started.
    pub(super) fn started(&self) -> u32 {
        u32::try_from(self.streams.len()).unwrap_or(u32::MAX)
    }

    /// Number of open connections.
    pub(super) fn open(&self) -> u32 {
        self.open
    }

    /// Whether no connection is open or connecting.
    pub(super) fn is_empty(&self) -> bool {
        self.active == 0
    }

    /// Number of streams with a chunk that has been due for more than two intervals.
    pub(super) fn stalled(&self) -> u32 {
        let now = self.start.elapsed();
        let stalls = |slot: &&StreamConnection| {
            slot.connection.is_some() && slot.stream.stalls(now, self.plan.interval)
        };
        u32::try_from(self.streams.iter().filter(stalls).count()).unwrap_or(u32::MAX)
    }

    /// Starts another connection.
    pub(super) fn start_next(&mut self) {
        let number = self.started();
        let sources = &self.plan.sources;
        let source = (!sources.is_empty()).then(|| sources[number as usize % sources.len()]);
        let opened =
            Connection::open(&self.plan.remote, source, Protocols::Http1).and_then(|mut connection| {
                let request = self.plan.requests.get(number);
                connection.send(&request.bytes, [request.info]);
                self.poller.add(connection.transport(), u64::from(number)).map_err(Failure::Connect)?;
                Ok(connection)
            });
        let connection = opened.map_err(|failure| self.measurement.record_failure(&failure)).ok();
        self.active += u32::from(connection.is_some());
        self.streams.push(StreamConnection {
            connection,
            stream: StreamSchedule::default(),
            greetings: 0,
            phase_start: self.start.elapsed(),
            has_responded: false,
        });
    }

    /// Waits for events, at most for the timeout, and handles them.
    pub(super) fn poll(&mut self, timeout: Duration) -> io::Result<()> {
        self.poller.wait(Some(if self.runnable.is_empty() { timeout } else { Duration::ZERO }))?;
        for number in std::mem::take(&mut self.runnable) {
            self.drive(number, true);
        }
        for event in 0..self.poller.event_count() {
            let ready = self.poller.event(event);
            // The token is the number of the connection.
            self.drive(u32::try_from(ready.token).unwrap_or(u32::MAX), ready.has_hung_up);
        }
        Ok(())
    }

    /// Closes connections that exceed the timeout for connecting or for the first byte.
    pub(super) fn close_overdue(&mut self) {
        let now = self.start.elapsed();
        for number in 0..self.started() {
            let slot = &self.streams[number as usize];
            let Some(connection) = &slot.connection else { continue };
            if !slot.has_responded && now.saturating_sub(slot.phase_start) > self.plan.timeout {
                let is_open = connection.is_open();
                let not_connected = || Failure::Connect(io::ErrorKind::TimedOut.into());
                self.close_failed(number, &if is_open { Failure::Timeout } else { not_connected() });
            }
        }
    }

    fn drive(&mut self, number: u32, has_hung_up: bool) {
        let slot = &mut self.streams[number as usize];
        let Some(connection) = &mut slot.connection else { return };
        let was_open = connection.is_open();
        let mut observer = StreamObserver {
            plan: self.plan,
            start: self.start,
            now: Duration::ZERO,
            measurement: &mut self.measurement,
            stream: &mut slot.stream,
            greetings: &mut slot.greetings,
            phase_start: &mut slot.phase_start,
            has_responded: &mut slot.has_responded,
            has_ended: false,
        };
        let security = self.plan.security.as_ref();
        let result = connection.drive(security, &self.limits, has_hung_up, &mut self.scratch, &mut observer);
        let has_ended = observer.has_ended;
        self.open = self.open + u32::from(connection.is_open()) - u32::from(was_open);
        match result {
            Err(failure) => self.close_failed(number, &failure),
            Ok(DriveStatus::Closed) => self.close_ended(number),
            Ok(_) if has_ended && !self.plan.holds_idle => self.close_ended(number),
            Ok(DriveStatus::Yielded) => self.runnable.push(number),
            Ok(DriveStatus::Waiting) => {}
        }
    }

    fn close_ended(&mut self, number: u32) {
        self.measurement.closed_by_server += 1;
        self.close(number);
    }

    fn close_failed(&mut self, number: u32, failure: &Failure) {
        self.measurement.record_failure(failure);
        self.close(number);
    }

    fn close(&mut self, number: u32) {
        if let Some(connection) = self.streams[number as usize].connection.take() {
            self.active -= 1;
            self.open -= u32::from(connection.is_open());
            connection.close();
        }
    }
}

/// Records the events of one connection.
struct StreamObserver<'a> {
    plan: &'a Plan,
    start: Instant,
    /// The time of the current event.
    now: Duration,
    measurement: &'a mut Measurement,
    stream: &'a mut StreamSchedule,
    greetings: &'a mut u32,
    phase_start: &'a mut Duration,
    has_responded: &'a mut bool,
    has_ended: bool,
}

impl Observer for StreamObserver<'_> {
    fn connected(&mut self, now: Instant) {
        let now = now - self.start;
        self.measurement.opened += u64::from(self.plan.security.is_none());
        self.measurement.connect.record(now.saturating_sub(*self.phase_start));
        *self.phase_start = now;
    }

    fn tls_established(&mut self, _now: Instant) {
        self.measurement.opened += 1;
    }

    fn received(&mut self, bytes: usize, now: Instant) {
        self.now = now - self.start;
        self.measurement.received_bytes += bytes as u64;
        if !*self.has_responded {
            *self.has_responded = true;
            self.measurement.first_byte.record(self.now.saturating_sub(*self.phase_start));
        }
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
        if *self.greetings < self.plan.greetings {
            *self.greetings += 1;
            return;
        }
        if let Some(delay) = self.stream.chunk(self.now, self.plan.interval) {
            self.measurement.chunk_delay.record(delay);
            self.measurement.gap.record(self.now.saturating_sub(*self.phase_start));
        }
        *self.phase_start = self.now;
    }

    fn end(&mut self, _trailers: Option<&HeaderMap>, _now: Instant) {
        self.has_ended = true;
    }
}
