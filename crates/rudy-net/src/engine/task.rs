//! `task`: one task for each connection on a work-stealing runtime, so that an idle core steals tasks from a
//! busy one. Compared with `percore`, this costs locks and cache misses.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use rudy_service::WorkerThread;
use tokio::runtime::{Builder, Handle};
use tokio::task::JoinSet;

use super::running::{NewRunner, RunningEngine};
use super::spawner::{Spawner, Tasks};
use super::worker_runner::{BLOCKING_THREADS_MAX, NotifyEndOnDrop, new_timer_fd};
use super::{Engine, Options, Reporter, ServiceSource};

/// The timeout for the threads of the runtime at shutdown: longer than one poll of a connection takes on a busy
/// machine. Blocking disk reads are not awaited.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(1);

pub(super) fn start<S: ServiceSource>(
    options: &Options,
    source: Arc<S>,
    reporter: Arc<dyn Reporter>,
) -> io::Result<Box<dyn Engine>> {
    start_with(Tasks { quic_keys: None }, options, source, reporter)
}

/// Starts an engine on a work-stealing runtime. It has one worker per thread, to spread the counters and timers.
/// A connection belongs to the same worker on every thread.
pub(super) fn start_with<S: ServiceSource, C: Spawner>(
    spawner: C,
    options: &Options,
    source: Arc<S>,
    reporter: Arc<dyn Reporter>,
) -> io::Result<Box<dyn Engine>> {
    let engine = RunningEngine::start(options.core_count(), spawner, source, reporter, spawn)?;
    Ok(Box::new(engine))
}

fn spawn(runners: Vec<NewRunner>) -> io::Result<Vec<Handle>> {
    let count = runners.len();
    let (workers, (parked, all_parked)) = (AtomicUsize::new(0), mpsc::channel());
    let runtime = Builder::new_multi_thread()
        .worker_threads(count)
        .enable_io()
        .enable_time()
        .thread_name("rudy-task")
        .max_blocking_threads(BLOCKING_THREADS_MAX)
        .on_thread_park(move || {
            // Not when a thread starts: it may be one for blocking work, which never parks.
            if WorkerThread::current().is_none() {
                WorkerThread::enter(workers.fetch_add(1, Ordering::Relaxed), &Handle::current());
                // Fails only if the engine could not be started.
                let _ = parked.send(());
            }
        })
        .build()?;
    // All park, because there is no task yet.
    all_parked.iter().take(count).for_each(drop);
    let handle = runtime.handle().clone();
    let timer_fds = runners.iter().map(|_| new_timer_fd(&handle)).collect::<io::Result<Vec<_>>>()?;
    std::thread::Builder::new().name("rudy-task-main".to_owned()).spawn(move || {
        let ended: Vec<_> =
            runners.iter().map(|(runner, _)| NotifyEndOnDrop(runner.shared.clone())).collect();
        runtime.block_on(async {
            let mut running = JoinSet::new();
            for ((runner, commands), timer_fd) in runners.into_iter().zip(timer_fds) {
                running.spawn(async move { runner.run(timer_fd, commands).await });
            }
            running.join_all().await;
        });
        runtime.shutdown_timeout(SHUTDOWN_TIMEOUT);
        drop(ended);
    })?;
    Ok(vec![handle; count])
}
