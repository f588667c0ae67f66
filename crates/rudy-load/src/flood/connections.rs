//! The connections of a flood.

use std::io;
use std::ops::Range;
use std::time::{Duration, Instant};

use rudy_http::Limits;
use rudy_request::{Connection, DriveStatus, Failure};

use super::measurement::Measurement;
use super::plan::Plan;
use super::stream::{Counts, Phase, StreamObserver, StreamState, stream_number};
use crate::poller::Poller;

/// Size of the read buffer.
const SCRATCH_BYTES: usize = 64 * 1024;

/// A connection.
#[derive(Debug)]
struct Slot {
    connection: Option<Connection>,
    /// The number of streams whose request was sent.
    sent: usize,
}

pub(super) struct Connections<'p> {
    plan: &'p Plan,
    start: Instant,
    poller: Poller,
    limits: Limits,
    slots: Vec<Slot>,
    /// The streams of all connections: the first ones are those of the first connection.
    streams: Vec<StreamState>,
    runnable: Vec<u32>,
    scratch: Box<[u8]>,
    counts: Counts,
    pub(super) measurement: Measurement,
}

impl<'p> Connections<'p> {
    pub(super) fn new(plan: &'p Plan, start: Instant) -> io::Result<Self> {
        Ok(Self {
            plan,
            start,
            poller: Poller::new()?,
            limits: Limits::for_responses(),
            slots: Vec::with_capacity(plan.connections.get() as usize),
            streams: Vec::with_capacity(plan.total() as usize),
            runnable: Vec::new(),
            scratch: vec![0; SCRATCH_BYTES].into(),
            counts: Counts::default(),
            measurement: Measurement::default(),
        })
    }

    /// Number of streams started. With HTTP/1.1, each has its own connection.
    pub(super) fn started(&self) -> u32 {
        u32::try_from(self.streams.len()).unwrap_or(u32::MAX)
    }

    /// Number of open streams.
    pub(super) fn open(&self) -> u32 {
        self.counts.open
    }

    /// Whether no stream is open or will be.
    pub(super) fn is_empty(&self) -> bool {
        self.counts.active == 0
    }

    /// Number of streams with a chunk that has been due for more than two intervals.
    pub(super) fn stalled(&self) -> u32 {
        let now = self.start.elapsed();
        let stalls = |stream: &&StreamState| {
            stream.phase != Phase::Over && stream.schedule.stalls(now, self.plan.interval)
        };
        u32::try_from(self.streams.iter().filter(stalls).count()).unwrap_or(u32::MAX)
    }

    /// Starts another stream, and its connection if it is the first one there.
    pub(super) fn start_next(&mut self) {
        let number = self.started();
        let slot = number / self.plan.per_connection();
        self.streams.push(StreamState::new(self.start.elapsed()));
        self.counts.active += 1;
        if slot as usize == self.slots.len() {
            return self.start_connection(slot);
        }
        if self.slots[slot as usize].connection.is_some() {
            self.send_streams(slot);
        } else {
            self.end_all(slot, &Failure::Closed(None));
        }
    }

    fn start_connection(&mut self, slot: u32) {
        let sources = &self.plan.sources;
        let source = (!sources.is_empty()).then(|| sources[slot as usize % sources.len()]);
        let protocols = self.plan.protocols();
        let opened = Connection::open(&self.plan.remote, source, protocols).and_then(|mut connection| {
            if !protocols.may_have_streams() {
                let request = self.plan.requests.get(slot);
                connection.send(&request.bytes, [request.info]);
            }
            self.poller.add(connection.transport(), u64::from(slot)).map_err(Failure::Connect)?;
            Ok(connection)
        });
        let (connection, failure) = match opened {
            Ok(connection) => (Some(connection), None),
            Err(failure) => (None, Some(failure)),
        };
        self.slots.push(Slot { connection, sent: 0 });
        if let Some(failure) = failure {
            self.end_all(slot, &failure);
        }
    }

    /// Waits for events, at most for the timeout, and handles them.
    pub(super) fn poll(&mut self, timeout: Duration) -> io::Result<()> {
        self.poller.wait(Some(if self.runnable.is_empty() { timeout } else { Duration::ZERO }))?;
        for slot in std::mem::take(&mut self.runnable) {
            self.drive(slot, true);
        }
        for event in 0..self.poller.event_count() {
            let ready = self.poller.event(event);
            // The token is the number of the connection.
            self.drive(u32::try_from(ready.token).unwrap_or(u32::MAX), ready.has_hung_up);
        }
        Ok(())
    }

    /// Ends streams that exceed the timeout for connecting or for the first byte.
    pub(super) fn close_overdue(&mut self) {
        let now = self.start.elapsed();
        for number in 0..self.streams.len() {
            let stream = &self.streams[number];
            let is_overdue = stream.phase != Phase::Over
                && !stream.has_responded
                && now.saturating_sub(stream.phase_start) > self.plan.timeout;
            if is_overdue {
                self.end_overdue(number);
            }
        }
    }

    fn end_overdue(&mut self, number: usize) {
        let (slot, place) = self.place(number);
        let sent = self.slots[slot as usize].sent;
        let Some(connection) = &mut self.slots[slot as usize].connection else { return };
        if !connection.is_ready() {
            return self.end_all(slot, &Failure::Connect(io::ErrorKind::TimedOut.into()));
        }
        if self.plan.streams.is_none() {
            return self.end_all(slot, &Failure::Timeout);
        }
        let failure = match (self.streams[number].phase, connection.allowed_streams()) {
            (Phase::Waiting, Some(allowed)) => Failure::StreamLimit(allowed),
            _ => Failure::Timeout,
        };
        if place < sent {
            connection.cancel(stream_number(place));
            connection.flush();
        }
        self.streams[number].end(&mut self.counts);
        self.measurement.record_failure(&failure);
    }

    /// The connection of a stream, and its place there.
    fn place(&self, number: usize) -> (u32, usize) {
        let per_connection = self.plan.per_connection() as usize;
        (u32::try_from(number / per_connection).unwrap_or(u32::MAX), number % per_connection)
    }

    /// The started streams of a connection.
    fn range(&self, slot: u32) -> Range<usize> {
        let per_connection = self.plan.per_connection() as usize;
        let first = slot as usize * per_connection;
        first..(first + per_connection).min(self.streams.len())
    }

    fn drive(&mut self, index: u32, has_hung_up: bool) {
        let range = self.range(index);
        let slot = &mut self.slots[index as usize];
        let Some(connection) = &mut slot.connection else { return };
        let was_open = connection.is_open();
        let mut observer = StreamObserver {
            plan: self.plan,
            start: self.start,
            now: Duration::ZERO,
            measurement: &mut self.measurement,
            counts: &mut self.counts,
            streams: &mut self.streams[range.clone()],
            current: 0,
        };
        let security = self.plan.security.as_ref();
        let result = connection.drive(security, &self.limits, has_hung_up, &mut self.scratch, &mut observer);
        let is_http1 = self.plan.streams.is_none();
        if is_http1 && connection.is_open() && !was_open {
            self.streams[range.start].open(&mut self.counts);
        }
        match result {
            Err(failure) => self.end_all(index, &failure),
            Ok(DriveStatus::Closed) => self.close_ended(index),
            Ok(_) if is_http1 && self.streams[range.start].has_ended && !self.plan.holds_idle => {
                self.close_ended(index);
            }
            Ok(status) => {
                if status == DriveStatus::Yielded {
                    self.runnable.push(index);
                }
                self.send_streams(index);
            }
        }
    }

    /// Sends the requests of started streams, as far as the server allows.
    fn send_streams(&mut self, index: u32) {
        if self.plan.streams.is_none() {
            return;
        }
        let range = self.range(index);
        let slot = &mut self.slots[index as usize];
        let Some(connection) = &mut slot.connection else { return };
        // Before its SETTINGS, it is not known how many streams the server allows.
        if !connection.is_ready() {
            return;
        }
        let mut has_sent = false;
        while slot.sent < range.len() {
            let number = range.start + slot.sent;
            if self.streams[number].phase == Phase::Over {
                // The number of a stream follows from its place, so that none is left out: later ones are given up, too.
                break;
            }
            let request = self.plan.requests.get(u32::try_from(number).unwrap_or(u32::MAX));
            let Some(_) = request.http2.as_ref().and_then(|request| connection.request(request)) else {
                break;
            };
            slot.sent += 1;
            has_sent = true;
            self.measurement.opened += 1;
            self.streams[number].phase_start = self.start.elapsed();
            self.streams[number].open(&mut self.counts);
        }
        if has_sent {
            connection.flush();
        }
        if !connection.can_be_reused() {
            for number in range.start + slot.sent..range.end {
                if self.streams[number].phase != Phase::Over {
                    self.streams[number].end(&mut self.counts);
                    self.measurement.record_failure(&Failure::Refused);
                }
            }
        }
    }

    /// Closes a connection that the server has ended without an error.
    fn close_ended(&mut self, index: u32) {
        for number in self.range(index) {
            if self.streams[number].phase == Phase::Waiting {
                self.measurement.record_failure(&Failure::Closed(None));
            } else if self.streams[number].phase == Phase::Open {
                self.measurement.closed_by_server += 1;
            }
        }
        self.close(index);
    }

    /// Closes a connection because of a failure, with which all its streams end.
    fn end_all(&mut self, index: u32, failure: &Failure) {
        for number in self.range(index) {
            let stream = &self.streams[number];
            if stream.phase != Phase::Over && !(stream.has_ended && self.plan.streams.is_some()) {
                self.measurement.record_failure(failure);
            }
        }
        self.close(index);
    }

    fn close(&mut self, index: u32) {
        for number in self.range(index) {
            self.streams[number].end(&mut self.counts);
        }
        if let Some(connection) = self.slots[index as usize].connection.take() {
            connection.close();
        }
    }
}
