//! Where a thread is in the kernel.

use super::Process;
use crate::Error;

/// Where a thread is in the kernel, from the best source that this user may read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelStack {
    /// The functions, innermost first. Empty if the thread runs in user mode.
    pub frames: Vec<String>,
    /// Where they come from.
    pub source: Source,
    /// The number of the system call in which the thread is. `None` if it is in none, or this user may not read it.
    pub system_call: Option<u64>,
}

/// The source of a [`KernelStack`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// `stack`: all functions. Requires root, or rather `CAP_SYS_ADMIN` outside of containers.
    Stack,
    /// `wchan`: the function in which the thread sleeps.
    WaitChannel,
    /// None is readable, or `wchan` names no function, as for a thread that runs.
    Nothing,
}

impl Process {
    /// Reads the kernel stack of a thread. `None` if the thread has ended.
    pub fn kernel_stack(&mut self, tid: u32) -> Result<Option<KernelStack>, Error> {
        let system_call = self.task_file(tid, "syscall")?.and_then(|text| system_call(&text));
        if let Some(text) = self.task_file(tid, "stack")? {
            return Ok(Some(KernelStack { frames: frames(&text), source: Source::Stack, system_call }));
        }
        let channel = self.task_file(tid, "wchan")?.filter(|name| !name.is_empty() && name != "0");
        let source = if channel.is_some() { Source::WaitChannel } else { Source::Nothing };
        Ok(Some(KernelStack { frames: channel.into_iter().collect(), source, system_call }))
    }

    /// The id of a thread in its own namespace, which a process in a container sees. `None` if the thread has ended.
    pub fn inner_id(&mut self, tid: u32) -> Result<Option<u32>, Error> {
        Ok(self.task_file(tid, "status")?.and_then(|status| inner_id(&status)))
    }

    /// Reads a file of a thread. `None` if it is not there, or not for this user.
    fn task_file(&mut self, tid: u32, file: &str) -> Result<Option<String>, Error> {
        match self.folder.read_if_there(&format!("task/{tid}/{file}"), &mut self.buffer) {
            Ok(true) => Ok(Some(String::from_utf8_lossy(&self.buffer).into_owned())),
            // A kernel without this file, a thread that has ended, or no permission.
            Ok(false) | Err(Error::Denied { .. } | Error::Unreadable { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Parses lines such as `[<0>] ep_poll+0x3a/0x120`.
fn frames(text: &str) -> Vec<String> {
    let name = |line: &str| {
        let (_, function) = line.split_once("] ")?;
        Some(function.split('+').next()?.trim().to_owned()).filter(|name| !name.is_empty())
    };
    text.lines().filter_map(name).collect()
}

/// Parses `202 0x1 0x2 ...`. A thread that runs, or is stopped outside of a system call, has none: `running`, `-1 0x1 0x2`.
fn system_call(text: &str) -> Option<u64> {
    text.split_ascii_whitespace().next()?.parse().ok()
}

/// Parses the last of the ids, the one of the innermost namespace.
fn inner_id(status: &str) -> Option<u32> {
    let ids = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
    ids.split_ascii_whitespace().next_back()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn a_stack_is_parsed() {
        let text = "[<0>] ep_poll+0x3a/0x120\n[<0>] do_epoll_wait+0xa0/0xe0\n[<0>] 0xffffffffffffffff\n";
        assert_eq!(frames(text), ["ep_poll", "do_epoll_wait", "0xffffffffffffffff"]);
        assert!(frames("").is_empty() && frames("garbage\n[<0>] ").is_empty());
    }

    #[test]
    fn a_thread_is_in_at_most_one_system_call() {
        assert_eq!(system_call("202 0x7f 0x80 0x0 0x0 0x0 0xff 0x7ffd 0x7f11\n"), Some(202));
        assert_eq!([system_call("running\n"), system_call("-1 0x7ffd 0x7f11"), system_call("")], [None; 3]);
    }

    #[test]
    fn the_id_within_a_container_is_the_last() {
        assert_eq!(inner_id("Name:\tjava\nNSpid:\t20711\t711\t7\n"), Some(7));
        assert_eq!(inner_id("NSpid:\t20711\n"), Some(20_711));
        assert_eq!(inner_id("Name:\tjava\n"), None);
    }

    #[test]
    fn a_sleeping_thread_is_in_the_kernel_if_that_is_shown() {
        let (release, wait) = mpsc::channel::<()>();
        let (sender, tid) = mpsc::channel();
        let sleeper = std::thread::spawn(move || {
            sender.send(rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned()).unwrap();
            let _ = wait.recv();
        });
        let tid = tid.recv().unwrap();
        let mut process = Process::own().unwrap();
        // The thread needs a moment to fall asleep.
        while process.sample().unwrap().threads.iter().any(|thread| thread.tid == tid && thread.state != 'S')
        {
            std::thread::yield_now();
        }
        let stack = process.kernel_stack(tid).unwrap().unwrap();
        assert_eq!(stack.source == Source::Nothing, stack.frames.is_empty(), "{stack:?}");
        assert!(stack.system_call.is_some(), "a process may read its own: {stack:?}");
        assert!(process.inner_id(tid).unwrap().is_some());
        drop(release);
        sleeper.join().unwrap();
    }
}
