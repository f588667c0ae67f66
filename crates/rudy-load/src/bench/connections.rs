//! The connections of one thread.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::io;
use std::net::IpAddr;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use rudy_http::Limits;
use rudy_request::{Connection, DriveStatus, Failure, Protocols};

use super::exchange::{ExchangeObserver, SentRequest};
use super::plan::Plan;
use super::recorder::Recorder;
use super::request_schedule::{Next, RequestSchedule};
use super::run::RunControl;
use super::slots::{Slot, Slots};
use crate::Mix;
use crate::poller::Poller;

/// Size of the read buffer. With the larger bodies that fill it, copying dominates.
const SCRATCH_BYTES: usize = 64 * 1024;

/// Delay before the first retry of a failed connection attempt in a closed loop. It doubles with each failure.
const RETRY_DELAY_MIN: Duration = Duration::from_millis(10);

/// Maximum delay before a retry.
const RETRY_DELAY_MAX: Duration = Duration::from_secs(1);

/// Bounds of the time between checks for timeouts, which is a tenth of the timeout.
const SWEEP_INTERVAL_BOUNDS: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(100));

/// The connections of one thread, and the requests in flight on them.
pub(super) struct Connections<'p> {
    pub(super) plan: &'p Plan,
    control: &'p RunControl,
    pub(super) mix: Mix,
    poller: Poller,
    limits: Limits,
    pub(super) slots: Slots,
    /// Slots that can continue without an event of the kernel.
    pub(super) runnable: VecDeque<u32>,
    /// The slots whose connection attempt failed, by the time of the next attempt.
    retries: BinaryHeap<Reverse<(Instant, u32)>>,
    scratch: Box<[u8]>,
    /// The numbers of the requests to send.
    requests: Vec<u64>,
    /// The length or checksum of the first response to each request of the mix, if responses are compared with it.
    first_responses: Vec<Option<u64>>,
    /// The index of this thread.
    thread_index: u32,
    sweep_interval: Duration,
    next_sweep: Instant,
    /// The error of the last failed connection attempt.
    connect_error: Option<String>,
    pub(super) recorder: Box<Recorder>,
    /// The number of requests in flight.
    pub(super) in_flight: usize,
    /// The end of the warm-up. Only requests that are due from then on are counted.
    pub(super) measurement_start: Instant,
    /// The end of the run; `None` while requests are sent after it.
    pub(super) end: Option<Instant>,
}

impl<'p> Connections<'p> {
    pub(super) fn new(plan: &'p Plan, thread_index: u32, control: &'p RunControl) -> io::Result<Self> {
        let threads = plan.threads.get();
        let part = |total: u32| total / threads + u32::from(thread_index < total % threads);
        let count = part(plan.connections.get());
        let max = if plan.is_open_loop() { part(plan.connections_max.get()).max(count) } else { count };
        let now = Instant::now();
        let shortest = plan.deadline.map_or(plan.timeout, |deadline| deadline.min(plan.timeout));
        Ok(Self {
            plan,
            control,
            mix: plan.mix.deep_clone(),
            poller: Poller::new()?,
            limits: Limits::for_responses(),
            slots: Slots::new(count, max),
            runnable: VecDeque::new(),
            retries: BinaryHeap::new(),
            scratch: vec![0; SCRATCH_BYTES].into(),
            requests: Vec::new(),
            first_responses: vec![None; plan.mix.len()],
            thread_index,
            sweep_interval: (shortest / 10).clamp(SWEEP_INTERVAL_BOUNDS.0, SWEEP_INTERVAL_BOUNDS.1),
            next_sweep: now,
            connect_error: None,
            recorder: Box::default(),
            in_flight: 0,
            measurement_start: now,
            end: None,
        })
    }

    /// Marks all slots as idle, so that requests are sent. The error is that of the last failed connection.
    pub(super) fn mark_all_idle(&mut self) -> Result<(), String> {
        // Failed connections are retried when there is a request for them.
        self.retries.clear();
        for index in 0..self.slots.count() {
            self.slots.mark_idle(index);
        }
        self.connect_error.take().map_or(Ok(()), Err)
    }

    /// Starts the connection of a slot.
    pub(super) fn open(&mut self, index: u32, now: Instant) {
        let source = self.source(index);
        let slot = &mut self.slots[index];
        slot.generation = slot.generation.wrapping_add(1);
        slot.exchange.connect_phase_start = Some(now);
        let token = u64::from(slot.generation) << 32 | u64::from(index);
        let opened =
            Connection::open(&self.plan.remote, source, self.plan.protocols).and_then(|connection| {
                self.poller.add(connection.transport(), token).map_err(Failure::Connect)?;
                Ok(connection)
            });
        match opened {
            Ok(connection) => slot.connection = Some(connection),
            Err(failure) => self.fail(index, &failure, now),
        }
    }

    /// Waits for events, at most for the timeout. Returns the number of events.
    pub(super) fn wait(&mut self, timeout: Duration) -> usize {
        let timeout = if self.runnable.is_empty() { timeout.min(self.until_due()) } else { Duration::ZERO };
        // An error means a bad descriptor, which is a bug; the timeouts then end the requests.
        let _ = self.poller.wait(Some(timeout.min(self.sweep_interval)));
        self.run_due();
        for _ in 0..self.runnable.len() {
            if let Some(index) = self.runnable.pop_front() {
                self.drive(index, true);
            }
        }
        self.poller.event_count()
    }

    /// Returns the time until a connection must continue without an event: those over QUIC have timers.
    fn until_due(&mut self) -> Duration {
        if self.plan.protocols != Protocols::Http3 {
            return Duration::MAX;
        }
        let connections = self.slots.iter_mut().filter_map(|slot| slot.connection.as_mut());
        let due = connections.filter_map(Connection::due).min();
        due.map_or(Duration::MAX, |due| due.saturating_duration_since(Instant::now()))
    }

    /// Drives the connections whose timers have expired.
    fn run_due(&mut self) {
        if self.plan.protocols != Protocols::Http3 {
            return;
        }
        let now = Instant::now();
        for index in 0..self.slots.count() {
            let connection = self.slots[index].connection.as_mut();
            if connection.and_then(Connection::due).is_some_and(|due| due <= now) {
                self.runnable.push_back(index);
            }
        }
    }

    /// Handles an event of the last wait, by its index.
    pub(super) fn handle(&mut self, event: usize) {
        let ready = self.poller.event(event);
        // The lower half of the token is the slot, the upper half the generation.
        #[expect(clippy::cast_possible_truncation, reason = "the halves of a token")]
        let (index, generation) = (ready.token as u32, (ready.token >> 32) as u32);
        if self.slots[index].generation == generation {
            self.drive(index, ready.has_hung_up);
        }
    }

    /// Sends a request on the connection that has waited longest, or several if it may pipeline.
    pub(super) fn assign(&mut self, due: Instant, now: Instant, schedule: &mut RequestSchedule) {
        let Some(index) = self.slots.take_idle() else { return };
        let limit = self.free_capacity(index);
        let slot = &mut self.slots[index];
        self.requests.clear();
        let mut next = Next::Due(due);
        while let Next::Due(due) = next
            && self.requests.len() < limit
        {
            let threads = u64::from(self.plan.threads.get());
            let number = schedule.take(now) * threads + u64::from(self.thread_index);
            self.requests.push(number);
            let request = self.mix.request_index(number);
            slot.exchange.in_flight.push_back(SentRequest { due, sent_at: now, request, repeats: 0 });
            if due >= self.measurement_start {
                self.recorder.sent += 1;
                self.recorder.sent_after_end += u64::from(schedule.has_ended(now));
            }
            next = schedule.peek(now);
        }
        slot.sent += u32::try_from(self.requests.len()).unwrap_or(u32::MAX);
        self.in_flight += self.requests.len();
        self.recorder.peak_in_flight = self.recorder.peak_in_flight.max(self.in_flight as u64);
        if slot.connection.is_none() {
            self.open(index, now);
        }
        self.send(index);
        // Put the slot back if it has room for more requests that are not due yet.
        if self.free_capacity(index) > 0 && self.plan.in_flight_per_connection.get() > 1 {
            self.slots.mark_idle(index);
        }
    }

    /// Records a request that was not sent as failed.
    pub(super) fn record_unsent(&mut self, failure: &Failure, due: Instant, now: Instant) {
        if due >= self.measurement_start {
            self.recorder.record_failure(failure, now.saturating_duration_since(due));
        }
    }

    /// Fails all requests in flight with a timeout.
    pub(super) fn fail_in_flight(&mut self, now: Instant) {
        for index in 0..self.slots.count() {
            if self.slots[index].exchange.len() > 0 {
                self.fail(index, &Failure::Timeout, now);
            }
        }
    }

    /// Marks the slots whose retry is due as idle. At intervals, fails the requests whose timeout has passed.
    pub(super) fn sweep(&mut self, now: Instant) {
        while let Some(&Reverse((when, index))) = self.retries.peek()
            && when <= now
        {
            self.retries.pop();
            self.slots.mark_idle(index);
        }
        if now < self.next_sweep {
            return;
        }
        self.next_sweep = now + self.sweep_interval;
        for index in 0..self.slots.count() {
            if let Some(failure) = self.timeout_failure(&self.slots[index], now)
                && !self.cancel_overdue(index, &failure, now)
            {
                self.fail(index, &failure, now);
            }
        }
    }

    /// The timeout that a slot has exceeded, if any.
    fn timeout_failure(&self, slot: &Slot, now: Instant) -> Option<Failure> {
        let connection = slot.connection.as_ref()?;
        if let Some(failure) = slot.exchange.oldest().and_then(|oldest| overdue(self.plan, oldest, now)) {
            return Some(failure);
        }
        let connect_start = slot.exchange.connect_phase_start.filter(|_| !connection.is_ready())?;
        let is_over = now.saturating_duration_since(connect_start) > self.plan.timeout;
        is_over.then(|| Failure::Connect(io::ErrorKind::TimedOut.into()))
    }

    /// Sends the requests in `requests` with one write.
    fn send(&mut self, index: u32) {
        if self.plan.protocols.may_have_streams() {
            return self.send_streams(index, None);
        }
        let Some(connection) = &mut self.slots[index].connection else { return };
        if let [number] = self.requests[..] {
            let request = self.mix.get(number);
            connection.send(&request.bytes, [request.info]);
        } else {
            let mut bytes = BytesMut::new();
            for &number in &self.requests {
                bytes.extend_from_slice(&self.mix.get(number).bytes);
            }
            connection.send(&bytes.freeze(), self.requests.iter().map(|&number| self.mix.get(number).info));
        }
        if connection.has_write_error() {
            // The socket may have reported an error already.
            self.runnable.push_back(index);
        }
    }

    /// The number of further requests that can be sent on the connection of a slot, or on its replacement.
    pub(super) fn free_capacity(&self, index: u32) -> usize {
        let slot = &self.slots[index];
        let mut maximum = self.plan.in_flight_per_connection.get();
        if self.plan.protocols.may_have_streams() {
            // A connection that ends gets no further requests, and is replaced after its responses.
            if slot
                .connection
                .as_ref()
                .is_some_and(|connection| connection.is_open() && !connection.can_be_reused())
            {
                return 0;
            }
            maximum = slot.allowed_streams.map_or(maximum, |allowed| allowed.min(maximum));
        }
        let pipeline = (maximum as usize).saturating_sub(slot.exchange.len());
        match self.plan.requests_per_connection {
            Some(limit) if slot.connection.is_some() => {
                pipeline.min(limit.get().saturating_sub(slot.sent) as usize)
            }
            Some(limit) => pipeline.min(limit.get() as usize),
            None => pipeline,
        }
    }

    /// Drives the connection of a slot and handles the result.
    fn drive(&mut self, index: u32, has_hung_up: bool) {
        let slot = &mut self.slots[index];
        let Some(connection) = &mut slot.connection else { return };
        let was_open = connection.is_open();
        let mut observer = ExchangeObserver {
            exchange: &mut slot.exchange,
            recorder: &mut self.recorder,
            expected: &self.plan.expected,
            first_responses: &mut self.first_responses,
            measurement_start: self.measurement_start,
            end: self.end,
            ended: 0,
            current: None,
            is_open_loop: self.plan.is_open_loop(),
        };
        let security = self.plan.security.as_ref();
        let driven = connection.drive(security, &self.limits, has_hung_up, &mut self.scratch, &mut observer);
        let ended = observer.ended;
        self.in_flight -= ended;
        if connection.is_ready() {
            slot.failed_attempts = 0;
        }
        if !was_open && connection.is_open() {
            self.control.open.fetch_add(1, Ordering::Relaxed);
        }
        match driven {
            Err(failure) => self.fail(index, &failure, Instant::now()),
            Ok(status) if self.plan.protocols.may_have_streams() => self.handle_streams(index, status),
            Ok(DriveStatus::Closed) => {
                self.recorder.closed_by_server += u64::from(ended == 0);
                self.close(index);
                self.slots.mark_idle(index);
            }
            Ok(status) => {
                if status == DriveStatus::Yielded {
                    self.runnable.push_back(index);
                }
                if ended > 0 {
                    self.handle_responses(index);
                }
            }
        }
    }

    /// Handles the end of responses: marks the slot as idle if its connection can be used again, or closes it.
    fn handle_responses(&mut self, index: u32) {
        let slot = &self.slots[index];
        let has_in_flight = !slot.exchange.in_flight.is_empty();
        let can_send =
            slot.connection.as_ref().is_some_and(Connection::can_be_reused) && self.free_capacity(index) > 0;
        if !has_in_flight && !can_send {
            self.close(index);
            self.slots.mark_idle(index);
        } else if self.free_capacity(index) > 0 {
            self.slots.mark_idle(index);
        }
    }

    /// Fails all requests in flight on a connection and closes it. If connecting failed, a closed loop retries later. In an open
    /// loop, each due request may try: it has a rate already, and a request that waited for the retry of another one would
    /// have the latency of the generator, or succeed where that of an independent user fails.
    pub(super) fn fail(&mut self, index: u32, failure: &Failure, now: Instant) {
        let slot = &mut self.slots[index];
        self.in_flight -= slot.exchange.len();
        slot.exchange.fail(
            failure,
            self.measurement_start,
            now,
            self.plan.is_open_loop(),
            &mut self.recorder,
        );
        let was_ready = slot.connection.as_ref().is_some_and(Connection::is_ready);
        self.close(index);
        let has_connected = was_ready || !self.plan.protocols.may_have_streams();
        if has_connected && !matches!(failure, Failure::Connect(_) | Failure::Tls(_)) {
            return self.slots.mark_idle(index);
        }
        self.connect_error = Some(failure.to_string());
        if self.plan.is_open_loop() {
            return self.slots.mark_idle(index);
        }
        let slot = &mut self.slots[index];
        let wait = RETRY_DELAY_MIN.saturating_mul(1 << slot.failed_attempts.min(16)).min(RETRY_DELAY_MAX);
        slot.failed_attempts += 1;
        self.retries.push(Reverse((now + wait, index)));
    }

    pub(super) fn close(&mut self, index: u32) {
        let slot = &mut self.slots[index];
        (slot.sent, slot.opened_streams) = (0, 0);
        if let Some(connection) = slot.connection.take() {
            if connection.is_open() {
                self.control.open.fetch_sub(1, Ordering::Relaxed);
            }
            connection.close();
        }
    }

    /// The local address of a connection. The addresses are used in turn over the connections of all threads.
    fn source(&self, index: u32) -> Option<IpAddr> {
        let number = index as usize * self.plan.threads.get() as usize + self.thread_index as usize;
        let sources = &self.plan.sources;
        (!sources.is_empty()).then(|| sources[number % sources.len()])
    }
}

/// The timeout that a request in flight has exceeded, if any.
pub(super) fn overdue(plan: &Plan, sent: &SentRequest, now: Instant) -> Option<Failure> {
    let is_over = |start: Instant, limit: Duration| now.saturating_duration_since(start) > limit;
    if plan.deadline.is_some_and(|deadline| is_over(sent.due, deadline)) {
        return Some(Failure::Deadline);
    }
    is_over(sent.sent_at, plan.timeout).then_some(Failure::Timeout)
}
