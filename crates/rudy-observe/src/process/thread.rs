//! A thread, from `/proc/PID/task/TID`.

use std::time::{Duration, Instant};

use super::field;

/// A sample of a thread. Times and counts are since its start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Thread {
    /// Its id. A JVM's thread dump has it in hexadecimal, as `nid`.
    pub tid: u32,
    /// Its name, limited by the kernel to 15 bytes.
    pub name: String,
    /// R running or runnable, S sleeping, D in uninterruptible sleep, T stopped, Z ended: proc(5).
    pub state: char,
    /// Total CPU time, in nanoseconds if the kernel counts them (`CONFIG_SCHED_INFO`), otherwise in ticks of
    /// 10 ms.
    pub cpu: Duration,
    /// The part in user mode, in ticks of 10 ms.
    pub cpu_user: Duration,
    /// The part in the kernel, in ticks of 10 ms.
    pub cpu_system: Duration,
    /// Time in which it was runnable without a free core, updated when it gets one. `None` if the kernel does
    /// not count it.
    pub ready: Option<Duration>,
    /// Voluntary context switches: the thread waited for something.
    pub voluntary_switches: u64,
    /// Involuntary context switches: the kernel gave its core to another thread.
    pub involuntary_switches: u64,
    /// Its start, in ticks since boot. Together with the id, it distinguishes a thread from later ones with
    /// the same id.
    pub(super) began_ticks: u64,
    /// The contents of `schedstat`. While they do not change, the thread has not run and all fields above are
    /// valid.
    pub(super) scheduled: Option<Scheduled>,
    /// When it was first seen runnable without having run since. The kernel counts this time as run delay when it runs.
    pub(super) starved_since: Option<Instant>,
}

impl Thread {
    /// It has not run since the last sample, and has this state now.
    pub(super) fn has_not_run(&mut self, state: char, at: Instant) {
        self.state = state;
        self.starved_since = (state == 'R').then(|| self.starved_since.unwrap_or(at));
        let starved = self.starved_since.map(|since| at.saturating_duration_since(since)).unwrap_or_default();
        self.ready = self.scheduled.map(|scheduled| scheduled.ready + starved);
    }
}

/// The fields of `schedstat`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Scheduled {
    pub(super) ran: Duration,
    pub(super) ready: Duration,
    /// How often it was scheduled on a core.
    pub(super) turns: u64,
}

impl Scheduled {
    pub(super) fn parse(text: &[u8]) -> Option<Self> {
        let mut numbers = std::str::from_utf8(text).ok()?.split_ascii_whitespace().map(str::parse);
        let mut next = || numbers.next()?.ok();
        let (ran, ready) = (Duration::from_nanos(next()?), Duration::from_nanos(next()?));
        Some(Self { ran, ready, turns: next()? })
    }
}

/// The fields of `stat`, for a thread or a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stat {
    /// The name, limited by the kernel to 15 bytes.
    pub name: String,
    /// R, S, D, T, Z or X: proc(5).
    pub state: char,
    /// CPU time in user mode.
    pub user_ticks: u64,
    /// CPU time in the kernel.
    pub system_ticks: u64,
    /// The start, since boot.
    pub began_ticks: u64,
}

impl Stat {
    /// The name is in parentheses and may contain any characters, so it ends at the last parenthesis.
    #[must_use]
    pub fn parse(text: &[u8]) -> Option<Self> {
        let open = text.iter().position(|byte| *byte == b'(')?;
        let close = text.iter().rposition(|byte| *byte == b')')?;
        let name = String::from_utf8_lossy(text.get(open + 1..close)?).into_owned();
        let rest = std::str::from_utf8(&text[close + 1..]).ok()?;
        // proc(5): the state is field 3; utime and stime are 14 and 15, starttime is 22.
        let mut fields = rest.split_ascii_whitespace();
        let state = fields.next()?.chars().next()?;
        let user_ticks = fields.nth(10)?.parse().ok()?;
        let system_ticks = fields.next()?.parse().ok()?;
        let began_ticks = fields.nth(6)?.parse().ok()?;
        Some(Self { name, state, user_ticks, system_ticks, began_ticks })
    }
}

/// The context switches in `status`, voluntary ones first.
pub(super) fn switches(status: &[u8]) -> Option<(u64, u64)> {
    Some((field(status, "voluntary_ctxt_switches:")?, field(status, "nonvoluntary_ctxt_switches:")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_hold_what_ends_a_name() {
        let stat = |name: &str| {
            let text = format!(
                "1501 ({name}) R 1489 1489 16956 0 -1 4194304 101 0 0 0 11 22 33 44 20 0 1 0 2954828 3133440 414"
            );
            Stat::parse(text.as_bytes())
                .map(|stat| (stat.name, stat.user_ticks, stat.system_ticks, stat.began_ticks))
        };
        for name in ["cat", "", "a) b", "(a", "a\n) R 1 2", "http-nio-8080-A"] {
            assert_eq!(stat(name), Some((name.to_owned(), 11, 22, 2_954_828)), "{name:?}");
        }
    }

    #[test]
    fn a_line_that_is_cut_off_is_no_thread() {
        let whole = "7 (a) S 3 7 7 0 -1 4194560 100 0 0 0 11 22 33 44 20 0 1 0 5";
        assert!(Stat::parse(whole.as_bytes()).is_some());
        for end in 0..whole.len() - 1 {
            assert_eq!(Stat::parse(&whole.as_bytes()[..end]), None, "{end}");
        }
    }

    #[test]
    fn time_on_a_core_is_in_nanoseconds() {
        let scheduled = Scheduled::parse(b"1095726 2534243 5\n").expect("it is whole");
        assert_eq!(scheduled.ran, Duration::from_nanos(1_095_726));
        assert_eq!(scheduled.ready, Duration::from_nanos(2_534_243));
        assert_eq!(scheduled.turns, 5);
        for broken in ["", "1 2", "1 2 x", "-1 2 3"] {
            assert_eq!(Scheduled::parse(broken.as_bytes()), None, "{broken}");
        }
    }

    #[test]
    fn voluntary_and_involuntary_switches_differ() {
        let status = b"Name:\tcat\nvoluntary_ctxt_switches:\t12\nnonvoluntary_ctxt_switches:\t3\n";
        assert_eq!(switches(status), Some((12, 3)));
        assert_eq!(switches(b"Name:\tcat\n"), None);
    }
}
