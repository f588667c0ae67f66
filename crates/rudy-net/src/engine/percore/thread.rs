//! The thread of one core: its runtime, what its connections share, and how it ends.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::{Notify, watch};

use crate::Worker;
use crate::engine::admission::{Admission, Place};
use crate::engine::descriptors::Spare;
use crate::engine::report::Reports;
use crate::engine::shed::Shedder;
use crate::engine::{Report, Reporter, Stopped};

/// Threads of one core on which handlers wait for files. More would not make a disk faster, and each costs a stack.
const BLOCKING_THREADS_MAX: usize = 32;

/// Times that a stopping core goes around its loop before it asks connections to end, so that those accepted last have
/// read the request they came with: once to begin, once to be told by the poller that there is something to read,
/// and the poller tells of 1024 sockets at a time.
const SETTLING_ROUNDS: usize = 8;

/// What the threads are told to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// Carry connections.
    Serve,
    /// Ask the connections to end, and end with the last of them or at this time.
    Finish { by: Instant },
    /// End.
    End,
}

/// What the cores of an engine share.
pub(super) struct Shared {
    pub(super) admission: Admission,
    pub(super) reports: Arc<Reports>,
    pub(super) shedder: Shedder,
    connections: AtomicU64,
    cut: AtomicU64,
    /// Threads that have not ended.
    running: AtomicUsize,
    ended: watch::Sender<bool>,
}

impl Shared {
    pub(super) fn new(reporter: Arc<dyn Reporter>, threads: usize) -> Self {
        Self {
            admission: Admission::new(),
            reports: Reports::new(reporter),
            shedder: Shedder::new(),
            connections: AtomicU64::new(0),
            cut: AtomicU64::new(0),
            running: AtomicUsize::new(threads),
            ended: watch::Sender::new(false),
        }
    }

    /// The number of a new connection, from 1.
    pub(super) fn next_number(&self) -> u64 {
        self.connections.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Ready when all threads have ended.
    pub(super) async fn ended(&self) -> Stopped {
        // It fails only if the sender is gone, and that is ours.
        let _ = self.ended.subscribe().wait_for(|ended| *ended).await;
        Stopped { cut: self.cut.load(Ordering::Acquire) }
    }
}

/// What the connections of one core share.
pub(super) struct Core {
    pub(super) worker: Arc<Worker>,
    pub(super) shared: Arc<Shared>,
    pub(super) spare: Spare,
    /// A connection has closed while the core was stopping.
    closed: Notify,
}

impl Core {
    pub(super) fn new(shared: Arc<Shared>) -> io::Result<Self> {
        Ok(Self { worker: Arc::default(), shared, spare: Spare::new()?, closed: Notify::new() })
    }

    fn open_connections(&self) -> u64 {
        let counters = &self.worker.counters;
        counters.accepted.get() - counters.closed.get()
    }

    async fn run(&self, mut orders: watch::Receiver<Order>) {
        let worker = self.worker.clone();
        // Until the runtime ends.
        tokio::spawn(async move { worker.run_timers().await });
        let order = orders.wait_for(|order| *order != Order::Serve).await.map_or(Order::End, |order| *order);
        if let Order::Finish { by } = order {
            tokio::select! {
                () = self.finish() => {}
                () = tokio::time::sleep_until(by.into()) => {}
                // An error is an engine that was dropped: the end as well.
                _ = orders.wait_for(|order| *order == Order::End) => {}
            }
        }
        self.shared.cut.fetch_add(self.open_connections(), Ordering::AcqRel);
    }

    async fn finish(&self) {
        // In a task of its own, which takes its turn behind the new connections; this future would jump the queue.
        let settling = tokio::spawn(async {
            for _ in 0..SETTLING_ROUNDS {
                tokio::task::yield_now().await;
            }
        });
        // It does not panic, and a runtime that ends ends us too.
        let _ = settling.await;
        self.worker.stop();
        while self.open_connections() > 0 {
            self.closed.notified().await;
        }
    }
}

/// Starts the thread. It ends with [`Order::End`], at the end of [`Order::Finish`], or with the sender of `orders`.
pub(super) fn spawn(index: usize, core: Arc<Core>, orders: watch::Receiver<Order>) -> io::Result<Handle> {
    let runtime = Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .thread_name("rudy-blocking")
        .max_blocking_threads(BLOCKING_THREADS_MAX)
        .build()?;
    let handle = runtime.handle().clone();
    thread::Builder::new().name(format!("rudy-core-{index}")).spawn(move || carry(runtime, &core, orders))?;
    Ok(handle)
}

fn carry(runtime: Runtime, core: &Core, orders: watch::Receiver<Order>) {
    // Told also if this thread should panic: whoever waits for the end must not wait for ever.
    let _ended = TellEnd(&core.shared);
    runtime.block_on(core.run(orders));
    // Drops what is left of the connections. A read that blocks on a disk is not waited for.
    runtime.shutdown_background();
}

struct TellEnd<'a>(&'a Shared);

impl Drop for TellEnd<'_> {
    fn drop(&mut self) {
        if self.0.running.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.reports.finish();
            self.0.ended.send_replace(true);
        }
    }
}

/// A connection that was let in, until it is over, however it ends.
pub(super) struct OpenConnection {
    core: Arc<Core>,
    place: Place,
}

impl OpenConnection {
    pub(super) fn new(core: Arc<Core>, place: Place) -> Self {
        core.worker.counters.accepted.add(1);
        Self { core, place }
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.core.shared.admission.leave(&self.place);
        self.core.worker.counters.closed.add(1);
        if self.core.worker.is_stopping() {
            self.core.closed.notify_one();
        }
        if thread::panicking() {
            self.core.worker.counters.panics.add(1);
            self.core.shared.reports.report(&Report::ConnectionPanicked);
        }
    }
}
