//! Tasks, and work that blocks.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Instant;

use tokio::runtime::Handle;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::sleep;

use crate::simulation::{Entered, Simulation, current};

/// Spawns a task on the current runtime. In a simulation, it belongs to the process that spawns it.
///
/// # Panics
///
/// The current thread is outside of a tokio runtime.
pub fn spawn<T: Send + 'static>(task: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
    match current() {
        None => tokio::spawn(task),
        Some(simulation) => {
            track(simulation, tokio::spawn(Inside { simulation, task: Some(Box::pin(task)) }))
        }
    }
}

/// As [`spawn()`], on this runtime.
pub fn spawn_on<T: Send + 'static>(
    runtime: &Handle,
    task: impl Future<Output = T> + Send + 'static,
) -> JoinHandle<T> {
    match current() {
        None => runtime.spawn(task),
        Some(simulation) => {
            track(simulation, runtime.spawn(Inside { simulation, task: Some(Box::pin(task)) }))
        }
    }
}

/// Keeps a future inside of the simulated process that calls this, wherever it is polled.
pub fn inside<F: Future>(future: F) -> impl Future<Output = F::Output> {
    let simulation = current();
    let mut future = Box::pin(future);
    poll_fn(move |cx| {
        let _inside = simulation.map(Entered::new);
        future.as_mut().poll(cx)
    })
}

/// Waits until this time of the monotonic clock; forever without one.
///
/// # Panics
///
/// The current thread is outside of a tokio runtime.
pub async fn sleep_until(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time.into()).await,
        None => std::future::pending().await,
    }
}

/// Runs work that blocks, such as reading a file, on a thread of the current runtime that may wait. A simulation runs it on its own
/// thread, later.
///
/// # Panics
///
/// The current thread is outside of a tokio runtime.
pub fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    match current() {
        None => spawn_blocking(work),
        Some(simulation) => {
            let time = simulation.blocking_time();
            spawn(async move {
                sleep(time).await;
                work()
            })
        }
    }
}

fn track<T>(simulation: &dyn Simulation, task: JoinHandle<T>) -> JoinHandle<T> {
    simulation.spawned(task.abort_handle());
    task
}

/// A task of a simulated process.
struct Inside<F> {
    simulation: &'static dyn Simulation,
    /// `None` only while it is dropped.
    task: Option<Pin<Box<F>>>,
}

impl<F: Future> Future for Inside<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        self.simulation.polled();
        let _inside = Entered::new(self.simulation);
        self.task.as_mut().map_or(Poll::Pending, |task| task.as_mut().poll(cx))
    }
}

impl<F> Drop for Inside<F> {
    /// What the task drops may ask for the time.
    fn drop(&mut self) {
        let _inside = Entered::new(self.simulation);
        self.task = None;
    }
}
