//! The connections that threads carry just now, and how they are told to end.
//!
//! A thread that blocks in `read(2)` hears nothing, so its connection says beforehand whether it may be interrupted, in one
//! atomic step; the stopper says in one atomic step that the end has come, and learns by the same step whether the thread
//! blocks. Whichever is first, the other sees it: there is no moment in which a connection becomes idle unseen.
//!
//! An interrupted read first delivers what the kernel has queued (`SHUT_RD` on Linux), and the stopper leaves alone a socket
//! that has something queued. What is left is a request that comes between that look and the shutdown. It is answered with
//! `Connection: close` if all of it was in the kernel by then; what would come later, the rest of a body, is not read any more,
//! and such a request is lost. A client has to reckon with that wherever a server closes an idle connection (RFC 9112 §9.5).

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Wake;

use super::park::Parker;
use crate::close::stop_reading;
use crate::transport::has_unread;

/// At something that ends by itself, or that wakers reach.
const BUSY: u8 = 0;
/// Blocks in `read(2)` between two requests, or is about to.
const IDLE: u8 = 1;
/// Is to end when it is idle next. It does not block between requests any more.
const LAST: u8 = 2;
/// Is to end now.
const CUT: u8 = 3;

/// A connection that is being carried.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) socket: socket2::Socket,
    pub(super) parker: Arc<Parker>,
    state: AtomicU8,
}

impl Open {
    pub(super) fn new(socket: socket2::Socket, parker: Arc<Parker>) -> Self {
        Self { socket, parker, state: AtomicU8::new(BUSY) }
    }

    /// Whether the thread may block now, if it waits for the beginning of a request.
    pub(super) fn begin_idle(&self) -> bool {
        self.state.compare_exchange(BUSY, IDLE, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// There is a request, or no time left to wait for one.
    pub(super) fn end_idle(&self) {
        // It fails where the end has been told meanwhile, and that stays so.
        let _ = self.state.compare_exchange(IDLE, BUSY, Ordering::AcqRel, Ordering::Acquire);
    }

    pub(super) fn is_cut(&self) -> bool {
        self.state.load(Ordering::Acquire) == CUT
    }

    #[cfg(test)]
    pub(super) fn is_idle(&self) -> bool {
        self.state.load(Ordering::Acquire) == IDLE
    }

    /// To end when it is idle: at once if it is already.
    fn finish(&self) {
        if self.state.swap(LAST, Ordering::AcqRel) == IDLE && !has_unread(&self.socket) {
            stop_reading(&self.socket);
        }
    }

    /// To end now, wherever it waits.
    fn cut(&self) {
        self.state.swap(CUT, Ordering::AcqRel);
        stop_reading(&self.socket);
        self.parker.wake_by_ref();
    }
}

/// Every connection that is being carried, by its number.
#[derive(Debug, Default)]
pub(super) struct Registry(Mutex<Entries>);

#[derive(Debug, Default)]
struct Entries {
    open: HashMap<u64, Registered>,
    finishing: bool,
    cut: bool,
}

/// A connection, and whether its listener is closed.
#[derive(Debug)]
struct Registered {
    open: Arc<Open>,
    is_listener_closed: Arc<AtomicBool>,
}

impl Registered {
    fn finish_if_listener_closed(&self) {
        if self.is_listener_closed.load(Ordering::Acquire) {
            self.open.finish();
        }
    }
}

impl Registry {
    /// Enters a connection, until what is returned is dropped.
    pub(super) fn enter(
        &self,
        number: u64,
        open: Arc<Open>,
        is_listener_closed: Arc<AtomicBool>,
    ) -> Entry<'_> {
        let mut entries = self.lock();
        // Those that come late find it said already.
        if entries.cut {
            open.cut();
        } else if entries.finishing {
            open.finish();
        }
        let registered = Registered { open, is_listener_closed };
        registered.finish_if_listener_closed();
        entries.open.insert(number, registered);
        Entry { registry: self, number }
    }

    /// Every connection ends when it is idle next.
    pub(super) fn finish(&self) {
        let mut entries = self.lock();
        entries.finishing = true;
        entries.open.values().for_each(|registered| registered.open.finish());
    }

    /// Every connection whose listener is closed ends when it is idle next.
    pub(super) fn finish_those_of_closed_listeners(&self) {
        self.lock().open.values().for_each(Registered::finish_if_listener_closed);
    }

    /// Every connection ends now.
    pub(super) fn cut(&self) {
        let mut entries = self.lock();
        entries.cut = true;
        entries.open.values().for_each(|registered| registered.open.cut());
    }

    /// Entries come and go in one step each, whatever panicked.
    fn lock(&self) -> MutexGuard<'_, Entries> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The place of a connection in the registry.
pub(super) struct Entry<'a> {
    registry: &'a Registry,
    number: u64,
}

impl Drop for Entry<'_> {
    fn drop(&mut self) {
        self.registry.lock().open.remove(&self.number);
    }
}
