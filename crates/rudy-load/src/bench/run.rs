//! Runs a plan: its threads, their common start, and the sum of their results.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::json;
use super::plan::Plan;
use super::recorder::Recorder;
use super::worker;
use crate::transport::Remote;

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
    pub recorder: Box<Recorder>,
    /// Open connections at its end.
    pub open: u32,
}

/// The result of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// All counts, without the warm-up.
    #[serde(flatten)]
    pub recorder: Recorder,
    /// The time in which counted requests were sent. In an open loop it is longer than planned if requests
    /// that were due before the end were sent after it.
    #[serde(rename = "duration_s", with = "json::seconds")]
    pub duration: Duration,
    /// Requests in flight when the run was interrupted.
    pub in_flight_at_end: u64,
    /// CPU time of each generator thread, over the whole run.
    pub threads: Vec<ThreadTime>,
    /// Whether the run was interrupted.
    pub is_interrupted: bool,
}

/// The CPU usage of a generator thread.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadTime {
    /// CPU time since the start.
    #[serde(rename = "cpu_s", with = "json::seconds")]
    pub cpu: Duration,
    /// The part of it in which the thread polled the clock until a request was due.
    #[serde(rename = "spin_s", with = "json::seconds")]
    pub spin: Duration,
    /// The time in which the thread was ready to run and had no core (its run delay).
    #[serde(rename = "run_delay_s", with = "json::seconds")]
    pub run_delay: Duration,
    /// Elapsed time.
    #[serde(rename = "wall_s", with = "json::seconds")]
    pub wall: Duration,
}

impl ThreadTime {
    /// CPU time as a fraction of the elapsed time.
    #[must_use]
    pub fn share(&self) -> f64 {
        self.of_wall(self.cpu)
    }

    /// The fraction of the elapsed time in which the thread polled the clock.
    #[must_use]
    pub fn spin_share(&self) -> f64 {
        self.of_wall(self.spin)
    }

    /// The fraction of the elapsed time in which the thread waited for a core.
    #[must_use]
    pub fn run_delay_share(&self) -> f64 {
        self.of_wall(self.run_delay)
    }

    fn of_wall(&self, time: Duration) -> f64 {
        time.as_secs_f64() / self.wall.as_secs_f64().max(1e-9)
    }
}

/// The error of a run.
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
    /// Recorders that are empty, for the next intervals.
    #[expect(clippy::vec_box, reason = "a recorder moves between threads, and has a kilobyte")]
    spares: Mutex<Vec<Box<Recorder>>>,
    start: OnceLock<Instant>,
}

impl Gate {
    /// Waits until all threads are ready and returns the start, which is the same for all.
    pub(super) fn pass(&self) -> Instant {
        *self.start.wait()
    }

    /// An empty recorder, if possible one whose memory was used before.
    pub(super) fn spare(&self) -> Box<Recorder> {
        self.spares.lock().ok().and_then(|mut spares| spares.pop()).unwrap_or_default()
    }

    /// Takes a recorder back, whose counts were merged.
    fn reuse(&self, mut recorder: Box<Recorder>) {
        recorder.clear();
        if let Ok(mut spares) = self.spares.lock() {
            spares.push(recorder);
        }
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
    pub(super) in_flight_at_end: u64,
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
            reported: 0,
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
    reported: u32,
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
                Some(Message::Interval(index, recorder)) => self.interval(index, recorder),
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

    fn interval(&mut self, index: u32, recorder: Box<Recorder>) {
        let (_, reported) = match self.intervals.entry(index) {
            Entry::Vacant(entry) => entry.insert((recorder, 1)),
            Entry::Occupied(entry) => {
                let entry = entry.into_mut();
                entry.0.merge(&recorder);
                self.gate.reuse(recorder);
                entry.1 += 1;
                entry
            }
        };
        if *reported < self.running {
            return;
        }
        let Some((recorder, _)) = self.intervals.remove(&index) else { return };
        self.report(index, self.plan.interval, recorder);
    }

    fn report(&mut self, index: u32, length: Duration, recorder: Box<Recorder>) {
        self.total.merge(&recorder);
        self.reported += 1;
        let interval = Interval { index, length, recorder, open: self.gate.open.load(Ordering::Relaxed) };
        self.watch.interval(&interval);
        self.gate.reuse(interval.recorder);
    }

    fn outcome(mut self, done: &[Done]) -> Outcome {
        let mut rest = Box::<Recorder>::default();
        for (recorder, _) in std::mem::take(&mut self.intervals).into_values() {
            rest.merge(&recorder);
        }
        for last in done {
            rest.merge(&last.rest);
        }
        let duration = done.iter().map(|last| last.duration).max().unwrap_or_default();
        let reported = self.plan.interval.saturating_mul(self.reported);
        self.report(self.reported, duration.saturating_sub(reported), rest);
        Outcome {
            duration,
            in_flight_at_end: done.iter().map(|last| last.in_flight_at_end).sum(),
            threads: done.iter().map(|last| last.time).collect(),
            is_interrupted: self.gate.is_stopped(),
            recorder: self.total,
        }
    }
}
