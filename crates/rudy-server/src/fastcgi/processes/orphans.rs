//! Orphans: a process with the id 1, as a container has it, becomes the parent of every process whose own parent has ended,
//! and must take its status, or it stays as a zombie. That must not take the status of a process that a supervisor waits for.

use std::fs;
use std::io;
use std::process::{Child, Command, ExitStatus};
use std::sync::Mutex;

use rustix::process::{Pid, WaitOptions, waitpid};

use super::lock;

/// The processes that were started here and are not reaped yet.
static STARTED: Mutex<Vec<Pid>> = Mutex::new(Vec::new());

/// Starts a process that [`wait`] waits for.
pub(super) fn spawn(command: &mut Command) -> io::Result<Child> {
    // Held while it starts: before it is in the list it could be taken for an orphan.
    let mut started = lock(&STARTED);
    let child = command.spawn()?;
    started.push(Pid::from_child(&child));
    Ok(child)
}

/// Waits for the end of a process, and takes its status.
pub(super) fn wait(child: &mut Child) -> io::Result<ExitStatus> {
    let status = child.wait();
    let pid = Pid::from_child(child);
    let mut started = lock(&STARTED);
    // One entry: a process that was started since the reap may have got the same id.
    if let Some(index) = started.iter().position(|&started| started == pid) {
        started.swap_remove(index);
    }
    status
}

/// Reaps the children of this process that have ended and were not started here.
pub(crate) fn reap_orphans() {
    let started = lock(&STARTED);
    for orphan in children().into_iter().filter(|child| !started.contains(child)) {
        // One that lives is reaped when it has ended, which is another SIGCHLD.
        let _ = waitpid(Some(orphan), WaitOptions::NOHANG);
    }
}

/// The children of this process: none where the kernel does not list them.
fn children() -> Vec<Pid> {
    let tasks = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let lists = tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    let of_list = |list: String| list.split_whitespace().filter_map(|id| id.parse().ok()).collect::<Vec<_>>();
    lists.flat_map(of_list).filter_map(Pid::from_raw).collect()
}
