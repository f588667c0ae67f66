//! What a program leaves behind: found, and ended.

use std::time::Duration;

use rustix::process::Signal;

use super::family::{self, Member};
use super::wait_until;

/// How long what is left may take to end when it is asked to.
const ASK: Duration = Duration::from_secs(1);

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

/// Ends what is left of a program: first asks, then kills. Answers with what is still there after that.
pub(super) fn end_all(others: &[u32]) -> Vec<Member> {
    if is_nothing(others) {
        return Vec::new();
    }
    family::signal(&family::members(others), Signal::TERM);
    if !wait_until(ASK, || is_nothing(others)) {
        // Again and again, because what is asked to end may start others, and these know of no signal.
        wait_until(KILL, || {
            family::signal(&family::members(others), Signal::KILL);
            is_nothing(others)
        });
    }
    family::members(others)
}

/// Ends everything that descends from us and is no longer wanted. What there is to say where something cannot be ended is the
/// answer: it will be counted to whatever is measured next.
pub(crate) fn end_whatever_is_left() -> Option<String> {
    let left = end_all(&[]);
    (!left.is_empty()).then(|| {
        format!(
            "{} did not end within {} s of SIGKILL, and disturbs what follows",
            named(&left),
            KILL.as_secs()
        )
    })
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
