//! The CPU clock of a process.

use std::time::Duration;

use nix::time::{ClockId, clock_getcpuclockid};
use nix::unistd::Pid;

/// The CPU time of a process in nanoseconds, including its ended threads, without its children. Any user may read it,
/// also of an ended process that was not waited for. `None` if the process does not exist.
///
/// `/proc/PID/stat` has the same in ticks of 10 ms, divided into user and kernel mode.
#[must_use]
pub fn cpu_time(pid: u32) -> Option<Duration> {
    let pid = i32::try_from(pid).ok().filter(|pid| *pid > 0)?;
    let time: Result<_, nix::Error> = clock_getcpuclockid(Pid::from_raw(pid)).and_then(ClockId::now);
    time.ok().map(Duration::from)
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};
    use std::thread;

    use super::*;

    /// Less than a tick of `/proc/PID/stat`.
    const A_WHILE: Duration = Duration::from_millis(3);

    fn own() -> Duration {
        cpu_time(std::process::id()).unwrap()
    }

    fn compute() {
        let begun = own();
        while own().saturating_sub(begun) < A_WHILE {}
    }

    #[test]
    fn a_fraction_of_a_tick_counts_and_so_does_a_thread_that_has_ended() {
        let before = own();
        thread::spawn(compute).join().unwrap();
        assert!(own().saturating_sub(before) >= A_WHILE);
    }

    #[test]
    fn another_process_has_a_clock_until_it_was_waited_for() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        assert!(cpu_time(child.id()).is_some());
        drop(child.stdin.take());
        child.wait().unwrap();
        assert_eq!((cpu_time(child.id()), cpu_time(0)), (None, None));
    }
}
