//! Polls for conditions without events.

use std::fmt::Display;
use std::fs;
use std::time::{Duration, Instant};

use rustix::process::Pid;

use crate::PATIENCE;

/// Polls until `found` returns a value. After the timeout, panics with `what`.
pub fn eventually<R>(what: &str, mut found: impl FnMut() -> Option<R>) -> R {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = found() {
            return found;
        }
        assert!(Instant::now() < deadline, "never came true: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Polls until `condition` is true. After the timeout, panics with `what`.
pub fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    eventually(what, || condition().then_some(()));
}

/// Returns the child processes of a process, including zombies.
pub fn children(pid: impl Display) -> Vec<Pid> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).expect("the process runs").flatten();
    let lists = tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    let pids = |list: String| -> Vec<Pid> {
        list.split_whitespace().filter_map(|pid| Pid::from_raw(pid.parse().ok()?)).collect()
    };
    lists.flat_map(pids).collect()
}
