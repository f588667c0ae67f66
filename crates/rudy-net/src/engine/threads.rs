//! `thread`, `pool:N` and `serial`: a connection has a thread for as long as it is open, which is parked while the connection waits.
//!
//! The thread polls the connection's future and does nothing else. One more thread, `rudy-control`, has the runtime: it accepts, watches
//! the sockets and turns the timers, and wakes the threads of the connections.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::{iter, thread};

use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinHandle;

use super::accept::RETRY_PAUSE;
use super::report::ProblemReports;
use super::running::RunningEngine;
use super::spawner::{Connection, Spawner};
use super::worker_runner::OpenConnection;
use super::{Engine, Problem, Reporter, ServiceSource, worker_runner};
use crate::Peer;
use crate::driver::{self, ConnectionContext};
use crate::scratch::use_small_buffer;
use crate::transport::Stream;

/// The stack of a thread: four times what the handlers take of it in a debug build, which is more than in a release build. The
/// usual 2 MiB would be address space and nothing else, but thousands of them count where memory is not overcommitted.
const STACK_BYTES: usize = 256 * 1024;

/// Starts an engine whose connections are served by `threads`.
pub(super) fn start<S: ServiceSource>(
    threads: Threads,
    source: Arc<S>,
    reporter: Arc<dyn Reporter>,
) -> io::Result<Box<dyn Engine>> {
    let engine = RunningEngine::start(1, threads.clone(), source, reporter, move |runners| {
        let runners = runners.into_iter();
        runners
            .map(|(runner, commands)| {
                worker_runner::spawn("rudy-control".to_owned(), runner, commands, threads.clone().abort())
            })
            .collect()
    })?;
    Ok(Box::new(engine))
}

/// The threads of one engine.
#[derive(Clone)]
pub(super) struct Threads {
    /// One for each connection that may have a thread.
    permits: Arc<Semaphore>,
    /// What the threads of a pool take connections from; `None` where a thread is started for each connection.
    pool: Option<Sender<QueuedConnection>>,
    /// Whether the connections are to be abort. Each that has a thread holds a receiver.
    abort: watch::Sender<bool>,
}

/// A connection on its way to a thread.
struct QueuedConnection {
    /// Boxed: moved by value, it would take 8 KiB more of the stack in a debug build.
    connection: Pin<Box<dyn Future<Output = ()> + Send>>,
    runtime: Handle,
    /// Held until the connection has ended, as the permit is.
    abort: watch::Receiver<bool>,
    permit: OwnedSemaphorePermit,
}

impl QueuedConnection {
    /// Serves the connection to its end on the thread that calls it.
    fn serve(self) {
        let Self { connection, runtime, mut abort, permit: _permit } = self;
        let serve = async {
            tokio::select! {
                biased;
                // An error is an engine that has ended.
                _ = abort.wait_for(|abort| *abort) => {}
                () = connection => {}
            }
        };
        // A panic ends its connection, which has reported it, and not the thread.
        let _ = catch_unwind(AssertUnwindSafe(|| runtime.block_on(serve)));
    }
}

impl Threads {
    /// `threads` threads that serve one connection after the other. They end when this and its clones are dropped.
    pub(super) fn pool(threads: usize) -> io::Result<Self> {
        let (pool, queue) = mpsc::channel();
        let queue = Arc::new(Mutex::new(queue));
        for number in 1..=threads as u64 {
            let queue = queue.clone();
            start_thread(number, move || {
                iter::from_fn(|| next_connection(&queue)).for_each(QueuedConnection::serve)
            })?;
        }
        Ok(Self::new(threads, Some(pool)))
    }

    /// A thread for each connection, which ends with it; at limit `limit` at the same time.
    pub(super) fn per_connection(limit: usize) -> Self {
        Self::new(limit, None)
    }

    fn new(permits: usize, pool: Option<Sender<QueuedConnection>>) -> Self {
        Self { permits: Arc::new(Semaphore::new(permits)), pool, abort: watch::Sender::new(false) }
    }

    /// Cuts every connection, and waits until none has a thread. To be awaited before the runtime ends: a handler that waits for one
    /// of its timers would panic.
    async fn abort(self) {
        self.permits.close();
        self.abort.send_replace(true);
        self.abort.closed().await;
    }

    /// Starts a thread for one connection, which waits until that succeeds.
    async fn start_thread_for(
        &self,
        connection: QueuedConnection,
        number: u64,
        reports: &Arc<ProblemReports>,
    ) {
        while !*self.abort.borrow() {
            let (hand_over, handed_over) = mpsc::channel::<QueuedConnection>();
            let started = start_thread(number, move || {
                use_small_buffer();
                handed_over.into_iter().for_each(QueuedConnection::serve);
            });
            match started {
                Ok(()) => return drop(hand_over.send(connection)),
                Err(error) => reports.record(Problem::Threads, || error.to_string()),
            }
            tokio::time::sleep(RETRY_PAUSE).await;
        }
    }
}

impl Spawner for Threads {
    fn spawn<S: ServiceSource>(
        &self,
        io: Stream,
        client: (Peer, u64),
        context: Arc<ConnectionContext<S>>,
        open: OpenConnection,
    ) -> Option<JoinHandle<()>> {
        let permit = self.permits.clone().try_acquire_owned();
        context.worker.counters.queued.add(permit.is_err().into());
        let threads = self.clone();
        Some(tokio::spawn(async move {
            let permit = match permit {
                Ok(permit) => Ok(permit),
                Err(_) => threads.permits.clone().acquire_owned().await,
            };
            // An error is the end of the engine.
            let Ok(permit) = permit else { return };
            let (number, reports) = (client.1, open.reports());
            let connection = Connection { serving: driver::serve(io, client, context), open };
            let connection = QueuedConnection {
                connection: Box::pin(connection),
                runtime: Handle::current(),
                abort: threads.abort.subscribe(),
                permit,
            };
            match &threads.pool {
                // Its threads do not end before it, and one of them has nothing to do.
                Some(pool) => drop(pool.send(connection)),
                None => threads.start_thread_for(connection, number, &reports).await,
            }
        }))
    }
}

fn start_thread(number: u64, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let thread = thread::Builder::new().name(format!("rudy-conn-{number}")).stack_size(STACK_BYTES);
    thread.spawn(work).map(drop)
}

/// The next connection of a pool; `None` when the pool has ended.
fn next_connection(queue: &Mutex<Receiver<QueuedConnection>>) -> Option<QueuedConnection> {
    // Nothing panics while the lock is held.
    queue.lock().unwrap_or_else(PoisonError::into_inner).recv().ok()
}
