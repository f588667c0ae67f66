//! A generator thread: opens its connections, waits for the other threads, and sends its share of the plan.
//! Shares no data with them while it runs.

use std::time::{Duration, Instant};

use super::clock::Clock;
use super::connections::Connections;
use super::plan::{GiveUp, Pace, Plan, Until};
use super::request_schedule::{Next, RequestSchedule};
use super::run::{Done, Gate, Message, Messages};
use crate::{Failure, units};

/// Maximum sleep, so that a stop is noticed.
pub(super) const NAP: Duration = Duration::from_millis(100);

/// Opens the connections, waits for the other threads, runs, and reports the results. Errors of the channel
/// mean that the run was given up.
pub(super) fn run(plan: &Plan, index: u32, gate: &Gate, messages: &Messages) {
    wake_exactly();
    let connections = match Connections::new(plan, index, gate) {
        Ok(connections) => connections,
        Err(error) => return messages.send(Message::Failed(error)).unwrap_or_default(),
    };
    let mut worker = Worker { plan, gate, messages, connections, index };
    let _ = messages.send(Message::Ready(worker.open_all()));
    let done = worker.generate(gate.pass());
    let _ = messages.send(Message::Done(done));
}

struct Worker<'p> {
    plan: &'p Plan,
    gate: &'p Gate,
    messages: &'p Messages,
    connections: Connections<'p>,
    index: u32,
}

impl Worker<'_> {
    /// Opens all connections at the connect rate, and waits until each is open or has failed.
    fn open_all(&mut self) -> Result<(), String> {
        let count = self.connections.count();
        if self.plan.opens_for_each_request() {
            return self.connections.all_are_idle();
        }
        let started = Instant::now();
        let rate = self.plan.connect_rate / f64::from(self.plan.threads.get());
        let at = |number: u32| started + Duration::from_secs_f64(f64::from(number) / rate);
        let mut opened = 0;
        while !self.gate.is_stopped() {
            let now = Instant::now();
            while opened < count && now >= at(opened) {
                self.connections.open(opened, now);
                opened += 1;
            }
            if opened == count && self.connections.has_settled() {
                break;
            }
            self.connections.sweep(now);
            let most = if opened < count { at(opened).saturating_duration_since(now) } else { NAP };
            for event in 0..self.connections.wait(most.min(NAP)) {
                self.connections.handle(event);
            }
        }
        self.connections.all_are_idle()
    }

    fn generate(&mut self, start: Instant) -> Done {
        let mut schedule = self.schedule(start);
        self.connections.since = start + self.plan.warm_up;
        let since = self.connections.since;
        let mut next_report = since + self.plan.interval;
        let mut reports = 0;
        let is_paced = self.plan.pace != Pace::Closed;
        let mut clock = Clock::new(self.plan, start);
        loop {
            let now = Instant::now();
            clock.pass(now);
            // Send an interval for each elapsed one, also after a stall, because the receiver counts them.
            while now >= next_report {
                let recorder = std::mem::replace(&mut self.connections.recorder, self.gate.spare());
                let _ = self.messages.send(Message::Interval(reports, recorder));
                reports += 1;
                next_report += self.plan.interval;
            }
            self.connections.sweep(now);
            let next = self.dispatch(&mut schedule);
            let is_done = next == Next::Over && self.connections.in_flight == 0;
            if self.gate.is_stopped() || is_done || self.is_out_of_time(now, since, next) {
                break;
            }
            let most = clock.sleep(next, next_report, now);
            for event in 0..self.connections.wait(most) {
                clock.has_event();
                self.connections.handle(event);
                // Send due requests on time. Without a schedule, first read everything and then send on all
                // free connections at once: the server then wakes once for many requests, and so does this
                // thread (7 % more requests per second).
                if is_paced {
                    self.dispatch(&mut schedule);
                }
            }
        }
        self.finish(&mut schedule, &clock)
    }

    /// Whether the responses of an open loop have had all their time, which is the timeout after the end. In a
    /// closed loop nothing is sent after the end, so the timeout of each request is enough.
    fn is_out_of_time(&self, now: Instant, since: Instant, next: Next) -> bool {
        let (Pace::Open(..), Until::Time(time)) = (self.plan.pace, self.plan.until) else { return false };
        let end = since + time;
        let is_failed = |give_up: GiveUp| {
            // What was due since the first request that was not sent.
            let not_sent = match next {
                Next::Due(due) => end.saturating_duration_since(due).as_secs_f64() * give_up.rate,
                _ => 0.0,
            };
            let unanswered = units::float(self.connections.in_flight as u64) + not_sent;
            now >= end + give_up.after && unanswered > give_up.unanswered
        };
        now >= end + self.plan.timeout || self.plan.give_up.is_some_and(is_failed)
    }

    /// Counts what is left as failed, unless a signal cut the run while it was in flight.
    fn finish(&mut self, schedule: &mut RequestSchedule, clock: &Clock) -> Done {
        let now = Instant::now();
        let is_cut = self.gate.is_stopped();
        let duration = schedule.duration(self.connections.since, now, is_cut);
        for due in schedule.not_sent(now, is_cut) {
            self.connections.skip(&Failure::NotSent, due, now);
        }
        if !is_cut {
            self.connections.give_up(now);
        }
        Done {
            duration,
            in_flight_at_end: self.connections.in_flight as u64,
            time: clock.time(now),
            rest: std::mem::take(&mut self.connections.recorder),
        }
    }

    /// Sends due requests on free connections. Returns when the next one is due; a request that waits for a
    /// free connection is due now.
    fn dispatch(&mut self, schedule: &mut RequestSchedule) -> Next {
        loop {
            let now = Instant::now();
            let next = schedule.peek(now);
            let Next::Due(due) = next else { return next };
            if self.plan.deadline.is_some_and(|deadline| now - due > deadline) {
                schedule.take(now);
                self.connections.skip(&Failure::Deadline, due, now);
            } else if self.connections.has_idle() {
                self.connections.assign(due, now, schedule);
            } else {
                return next;
            }
        }
    }

    fn schedule(&self, start: Instant) -> RequestSchedule {
        let threads = self.plan.threads.get();
        let requests = match self.plan.until {
            Until::Requests(requests) => {
                let (each, more) = (requests / u64::from(threads), requests % u64::from(threads));
                each + u64::from(u64::from(self.index) < more)
            }
            Until::Time(_) => 0,
        };
        RequestSchedule::new(self.plan.due(self.index), start, self.plan.warm_up, self.plan.until, requests)
    }
}

/// Sets the timer slack of this thread to a minimum, so that the kernel does not delay wake-ups by up to 50
/// µs.
fn wake_exactly() {
    // If the kernel refuses, requests are slightly late, which is measured and reported.
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
}
