//! Finds and ends processes that a program leaves behind.

use std::time::Duration;

use rudy_observe::Relative;
use rustix::process::Signal;

use super::family;
use super::wait_until;

/// Timeout for them to end after SIGTERM.
const ASK: Duration = Duration::from_secs(1);

/// Timeout for the kernel to end them after SIGKILL.
const KILL: Duration = Duration::from_secs(5);

/// Timeout for workers to end after their main process.
pub(super) const GO: Duration = Duration::from_millis(500);

/// Processes that remain after the end of a program, except `others`. Waits a moment for workers that end
/// with it.
pub(super) fn behind(others: &[u32]) -> Vec<Relative> {
    wait_until(GO, || is_nothing(others));
    family::members(others)
}

/// Ends the remaining processes: with SIGTERM, then SIGKILL. Returns those that still exist.
pub(super) fn end_all(others: &[u32]) -> Vec<Relative> {
    if is_nothing(others) {
        return Vec::new();
    }
    family::signal(&family::members(others), Signal::TERM);
    if !wait_until(ASK, || is_nothing(others)) {
        // Repeat the signal, because processes may start others that have not received it.
        wait_until(KILL, || {
            family::signal(&family::members(others), Signal::KILL);
            is_nothing(others)
        });
    }
    family::members(others)
}

/// Ends all descendants that are no longer needed. Returns a message if some cannot be ended, because they
/// would affect the next measurement.
pub(crate) fn end_whatever_is_left() -> Option<String> {
    let left = end_all(&[]);
    (!left.is_empty()).then(|| {
        format!(
            "{} did not end within {} s of SIGKILL, and affects the following runs",
            named(&left),
            KILL.as_secs()
        )
    })
}

fn is_nothing(others: &[u32]) -> bool {
    family::reap(others);
    family::members(others).is_empty()
}

/// `sh (4711), worker (4712)`; the first few of many.
pub(super) fn named(members: &[Relative]) -> String {
    const SHOWN: usize = 5;
    let shown: Vec<_> =
        members.iter().take(SHOWN).map(|member| format!("{} ({})", member.name, member.pid)).collect();
    let more = members.len().saturating_sub(SHOWN);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    shown.join(", ") + &more
}
