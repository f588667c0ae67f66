//! A run: its threads, their common start, and the sum of what they have seen.

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

/// How often a watcher is asked whether to go on, while nothing is reported.
const ASK: Duration = Duration::from_millis(50);

/// Between the last connection's opening and the first request, so that every thread is there.
const HEAD_START: Duration = Duration::from_millis(5);

/// Whoever looks on while a run goes on.
pub trait Watch {
    /// Asked every so often while connections are opened and requests are sent: false ends the run.
    fn goes_on(&mut self) -> bool {
        true
    }

    /// When every connection stands: the first request is not due before then, nor before it can be. Told when that is.
    fn start(&mut self, soonest: Instant) -> Instant {
        soonest
    }

    /// Connections are being opened: so many of so many stand.
    fn opening(&mut self, _open: u32, _of: u32) {}

    /// All threads have reported an interval of the run. The figures are of that interval alone; those of all of them, with
    /// what came after the last whole one, add up to those of the run.
    fn interval(&mut self, _interval: &Interval) {}
}

/// Nobody.
impl Watch for () {}

/// A part of a run, over all threads.
#[derive(Debug, Clone, Default)]
pub struct Interval {
    /// The first is 0.
    pub index: u32,
    /// How long it was. The last may be shorter than the others, and be followed only by answers that came late.
    pub length: Duration,
    /// What was seen; nothing of the warm-up.
    pub seen: Recorder,
    /// Connections that stand at its end.
    pub open: u32,
}

/// What a run has shown.
#[derive(Debug, Clone, Default)]
pub struct Outcome {
    /// Everything seen, the warm-up not counted.
    pub seen: Recorder,
    /// The time in which requests were begun that count.
    pub duration: Duration,
    /// Requests that were due in that time and not sent, because no connection was free.
    pub unsent: u64,
    /// Requests that were still under way when it was interrupted.
    pub abandoned: u64,
    /// CPU time of each generating thread, over the whole time.
    pub threads: Vec<ThreadTime>,
    /// It was ended before its time.
    pub is_interrupted: bool,
}

/// How busy a generating thread was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThreadTime {
    /// CPU time from the start on.
    pub cpu: Duration,
    /// All time.
    pub wall: Duration,
}

impl ThreadTime {
    /// The share of its time in which it computed.
    #[must_use]
    pub fn share(&self) -> f64 {
        self.cpu.as_secs_f64() / self.wall.as_secs_f64().max(1e-9)
    }
}

/// Why a run could not take place.
#[derive(Debug)]
pub enum RunError {
    /// Not one connection could be opened.
    Connect(Remote, String),
    /// The system refuses what a generator needs.
    System(io::Error),
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connect(remote, reason) => write!(f, "{remote}: {reason}"),
            Self::System(error) => write!(f, "the generator cannot run: {error}"),
        }
    }
}

impl std::error::Error for RunError {}

/// What the threads of a run share: when to begin, and whether to stop.
#[derive(Debug, Default)]
pub(super) struct Gate {
    pub(super) stop: AtomicBool,
    /// Connections that stand.
    pub(super) open: AtomicU32,
    start: OnceLock<Instant>,
}

impl Gate {
    /// Waits until every thread is ready, and says when to begin: the same instant to all.
    pub(super) fn pass(&self) -> Instant {
        *self.start.wait()
    }

    fn lift(&self, start: Instant) {
        self.start.get_or_init(|| start);
    }

    /// Nothing is to be begun: whoever waits goes on and sees that it is over.
    fn give_up(&self) {
        self.stop.store(true, Ordering::Relaxed);
        self.lift(Instant::now());
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// What a thread tells.
pub(super) enum Message {
    /// Its connections stand, or will not: why the last that does not, does not.
    Ready(Result<(), String>),
    /// It cannot run at all.
    Failed(io::Error),
    /// Of the interval with this index.
    Interval(u32, Box<Recorder>),
    Done(Done),
}

/// What a thread tells last.
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
/// No connection came to stand, or the system refuses what a generator needs.
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

/// Adds up what the threads tell.
struct Collector<'a> {
    plan: &'a Plan,
    gate: &'a Gate,
    messages: &'a Receiver<Message>,
    watch: &'a mut dyn Watch,
    /// Those of which not every thread has told: what is known, and by how many.
    intervals: BTreeMap<u32, (Box<Recorder>, u32)>,
    total: Recorder,
    /// Threads that will tell more.
    running: u32,
    /// Intervals that the watcher was told of.
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

    /// Waits until every thread has its connections.
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

    /// The next message, or nothing for a while.
    fn next(&mut self) -> Option<Message> {
        if !self.watch.goes_on() {
            self.gate.stop.store(true, Ordering::Relaxed);
        }
        // That every thread has gone is told by their last messages.
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
