//! What a program leaves behind: found, and ended.

use std::time::Duration;

use rustix::process::Signal;

use super::family::{self, Member};
use super::wait_until;

/// How long the kernel may take to end what was killed.
const KILL: Duration = Duration::from_secs(5);

/// How long the workers of a program may take to go after it.
pub(super) const GO: Duration = Duration::from_millis(500);

/// Processes that are there after the end of a program, but for those of `others` that are still to be there. Workers that end
/// with it are given a moment.
pub(super) fn behind(others: &[u32]) -> Vec<Member> {
    wait_until(GO, || is_nothing(others));
    family::members(others)
}

/// Ends what is left of a program: first asks, then kills.
pub(super) fn end_all(left: &[Member], others: &[u32]) {
    for (signal, time) in [(Signal::TERM, Duration::from_secs(1)), (Signal::KILL, KILL)] {
        family::signal(left, signal);
        if left.is_empty() || wait_until(time, || is_nothing(others)) {
            return;
        }
    }
}

/// Everything that descends from us and is no longer wanted.
pub(crate) fn end_whatever_is_left() {
    end_all(&family::members(&[]), &[]);
}

fn is_nothing(others: &[u32]) -> bool {
    family::reap(others);
    family::members(others).is_empty()
}

/// `sh (4711), worker (4712)`; of many the first few.
pub(super) fn named(members: &[Member]) -> String {
    const SHOWN: usize = 5;
    let shown: Vec<_> =
        members.iter().take(SHOWN).map(|member| format!("{} ({})", member.name, member.pid)).collect();
    let more = members.len().saturating_sub(SHOWN);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    shown.join(", ") + &more
}
