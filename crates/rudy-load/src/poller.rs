//! Waits for events of many sockets, with epoll.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};

/// Maximum number of events per wait.
const EVENTS_MAX: usize = 512;

/// An epoll instance: a set of sockets, each with a token.
pub(crate) struct Poller {
    epoll: OwnedFd,
    events: Vec<epoll::Event>,
}

/// The readiness of a socket.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ready {
    pub(crate) token: u64,
    /// Whether the peer has closed or reset the connection. The caller must read to the end, because the event is not
    /// repeated.
    pub(crate) has_hung_up: bool,
}

impl Poller {
    pub(crate) fn new() -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        Ok(Self { epoll, events: Vec::with_capacity(EVENTS_MAX) })
    }

    /// Registers a socket until it is closed. Edge-triggered: with level-triggered events, the kernel checks
    /// each ready socket again at the next wait.
    pub(crate) fn add(&self, socket: impl AsFd, token: u64) -> io::Result<()> {
        let flags =
            epoll::EventFlags::IN | epoll::EventFlags::OUT | epoll::EventFlags::RDHUP | epoll::EventFlags::ET;
        Ok(epoll::add(&self.epoll, socket, epoll::EventData::new_u64(token), flags)?)
    }

    /// Waits for events, at most for the timeout, which has nanosecond resolution. `None` waits without limit.
    pub(crate) fn wait(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        // A time that overflows counts as no limit.
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        self.events.clear();
        match epoll::wait(&self.epoll, spare_capacity(&mut self.events), timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// The number of events of the last wait.
    pub(crate) fn event_count(&self) -> usize {
        self.events.len()
    }

    /// An event of the last wait.
    pub(crate) fn event(&self, index: usize) -> Ready {
        let event = self.events[index];
        let ends = epoll::EventFlags::RDHUP | epoll::EventFlags::HUP | epoll::EventFlags::ERR;
        // The field is unaligned in the kernel's structure, so copy it first.
        let flags = event.flags;
        Ready { token: event.data.u64(), has_hung_up: flags.intersects(ends) }
    }
}
