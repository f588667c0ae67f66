//! Decides when to sample.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::low_level::pipe;

/// Why a wait ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wake {
    /// The next sample is due, or the process has ended, which the sample will show.
    Due,
    /// A signal arrived, or the reader of standard output has gone.
    Stop,
}

/// Ticks at every interval, counted from the start so that ticks do not drift.
pub(crate) struct Ticker {
    interval: Duration,
    next: Instant,
    /// Receives a byte when a signal arrives.
    signalled: UnixStream,
    /// Readable when the process has ended. Before Linux 5.3 it does not exist; the next sample then shows
    /// the end.
    process: Option<OwnedFd>,
}

impl Ticker {
    /// Starts now. From here on, SIGINT and SIGTERM only wake the ticker.
    pub(crate) fn start(interval: Duration, pid: u32) -> io::Result<Self> {
        let (signalled, sender) = UnixStream::pair()?;
        pipe::register(SIGINT, sender.try_clone()?)?;
        pipe::register(SIGTERM, sender)?;
        let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
        let process = pid.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
        Ok(Self { interval, next: Instant::now() + interval, signalled, process })
    }

    /// Waits until the next sample is due.
    pub(crate) fn wait(&mut self) -> io::Result<Wake> {
        let stdout = io::stdout();
        loop {
            let left = self.next.saturating_duration_since(Instant::now());
            // `poll` on an output without events returns when its reader has gone.
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
                    // Notify once only. If the sample does not show the end yet, the next one is at its
                    // normal time.
                    self.process = None;
                    return Ok(Wake::Due);
                }
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        self.next = next(self.next, self.interval, Instant::now());
        Ok(Wake::Due)
    }
}

/// The first time after `now` that is a whole number of intervals after `due`: missed ticks are skipped.
fn next(due: Instant, interval: Duration, now: Instant) -> Instant {
    let late = now.saturating_duration_since(due).as_nanos();
    let missed = u32::try_from(late / interval.as_nanos().max(1)).unwrap_or(u32::MAX);
    due + interval.saturating_mul(missed.saturating_add(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_do_not_drift_and_missed_ones_are_skipped() {
        let due = Instant::now();
        let second = Duration::from_secs(1);
        for (late_ms, expected) in [(0, 1), (1, 1), (999, 1), (1000, 2), (5300, 6)] {
            let now = due + Duration::from_millis(late_ms);
            assert_eq!(next(due, second, now), due + second * expected, "{late_ms}");
        }
    }
}
