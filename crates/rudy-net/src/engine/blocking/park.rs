//! How a carrying thread waits where it does not block in `read(2)`: in one `poll(2)`, for its socket and for wakers.
//!
//! The thread is the executor of one future, the connection that it carries, and the reactor of one socket. Whoever polls
//! the socket leaves a waker here; that is the thread itself, as a rule, but a connection that changed its protocol may be
//! used by a task on another thread.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

use super::open::Open;

/// How often a thread that cannot be woken looks whether it should have been: one for whose eventfd no descriptor was left.
const BLIND_PERIOD: Timespec = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };

/// At work, or about to look whether it has been woken.
const RUNNING: u8 = 0;
/// In `poll(2)`, or on its way there: who wakes it rings.
const PARKED: u8 = 1;
/// To poll its future again.
const WOKEN: u8 = 2;

/// Drives `future`, which serves `open`, to its end. `None`: the connection was cut before.
pub(super) fn block_on<F: Future>(open: &Open, future: F) -> Option<F::Output> {
    let waker = Waker::from(open.parker.clone());
    let mut cx = Context::from_waker(&waker);
    let mut future = std::pin::pin!(future);
    while !open.is_cut() {
        if let Poll::Ready(output) = future.as_mut().poll(&mut cx) {
            return Some(output);
        }
        open.parker.park(open);
    }
    None
}

/// One thread's way to wait and to be woken.
#[derive(Debug, Default)]
pub(super) struct Parker {
    state: AtomicU8,
    waiting: Mutex<Waiting>,
    /// Rung while the thread is parked. Made when it first parks: most threads never do.
    bell: OnceLock<OwnedFd>,
}

/// Who waits for the socket.
#[derive(Debug, Default)]
struct Waiting {
    reader: Option<Waker>,
    writer: Option<Waker>,
}

impl Wake for Parker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.state.swap(WOKEN, Ordering::SeqCst) == PARKED {
            self.ring();
        }
    }
}

impl Parker {
    /// Has `cx` woken when the socket may be read.
    pub(super) fn wait_to_read(&self, cx: &Context<'_>) {
        self.lock().reader = Some(cx.waker().clone());
        self.look_again();
    }

    /// Has `cx` woken when the socket may have room.
    pub(super) fn wait_to_write(&self, cx: &Context<'_>) {
        self.lock().writer = Some(cx.waker().clone());
        self.look_again();
    }

    /// Forgets who waited for the last connection's socket.
    pub(super) fn forget(&self) {
        *self.lock() = Waiting::default();
    }

    #[cfg(test)]
    pub(super) fn is_parked(&self) -> bool {
        self.state.load(Ordering::SeqCst) == PARKED
    }

    #[cfg(test)]
    pub(super) fn has_reader(&self) -> bool {
        self.lock().reader.is_some()
    }

    /// Where another thread waits for the socket while this one is parked already, for something else.
    fn look_again(&self) {
        if self.state.load(Ordering::SeqCst) == PARKED {
            self.ring();
        }
    }

    fn ring(&self) {
        if let Some(bell) = self.bell.get() {
            // It fails only when 2^64 rings were not heard, and then it is ringing.
            let _ = rustix::io::write(bell, &1_u64.to_ne_bytes());
        }
    }

    /// Waits until it is woken, and wakes others that the socket is ready for.
    fn park(&self, open: &Open) {
        if self.bell.get().is_none()
            && let Ok(bell) = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
        {
            // Nobody else sets it.
            let _ = self.bell.set(bell);
        }
        let parked = || self.state.compare_exchange(RUNNING, PARKED, Ordering::SeqCst, Ordering::SeqCst);
        while parked().is_ok() {
            let ready = self.poll(open);
            // Not a store: it may have been woken meanwhile.
            let _ = self.state.compare_exchange(PARKED, RUNNING, Ordering::SeqCst, Ordering::SeqCst);
            self.wake_waiting(ready);
        }
        self.state.swap(RUNNING, Ordering::SeqCst);
    }

    /// What the socket is ready for. The state is `PARKED` already: who comes to wait after this has looked who does, rings.
    fn poll(&self, open: &Open) -> PollFlags {
        let (interest, bell) = (self.lock().interest(), self.bell.get());
        let mut polled = [
            PollFd::new(&open.socket, interest),
            PollFd::from_borrowed_fd(bell.map_or(open.socket.as_fd(), AsFd::as_fd), PollFlags::IN),
        ];
        // Where nobody waits for the socket not even its end is told: there would be no end to that.
        let first = usize::from(interest.is_empty());
        let last = if bell.is_some() { 2 } else { 1 };
        let timeout = bell.is_none().then_some(BLIND_PERIOD);
        if poll(&mut polled[first..last], timeout.as_ref()).is_err() {
            // A signal, or a kernel without memory: looked at again either way.
            return PollFlags::empty();
        }
        if let Some(bell) = bell
            && !polled[1].revents().is_empty()
        {
            // It is readable, and if it were not nothing would be lost.
            let _ = rustix::io::read(bell, &mut [0; 8]);
        }
        if interest.is_empty() { PollFlags::empty() } else { polled[0].revents() }
    }

    /// Wakes those whom this concerns. An error and a hang-up concern everybody.
    fn wake_waiting(&self, ready: PollFlags) {
        if ready.is_empty() {
            return;
        }
        let mut waiting = self.lock();
        let reader = waiting.reader.take_if(|_| ready != PollFlags::OUT);
        let writer = waiting.writer.take_if(|_| ready != PollFlags::IN);
        drop(waiting);
        reader.into_iter().chain(writer).for_each(Waker::wake);
    }

    /// A waker is there or not, whatever panicked.
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    fn interest(&self) -> PollFlags {
        let mut interest = PollFlags::empty();
        interest.set(PollFlags::IN, self.reader.is_some());
        interest.set(PollFlags::OUT, self.writer.is_some());
        interest
    }
}
