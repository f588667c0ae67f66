//! The carrying threads, and the connections that wait for one.

use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use tokio::sync::Notify;

use super::open::Registry;
use super::park::Parker;
use crate::close::{Ending, close_at_once};
use crate::engine::Trouble;
use crate::engine::descriptors::connections_within_descriptors;
use crate::engine::lane::OpenConnection;
use crate::engine::shed::Shedder;
use crate::scratch::take_small_scratch;

/// What a carrying thread has for a stack: four times what the handlers take of it in a debug build, which is more than in
/// a release build. The usual 2 MiB would be address space and nothing else, but thousands of them count where memory is
/// not overcommitted.
const STACK_BYTES: usize = 256 * 1024;

/// A connection that is to be carried.
pub(super) struct Job {
    pub(super) socket: socket2::Socket,
    pub(super) open: OpenConnection,
    pub(super) carry: Carry,
}

impl Job {
    /// Ends the connection: nobody carries it any more.
    fn cut(self) {
        close_at_once(self.socket, Ending::Cut);
    }
}

/// Carries a connection to its end, on the thread that it is called on.
pub(super) type Carry = Box<dyn FnOnce(socket2::Socket, OpenConnection, &Crew, &Arc<Parker>) + Send>;

/// The threads of one engine.
pub(super) struct Crew {
    pub(super) registry: Registry,
    /// Threads at most.
    most: usize,
    /// Whether a thread waits for the next connection when it is done with one.
    stays: bool,
    state: Mutex<State>,
    /// For threads that wait: there is a connection to be carried, or the end has come.
    called: Condvar,
    /// For who waits for the end: a thread has ended.
    ended: Condvar,
    /// For acceptors: there may be room.
    freed: Notify,
}

#[derive(Default)]
struct State {
    /// Connections that no thread has taken yet.
    jobs: VecDeque<Job>,
    /// Threads that have not ended.
    threads: usize,
    /// Those of them that carry nothing, and will take one of `jobs`.
    idle: usize,
    /// Threads started so far, for their names.
    started: u64,
    cut: bool,
}

impl State {
    /// Whether a connection that comes now has a thread.
    fn has_room(&self, most: usize) -> bool {
        // Where a thread could not be started, its connection waits for another one to end, and so do those behind it.
        let may_grow = self.threads < most && self.jobs.len() <= self.idle;
        self.jobs.len() < self.idle || may_grow
    }
}

impl Crew {
    /// A fixed number of threads that take one connection after the other.
    pub(super) fn of_pool(threads: usize) -> io::Result<Arc<Self>> {
        let crew = Arc::new(Self::new(threads, true));
        for _ in 0..threads {
            if let Err(error) = crew.start_thread() {
                crew.cut();
                return Err(error);
            }
        }
        Ok(crew)
    }

    /// A thread for each connection, so many at most, and no more than the descriptor limit leaves room for: each may need a
    /// second one, to be woken by.
    pub(super) fn of_threads(most: usize) -> Arc<Self> {
        let within_descriptors = (connections_within_descriptors() / 2).max(1);
        Arc::new(Self::new(most.min(within_descriptors), false))
    }

    fn new(most: usize, stays: bool) -> Self {
        Self {
            registry: Registry::default(),
            most,
            stays,
            state: Mutex::default(),
            called: Condvar::new(),
            ended: Condvar::new(),
            freed: Notify::new(),
        }
    }

    pub(super) fn has_room(&self) -> bool {
        self.lock().has_room(self.most)
    }

    /// Ready when there is a thread for one more connection, or there may be.
    pub(super) async fn room(&self) {
        loop {
            let mut freed = pin!(self.freed.notified());
            // Before the look, so that no thread becomes free between it and the wait.
            freed.as_mut().enable();
            if self.has_room() {
                return;
            }
            freed.await;
        }
    }

    /// Has a connection carried, now or when a thread is free. Must be called on a tokio runtime.
    pub(super) fn take(self: &Arc<Self>, job: Job) {
        let reports = job.open.reports();
        let mut state = self.lock();
        if state.cut {
            drop(state);
            return job.cut();
        }
        let starts = state.idle <= state.jobs.len() && state.threads < self.most;
        state.jobs.push_back(job);
        drop(state);
        self.called.notify_one();
        if starts && let Err(error) = self.start_thread() {
            reports.happened(Trouble::Threads, || error.to_string());
            self.send_away_if_alone();
        }
    }

    /// No thread could be started. Where there is none that could take the connection later, it is sent away.
    fn send_away_if_alone(&self) {
        let mut state = self.lock();
        let job = if state.threads == 0 { state.jobs.pop_back() } else { None };
        drop(state);
        if let Some(job) = job {
            job.open.worker().counters.shed.add(1);
            Shedder::send_away_at_once(job.socket);
        }
    }

    fn start_thread(self: &Arc<Self>) -> io::Result<()> {
        let mut state = self.lock();
        state.threads += 1;
        state.idle += 1;
        state.started += 1;
        let name = format!("rudy-conn-{}", state.started);
        drop(state);
        let crew = self.clone();
        let started = thread::Builder::new().name(name).stack_size(STACK_BYTES).spawn(move || crew.work());
        started.map(drop).inspect_err(|_| {
            let mut state = self.lock();
            state.threads -= 1;
            state.idle -= 1;
        })
    }

    /// The life of a carrying thread.
    fn work(&self) {
        if !self.stays {
            take_small_scratch();
        }
        let parker = Arc::new(Parker::default());
        let mut job = self.next();
        while let Some(Job { socket, open, carry }) = job {
            // A panic ends its connection, which has reported it, and not the thread.
            let _ = catch_unwind(AssertUnwindSafe(|| carry(socket, open, self, &parker)));
            parker.forget();
            job = self.next_after();
        }
    }

    /// The next connection; with the end of the crew, none. The thread is idle when it asks.
    fn next(&self) -> Option<Job> {
        let mut state = self.lock();
        loop {
            if let Some(job) = state.jobs.pop_front() {
                state.idle -= 1;
                return Some(job);
            }
            if state.cut || !self.stays {
                state.idle -= 1;
                self.end_thread(state);
                return None;
            }
            state = self.called.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// As [`Self::next`], for a thread that has carried one already. One that was started for a connection ends with it,
    /// unless there is one for which none could be started.
    fn next_after(&self) -> Option<Job> {
        let mut state = self.lock();
        if !self.stays && state.jobs.len() <= state.idle {
            self.end_thread(state);
            return None;
        }
        state.idle += 1;
        drop(state);
        self.freed.notify_waiters();
        self.next()
    }

    fn end_thread(&self, mut state: MutexGuard<'_, State>) {
        state.threads -= 1;
        drop(state);
        self.freed.notify_waiters();
        self.ended.notify_all();
    }

    /// Cuts every connection, and waits until the threads have ended.
    pub(super) fn cut(&self) {
        let mut state = self.lock();
        state.cut = true;
        let waiting = std::mem::take(&mut state.jobs);
        drop(state);
        waiting.into_iter().for_each(Job::cut);
        self.called.notify_all();
        self.registry.cut();
        let mut state = self.lock();
        while state.threads > 0 {
            state = self.ended.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Nothing in it is ever half changed: no code that may panic runs under the lock.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
