//! Waits for conditions without events, and for the permission of a test.

use std::fmt::Display;
use std::fs;
use std::sync::Mutex;
use std::sync::mpsc::{self, Receiver, Sender};
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

/// Returns the number of open descriptors of a process.
pub fn descriptors_of(pid: impl Display) -> usize {
    fs::read_dir(format!("/proc/{pid}/fd")).expect("the process runs").count()
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

/// Opens a channel through which a test allows its peers to go on.
pub fn gate<T>() -> (Sender<T>, Gate<T>) {
    let (sender, receiver) = mpsc::channel();
    (sender, Gate(Mutex::new(receiver)))
}

/// The receiver of [`gate`], which all connections of a peer share.
pub struct Gate<T>(Mutex<Receiver<T>>);

impl<T> Gate<T> {
    /// Waits until the test sends a value. `None` if it has ended, or does not send one for [`PATIENCE`].
    pub fn wait(&self) -> Option<T> {
        self.0.lock().expect("no thread panics with it").recv_timeout(PATIENCE).ok()
    }
}

/// Returns what Linux says about the memory of a process, in bytes: `VmRSS` is what it uses now, and `VmHWM` its maximum.
/// Panics if it has ended.
pub fn memory_of(pid: impl Display, name: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("the process runs");
    let size = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).expect("a size");
    size.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") * 1024
}
