//! Runs a worker: its timers, its listeners and its shutdown. In `percore`, each core has one worker with its
//! own thread.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use parking_lot::Mutex;
use rudy_runtime::{is_planted, spawn, watch};
use rudy_service::{Limits, Peer, WorkerThread};
use tokio::runtime::{Builder, Handle};
use tokio::sync::Notify;

use super::admission::{Admission, Permit};
use super::descriptors::SpareDescriptor;
use super::reject::Rejecter;
use super::report::ProblemReports;
use super::{Problem, Report, Reporter, Stopped};
use crate::Worker;
use crate::timers::{Candidate, TimerFd, VictimQueue};

/// Maximum number of blocking threads of a runtime, on which handlers read files. More would not make a disk
/// faster, and each costs a stack.
pub(super) const BLOCKING_THREADS_MAX: usize = 32;

/// A command to the workers of an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Command {
    /// Serve connections.
    Serve,
    /// Close connections as they become idle, and end live streams at `streams_until`. Stop when the last one has closed, or at `until`.
    Drain { streams_until: Instant, until: Instant },
    /// Stop.
    Stop,
}

/// The state that the workers of an engine share.
pub(super) struct EngineShared {
    pub(super) admission: Admission,
    pub(super) reports: Arc<ProblemReports>,
    pub(super) rejecter: Rejecter,
    pub(super) spare: SpareDescriptor,
    /// All workers of the engine.
    pub(super) workers: Vec<Arc<Worker>>,
    /// The connections to evict next.
    victims: Mutex<VictimQueue>,
    connections: AtomicU64,
    /// What connections over QUIC may have in transit beyond their shares, in bytes.
    pub(super) quic_in_transit: Arc<AtomicU64>,
    aborted: AtomicU64,
    /// Workers that have not ended.
    running_workers: AtomicUsize,
    ended: watch::Sender<bool>,
}

impl EngineShared {
    pub(super) fn new(reporter: Arc<dyn Reporter>, worker_count: usize) -> io::Result<Self> {
        Ok(Self {
            admission: Admission::new(),
            reports: ProblemReports::new(reporter),
            rejecter: Rejecter::new(),
            spare: SpareDescriptor::new()?,
            workers: (0..worker_count).map(|_| Arc::default()).collect(),
            victims: Mutex::default(),
            connections: AtomicU64::new(0),
            quic_in_transit: Arc::default(),
            aborted: AtomicU64::new(0),
            running_workers: AtomicUsize::new(worker_count),
            ended: watch::Sender::new(false),
        })
    }

    /// Returns the number for a new connection, starting at 1.
    pub(super) fn next_number(&self) -> u64 {
        self.connections.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Evicts an idle connection, preferably of this worker. Returns `false` if none is idle.
    fn evict_one(&self, own: &Arc<Worker>) -> bool {
        let own = self.workers.iter().position(|worker| Arc::ptr_eq(worker, own)).unwrap_or(0);
        let mut victims = self.victims.lock();
        while let Some(victim) = victims.next(own, || self.candidates()) {
            if self.workers[victim.worker].timers.evict(&victim) {
                return true;
            }
        }
        false
    }

    /// Returns the candidates of all workers, and the number of slots scanned.
    fn candidates(&self) -> (Vec<Candidate>, usize) {
        let mut all = (Vec::new(), 0);
        for (index, worker) in self.workers.iter().enumerate() {
            let (candidates, slots) = worker.timers.candidates(index);
            all.0.extend(candidates);
            all.1 += slots;
        }
        all
    }

    /// Ready when all workers have ended.
    pub(super) async fn ended(&self) -> Stopped {
        // Fails only if the sender is dropped, and `self` owns the sender.
        let _ = self.ended.subscribe().wait_for(|ended| *ended).await;
        Stopped { aborted: self.aborted.load(Ordering::Acquire) }
    }
}

/// A worker with the shared state of its engine. Its connections and acceptors share it.
pub(super) struct WorkerRunner {
    pub(super) worker: Arc<Worker>,
    pub(super) shared: Arc<EngineShared>,
    /// Notified when a connection has closed.
    closed: Notify,
}

impl WorkerRunner {
    pub(super) fn new(worker: Arc<Worker>, shared: Arc<EngineShared>) -> Self {
        Self { worker, shared, closed: Notify::new() }
    }

    /// Evicts idle connections, first those of this worker, until `connections` are about to close. Returns
    /// `false` if too few are idle.
    pub(super) fn make_room(&self, connections: usize, why: impl Fn() -> String) -> bool {
        let workers = &self.shared.workers;
        let about_to_close = workers.iter().map(|worker| worker.evicted()).sum();
        (about_to_close..connections).all(|_| {
            let is_evicted = self.shared.evict_one(&self.worker);
            if is_evicted {
                self.worker.counters.evicted.add(1);
                self.shared.reports.record(Problem::IdleEvicted, &why);
            }
            is_evicted
        })
    }

    fn open_connections(&self) -> u64 {
        let counters = &self.worker.counters;
        // Reads `closed` first, so that a connection that opens and closes in between never makes the result
        // negative.
        let closed = counters.closed.get();
        counters.accepted.get().saturating_sub(closed)
    }

    /// Runs until [`Command::Stop`], until the engine is dropped, or until the last connection has closed
    /// after [`Command::Drain`]. Counts the remaining connections, which the caller must abort.
    pub(super) async fn run(&self, timer_fd: TimerFd, mut commands: watch::Receiver<Command>) {
        let worker = self.worker.clone();
        // Runs until the runtime ends.
        spawn(async move { worker.run_timers(timer_fd).await });
        let command = commands
            .wait_for(|command| *command != Command::Serve)
            .await
            .map_or(Command::Stop, |command| *command);
        if let Command::Drain { streams_until, until } = command {
            self.worker.stop();
            tokio::select! {
                biased;
                () = self.wait_until_closed() => {}
                () = self.end_streams_at(streams_until, until) => {}
                // An error means that the engine was dropped.
                _ = commands.wait_for(|command| *command == Command::Stop) => {}
            }
        }
        self.worker.abort();
        self.shared.aborted.fetch_add(self.open_connections(), Ordering::AcqRel);
    }

    /// Ends live streams at a time, and waits until another.
    async fn end_streams_at(&self, streams_until: Instant, until: Instant) {
        tokio::time::sleep_until(streams_until.into()).await;
        self.worker.end_streams();
        tokio::time::sleep_until(until.into()).await;
    }

    async fn wait_until_closed(&self) {
        while self.open_connections() > 0 && !is_planted("a stop that does not wait for requests") {
            self.closed.notified().await;
        }
    }
}

/// Starts a thread with its own runtime for the worker with this number. `abort` runs before the runtime ends, to end the
/// connections that do not end with the runtime.
pub(super) fn spawn_thread(
    (name, number): (String, usize),
    runner: Arc<WorkerRunner>,
    commands: watch::Receiver<Command>,
    abort: impl Future<Output = ()> + Send + 'static,
) -> io::Result<Handle> {
    let runtime = Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .thread_name("rudy-blocking")
        .max_blocking_threads(BLOCKING_THREADS_MAX)
        .build()?;
    let handle = runtime.handle().clone();
    let timer_fd = new_timer_fd(&handle)?;
    thread::Builder::new().name(name).spawn(move || {
        let _ended = NotifyEndOnDrop(runner.shared.clone());
        WorkerThread::enter(number, runtime.handle());
        runtime.block_on(async {
            runner.run(timer_fd, commands).await;
            abort.await;
        });
        // Drops the remaining connections, without waiting for blocking disk reads.
        runtime.shutdown_background();
    })?;
    Ok(handle)
}

/// Runs the worker as a task on the current thread: in a simulation, which has no other. Its connections end with the simulated process.
pub(super) fn spawn_here(
    number: usize,
    runner: Arc<WorkerRunner>,
    commands: watch::Receiver<Command>,
) -> io::Result<Handle> {
    let runtime = Handle::current();
    WorkerThread::enter(number, &runtime);
    let (timer_fd, ended) = (TimerFd::new()?, NotifyEndOnDrop(runner.shared.clone()));
    spawn(async move {
        let _ended = ended;
        runner.run(timer_fd, commands).await;
    });
    Ok(runtime)
}

/// Creates a timer descriptor registered with this runtime.
pub(super) fn new_timer_fd(runtime: &Handle) -> io::Result<TimerFd> {
    let _entered = runtime.enter();
    TimerFd::new()
}

/// Notifies the engine on drop that a worker has ended. This includes a panic of its thread, so that a caller
/// that waits for the end never hangs.
pub(super) struct NotifyEndOnDrop(pub(super) Arc<EngineShared>);

impl Drop for NotifyEndOnDrop {
    fn drop(&mut self) {
        if self.0.running_workers.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.reports.finish();
            self.0.ended.send_replace(true);
        }
    }
}

/// An admitted connection. Dropping it removes the connection from the counts.
pub(super) struct OpenConnection {
    runner: Arc<WorkerRunner>,
    permit: Permit,
}

impl OpenConnection {
    pub(super) fn new(runner: Arc<WorkerRunner>, permit: Permit) -> Self {
        runner.worker.counters.accepted.add(1);
        Self { runner, permit }
    }

    /// Counts the connection for the address in its PROXY protocol header. Returns `false` if the address has
    /// reached its limit.
    pub(super) fn count_for_address(&mut self, limits: &Limits, peer: &Peer) -> bool {
        let WorkerRunner { worker, shared, .. } = &*self.runner;
        match shared.admission.admit_address(limits, peer.ip()) {
            Ok(permit) => self.permit = permit,
            Err(reached) => {
                worker.counters.over_limit.add(1);
                shared.reports.record(reached.problem(), || reached.to_string());
                return false;
            }
        }
        true
    }

    /// Returns the reports of the engine.
    pub(super) fn reports(&self) -> Arc<ProblemReports> {
        self.runner.shared.reports.clone()
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.runner.shared.admission.release(&self.permit);
        self.runner.worker.counters.closed.add(u64::from(!is_planted("a connection that stays counted")));
        // Always notifies: checking first whether the worker is stopping would be a race.
        self.runner.closed.notify_one();
        if thread::panicking() {
            self.runner.worker.counters.panics.add(1);
            self.runner.shared.reports.report(&Report::ConnectionPanicked);
        }
    }
}
