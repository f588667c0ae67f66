//! `task`: a task for each connection on one work-stealing runtime, so that a core with nothing to do takes over what
//! waits at another. What this costs beside `percore` is what there is to see: locks, and caches that come too late.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::{Builder, Handle};
use tokio::task::JoinSet;

use super::lane::{BLOCKING_THREADS_MAX, TellEnd, alarm_on};
use super::running::{NewLane, Running};
use super::spawner::{Spawner, Tasks};
use super::{Engine, Options, Reporter, ServiceSource};

/// How long the end waits for the threads of the runtime: as long as one poll of a connection takes, on a busy machine. A
/// read that blocks on a disk is not waited for.
const END_TIME: Duration = Duration::from_secs(1);

pub(super) fn start<S: ServiceSource>(
    options: &Options,
    source: Arc<S>,
    reporter: Arc<dyn Reporter>,
) -> io::Result<Box<dyn Engine>> {
    start_with(Tasks, options, source, reporter)
}

/// Starts an engine on one work-stealing runtime. It has as many lanes as threads, so that counters and timers are not
/// everybody's; a connection keeps its lane wherever it runs.
pub(super) fn start_with<S: ServiceSource, C: Spawner>(
    spawner: C,
    options: &Options,
    source: Arc<S>,
    reporter: Arc<dyn Reporter>,
) -> io::Result<Box<dyn Engine>> {
    let engine = Running::start(options.core_count(), spawner, source, reporter, spawn)?;
    Ok(Box::new(engine))
}

fn spawn(lanes: Vec<NewLane>) -> io::Result<Vec<Handle>> {
    let count = lanes.len();
    let runtime = Builder::new_multi_thread()
        .worker_threads(count)
        .enable_io()
        .enable_time()
        .thread_name("rudy-task")
        .max_blocking_threads(BLOCKING_THREADS_MAX)
        .build()?;
    let handle = runtime.handle().clone();
    let alarms = lanes.iter().map(|_| alarm_on(&handle)).collect::<io::Result<Vec<_>>>()?;
    std::thread::Builder::new().name("rudy-orders".to_owned()).spawn(move || {
        let ended: Vec<_> = lanes.iter().map(|(lane, _)| TellEnd(lane.shared.clone())).collect();
        runtime.block_on(async {
            let mut running = JoinSet::new();
            for ((lane, orders), alarm) in lanes.into_iter().zip(alarms) {
                running.spawn(async move { lane.run(alarm, orders).await });
            }
            running.join_all().await;
        });
        runtime.shutdown_timeout(END_TIME);
        drop(ended);
    })?;
    Ok(vec![handle; count])
}
