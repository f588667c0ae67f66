//! When to look again.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::low_level::pipe;

/// Why waiting ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wake {
    /// It is time to look again, or the process has ended, which a look will show.
    Look,
    /// Ctrl-C or SIGTERM has come, or nobody reads standard output any more.
    Stop,
}

/// Wakes at every interval, counted from the start, so that the looks do not drift.
pub(crate) struct Ticker {
    interval: Duration,
    next: Instant,
    /// Gets a byte when a signal comes.
    signalled: UnixStream,
    /// Readable when the process has ended. A kernel before 5.3 has none: then the next look shows it.
    process: Option<OwnedFd>,
}

impl Ticker {
    /// Begins now. From here on SIGINT and SIGTERM do nothing but wake it.
    pub(crate) fn start(interval: Duration, pid: u32) -> io::Result<Self> {
        let (signalled, sender) = UnixStream::pair()?;
        pipe::register(SIGINT, sender.try_clone()?)?;
        pipe::register(SIGTERM, sender)?;
        let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
        let process = pid.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
        Ok(Self { interval, next: Instant::now() + interval, signalled, process })
    }

    /// Waits until the next look is due.
    pub(crate) fn wait(&mut self) -> io::Result<Wake> {
        let stdout = io::stdout();
        loop {
            let left = self.next.saturating_duration_since(Instant::now());
            // `poll` of an output asked for nothing returns when its reader has gone.
            let mut watched = vec![
                PollFd::new(&self.signalled, PollFlags::IN),
                PollFd::from_borrowed_fd(stdout.as_fd(), PollFlags::empty()),
            ];
            watched.extend(self.process.as_ref().map(|process| PollFd::new(process, PollFlags::IN)));
            let timeout = Timespec::try_from(left).map_err(|_| io::ErrorKind::InvalidInput)?;
            match poll(&mut watched, Some(&timeout)) {
                Ok(0) => break,
                Ok(_) if watched[..2].iter().any(|descriptor| !descriptor.revents().is_empty()) => {
                    return Ok(Wake::Stop);
                }
                Ok(_) => {
                    // It is told once. Should a look not show the end yet, the next one is when it is due.
                    self.process = None;
                    return Ok(Wake::Look);
                }
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        self.next = next(self.next, self.interval, Instant::now());
        Ok(Wake::Look)
    }
}

/// The first moment after `now` that lies a whole number of intervals behind `due`: what was missed is not made up for.
fn next(due: Instant, interval: Duration, now: Instant) -> Instant {
    let late = now.saturating_duration_since(due).as_nanos();
    let missed = u32::try_from(late / interval.as_nanos().max(1)).unwrap_or(u32::MAX);
    due + interval.saturating_mul(missed.saturating_add(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_do_not_drift_and_what_was_missed_is_left_out() {
        let due = Instant::now();
        let second = Duration::from_secs(1);
        for (late_ms, expected) in [(0, 1), (1, 1), (999, 1), (1000, 2), (5300, 6)] {
            let now = due + Duration::from_millis(late_ms);
            assert_eq!(next(due, second, now), due + second * expected, "{late_ms}");
        }
    }
}
