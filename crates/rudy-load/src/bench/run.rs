//! Runs a plan: its threads, their common start, and the sum of their results.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;
use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use super::plan::Plan;
use super::recorder::Recorder;
use super::worker;
use crate::link::Remote;

/// Time between calls of [`Watch::goes_on`] while there is nothing to report.
const ASK: Duration = Duration::from_millis(50);

/// Time between the last connection and the first request, so that all threads are ready.
const HEAD_START: Duration = Duration::from_millis(5);

/// Observes a run.
pub trait Watch {
    /// Called at intervals while connections are opened and requests are sent; `false` ends the run.
    fn goes_on(&mut self) -> bool {
        true
    }

    /// Called when all connections are open, with the earliest possible start. Returns the start of the run.
    fn start(&mut self, soonest: Instant) -> Instant {
        soonest
    }

    /// Called while connections are opened, with the open and the total number.
    fn opening(&mut self, _open: u32, _of: u32) {}

    /// Called when all threads have reported an interval. All intervals add up to the whole run, including
    /// one for late responses at the end.
    fn interval(&mut self, _interval: &Interval) {}
}

/// Ignores all events.
impl Watch for () {}

/// An interval of a run, over all threads.
#[derive(Debug, Clone, Default)]
pub struct Interval {
    /// The index, from 0.
    pub index: u32,
    /// The length. The last interval can be shorter, and one for late responses can follow.
    pub length: Duration,
    /// The counts, without the warm-up.
    pub seen: Recorder,
    /// Open connections at its end.
    pub open: u32,
}

/// The result of a run.
#[derive(Debug, Clone, Default)]
pub struct Outcome {
    /// All counts, without the warm-up.
    pub seen: Recorder,
    /// The time in which counted requests were started.
    pub duration: Duration,
    /// Requests that were due in that time and not sent, because no connection was free.
    pub unsent: u64,
    /// Requests in flight when the run was interrupted.
    pub abandoned: u64,
    /// CPU time of each generator thread, over the whole run.
    pub threads: Vec<ThreadTime>,
    /// Whether the run was interrupted.
    pub is_interrupted: bool,
}

/// The CPU usage of a generator thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThreadTime {
    /// CPU time since the start.
    pub cpu: Duration,
    /// Elapsed time.
    pub wall: Duration,
}

impl ThreadTime {
    /// CPU time as a fraction of the elapsed time.
    #[must_use]
    pub fn share(&self) -> f64 {
        self.cpu.as_secs_f64() / self.wall.as_secs_f64().max(1e-9)
    }
}

/// Why a run failed.
#[derive(Debug)]
pub enum RunError {
    /// No connection could be opened.
    Connect(Remote, String),
    /// The system lacks a resource that the generator needs.
    System(io::Error),
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connect(remote, reason) => write!(f, "{remote}: {reason}"),
            Self::System(error) => write!(f, "cannot run the load generator: {error}"),
        }
    }
}

impl std::error::Error for RunError {}

/// State that the threads of a run share: the start, and a stop flag.
#[derive(Debug, Default)]
pub(super) struct Gate {
    pub(super) stop: AtomicBool,
    /// Number of open connections.
    pub(super) open: AtomicU32,
    start: OnceLock<Instant>,
}

impl Gate {
    /// Waits until all threads are ready and returns the start, which is the same for all.
    pub(super) fn pass(&self) -> Instant {
        *self.start.wait()
    }

    fn lift(&self, start: Instant) {
        self.start.get_or_init(|| start);
    }

    /// Cancels the start, so that waiting threads continue and find the run stopped.
    fn give_up(&self) {
        self.stop.store(true, Ordering::Relaxed);
        self.lift(Instant::now());
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// Messages of a thread.
pub(super) enum Message {
    /// All its connections are open or have failed; the error of the last failed one.
    Ready(Result<(), String>),
    /// The thread cannot run.
    Failed(io::Error),
    /// The counts of an interval, by its index.
    Interval(u32, Box<Recorder>),
    Done(Done),
}

/// The last message of a thread.
#[derive(Debug)]
pub(super) struct Done {
    pub(super) rest: Box<Recorder>,
    pub(super) duration: Duration,
    pub(super) unsent: u64,
    pub(super) abandoned: u64,
    pub(super) time: ThreadTime,
}

pub(super) type Messages = Sender<Message>;

/// Runs a plan to its end.
///
/// # Errors
///
/// No connection could be opened, or the system lacks a resource.
pub fn run(plan: &Plan, watch: &mut dyn Watch) -> Result<Outcome, RunError> {
    let gate = Gate::default();
    let (sender, receiver) = channel();
    thread::scope(|scope| {
        for index in 0..plan.threads.get() {
            let (gate, messages) = (&gate, sender.clone());
            let work = move || worker::run(plan, index, gate, &messages);
            let thread = thread::Builder::new().name(format!("rudy-load-{index}")).spawn_scoped(scope, work);
            if let Err(error) = thread {
                gate.give_up();
                return Err(RunError::System(error));
            }
        }
        drop(sender);
        let collector = Collector {
            plan,
            gate: &gate,
            messages: &receiver,
            watch,
            intervals: BTreeMap::new(),
            total: Recorder::default(),
            running: plan.threads.get(),
            told: 0,
        };
        collector.collect()
    })
}

/// Sums up the messages of the threads.
struct Collector<'a> {
    plan: &'a Plan,
    gate: &'a Gate,
    messages: &'a Receiver<Message>,
    watch: &'a mut dyn Watch,
    /// Incomplete intervals: their counts, and the number of threads that have reported.
    intervals: BTreeMap<u32, (Box<Recorder>, u32)>,
    total: Recorder,
    /// Number of running threads.
    running: u32,
    /// Number of intervals that the watcher has received.
    told: u32,
}

impl Collector<'_> {
    fn collect(mut self) -> Result<Outcome, RunError> {
        let threads = self.plan.threads.get();
        if let Err(error) = self.open(threads) {
            self.gate.give_up();
            return Err(error);
        }
        self.gate.lift(self.watch.start(Instant::now() + HEAD_START));
        let mut done = Vec::new();
        while done.len() < threads as usize {
            match self.next() {
                Some(Message::Interval(index, seen)) => self.interval(index, seen),
                Some(Message::Done(last)) => {
                    done.push(last);
                    self.running -= 1;
                }
                Some(Message::Ready(_) | Message::Failed(_)) | None => {}
            }
        }
        Ok(self.outcome(&done))
    }

    /// Waits until all threads have their connections.
    fn open(&mut self, threads: u32) -> Result<(), RunError> {
        let mut reason = None;
        let mut ready = 0;
        while ready < threads {
            match self.next() {
                Some(Message::Ready(result)) => {
                    ready += 1;
                    reason = result.err().or(reason);
                }
                Some(Message::Failed(error)) => return Err(RunError::System(error)),
                _ => self.watch.opening(self.gate.open.load(Ordering::Relaxed), self.plan.connections.get()),
            }
        }
        match reason {
            Some(reason) if self.gate.open.load(Ordering::Relaxed) == 0 => {
                Err(RunError::Connect(self.plan.remote.clone(), reason))
            }
            _ => Ok(()),
        }
    }

    /// The next message, or `None` after a while.
    fn next(&mut self) -> Option<Message> {
        if !self.watch.goes_on() {
            self.gate.stop.store(true, Ordering::Relaxed);
        }
        // The last messages of the threads show that they have ended.
        self.messages.recv_timeout(ASK).ok()
    }

    fn interval(&mut self, index: u32, seen: Box<Recorder>) {
        let (sum, told) = match self.intervals.entry(index) {
            Entry::Vacant(entry) => entry.insert((seen, 1)),
            Entry::Occupied(entry) => {
                let entry = entry.into_mut();
                entry.0.merge(&seen);
                entry.1 += 1;
                entry
            }
        };
        if *told < self.running {
            return;
        }
        let seen = std::mem::take(sum);
        self.intervals.remove(&index);
        self.tell(index, self.plan.interval, *seen);
    }

    fn tell(&mut self, index: u32, length: Duration, seen: Recorder) {
        self.total.merge(&seen);
        self.told += 1;
        self.watch.interval(&Interval { index, length, seen, open: self.gate.open.load(Ordering::Relaxed) });
    }

    fn outcome(mut self, done: &[Done]) -> Outcome {
        let mut rest = Recorder::default();
        for (seen, _) in std::mem::take(&mut self.intervals).into_values() {
            rest.merge(&seen);
        }
        for last in done {
            rest.merge(&last.rest);
        }
        let duration = done.iter().map(|last| last.duration).max().unwrap_or_default();
        let told = self.plan.interval.saturating_mul(self.told);
        self.tell(self.told, duration.saturating_sub(told), rest);
        Outcome {
            duration,
            unsent: done.iter().map(|last| last.unsent).sum(),
            abandoned: done.iter().map(|last| last.abandoned).sum(),
            threads: done.iter().map(|last| last.time).collect(),
            is_interrupted: self.gate.is_stopped(),
            seen: self.total,
        }
    }
}
