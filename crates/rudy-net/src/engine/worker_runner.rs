//! A runner: connections that share a worker and are told together to end. `percore` has one for each core, with a thread
//! of its own.

use std::io;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use tokio::runtime::{Builder, Handle};
use tokio::sync::{Notify, watch};

use super::admission::{Admission, Permit};
use super::descriptors::SpareDescriptor;
use super::reject::Rejecter;
use super::report::ProblemReports;
use super::{Problem, Report, Reporter, Stopped};
use crate::timers::{Candidate, TimerFd, VictimQueue};
use crate::{Limits, Peer, Worker};

/// Threads of one runtime on which handlers wait for files. More would not make a disk faster, and each costs a stack.
pub(super) const BLOCKING_THREADS_MAX: usize = 32;

/// What the runners are told to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Command {
    /// Serve connections.
    Serve,
    /// Ask the connections to end, and end with the last of them or at this time.
    Drain { until: Instant },
    /// End.
    Stop,
}

/// What the runners of an engine share.
pub(super) struct EngineShared {
    pub(super) admission: Admission,
    pub(super) reports: Arc<ProblemReports>,
    pub(super) rejecter: Rejecter,
    pub(super) spare: SpareDescriptor,
    /// Those of all runners.
    pub(super) workers: Vec<Arc<Worker>>,
    /// The connections that are to be evicted next.
    victims: Mutex<VictimQueue>,
    connections: AtomicU64,
    aborted: AtomicU64,
    /// Lanes that have not ended.
    running: AtomicUsize,
    ended: watch::Sender<bool>,
}

impl EngineShared {
    pub(super) fn new(reporter: Arc<dyn Reporter>, runners: usize) -> io::Result<Self> {
        Ok(Self {
            admission: Admission::new(),
            reports: ProblemReports::new(reporter),
            rejecter: Rejecter::new(),
            spare: SpareDescriptor::new()?,
            workers: (0..runners).map(|_| Arc::default()).collect(),
            victims: Mutex::default(),
            connections: AtomicU64::new(0),
            aborted: AtomicU64::new(0),
            running: AtomicUsize::new(runners),
            ended: watch::Sender::new(false),
        })
    }

    /// The number of a new connection, from 1.
    pub(super) fn next_number(&self) -> u64 {
        self.connections.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Has an idle connection close, one of this worker first. `false`: none is idle.
    fn evict_one(&self, own: &Arc<Worker>) -> bool {
        let own = self.workers.iter().position(|worker| Arc::ptr_eq(worker, own)).unwrap_or(0);
        // VictimQueue are chosen again when they run out, whatever panicked.
        let mut victims = self.victims.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some(victim) = victims.next(own, || self.candidates()) {
            if self.workers[victim.worker].timers.evict(&victim) {
                return true;
            }
        }
        false
    }

    /// Those of all workers, and how many slots were looked at.
    fn candidates(&self) -> (Vec<Candidate>, usize) {
        let mut all = (Vec::new(), 0);
        for (index, worker) in self.workers.iter().enumerate() {
            let (candidates, slots) = worker.timers.candidates(index);
            all.0.extend(candidates);
            all.1 += slots;
        }
        all
    }

    /// Ready when all runners have ended.
    pub(super) async fn ended(&self) -> Stopped {
        // It fails only if the sender is gone, and that is ours.
        let _ = self.ended.subscribe().wait_for(|ended| *ended).await;
        Stopped { aborted: self.aborted.load(Ordering::Acquire) }
    }
}

/// What the connections of one runner share.
pub(super) struct WorkerRunner {
    pub(super) worker: Arc<Worker>,
    pub(super) shared: Arc<EngineShared>,
    /// A connection has closed.
    closed: Notify,
}

impl WorkerRunner {
    pub(super) fn new(worker: Arc<Worker>, shared: Arc<EngineShared>) -> Self {
        Self { worker, shared, closed: Notify::new() }
    }

    /// Closes idle connections, those of this runner first, until `connections` are about to end. `false` if too few are idle.
    pub(super) fn make_room(&self, connections: usize, why: impl Fn() -> String) -> bool {
        let workers = &self.shared.workers;
        let about_to_close = workers.iter().map(|worker| worker.evicted()).sum();
        (about_to_close..connections).all(|_| {
            let is_made = self.shared.evict_one(&self.worker);
            if is_made {
                self.worker.counters.evicted.add(1);
                self.shared.reports.record(Problem::IdleEvicted, &why);
            }
            is_made
        })
    }

    fn open_connections(&self) -> u64 {
        let counters = &self.worker.counters;
        // Closed first: one that comes and goes in between is counted as open, never as less than none.
        let closed = counters.closed.get();
        counters.accepted.get().saturating_sub(closed)
    }

    /// Runs until it is told to end, with [`Command::Stop`] or by an engine that is dropped, or until its last connection has
    /// ended after [`Command::Finish`]. What is left then is to be abort by the caller, and is counted here.
    pub(super) async fn run(&self, timer_fd: TimerFd, mut commands: watch::Receiver<Command>) {
        let worker = self.worker.clone();
        // Until the runtime ends.
        tokio::spawn(async move { worker.run_timers(timer_fd).await });
        let command = commands
            .wait_for(|command| *command != Command::Serve)
            .await
            .map_or(Command::Stop, |command| *command);
        if let Command::Drain { until } = command {
            self.worker.stop();
            tokio::select! {
                () = self.wait_until_closed() => {}
                () = tokio::time::sleep_until(until.into()) => {}
                // An error is an engine that was dropped: the end as well.
                _ = commands.wait_for(|command| *command == Command::Stop) => {}
            }
        }
        self.shared.aborted.fetch_add(self.open_connections(), Ordering::AcqRel);
    }

    async fn wait_until_closed(&self) {
        while self.open_connections() > 0 {
            self.closed.notified().await;
        }
    }
}

/// Starts a thread with a runtime of its own for a runner. `abort` is awaited before the runtime ends, for what is left of the
/// connections and does not end with it.
pub(super) fn spawn(
    name: String,
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
    let timer_fd = timer_fd_on(&handle)?;
    thread::Builder::new().name(name).spawn(move || {
        let _ended = NotifyEnd(runner.shared.clone());
        runtime.block_on(async {
            runner.run(timer_fd, commands).await;
            abort.await;
        });
        // Drops what is left of the connections. A read that blocks on a disk is not waited for.
        runtime.shutdown_background();
    })?;
    Ok(handle)
}

/// An timer_fd that rings on this runtime.
pub(super) fn timer_fd_on(runtime: &Handle) -> io::Result<TimerFd> {
    let _entered = runtime.enter();
    TimerFd::new()
}

/// Says on its drop that a runner has ended: also if its thread should panic, because whoever waits for the end must not
/// wait for ever.
pub(super) struct NotifyEnd(pub(super) Arc<EngineShared>);

impl Drop for NotifyEnd {
    fn drop(&mut self) {
        if self.0.running.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.reports.finish();
            self.0.ended.send_replace(true);
        }
    }
}

/// A connection that was let in, until it is over, however it ends.
pub(super) struct OpenConnection {
    runner: Arc<WorkerRunner>,
    permit: Permit,
}

impl OpenConnection {
    pub(super) fn new(runner: Arc<WorkerRunner>, permit: Permit) -> Self {
        runner.worker.counters.accepted.add(1);
        Self { runner, permit }
    }

    /// Counts it for the address that a proxy has named. `false`: the address has as many as it may have.
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

    /// Where its problems are told.
    pub(super) fn reports(&self) -> Arc<ProblemReports> {
        self.runner.shared.reports.clone()
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.runner.shared.admission.release(&self.permit);
        self.runner.worker.counters.closed.add(1);
        // Not only if the runner is stopping: to look first would leave a moment in which neither sees the other.
        self.runner.closed.notify_one();
        if thread::panicking() {
            self.runner.worker.counters.panics.add(1);
            self.runner.shared.reports.report(&Report::ConnectionPanicked);
        }
    }
}
