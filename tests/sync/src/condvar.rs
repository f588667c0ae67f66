//! A condition variable.

use std::sync::PoisonError;
use std::time::Duration;

use crate::MutexGuard;

/// A condition variable of `parking_lot`. In a model, time does not pass: a thread that is not notified waits forever.
#[derive(Debug, Default)]
pub struct Condvar {
    model: shuttle::sync::Condvar,
    real: parking_lot::Condvar,
}

/// The result of a wait with a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WaitTimeoutResult(bool);

impl WaitTimeoutResult {
    /// Whether the time is over.
    #[must_use]
    pub fn timed_out(self) -> bool {
        self.0
    }
}

impl Condvar {
    /// Creates a condition variable.
    #[must_use]
    pub const fn new() -> Self {
        Self { model: shuttle::sync::Condvar::new(), real: parking_lot::Condvar::new() }
    }

    /// Waits for a notification.
    pub fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        if !self.wait_in_model(guard) {
            self.real.wait(guard.value.as_mut().expect("it is locked"));
        }
    }

    /// Waits for a notification, or until this time is over.
    pub fn wait_for<T>(&self, guard: &mut MutexGuard<'_, T>, timeout: Duration) -> WaitTimeoutResult {
        if self.wait_in_model(guard) {
            return WaitTimeoutResult(false);
        }
        let value = guard.value.as_mut().expect("it is locked");
        WaitTimeoutResult(self.real.wait_for(value, timeout).timed_out())
    }

    /// Waits while a condition holds, or until this time is over.
    pub fn wait_while_for<T>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        mut condition: impl FnMut(&mut T) -> bool,
        timeout: Duration,
    ) -> WaitTimeoutResult {
        if guard.turn.is_some() {
            while condition(guard) {
                self.wait_in_model(guard);
            }
            return WaitTimeoutResult(false);
        }
        let value = guard.value.as_mut().expect("it is locked");
        WaitTimeoutResult(self.real.wait_while_for(value, condition, timeout).timed_out())
    }

    /// Wakes all waiting threads.
    pub fn notify_all(&self) {
        if crate::is_in_model() {
            self.model.notify_all();
        } else {
            self.real.notify_all();
        }
    }

    /// Waits if the lock was taken in a model, and returns whether it was.
    fn wait_in_model<T>(&self, guard: &mut MutexGuard<'_, T>) -> bool {
        let Some(turn) = guard.turn.take() else { return false };
        guard.value = None;
        guard.turn = Some(self.model.wait(turn).unwrap_or_else(PoisonError::into_inner));
        guard.value = Some(guard.mutex.free_value());
        true
    }
}
