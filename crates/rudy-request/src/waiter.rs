//! Waits for sockets and signals.

use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixStream;
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::low_level;

use crate::Interrupt;

/// Waits for sockets, until a deadline or a signal.
#[derive(Debug)]
pub struct Waiter {
    interrupt: Interrupt,
    /// Readable after a signal, even if it arrives just before the wait.
    signal_receiver: UnixStream,
}

/// Ends what waits with its [`Stopped`], also when it is dropped.
#[derive(Debug)]
pub struct Stop {
    interrupt: Interrupt,
    /// Its end wakes the other one.
    _sender: UnixStream,
}

/// Receives a [`Stop`].
#[derive(Debug)]
pub struct Stopped {
    interrupt: Interrupt,
    receiver: UnixStream,
}

impl Stop {
    /// Returns both ends.
    ///
    /// # Errors
    ///
    /// There are no descriptors left.
    pub fn new() -> io::Result<(Self, Stopped)> {
        let (receiver, sender) = UnixStream::pair()?;
        let interrupt = Interrupt::default();
        Ok((Self { interrupt: interrupt.clone(), _sender: sender }, Stopped { interrupt, receiver }))
    }

    /// Stops.
    pub fn stop(self) {
        drop(self);
    }
}

impl Drop for Stop {
    fn drop(&mut self) {
        self.interrupt.terminate();
    }
}

/// The result of a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitResult {
    /// A socket may be ready.
    Ready,
    /// The deadline has passed.
    TimedOut,
    /// A signal arrived.
    Interrupted(u8),
}

impl Waiter {
    /// Catches SIGINT and SIGTERM from now on.
    pub fn catch() -> io::Result<Self> {
        let interrupt = Interrupt::catch()?;
        let (signal_receiver, signal_sender) = UnixStream::pair()?;
        for signal in [SIGINT, SIGTERM] {
            // Registered after the handler of the interrupt, which has then recorded the signal.
            low_level::pipe::register(signal, signal_sender.try_clone()?)?;
        }
        Ok(Self { interrupt, signal_receiver })
    }

    /// Waits until it is stopped, and catches no signals.
    #[must_use]
    pub fn stoppable(stopped: Stopped) -> Self {
        Self { interrupt: stopped.interrupt, signal_receiver: stopped.receiver }
    }

    /// Waits until one of the sockets is ready, or until the deadline. `None` waits without limit.
    pub fn wait(
        &self,
        sockets: &[(BorrowedFd<'_>, PollFlags)],
        until: Option<Instant>,
    ) -> io::Result<WaitResult> {
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        // A time that overflows counts as no limit.
        let left = left.and_then(|left| Timespec::try_from(left).ok());
        let mut descriptors: Vec<_> =
            sockets.iter().map(|(socket, flags)| PollFd::from_borrowed_fd(*socket, *flags)).collect();
        descriptors.push(PollFd::new(&self.signal_receiver, PollFlags::IN));
        let ready = match poll(&mut descriptors, left.as_ref()) {
            Err(rustix::io::Errno::INTR) => 1,
            result => result?,
        };
        Ok(match self.interrupt.signal() {
            Some(signal) => WaitResult::Interrupted(signal),
            None if ready == 0 => WaitResult::TimedOut,
            None => WaitResult::Ready,
        })
    }
}
