//! The connections of one thread.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::io;
use std::net::IpAddr;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use rudy_http::Limits;

use super::exchange::{Exchange, ExchangeObserver, Sent};
use super::plan::{Pace, Plan};
use super::recorder::Recorder;
use super::request_schedule::{Next, RequestSchedule};
use super::run::Gate;
use crate::Failure;
use crate::connection::{Connection, DriveStatus};
use crate::poller::Poller;
use crate::request::Mix;

/// Size of the read buffer. Larger reads come from larger bodies, where copying dominates.
const SCRATCH_BYTES: usize = 64 * 1024;

/// Delay before a failed connection attempt is repeated. It doubles with each failure.
const RETRY_FIRST: Duration = Duration::from_millis(10);

/// Maximum of that delay.
const RETRY_MOST: Duration = Duration::from_secs(1);

/// Time between checks for overdue responses: a tenth of the timeout, within these bounds.
const SWEEP: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(100));

/// The slot of one connection.
#[derive(Debug, Default)]
struct Slot {
    connection: Option<Connection>,
    /// Counts the connections in this slot, so that events of earlier ones can be ignored.
    generation: u32,
    exchange: Exchange,
    /// Requests sent on this connection.
    sent: u32,
    /// Consecutive failed connection attempts.
    failures: u32,
    /// Whether the slot waits for a request.
    is_idle: bool,
}

pub(super) struct Connections<'p> {
    plan: &'p Plan,
    gate: &'p Gate,
    mix: Mix,
    poller: Poller,
    limits: Limits,
    slots: Vec<Slot>,
    /// Slots that wait for a request, the longest first.
    idle: VecDeque<u32>,
    /// Slots to continue without an event of the kernel.
    busy: VecDeque<u32>,
    /// The time at which a slot may try to connect again.
    retries: BinaryHeap<Reverse<(Instant, u32)>>,
    scratch: Box<[u8]>,
    /// The numbers of the requests to send.
    requests: Vec<u64>,
    /// The length or checksum of the first response to each request of the mix, if responses are compared
    /// with it.
    first: Vec<Option<u64>>,
    /// The index of this thread.
    index: u32,
    sweep: Duration,
    next_sweep: Instant,
    /// The error of the last failed connection attempt.
    unreachable: Option<String>,
    pub(super) recorder: Box<Recorder>,
    /// Requests in flight.
    pub(super) in_flight: usize,
    /// Requests that are due from this time on count.
    pub(super) since: Instant,
}

impl<'p> Connections<'p> {
    pub(super) fn new(plan: &'p Plan, index: u32, gate: &'p Gate) -> io::Result<Self> {
        let (threads, connections) = (plan.threads.get(), plan.connections.get());
        let mine = connections / threads + u32::from(index < connections % threads);
        let now = Instant::now();
        let shortest = plan.deadline.map_or(plan.timeout, |deadline| deadline.min(plan.timeout));
        Ok(Self {
            plan,
            gate,
            mix: plan.mix.unshared(),
            poller: Poller::new()?,
            limits: Limits::for_responses(),
            slots: (0..mine).map(|_| Slot::default()).collect(),
            idle: VecDeque::new(),
            busy: VecDeque::new(),
            retries: BinaryHeap::new(),
            scratch: vec![0; SCRATCH_BYTES].into(),
            requests: Vec::new(),
            first: vec![None; plan.mix.len()],
            index,
            sweep: (shortest / 10).clamp(SWEEP.0, SWEEP.1),
            next_sweep: now,
            unreachable: None,
            recorder: Box::default(),
            in_flight: 0,
            since: now,
        })
    }

    /// The number of connections of the plan.
    pub(super) fn count(&self) -> u32 {
        u32::try_from(self.slots.len()).unwrap_or(u32::MAX)
    }

    /// Whether every connection is open or has failed.
    pub(super) fn has_settled(&self) -> bool {
        self.slots.iter().all(|slot| match &slot.connection {
            Some(connection) => connection.is_open(),
            None => slot.failures > 0,
        })
    }

    /// Starts handing out requests. The error is that of the last failed connection.
    pub(super) fn all_are_idle(&mut self) -> Result<(), String> {
        // Failed connections are tried again when there is a request for them.
        self.retries.clear();
        for index in 0..self.count() {
            self.offer(index);
        }
        self.unreachable.take().map_or(Ok(()), Err)
    }

    pub(super) fn has_idle(&self) -> bool {
        !self.idle.is_empty()
    }

    /// Starts to connect.
    pub(super) fn open(&mut self, index: u32, now: Instant) {
        let source = self.source(index);
        let slot = &mut self.slots[index as usize];
        slot.generation = slot.generation.wrapping_add(1);
        slot.exchange.connecting_since = Some(now);
        let token = u64::from(slot.generation) << 32 | u64::from(index);
        let opened = Connection::open(&self.plan.remote, source).and_then(|connection| {
            self.poller.add(connection.transport(), token).map_err(Failure::Connect)?;
            Ok(connection)
        });
        match opened {
            Ok(connection) => slot.connection = Some(connection),
            Err(failure) => self.failed(index, &failure, now),
        }
    }

    /// Waits for events, up to a limit. Returns the number of events.
    pub(super) fn wait(&mut self, most: Duration) -> usize {
        let most = if self.busy.is_empty() { most } else { Duration::ZERO };
        // An error means a bad descriptor, which is a bug; the timeouts then end the requests.
        let _ = self.poller.wait(Some(most.min(self.sweep)));
        for _ in 0..self.busy.len() {
            if let Some(index) = self.busy.pop_front() {
                self.drive(index, true);
            }
        }
        self.poller.ready()
    }

    /// Handles one of the events.
    pub(super) fn handle(&mut self, event: usize) {
        let ready = self.poller.event(event);
        // The lower half of the token is the slot, the upper half the generation.
        #[expect(clippy::cast_possible_truncation, reason = "the halves of a token")]
        let (index, generation) = (ready.token as u32, (ready.token >> 32) as u32);
        if self.slots[index as usize].generation == generation {
            self.drive(index, ready.has_hung_up);
        }
    }

    /// Sends a request on the connection that has waited longest, or several if it may pipeline.
    pub(super) fn assign(&mut self, due: Instant, now: Instant, schedule: &mut RequestSchedule) {
        let Some(index) = self.idle.pop_front() else { return };
        let most = self.free_places(index);
        let slot = &mut self.slots[index as usize];
        slot.is_idle = false;
        self.requests.clear();
        let mut next = Next::Due(due);
        while let Next::Due(due) = next
            && self.requests.len() < most
        {
            let number = schedule.take(now) * u64::from(self.plan.threads.get()) + u64::from(self.index);
            self.requests.push(number);
            slot.exchange.in_flight.push_back(Sent { due, at: now, request: self.mix.place(number) });
            if due >= self.since {
                self.recorder.sent += 1;
                self.recorder.sent_after_end += u64::from(schedule.has_ended(now));
                if self.plan.pace != Pace::Closed {
                    self.recorder.schedule_delay.record(now.saturating_duration_since(due));
                }
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
        if self.free_places(index) > 0 && self.plan.pipeline.get() > 1 {
            self.offer(index);
        }
    }

    /// Records a request that is not sent.
    pub(super) fn skip(&mut self, failure: &Failure, due: Instant, now: Instant) {
        if due >= self.since {
            self.recorder.fail(failure, now.saturating_duration_since(due));
        }
    }

    /// Fails all requests in flight: the time for their responses is over.
    pub(super) fn give_up(&mut self, now: Instant) {
        for index in 0..self.count() {
            if !self.slots[index as usize].exchange.in_flight.is_empty() {
                self.failed(index, &Failure::Timeout, now);
            }
        }
    }

    /// Fails overdue requests, checking at intervals.
    pub(super) fn sweep(&mut self, now: Instant) {
        while let Some(&Reverse((when, index))) = self.retries.peek()
            && when <= now
        {
            self.retries.pop();
            self.offer(index);
        }
        if now < self.next_sweep {
            return;
        }
        self.next_sweep = now + self.sweep;
        for index in 0..self.count() {
            if let Some(failure) = self.overdue(&self.slots[index as usize], now) {
                self.failed(index, &failure, now);
            }
        }
    }

    fn overdue(&self, slot: &Slot, now: Instant) -> Option<Failure> {
        let is_over = |since: Instant, time: Duration| now.saturating_duration_since(since) > time;
        let connection = slot.connection.as_ref()?;
        if let Some(first) = slot.exchange.in_flight.front() {
            if self.plan.deadline.is_some_and(|deadline| is_over(first.due, deadline)) {
                return Some(Failure::Deadline);
            }
            if is_over(first.at, self.plan.timeout) {
                return Some(Failure::Timeout);
            }
        }
        let started = slot.exchange.connecting_since.filter(|_| !connection.is_open())?;
        is_over(started, self.plan.timeout).then(|| Failure::Connect(io::ErrorKind::TimedOut.into()))
    }

    /// Sends the requests in `requests` with one write.
    fn send(&mut self, index: u32) {
        let Some(connection) = &mut self.slots[index as usize].connection else { return };
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
            self.busy.push_back(index);
        }
    }

    /// The number of requests that this connection, or its replacement, can accept.
    fn free_places(&self, index: u32) -> usize {
        let slot = &self.slots[index as usize];
        let pipeline = (self.plan.pipeline.get() as usize).saturating_sub(slot.exchange.in_flight.len());
        match self.plan.requests_per_connection {
            Some(most) if slot.connection.is_some() => {
                pipeline.min(most.get().saturating_sub(slot.sent) as usize)
            }
            Some(most) => pipeline.min(most.get() as usize),
            None => pipeline,
        }
    }

    fn offer(&mut self, index: u32) {
        let slot = &mut self.slots[index as usize];
        if !slot.is_idle {
            slot.is_idle = true;
            self.idle.push_back(index);
        }
    }

    /// Drives a connection as far as possible.
    fn drive(&mut self, index: u32, has_hung_up: bool) {
        let slot = &mut self.slots[index as usize];
        let Some(connection) = &mut slot.connection else { return };
        let was_open = connection.is_open();
        let mut observer = ExchangeObserver {
            exchange: &mut slot.exchange,
            recorder: &mut self.recorder,
            expected: &self.plan.expected,
            first: &mut self.first,
            since: self.since,
            ended: 0,
            is_paced: self.plan.pace != Pace::Closed,
        };
        let security = self.plan.security.as_ref();
        let driven = connection.drive(security, &self.limits, has_hung_up, &mut self.scratch, &mut observer);
        let ended = observer.ended;
        self.in_flight -= ended;
        if !was_open && connection.is_open() {
            slot.failures = 0;
            self.gate.open.fetch_add(1, Ordering::Relaxed);
        }
        match driven {
            Err(failure) => self.failed(index, &failure, Instant::now()),
            Ok(DriveStatus::Closed) => {
                self.recorder.closed_by_server += u64::from(ended == 0);
                self.close(index);
                self.offer(index);
            }
            Ok(status) => {
                if status == DriveStatus::Yielded {
                    self.busy.push_back(index);
                }
                if ended > 0 {
                    self.responded(index);
                }
            }
        }
    }

    /// Handles complete responses: the slot is free for more requests, or the connection is replaced.
    fn responded(&mut self, index: u32) {
        let slot = &self.slots[index as usize];
        let is_last = !slot.exchange.in_flight.is_empty();
        let may_go_on =
            slot.connection.as_ref().is_some_and(Connection::can_be_reused) && self.free_places(index) > 0;
        if !is_last && !may_go_on {
            self.close(index);
            self.offer(index);
        } else if self.free_places(index) > 0 {
            self.offer(index);
        }
    }

    /// Fails all requests in flight on the connection.
    fn failed(&mut self, index: u32, failure: &Failure, now: Instant) {
        let slot = &mut self.slots[index as usize];
        self.in_flight -= slot.exchange.in_flight.len();
        slot.exchange.fail(failure, self.since, now, &mut self.recorder);
        self.close(index);
        if !matches!(failure, Failure::Connect(_) | Failure::Tls(_)) {
            return self.offer(index);
        }
        self.unreachable = Some(failure.to_string());
        let slot = &mut self.slots[index as usize];
        let wait = RETRY_FIRST.saturating_mul(1 << slot.failures.min(16)).min(RETRY_MOST);
        slot.failures += 1;
        self.retries.push(Reverse((now + wait, index)));
    }

    fn close(&mut self, index: u32) {
        let slot = &mut self.slots[index as usize];
        slot.sent = 0;
        if let Some(connection) = slot.connection.take() {
            if connection.is_open() {
                self.gate.open.fetch_sub(1, Ordering::Relaxed);
            }
            connection.close();
        }
    }

    /// The local address of a connection: addresses rotate over all connections of all threads.
    fn source(&self, index: u32) -> Option<IpAddr> {
        let number = index as usize * self.plan.threads.get() as usize + self.index as usize;
        let sources = &self.plan.sources;
        (!sources.is_empty()).then(|| sources[number % sources.len()])
    }
}
