//! A generator thread: opens its connections, waits for the other threads, and sends its share of the plan.
//! Shares no data with them while it runs.

use std::time::{Duration, Instant};

use rudy_request::Failure;

use super::clock::ThreadClock;
use super::connections::Connections;
use super::plan::{AbortCondition, Pace, Plan, Until};
use super::request_schedule::{Next, RequestSchedule};
use super::run::{Message, MessageSender, RunControl, ThreadResult};
use crate::units;

/// Maximum time to sleep, so that the thread notices a stop.
pub(super) const SLEEP_MAX: Duration = Duration::from_millis(100);

/// Opens the connections, waits for the other threads, sends the requests, and reports the results. Ignores errors
/// of the channel, which mean that the run was canceled.
pub(super) fn run(plan: &Plan, index: u32, control: &RunControl, messages: &MessageSender) {
    minimize_timer_slack();
    let connections = match Connections::new(plan, index, control) {
        Ok(connections) => connections,
        Err(error) => return messages.send(Message::Failed(error)).unwrap_or_default(),
    };
    let mut worker = Worker { plan, control, messages, connections, index };
    let _ = messages.send(Message::Ready(worker.open_all()));
    let result = worker.generate(control.wait_for_start());
    let _ = messages.send(Message::Done(result));
}

struct Worker<'p> {
    plan: &'p Plan,
    control: &'p RunControl,
    messages: &'p MessageSender,
    connections: Connections<'p>,
    index: u32,
}

impl Worker<'_> {
    /// Opens all connections at the connect rate, and waits until each is open or has failed. The error is that of the
    /// last connection that failed.
    fn open_all(&mut self) -> Result<(), String> {
        let count = self.connections.slots.count();
        if self.plan.opens_for_each_request() {
            return self.connections.mark_all_idle();
        }
        let start = Instant::now();
        let rate = self.plan.connect_rate / f64::from(self.plan.threads.get());
        let due = |number: u32| start + Duration::from_secs_f64(f64::from(number) / rate);
        let mut started = 0;
        while !self.control.is_stopped() {
            let now = Instant::now();
            while started < count && now >= due(started) {
                self.connections.open(started, now);
                started += 1;
            }
            if started == count && self.connections.slots.all_connected_or_failed() {
                break;
            }
            self.connections.sweep(now);
            let until_next =
                if started < count { due(started).saturating_duration_since(now) } else { SLEEP_MAX };
            for event in 0..self.connections.wait(until_next.min(SLEEP_MAX)) {
                self.connections.handle(event);
            }
        }
        self.connections.mark_all_idle()
    }

    /// Sends the requests of the thread until the run ends.
    fn generate(&mut self, start: Instant) -> ThreadResult {
        let mut schedule = self.request_schedule(start);
        self.connections.measurement_start = start + self.plan.warm_up;
        let measurement_start = self.connections.measurement_start;
        let mut next_report = measurement_start + self.plan.interval;
        let mut reports = 0;
        let is_open_loop = self.plan.is_open_loop();
        let mut clock = ThreadClock::new(self.plan, start);
        loop {
            let now = Instant::now();
            clock.start_iteration(now);
            // Send an interval for each elapsed one, also after a stall, because the receiver counts them.
            while now >= next_report {
                let empty = self.control.take_recorder();
                let recorder = std::mem::replace(&mut self.connections.recorder, empty);
                let _ = self.messages.send(Message::Interval(reports, recorder));
                reports += 1;
                next_report += self.plan.interval;
            }
            self.connections.sweep(now);
            let next = self.dispatch(&mut schedule);
            let is_done = next == Next::Over && self.connections.in_flight == 0;
            if self.control.is_stopped() || is_done || self.is_out_of_time(now, measurement_start, next) {
                break;
            }
            let timeout = clock.sleep_time(next, next_report, now);
            for event in 0..self.connections.wait(timeout) {
                clock.discard_spin();
                self.connections.handle(event);
                // Send due requests on time. Without a schedule, first read everything and then send on all
                // free connections at once: the server then wakes once for many requests, and so does this
                // thread (7 % more requests per second).
                if is_open_loop {
                    self.dispatch(&mut schedule);
                }
            }
        }
        self.finish(&mut schedule, &clock)
    }

    /// Whether an open loop stops waiting for responses: the timeout after the end has passed, or the step of a search
    /// must be aborted. In a closed loop nothing is sent after the end, so the timeout of each request is enough.
    fn is_out_of_time(&self, now: Instant, measurement_start: Instant, next: Next) -> bool {
        let (Pace::Open(..), Until::Time(time)) = (self.plan.pace, self.plan.until) else { return false };
        let end = measurement_start + time;
        let must_abort = |condition: AbortCondition| {
            // The requests that have become due since the first one that was not sent.
            let not_sent = match next {
                Next::Due(due) => end.saturating_duration_since(due).as_secs_f64() * condition.rate,
                _ => 0.0,
            };
            let unanswered = units::float(self.connections.in_flight as u64) + not_sent;
            now >= end + condition.after && unanswered > condition.max_unanswered
        };
        now >= end + self.plan.timeout || self.plan.abort_condition.is_some_and(must_abort)
    }

    /// Counts the requests without a response as failed, except those in flight when the run was interrupted.
    fn finish(&mut self, schedule: &mut RequestSchedule, clock: &ThreadClock) -> ThreadResult {
        let now = Instant::now();
        let is_interrupted = self.control.is_stopped();
        let duration = schedule.duration(self.connections.measurement_start, now, is_interrupted);
        for due in schedule.not_sent(now, is_interrupted) {
            self.connections.record_unsent(&Failure::NotSent, due, now);
        }
        if !is_interrupted {
            self.connections.fail_in_flight(now);
        }
        ThreadResult {
            duration,
            in_flight_at_end: self.connections.in_flight as u64,
            time: clock.thread_time(now),
            recorder: std::mem::take(&mut self.connections.recorder),
        }
    }

    /// Sends due requests on idle connections. Returns the state of the next request; one that waits for an idle
    /// connection is due.
    fn dispatch(&mut self, schedule: &mut RequestSchedule) -> Next {
        loop {
            let now = Instant::now();
            let next = schedule.peek(now);
            // An open loop that is late still sends after its end.
            self.connections.end = schedule.end().filter(|end| now < *end || next == Next::Over);
            let Next::Due(due) = next else { return next };
            if self.plan.deadline.is_some_and(|deadline| now - due > deadline) {
                schedule.take(now);
                self.connections.record_unsent(&Failure::Deadline, due, now);
            } else if self.connections.slots.has_idle() {
                self.connections.assign(due, now, schedule);
            } else {
                return next;
            }
        }
    }

    fn request_schedule(&self, start: Instant) -> RequestSchedule {
        let threads = self.plan.threads.get();
        let requests = match self.plan.until {
            Until::Requests(requests) => {
                let (each, more) = (requests / u64::from(threads), requests % u64::from(threads));
                each + u64::from(u64::from(self.index) < more)
            }
            Until::Time(_) => 0,
        };
        let schedule = self.plan.thread_schedule(self.index);
        RequestSchedule::new(schedule, start, self.plan.warm_up, self.plan.until, requests)
    }
}

/// Sets the timer slack of this thread to the minimum, so that the kernel does not delay wake-ups by up to 50 µs.
fn minimize_timer_slack() {
    // If the kernel refuses, requests are slightly late, which is measured and reported.
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
}
