//! A generator thread: opens its connections, waits for the other threads, and sends its share of the plan.
//! Shares no data with them while it runs.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use super::feed::{Feed, Next};
use super::fleet::Fleet;
use super::plan::{Pace, Plan, Until};
use super::run::{Done, Gate, Message, Messages, ThreadTime};

/// Maximum sleep, so that a stop is noticed.
const NAP: Duration = Duration::from_millis(100);

/// A sleep may end late, so the thread sleeps until this time before a request is due and then polls the
/// clock.
const SPIN: Duration = Duration::from_micros(60);

/// Opens the connections, waits for the other threads, runs, and reports the results. Errors of the channel
/// mean that the run was abandoned.
pub(super) fn run(plan: &Plan, index: u32, gate: &Gate, messages: &Messages) {
    wake_exactly();
    let fleet = match Fleet::new(plan, index, gate) {
        Ok(fleet) => fleet,
        Err(error) => return messages.send(Message::Failed(error)).unwrap_or_default(),
    };
    let mut worker = Worker { plan, gate, messages, fleet, index };
    let _ = messages.send(Message::Ready(worker.open_all()));
    let done = worker.generate(gate.pass());
    let _ = messages.send(Message::Done(done));
}

struct Worker<'p> {
    plan: &'p Plan,
    gate: &'p Gate,
    messages: &'p Messages,
    fleet: Fleet<'p>,
    index: u32,
}

impl Worker<'_> {
    /// Opens all connections at the connect rate, and waits until each is open or has failed.
    fn open_all(&mut self) -> Result<(), String> {
        let count = self.fleet.count();
        if self.plan.opens_for_each_request() {
            return self.fleet.all_are_idle();
        }
        let begun = Instant::now();
        let rate = self.plan.connect_rate / f64::from(self.plan.threads.get());
        let at = |number: u32| begun + Duration::from_secs_f64(f64::from(number) / rate);
        let mut opened = 0;
        while !self.gate.is_stopped() {
            let now = Instant::now();
            while opened < count && now >= at(opened) {
                self.fleet.open(opened, now);
                opened += 1;
            }
            if opened == count && self.fleet.has_settled() {
                break;
            }
            self.fleet.sweep(now);
            let most = if opened < count { at(opened).saturating_duration_since(now) } else { NAP };
            for event in 0..self.fleet.wait(most.min(NAP)) {
                self.fleet.handle(event);
            }
        }
        self.fleet.all_are_idle()
    }

    fn generate(&mut self, start: Instant) -> Done {
        let mut feed = self.feed(start);
        self.fleet.since = start + self.plan.warm_up;
        let since = self.fleet.since;
        let mut next_report = since + self.plan.interval;
        let mut reports = 0;
        let is_paced = self.plan.pace != Pace::Closed;
        let cpu = thread_cpu();
        loop {
            let now = Instant::now();
            // Send an interval for each elapsed one, also after a stall, because the receiver counts them.
            while now >= next_report {
                let seen = std::mem::take(&mut self.fleet.recorder);
                let _ = self.messages.send(Message::Interval(reports, seen));
                reports += 1;
                next_report += self.plan.interval;
            }
            self.fleet.sweep(now);
            let next = self.dispatch(&mut feed);
            if self.gate.is_stopped() || (next == Next::Over && self.fleet.under_way == 0) {
                break;
            }
            for event in 0..self.fleet.wait(sleep(next, next_report, now)) {
                self.fleet.handle(event);
                // Send due requests on time. Without a schedule, first read everything and then send on all
                // free connections at once: the server then wakes once for many requests, and so does this
                // thread (7 % more requests per second).
                if is_paced {
                    self.dispatch(&mut feed);
                }
            }
        }
        let now = Instant::now();
        let is_cut = self.gate.is_stopped();
        Done {
            unsent: feed.left_over(since, now, is_cut),
            duration: feed.duration(since, now, is_cut),
            abandoned: self.fleet.under_way as u64,
            time: ThreadTime {
                cpu: thread_cpu().saturating_sub(cpu),
                wall: now.saturating_duration_since(start),
            },
            rest: std::mem::take(&mut self.fleet.recorder),
        }
    }

    /// Sends due requests on free connections. Returns when the next one is due; a request that waits for a
    /// free connection is due now.
    fn dispatch(&mut self, feed: &mut Feed) -> Next {
        loop {
            let now = Instant::now();
            let next = feed.peek(now);
            let Next::Due(due) = next else { return next };
            if self.plan.deadline.is_some_and(|deadline| now - due > deadline) {
                feed.take();
                self.fleet.shed(due, now);
            } else if self.fleet.has_idle() {
                self.fleet.assign(due, now, feed);
            } else {
                return next;
            }
        }
    }

    fn feed(&self, start: Instant) -> Feed {
        let threads = self.plan.threads.get();
        let requests = match self.plan.until {
            Until::Requests(requests) => {
                let (each, more) = (requests / u64::from(threads), requests % u64::from(threads));
                each + u64::from(u64::from(self.index) < more)
            }
            Until::Time(_) => 0,
        };
        Feed::new(self.plan.due(self.index), start, self.plan.warm_up, self.plan.until, requests)
    }
}

/// The time of the next action.
fn sleep(next: Next, next_report: Instant, now: Instant) -> Duration {
    let most = next_report.saturating_duration_since(now).min(NAP);
    match next {
        Next::Wait(due) => most.min(due.saturating_duration_since(now).saturating_sub(SPIN)),
        Next::Due(_) | Next::Over => most,
    }
}

/// Sets the timer slack of this thread to a minimum, so that the kernel does not delay wake-ups by up to 50
/// µs.
fn wake_exactly() {
    // If the kernel refuses, requests are slightly late, which is measured and reported.
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
}

/// CPU time of this thread.
fn thread_cpu() -> Duration {
    // The elapsed time of a thread is never negative.
    clock_gettime(ClockId::ThreadCPUTime).try_into().unwrap_or_default()
}
