//! Threads for work that keeps a core busy: few, and of low priority, so that it does not slow down requests.

use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, OnceLock};
use std::thread;

use parking_lot::Mutex;
use rustix::process::setpriority_process;
use rustix::thread::gettid;
use tokio::sync::oneshot;

/// The number of tasks per thread that wait. The last one waits about as long as a user does before the next click.
const WAITING_PER_THREAD: usize = 16;

/// The priority of the threads (`nice`): requests get most of the cores while both are busy.
const NICENESS: i32 = 10;

type Task = Box<dyn FnOnce() + Send>;

/// The threads, which start with the first task.
#[derive(Debug, Default)]
pub(super) struct Threads(OnceLock<SyncSender<Task>>);

/// All threads have tasks, and as many tasks wait as may.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Busy;

impl Threads {
    /// Runs a task on one of `count` threads; only the first call determines their number. The task is skipped if the future was
    /// dropped meanwhile.
    ///
    /// # Errors
    ///
    /// Too many tasks wait, or no thread can be started.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        count: NonZeroUsize,
        task: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Busy> {
        let (sender, result) = oneshot::channel();
        let task = move || {
            if !sender.is_closed() {
                // The receiver may be dropped meanwhile.
                let _ = sender.send(task());
            }
        };
        let queue = self.0.get_or_init(|| start(count));
        queue.try_send(Box::new(task)).map_err(|_| Busy)?;
        // After a panic of the task, there is no result.
        result.await.map_err(|_| Busy)
    }
}

fn start(count: NonZeroUsize) -> SyncSender<Task> {
    let (sender, receiver) = sync_channel(count.get() * WAITING_PER_THREAD);
    let receiver = Arc::new(Mutex::new(receiver));
    for _ in 0..count.get() {
        let receiver = receiver.clone();
        // Without any thread, the queue has no receiver, and every task is rejected.
        let _ = thread::Builder::new().name("passwords".to_owned()).spawn(move || work(&receiver));
    }
    sender
}

fn work(queue: &Mutex<Receiver<Task>>) {
    // If the system does not allow it, the threads have the priority of all others.
    let _ = setpriority_process(Some(gettid()), NICENESS);
    loop {
        let task = queue.lock().recv();
        let Ok(task) = task else { return };
        // The panic was reported; the thread is needed for other tasks.
        let _ = catch_unwind(AssertUnwindSafe(task));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    fn one() -> NonZeroUsize {
        NonZeroUsize::MIN
    }

    #[tokio::test]
    async fn tasks_beyond_the_limit_are_rejected() {
        let threads = Arc::new(Threads::default());
        let (begun, has_begun) = mpsc::channel();
        let (release, released) = mpsc::channel::<()>();
        let blocking = threads.clone();
        let first = tokio::spawn(async move {
            let task = move || {
                begun.send(()).unwrap();
                released.recv().unwrap();
            };
            blocking.run(one(), task).await
        });
        tokio::task::spawn_blocking(move || has_begun.recv().unwrap()).await.unwrap();
        let waiting: Vec<_> = (0..WAITING_PER_THREAD)
            .map(|number| {
                let threads = threads.clone();
                tokio::spawn(async move { threads.run(one(), move || number).await })
            })
            .collect();
        // The runtime has one thread: all of them are in the queue after a turn.
        tokio::task::yield_now().await;
        assert_eq!(threads.run(one(), || ()).await, Err(Busy));
        release.send(()).unwrap();
        assert_eq!(first.await.unwrap(), Ok(()));
        for (number, task) in waiting.into_iter().enumerate() {
            assert_eq!(task.await.unwrap(), Ok(number));
        }
    }

    #[tokio::test]
    async fn a_thread_survives_a_panic() {
        let threads = Threads::default();
        assert_eq!(threads.run(one(), || -> u8 { panic!("as in a library") }).await, Err(Busy));
        assert_eq!(threads.run(one(), || 1).await, Ok(1));
    }
}
