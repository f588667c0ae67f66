//! Waits for many sockets at once.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};

/// Events that are taken from the kernel at once.
const BATCH: usize = 512;

/// A set of sockets, each with a token that says whose it is.
pub(crate) struct Poller {
    epoll: OwnedFd,
    events: Vec<epoll::Event>,
}

/// What a socket has become ready for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ready {
    pub(crate) token: u64,
    /// The end is near: read until it is found, because it is not told twice.
    pub(crate) hangs_up: bool,
}

impl Poller {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self { epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?, events: Vec::with_capacity(BATCH) })
    }

    /// Tells of every change from now until the socket is closed. (Edge-triggered: with level-triggered events the kernel
    /// looks at each ready socket once more at the next wait.)
    pub(crate) fn add(&self, socket: impl AsFd, token: u64) -> io::Result<()> {
        let flags =
            epoll::EventFlags::IN | epoll::EventFlags::OUT | epoll::EventFlags::RDHUP | epoll::EventFlags::ET;
        Ok(epoll::add(&self.epoll, socket, epoll::EventData::new_u64(token), flags)?)
    }

    /// Waits until something is ready or the time is over, to the nanosecond as far as the kernel keeps it. `None` waits
    /// for ever.
    pub(crate) fn wait(&mut self, most: Option<Duration>) -> io::Result<()> {
        // A time that does not fit is longer than anybody waits.
        let most = most.and_then(|most| Timespec::try_from(most).ok());
        self.events.clear();
        match epoll::wait(&self.epoll, spare_capacity(&mut self.events), most.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// What the last wait found.
    pub(crate) fn ready(&self) -> usize {
        self.events.len()
    }

    /// One of the things that the last wait found.
    pub(crate) fn event(&self, index: usize) -> Ready {
        let event = self.events[index];
        let ends = epoll::EventFlags::RDHUP | epoll::EventFlags::HUP | epoll::EventFlags::ERR;
        // The field lies unaligned in the kernel's structure: copied before it is looked at.
        let flags = event.flags;
        Ready { token: event.data.u64(), hangs_up: flags.intersects(ends) }
    }
}
