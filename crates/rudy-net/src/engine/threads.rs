//! `thread`, `pool:N` and `serial`: each open connection has a thread, which is parked while the connection
//! waits.
//!
//! The thread only polls the connection's future. One more thread, `rudy-control`, has the runtime. It
//! accepts connections, watches sockets and timers, and wakes the threads of the connections.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::{iter, thread};

use parking_lot::Mutex;
use rudy_runtime::watch;
use rudy_service::{Peer, WorkerThread};
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinHandle;

use super::accept::RETRY_PAUSE;
use super::report::ProblemReports;
use super::running::RunningEngine;
use super::spawner::{Connection, Spawner};
use super::worker_runner::OpenConnection;
use super::{Engine, Problem, Reporter, ServiceSource, worker_runner};
use crate::driver::{self, ConnectionContext};
use crate::scratch::use_small_buffer;
use crate::transport::Stream;

/// Stack size of a thread: four times what the handlers need in a debug build. The usual 2 MiB are only
/// address space, but add up over thousands of threads where memory is not overcommitted.
const STACK_BYTES: usize = 256 * 1024;

/// Starts an engine whose connections run on `threads`.
pub(super) fn start<S: ServiceSource>(
    threads: Threads,
    source: Arc<S>,
    reporter: Arc<dyn Reporter>,
) -> io::Result<Box<dyn Engine>> {
    let engine = RunningEngine::start(1, threads.clone(), source, reporter, move |runners| {
        let runners = runners.into_iter();
        runners
            .map(|(runner, commands)| {
                let (name, aborted) = ("rudy-control".to_owned(), threads.clone().abort());
                worker_runner::spawn_thread((name, 0), runner, commands, aborted)
            })
            .collect()
    })?;
    Ok(Box::new(engine))
}

/// The threads of an engine.
#[derive(Clone)]
pub(super) struct Threads {
    /// One permit for each connection that may have a thread.
    permits: Arc<Semaphore>,
    /// The queue of a thread pool; `None` if each connection starts its own thread.
    pool: Option<Sender<QueuedConnection>>,
    /// Becomes true to abort the connections. Each connection with a thread holds a receiver.
    abort: Arc<watch::Sender<bool>>,
}

/// A connection on its way to a thread.
struct QueuedConnection {
    /// Boxed: moving it by value would take 8 KiB more of the stack in a debug build.
    connection: Pin<Box<dyn Future<Output = ()> + Send>>,
    runtime: Handle,
    /// Held until the connection has ended, like the permit.
    abort: watch::Receiver<bool>,
    permit: OwnedSemaphorePermit,
}

impl QueuedConnection {
    /// Serves the connection to its end on the calling thread.
    fn serve(self) {
        let Self { connection, runtime, mut abort, permit: _permit } = self;
        // The only worker, whichever of its threads this is.
        WorkerThread::enter(0, &runtime);
        let serve = async {
            tokio::select! {
                biased;
                // An error means that the engine has ended.
                _ = abort.wait_for(|abort| *abort) => {}
                () = connection => {}
            }
        };
        // A panic ends the connection, which has reported it, but not the thread.
        let _ = catch_unwind(AssertUnwindSafe(|| runtime.block_on(serve)));
    }
}

impl Threads {
    /// Starts `threads` threads, which serve one connection at a time. They end when the value and its clones
    /// are dropped.
    pub(super) fn pool(threads: usize) -> io::Result<Self> {
        let (pool, queue) = mpsc::channel();
        let queue = Arc::new(Mutex::new(queue));
        for number in 1..=threads as u64 {
            let queue = queue.clone();
            start_thread(number, move || {
                iter::from_fn(|| next_connection(&queue)).for_each(QueuedConnection::serve);
            })?;
        }
        Ok(Self::new(threads, Some(pool)))
    }

    /// Starts a thread for each connection, at most `limit` at the same time.
    pub(super) fn per_connection(limit: usize) -> Self {
        Self::new(limit, None)
    }

    fn new(permits: usize, pool: Option<Sender<QueuedConnection>>) -> Self {
        Self { permits: Arc::new(Semaphore::new(permits)), pool, abort: Arc::new(watch::Sender::new(false)) }
    }

    /// Aborts every connection, and waits until none has a thread. Must be awaited before the runtime ends: a
    /// handler that waits for a timer of the runtime would panic.
    async fn abort(self) {
        self.permits.close();
        self.abort.send_replace(true);
        self.abort.closed().await;
    }

    /// Starts a thread for a connection, and retries until that succeeds.
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
        Some(rudy_runtime::spawn(async move {
            let permit = match permit {
                Ok(permit) => Ok(permit),
                Err(_) => threads.permits.clone().acquire_owned().await,
            };
            // An error means that the engine has ended.
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
                // The pool's threads outlive the sender, and the permit means that one of them is free.
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

/// Returns the next connection of the queue, or `None` when the pool has ended.
fn next_connection(queue: &Mutex<Receiver<QueuedConnection>>) -> Option<QueuedConnection> {
    // The code under the lock cannot panic.
    queue.lock().recv().ok()
}
