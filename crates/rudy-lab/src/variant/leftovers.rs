//! Finds and ends processes that a program leaves behind.

use std::time::Duration;

use rudy_observe::ProcessEntry;
use rustix::process::Signal;

use super::process_tree;
use super::wait_until;

/// Timeout for them to end after SIGTERM.
const TERM_TIMEOUT: Duration = Duration::from_secs(1);

/// Timeout for the kernel to end them after SIGKILL.
const KILL_TIMEOUT: Duration = Duration::from_secs(5);

/// Timeout for workers to end after their main process.
pub(super) const WORKER_EXIT_TIMEOUT: Duration = Duration::from_millis(500);

/// Processes that remain after the end of a program, except `others`. Waits a moment for workers that end
/// with it.
pub(super) fn find(others: &[u32]) -> Vec<ProcessEntry> {
    if wait_until(WORKER_EXIT_TIMEOUT, || are_gone(others)) {
        Vec::new()
    } else {
        process_tree::members(others)
    }
}

/// Ends the remaining processes: with SIGTERM, then SIGKILL. Returns those that still exist.
pub(super) fn end_all(others: &[u32]) -> Vec<ProcessEntry> {
    if are_gone(others) {
        return Vec::new();
    }
    process_tree::signal(&process_tree::members(others), Signal::TERM);
    if wait_until(TERM_TIMEOUT, || are_gone(others)) {
        return Vec::new();
    }
    // Repeat the signal, because processes may start others that have not received it.
    let ended = wait_until(KILL_TIMEOUT, || {
        process_tree::signal(&process_tree::members(others), Signal::KILL);
        are_gone(others)
    });
    if ended { Vec::new() } else { process_tree::members(others) }
}

/// Ends all descendants that are no longer needed. Returns a message if some cannot be ended, because they
/// would affect the next measurement.
pub(crate) fn end_leftovers() -> Option<String> {
    let left = end_all(&[]);
    (!left.is_empty()).then(|| {
        format!(
            "{} did not end within {} s of SIGKILL, and affects the following runs",
            named(&left),
            KILL_TIMEOUT.as_secs()
        )
    })
}

fn are_gone(others: &[u32]) -> bool {
    process_tree::reap(others);
    process_tree::is_empty(others)
}

/// `sh (4711), worker (4712)`; the first few of many.
pub(super) fn named(members: &[ProcessEntry]) -> String {
    const SHOWN: usize = 5;
    let shown: Vec<_> =
        members.iter().take(SHOWN).map(|member| format!("{} ({})", member.name, member.pid)).collect();
    let more = members.len().saturating_sub(SHOWN);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    shown.join(", ") + &more
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::{fs, thread};

    use rustix::process::{getpid, set_child_subreaper};

    use super::are_gone;

    #[test]
    fn a_process_that_starts_another_and_exits_is_not_the_end() {
        set_child_subreaper(Some(getpid())).expect("this process can adopt orphans");
        let folder = tempfile::tempdir().expect("a temp folder can be created");
        let (script, last) = (folder.path().join("next.sh"), folder.path().join("last"));
        let next = format!(
            "if [ $1 = 0 ]; then echo >{}; else setsid /bin/sh \"$0\" $(($1 - 1)) & fi\n",
            last.display()
        );
        fs::write(&script, next).expect("the file can be written");
        let mut first = Command::new("/bin/sh").arg(&script).arg("300").spawn().expect("sh can be started");
        first.wait().expect("the first can be waited for");
        while !are_gone(&[]) {
            thread::yield_now();
        }
        assert!(last.exists(), "the end was reported while a process was starting the next one");
    }
}
