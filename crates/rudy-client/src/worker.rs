//! The index of the current worker in lists of per-worker values.

use rudy_service::WorkerThread;

/// Returns the number of the current worker. On a thread that is no worker, such as that of health checks, it is larger than all numbers:
/// a list has one more value than there are workers, which those threads share.
pub fn here() -> usize {
    WorkerThread::current().map_or(usize::MAX, WorkerThread::number)
}
