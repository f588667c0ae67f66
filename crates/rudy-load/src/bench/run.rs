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

use rudy_request::Remote;
use serde::{Deserialize, Serialize};

use super::json;
use super::plan::Plan;
use super::recorder::Recorder;
use super::worker;

/// Time between calls of [`Watch::should_continue`] while no message arrives.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Time between the last connection and the first request, so that all threads are ready, and a lab has read the CPU time that the
/// server has used for its connections.
const START_DELAY: Duration = Duration::from_millis(20);

/// Observes a run and can end it.
pub trait Watch {
    /// Called at intervals while connections are opened and requests are sent; `false` ends the run.
    fn should_continue(&mut self) -> bool {
        true
    }

    /// Called when all connections are open, with the earliest possible start. Returns the start of the run.
    fn start(&mut self, earliest: Instant) -> Instant {
        earliest
    }

    /// Called while connections are opened, with the number of open connections and their total number.
    fn opening(&mut self, _open: u32, _total: u32) {}

    /// Called when all threads have reported an interval. The sum of all intervals is the whole run; the last one has
    /// the responses after the end.
    fn interval(&mut self, _interval: &Interval) {}
}

/// Ignores all events.
impl Watch for () {}

/// The counts of all threads in one interval of a run.
#[derive(Debug, Clone, Default)]
pub struct Interval {
    /// The index, from 0.
    pub index: u32,
    /// The length. The last interval can be shorter; its length is zero if it has only the responses after the end.
    pub length: Duration,
    /// The counts, without the warm-up.
    pub recorder: Box<Recorder>,
    /// The number of open connections at its end.
    pub open: u32,
}

/// The result of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// All counts and latencies, without the warm-up.
    #[serde(flatten)]
    pub recorder: Recorder,
    /// The duration of the measurement, without the warm-up. In an open loop it is longer than planned if requests that
    /// were due before the end were sent after it.
    #[serde(rename = "duration_s", with = "json::seconds")]
    pub duration: Duration,
    /// Requests in flight when the run was interrupted.
    pub in_flight_at_end: u64,
    /// CPU usage of each generator thread, over the whole run.
    pub threads: Vec<ThreadTime>,
    /// CPU usage of the relay, if a longer path was simulated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub relay: Option<ThreadTime>,
    /// Whether the run was interrupted.
    pub is_interrupted: bool,
}

/// The CPU usage of a generator thread.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadTime {
    /// CPU time since the start.
    #[serde(rename = "cpu_s", with = "json::seconds")]
    pub cpu: Duration,
    /// The part of the CPU time in which the thread polled the clock until a request was due.
    #[serde(rename = "spin_s", with = "json::seconds")]
    pub spin: Duration,
    /// The time in which the thread was ready to run and had no core (its run delay).
    #[serde(rename = "run_delay_s", with = "json::seconds")]
    pub run_delay: Duration,
    /// Elapsed time since the start.
    #[serde(rename = "wall_s", with = "json::seconds")]
    pub wall: Duration,
}

impl ThreadTime {
    /// CPU time as a fraction of the elapsed time.
    #[must_use]
    pub fn cpu_share(&self) -> f64 {
        self.fraction_of_wall(self.cpu)
    }

    /// The fraction of the elapsed time in which the thread polled the clock.
    #[must_use]
    pub fn spin_share(&self) -> f64 {
        self.fraction_of_wall(self.spin)
    }

    /// The fraction of the elapsed time in which the thread waited for a core.
    #[must_use]
    pub fn run_delay_share(&self) -> f64 {
        self.fraction_of_wall(self.run_delay)
    }

    fn fraction_of_wall(&self, time: Duration) -> f64 {
        time.as_secs_f64() / self.wall.as_secs_f64().max(1e-9)
    }
}

/// An error because of which a run has no result.
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

/// The state that the threads of a run share: the start, a stop flag, and a pool of recorders.
#[derive(Debug, Default)]
pub(super) struct RunControl {
    pub(super) stop: AtomicBool,
    /// Number of open connections.
    pub(super) open: AtomicU32,
    /// Empty recorders for the next intervals.
    #[expect(clippy::vec_box, reason = "a recorder moves between threads, and has a kilobyte")]
    recorder_pool: Mutex<Vec<Box<Recorder>>>,
    start: OnceLock<Instant>,
}

impl RunControl {
    /// Waits until all threads are ready, and returns the start of the run.
    pub(super) fn wait_for_start(&self) -> Instant {
        *self.start.wait()
    }

    /// An empty recorder: one from the pool, whose memory is mapped already, or a new one.
    pub(super) fn take_recorder(&self) -> Box<Recorder> {
        self.recorder_pool.lock().ok().and_then(|mut pool| pool.pop()).unwrap_or_default()
    }

    /// Clears a recorder whose counts were merged, and returns it to the pool.
    fn return_recorder(&self, mut recorder: Box<Recorder>) {
        recorder.clear();
        if let Ok(mut pool) = self.recorder_pool.lock() {
            pool.push(recorder);
        }
    }

    fn set_start(&self, start: Instant) {
        self.start.get_or_init(|| start);
    }

    /// Stops the run before its start, so that waiting threads return.
    fn cancel(&self) {
        self.stop.store(true, Ordering::Relaxed);
        self.set_start(Instant::now());
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// The messages of a thread.
pub(super) enum Message {
    /// All connections of the thread are open or have failed. The error is that of the last one that failed.
    Ready(Result<(), String>),
    /// The thread cannot run.
    Failed(io::Error),
    /// The index and the counts of an interval.
    Interval(u32, Box<Recorder>),
    Done(ThreadResult),
}

/// The result of a thread.
#[derive(Debug)]
pub(super) struct ThreadResult {
    /// The counts since the last interval.
    pub(super) recorder: Box<Recorder>,
    pub(super) duration: Duration,
    pub(super) in_flight_at_end: u64,
    pub(super) time: ThreadTime,
}

pub(super) type MessageSender = Sender<Message>;

/// Runs a plan to its end.
///
/// # Errors
///
/// No connection could be opened, or the system lacks a resource.
pub fn run(plan: &Plan, watch: &mut dyn Watch) -> Result<Outcome, RunError> {
    let control = RunControl::default();
    let (sender, receiver) = channel();
    thread::scope(|scope| {
        for index in 0..plan.threads.get() {
            let (control, messages) = (&control, sender.clone());
            let work = move || worker::run(plan, index, control, &messages);
            let thread = thread::Builder::new().name(format!("rudy-load-{index}")).spawn_scoped(scope, work);
            if let Err(error) = thread {
                control.cancel();
                return Err(RunError::System(error));
            }
        }
        drop(sender);
        let collector = Collector {
            plan,
            control: &control,
            messages: &receiver,
            watch,
            intervals: BTreeMap::new(),
            total: Recorder::default(),
            running: plan.threads.get(),
            reported: 0,
            relay_cpu_before: Duration::ZERO,
        };
        collector.collect()
    })
}

/// Adds up the messages of the threads.
struct Collector<'a> {
    plan: &'a Plan,
    control: &'a RunControl,
    messages: &'a Receiver<Message>,
    watch: &'a mut dyn Watch,
    /// Incomplete intervals by index: the counts, and the number of threads that have reported them.
    intervals: BTreeMap<u32, (Box<Recorder>, u32)>,
    total: Recorder,
    /// Number of running threads.
    running: u32,
    /// Number of intervals that the watcher has received.
    reported: u32,
    /// The CPU time of the relay before the first request.
    relay_cpu_before: Duration,
}

impl Collector<'_> {
    fn collect(mut self) -> Result<Outcome, RunError> {
        let threads = self.plan.threads.get();
        if let Err(error) = self.wait_for_connections(threads) {
            self.control.cancel();
            return Err(error);
        }
        self.relay_cpu_before = self.relay_cpu();
        self.control.set_start(self.watch.start(Instant::now() + START_DELAY));
        let mut results = Vec::new();
        while results.len() < threads as usize {
            match self.receive() {
                Some(Message::Interval(index, recorder)) => self.interval(index, recorder),
                Some(Message::Done(result)) => {
                    results.push(result);
                    self.running -= 1;
                }
                Some(Message::Ready(_) | Message::Failed(_)) | None => {}
            }
        }
        Ok(self.outcome(&results))
    }

    /// The CPU time of the relay so far.
    fn relay_cpu(&self) -> Duration {
        self.plan.relay.as_ref().map_or(Duration::ZERO, |relay| relay.cpu())
    }

    /// Waits until all connections are open or have failed.
    fn wait_for_connections(&mut self, threads: u32) -> Result<(), RunError> {
        let mut reason = None;
        let mut ready = 0;
        while ready < threads {
            match self.receive() {
                Some(Message::Ready(result)) => {
                    ready += 1;
                    reason = result.err().or(reason);
                }
                Some(Message::Failed(error)) => return Err(RunError::System(error)),
                _ => {
                    let open = self.control.open.load(Ordering::Relaxed);
                    self.watch.opening(open, self.plan.connections.get());
                }
            }
        }
        match reason {
            Some(reason) if self.control.open.load(Ordering::Relaxed) == 0 => {
                Err(RunError::Connect(self.plan.remote.clone(), reason))
            }
            _ => Ok(()),
        }
    }

    /// The next message, or `None` after [`POLL_INTERVAL`].
    fn receive(&mut self) -> Option<Message> {
        if !self.watch.should_continue() {
            self.control.stop.store(true, Ordering::Relaxed);
        }
        // The last messages of the threads show that they have ended.
        self.messages.recv_timeout(POLL_INTERVAL).ok()
    }

    fn interval(&mut self, index: u32, recorder: Box<Recorder>) {
        let (_, reported) = match self.intervals.entry(index) {
            Entry::Vacant(entry) => entry.insert((recorder, 1)),
            Entry::Occupied(entry) => {
                let entry = entry.into_mut();
                entry.0.merge(&recorder);
                self.control.return_recorder(recorder);
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
        let interval = Interval { index, length, recorder, open: self.control.open.load(Ordering::Relaxed) };
        self.watch.interval(&interval);
        self.control.return_recorder(interval.recorder);
    }

    fn outcome(mut self, results: &[ThreadResult]) -> Outcome {
        let mut rest = Box::<Recorder>::default();
        for (recorder, _) in std::mem::take(&mut self.intervals).into_values() {
            rest.merge(&recorder);
        }
        for result in results {
            rest.merge(&result.recorder);
        }
        let duration = results.iter().map(|result| result.duration).max().unwrap_or_default();
        let reported = self.plan.interval.saturating_mul(self.reported);
        self.report(self.reported, duration.saturating_sub(reported), rest);
        let wall = results.iter().map(|result| result.time.wall).max().unwrap_or_default();
        let relay_cpu = self.relay_cpu().saturating_sub(self.relay_cpu_before);
        let relay = self.plan.relay.as_ref();
        Outcome {
            relay: relay.map(|_| ThreadTime { cpu: relay_cpu, wall, ..ThreadTime::default() }),
            duration,
            in_flight_at_end: results.iter().map(|result| result.in_flight_at_end).sum(),
            threads: results.iter().map(|result| result.time).collect(),
            is_interrupted: self.control.is_stopped(),
            recorder: self.total,
        }
    }
}
