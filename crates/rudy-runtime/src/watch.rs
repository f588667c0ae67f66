//! A value that some change and others wait for, as [`tokio::sync::watch`]. Those that wait wake in the order in which they began to: there,
//! chance decides, which no seed controls.

use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;

/// The side that changes the value. Dropping it ends all waits.
#[derive(Default)]
pub struct Sender<T>(Arc<Shared<T>>);

/// A side that waits for changes.
pub struct Receiver<T> {
    shared: Arc<Shared<T>>,
    /// The number of the change that this one has seen.
    seen: u64,
}

/// The sender was dropped, so the value will not change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Closed;

#[derive(Default)]
struct Shared<T> {
    state: Mutex<State<T>>,
    /// After each change, and when the sender is dropped.
    changed: Notify,
    receivers: AtomicUsize,
    /// When the last receiver is dropped.
    abandoned: Notify,
}

#[derive(Default)]
struct State<T> {
    value: T,
    /// The number of changes.
    changes: u64,
    is_closed: bool,
}

/// A look at the value. Nothing can change it meanwhile.
pub type Ref<'a, T> = parking_lot::MappedMutexGuard<'a, T>;

impl<T> Sender<T> {
    /// Creates a value without receivers.
    pub fn new(value: T) -> Self {
        let state = Mutex::new(State { value, changes: 0, is_closed: false });
        let [changed, abandoned] = [Notify::new(), Notify::new()];
        Self(Arc::new(Shared { state, changed, receivers: AtomicUsize::new(0), abandoned }))
    }

    /// Adds a receiver, which has seen the current value.
    #[must_use]
    pub fn subscribe(&self) -> Receiver<T> {
        Receiver::new(self.0.clone(), self.0.state.lock().changes)
    }

    /// Returns the current value.
    pub fn borrow(&self) -> Ref<'_, T> {
        self.0.value()
    }

    /// Changes the value, and returns the last one.
    pub fn send_replace(&self, value: T) -> T {
        let mut last = value;
        self.send_modify(|value| std::mem::swap(value, &mut last));
        last
    }

    /// Changes the value.
    pub fn send_modify(&self, modify: impl FnOnce(&mut T)) {
        self.send_if_modified(|value| {
            modify(value);
            true
        });
    }

    /// Wakes those that wait if `modify` has changed the value, by its result.
    pub fn send_if_modified(&self, modify: impl FnOnce(&mut T) -> bool) {
        let mut state = self.0.state.lock();
        if modify(&mut state.value) {
            state.changes += 1;
            drop(state);
            self.0.changed.notify_waiters();
        }
    }

    /// Returns the number of receivers.
    #[must_use]
    pub fn receiver_count(&self) -> usize {
        self.0.receivers.load(Ordering::Acquire)
    }

    /// Waits until there is no receiver.
    pub async fn closed(&self) {
        loop {
            // It notices an end from here on, so none is missed behind the check.
            let abandoned = self.0.abandoned.notified();
            if self.receiver_count() == 0 {
                return;
            }
            abandoned.await;
        }
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        self.0.state.lock().is_closed = true;
        self.0.changed.notify_waiters();
    }
}

impl<T> Receiver<T> {
    fn new(shared: Arc<Shared<T>>, seen: u64) -> Self {
        shared.receivers.fetch_add(1, Ordering::AcqRel);
        Self { shared, seen }
    }

    /// Returns the current value.
    pub fn borrow(&self) -> Ref<'_, T> {
        self.shared.value()
    }

    /// Waits for a value that was not seen, and sees it.
    ///
    /// # Errors
    ///
    /// If the sender is dropped before.
    pub async fn changed(&mut self) -> Result<(), Closed> {
        let seen = self.seen;
        let state = self.shared.wait(|state| state.changes != seen).await?;
        self.seen = state.changes;
        Ok(())
    }

    /// Waits for a value that `is_wanted` accepts, which may be the current one, and sees it.
    ///
    /// # Errors
    ///
    /// If the sender is dropped before.
    pub async fn wait_for(&mut self, mut is_wanted: impl FnMut(&T) -> bool) -> Result<Ref<'_, T>, Closed> {
        let state = self.shared.wait(|state| is_wanted(&state.value)).await?;
        self.seen = state.changes;
        Ok(MutexGuard::map(state, |state| &mut state.value))
    }
}

impl<T> Clone for Receiver<T> {
    fn clone(&self) -> Self {
        Self::new(self.shared.clone(), self.seen)
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        if self.shared.receivers.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.shared.abandoned.notify_waiters();
        }
    }
}

impl<T> Shared<T> {
    fn value(&self) -> Ref<'_, T> {
        MutexGuard::map(self.state.lock(), |state| &mut state.value)
    }

    async fn wait(
        &self,
        mut is_wanted: impl FnMut(&State<T>) -> bool,
    ) -> Result<MutexGuard<'_, State<T>>, Closed> {
        loop {
            // It notices a change from here on, so none is missed behind the check.
            let changed = pin!(self.changed.notified());
            {
                let state = self.state.lock();
                if is_wanted(&state) {
                    return Ok(state);
                }
                if state.is_closed {
                    return Err(Closed);
                }
            }
            changed.await;
        }
    }
}

impl<T: fmt::Debug> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Sender").field(&self.0.state.lock().value).finish()
    }
}

impl<T: fmt::Debug> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Receiver").field(&self.shared.state.lock().value).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::task::{Context, Poll, Wake, Waker};

    use super::*;

    type Wait = Pin<Box<dyn Future<Output = bool>>>;

    /// The numbers of what was woken.
    #[derive(Default)]
    struct Order(Mutex<Vec<usize>>);

    struct Numbered(usize, Arc<Order>);

    impl Wake for Numbered {
        fn wake(self: Arc<Self>) {
            self.1.0.lock().push(self.0);
        }
    }

    /// Returns what waits until a value is 1, and whether it has come to that.
    fn waiting(sender: &Sender<u32>, count: usize) -> Vec<Wait> {
        let wait =
            |mut receiver: Receiver<u32>| async move { receiver.wait_for(|value| *value == 1).await.is_ok() };
        (0..count).map(|_| Box::pin(wait(sender.subscribe())) as Wait).collect()
    }

    fn poll_all(waits: &mut [Wait], order: &Arc<Order>) -> Vec<Poll<bool>> {
        let waker = |number| Waker::from(Arc::new(Numbered(number, order.clone())));
        let numbered = waits.iter_mut().enumerate();
        numbered.map(|(number, wait)| wait.as_mut().poll(&mut Context::from_waker(&waker(number)))).collect()
    }

    #[test]
    fn those_that_wait_wake_in_their_order() {
        let (sender, order) = (Sender::new(0), Arc::default());
        let mut waits = waiting(&sender, 100);
        assert_eq!(poll_all(&mut waits, &order), [Poll::Pending; 100]);
        assert_eq!(sender.send_replace(1), 0);
        assert_eq!(*order.0.lock(), (0..100).collect::<Vec<_>>());
        assert_eq!(poll_all(&mut waits, &order), [Poll::Ready(true); 100]);
    }

    #[test]
    fn the_end_of_the_sender_ends_all_waits() {
        let (sender, order) = (Sender::new(0), Arc::default());
        let mut waits = waiting(&sender, 2);
        let receiver = sender.subscribe();
        assert_eq!(poll_all(&mut waits, &order), [Poll::Pending; 2]);
        drop(sender);
        assert_eq!(*order.0.lock(), [0, 1]);
        assert_eq!(poll_all(&mut waits, &order), [Poll::Ready(false); 2]);
        assert_eq!(*receiver.borrow(), 0);
    }

    #[test]
    fn a_change_is_seen_once() {
        let sender = Sender::new(0);
        let mut receiver = sender.subscribe();
        let mut changed = || pin!(receiver.changed()).poll(&mut Context::from_waker(Waker::noop()));
        assert_eq!(changed(), Poll::Pending);
        sender.send_replace(5);
        assert_eq!(changed(), Poll::Ready(Ok(())));
        sender.send_if_modified(|_| false);
        assert_eq!(changed(), Poll::Pending);
        drop(sender);
        assert_eq!(changed(), Poll::Ready(Err(Closed)));
    }

    #[test]
    fn a_sender_waits_for_its_last_receiver() {
        let sender = Sender::new(0);
        let receiver = sender.subscribe();
        let mut cx = Context::from_waker(Waker::noop());
        let mut closed = pin!(sender.closed());
        assert_eq!(closed.as_mut().poll(&mut cx), Poll::Pending);
        let second = receiver.clone();
        drop(receiver);
        assert_eq!(closed.as_mut().poll(&mut cx), Poll::Pending);
        assert_eq!(sender.receiver_count(), 1);
        drop(second);
        assert_eq!(closed.poll(&mut cx), Poll::Ready(()));
    }
}
