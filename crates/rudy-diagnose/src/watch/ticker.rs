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
pub enum Wake {
    /// The next sample is due, or the process has ended, which the sample will show.
    Due,
    /// A signal arrived, or the reader of standard output has gone.
    Stop,
    /// A key was pressed.
    Key(u8),
}

/// Ticks at every interval, counted from the start so that ticks do not drift.
#[derive(Debug)]
pub struct Ticker {
    interval: Duration,
    next: Instant,
    /// Receives a byte when a signal arrives.
    signalled: UnixStream,
    /// Readable when the process has ended. Before Linux 5.3 it does not exist; the next sample then shows
    /// the end.
    process: Option<OwnedFd>,
    /// Whether keys wake it.
    reads_keys: bool,
}

impl Ticker {
    /// Starts now. From here on, SIGINT and SIGTERM only wake the ticker. Also wakes when a process ends.
    ///
    /// # Errors
    ///
    /// Signals cannot be caught.
    pub fn start(interval: Duration, pid: Option<u32>) -> io::Result<Self> {
        let (signalled, sender) = UnixStream::pair()?;
        pipe::register(SIGINT, sender.try_clone()?)?;
        pipe::register(SIGTERM, sender)?;
        let pid = pid.and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?));
        let process = pid.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
        Ok(Self { interval, next: Instant::now() + interval, signalled, process, reads_keys: false })
    }

    /// From here on, keys wake the ticker too.
    pub fn read_keys(&mut self) {
        self.reads_keys = true;
    }

    /// Waits until the next sample is due.
    ///
    /// # Errors
    ///
    /// The kernel rejects to wait.
    pub fn wait(&mut self) -> io::Result<Wake> {
        loop {
            let [is_stop, is_key, is_end] = match self.poll() {
                Ok(Some(ready)) => ready,
                Ok(None) => break,
                Err(Errno::INTR) => continue,
                Err(errno) => return Err(errno.into()),
            };
            if is_stop {
                return Ok(Wake::Stop);
            }
            if is_key && let Some(key) = self.key()? {
                return Ok(Wake::Key(key));
            }
            if is_end {
                // Notify once only. If the sample does not show the end yet, the next one is at its normal
                // time.
                self.process = None;
                return Ok(Wake::Due);
            }
        }
        self.next = next(self.next, self.interval, Instant::now());
        Ok(Wake::Due)
    }

    /// Waits for a signal or the end of the output, for a key, and for the end of the process. `None` when the sample is due.
    fn poll(&self) -> Result<Option<[bool; 3]>, Errno> {
        let left = self.next.saturating_duration_since(Instant::now());
        let timeout = Timespec::try_from(left).map_err(|_| Errno::INVAL)?;
        let (stdin, stdout) = (io::stdin(), io::stdout());
        // `poll` on an output without events returns when its reader has gone.
        let mut watched = vec![
            PollFd::new(&self.signalled, PollFlags::IN),
            PollFd::from_borrowed_fd(stdout.as_fd(), PollFlags::empty()),
        ];
        let keys = self.reads_keys.then(|| PollFd::from_borrowed_fd(stdin.as_fd(), PollFlags::IN));
        watched.extend(keys);
        watched.extend(self.process.as_ref().map(|process| PollFd::new(process, PollFlags::IN)));
        if poll(&mut watched, Some(&timeout))? == 0 {
            return Ok(None);
        }
        let is_ready = |index: usize| watched.get(index).is_some_and(|fd| !fd.revents().is_empty());
        let keys = usize::from(self.reads_keys);
        Ok(Some([is_ready(0) || is_ready(1), self.reads_keys && is_ready(2), is_ready(2 + keys)]))
    }

    /// Reads a key. At the end of the input, keys are over.
    fn key(&mut self) -> io::Result<Option<u8>> {
        let mut key = [0];
        match rustix::io::read(io::stdin(), &mut key) {
            Ok(1) => Ok(Some(key[0])),
            Ok(_) => {
                self.reads_keys = false;
                Ok(None)
            }
            Err(Errno::INTR | Errno::AGAIN) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
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
