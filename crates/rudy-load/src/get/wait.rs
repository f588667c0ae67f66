//! Waits for sockets and signals.

use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixStream;
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::low_level;

use crate::interrupt::Interrupt;

/// The events that end a wait, in addition to sockets.
#[derive(Debug)]
pub(super) struct Waiter {
    interrupt: Interrupt,
    /// Readable after a signal, even if it arrives just before the wait.
    woken: UnixStream,
}

/// The result of a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Woken {
    /// A socket may be ready.
    Ready,
    /// The deadline has passed.
    TimedOut,
    /// A signal arrived.
    Interrupted(u8),
}

impl Waiter {
    /// Catches SIGINT and SIGTERM from now on.
    pub(super) fn catch() -> io::Result<Self> {
        let interrupt = Interrupt::catch()?;
        let (woken, waker) = UnixStream::pair()?;
        for signal in [SIGINT, SIGTERM] {
            // Registered after the handler of the interrupt, which has then recorded the signal.
            low_level::pipe::register(signal, waker.try_clone()?)?;
        }
        Ok(Self { interrupt, woken })
    }

    /// Waits until one of the sockets is ready, or until the deadline. `None` waits without limit.
    pub(super) fn wait(
        &self,
        sockets: &[(BorrowedFd<'_>, PollFlags)],
        until: Option<Instant>,
    ) -> io::Result<Woken> {
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        // A time that overflows counts as no limit.
        let left = left.and_then(|left| Timespec::try_from(left).ok());
        let mut watched: Vec<_> =
            sockets.iter().map(|(socket, flags)| PollFd::from_borrowed_fd(*socket, *flags)).collect();
        watched.push(PollFd::new(&self.woken, PollFlags::IN));
        let ready = match poll(&mut watched, left.as_ref()) {
            Err(rustix::io::Errno::INTR) => 1,
            result => result?,
        };
        Ok(match self.interrupt.signal() {
            Some(signal) => Woken::Interrupted(signal),
            None if ready == 0 => Woken::TimedOut,
            None => Woken::Ready,
        })
    }
}
