//! Samples of this process and of child processes.

use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use super::*;
use crate::Target;

/// A thread of this process that runs until it is dropped.
struct Busy {
    stop: &'static AtomicBool,
    thread: Option<JoinHandle<()>>,
}

impl Busy {
    fn start(name: &str) -> Self {
        let stop: &'static AtomicBool = Box::leak(Box::default());
        let (runs, has_begun) = mpsc::channel();
        let thread = thread::Builder::new().name(name.to_owned()).spawn(move || {
            runs.send(()).unwrap();
            while !stop.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
        has_begun.recv().unwrap();
        Self { stop, thread: Some(thread.unwrap()) }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let ended = self.thread.take().map(JoinHandle::join);
        assert!(ended.is_some_and(|ended| ended.is_ok()));
    }
}

/// A child process that echoes its standard input until that is closed.
fn child() -> Child {
    Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("every system has cat")
}

fn of<'a>(difference: &'a Difference, name: &str) -> Option<&'a ThreadDifference> {
    difference.threads.iter().find(|thread| thread.name == name)
}

/// Processes of a name that are observed as one.
fn named(name: &str) -> Processes {
    Processes::open(&Target::Name(name.to_owned())).unwrap()
}

#[test]
fn processes_of_a_name_are_observed_as_one_until_the_last_has_ended() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("rudy-workers");
    std::os::unix::fs::symlink("/bin/cat", &program).unwrap();
    let start = || Command::new(&program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut children = vec![start(), start()];
    let mut processes = named("rudy-workers");
    let ids = |children: &[Child]| children.iter().map(Child::id).collect::<Vec<_>>();
    let threads = |processes: &mut Processes| {
        let mut threads: Vec<_> =
            processes.sample().unwrap().threads.iter().map(|thread| thread.tid).collect();
        threads.sort_unstable();
        threads
    };
    assert_eq!(threads(&mut processes), ids(&children));
    let one = Process::open(children[0].id()).unwrap().sample().unwrap();
    let sum = processes.sample().unwrap();
    assert!(sum.memory.rss_bytes > one.memory.rss_bytes && sum.descriptors.open > one.descriptors.open);
    assert_eq!((sum.descriptors.limit, one.descriptors.limit.is_some()), (None, true));
    // A later one is found with the next search.
    children.push(start());
    while threads(&mut processes).len() < 3 {
        thread::yield_now();
    }
    assert_eq!(threads(&mut processes), ids(&children));
    let left = children.iter_mut().map(|child| {
        drop(child.stdin.take());
        child.wait().unwrap();
        processes.check_runs().is_ok()
    });
    assert_eq!(left.collect::<Vec<_>>(), [true, true, false]);
    assert!(processes.sample().unwrap_err().is_end());
}

#[test]
fn what_ends_takes_no_cpu_from_the_sum() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("rudy-burners");
    std::os::unix::fs::symlink("/bin/sh", &program).unwrap();
    let start = || Command::new(&program).args(["-c", "while :; do :; done"]).spawn().unwrap();
    let mut children = [start(), start()];
    let mut processes = named("rudy-burners");
    let cpu = |sample: &Sample| sample.cpu_user + sample.cpu_system;
    let before = loop {
        let sample = processes.sample().unwrap();
        if cpu(&sample) > Duration::from_millis(100) {
            break sample;
        }
    };
    children[0].kill().unwrap();
    children[0].wait().unwrap();
    let after = processes.sample().unwrap();
    assert!(cpu(&after) >= cpu(&before), "{:?} {:?}", cpu(&after), cpu(&before));
    assert_eq!(after.since(&before).threads_ended, 1);
    children[1].kill().unwrap();
    children[1].wait().unwrap();
}

#[test]
fn the_number_of_runnable_threads_is_that_of_the_machine() {
    assert_eq!(runnable(b"0.20 0.18 0.12 3/80 11206\n"), Some(3));
    assert_eq!((runnable(b"0.20 0.18 0.12 80 11206"), runnable(b"")), (None, None));
}

#[test]
fn a_thread_that_burns_cpu_is_found_by_its_name() {
    let _busy = Busy::start("burner");
    let mut process = Process::own().unwrap();
    let before = process.sample().unwrap();
    let enough = Duration::from_millis(50);
    let difference = loop {
        let difference = process.sample().unwrap().since(&before);
        if of(&difference, "burner").is_some_and(|burner| burner.cpu >= enough) {
            break difference;
        }
        thread::yield_now();
    };
    let burner = of(&difference, "burner").unwrap();
    assert_eq!(burner.cpu_user + burner.cpu_system, burner.cpu);
}

#[test]
fn threads_that_begin_and_end_are_seen() {
    let mut process = Process::own().unwrap();
    let before = process.sample().unwrap();
    let (let_go, wait) = mpsc::channel::<()>();
    let (sender, receiver): (_, Receiver<()>) = mpsc::channel();
    let waiter = thread::Builder::new().name("waiter".into()).spawn(move || {
        sender.send(()).unwrap();
        let _ = wait.recv();
    });
    receiver.recv().unwrap();
    let during = process.sample().unwrap();
    assert!(of(&during.since(&before), "waiter").is_some());
    drop(let_go);
    waiter.unwrap().join().unwrap();
    // After the join, the kernel may need a moment to remove the thread.
    let deadline = Instant::now() + Duration::from_secs(30);
    while process.sample().unwrap().threads.iter().any(|thread| thread.name == "waiter") {
        assert!(Instant::now() < deadline, "a thread that was joined is still there");
        thread::yield_now();
    }
}

#[test]
fn switches_of_a_thread_that_waits_often_are_counted() {
    let mut process = Process::own().unwrap();
    let (ping, pinged) = mpsc::channel();
    let (pong, ponged) = mpsc::channel();
    let echo = thread::Builder::new().name("echo".into()).spawn(move || {
        while pinged.recv().is_ok() {
            pong.send(()).unwrap();
        }
    });
    let before = process.sample().unwrap();
    let voluntary = |process: &mut Process| {
        of(&process.sample().unwrap().since(&before), "echo").map_or(0, |echo| echo.voluntary_switches)
    };
    while voluntary(&mut process) < 20 {
        ping.send(()).unwrap();
        ponged.recv().unwrap();
    }
    drop(ping);
    echo.unwrap().join().unwrap();
}

#[test]
fn memory_and_descriptors_of_this_process_are_there() {
    let mut process = Process::own().unwrap();
    let sample = process.sample().unwrap();
    assert!(sample.memory.rss_bytes > 0 && sample.memory.rss_bytes <= sample.memory.peak_rss_bytes);
    assert!(sample.memory.anonymous_bytes > 0);
    assert!(process.pss_bytes().unwrap() > 0);
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    assert_eq!(sample.descriptors.limit, limit);
    // Other tests open and close descriptors meanwhile, so only a child has an exact number.
    assert!(sample.descriptors.open.unwrap() > 3);
}

#[test]
fn descriptors_are_as_many_as_are_listed() {
    let mut child = child();
    let (stdin, stdout) = (child.stdin.as_mut().unwrap(), child.stdout.as_mut().unwrap());
    // After the echo, the child has opened everything that it opens at its start.
    stdin.write_all(b"x").unwrap();
    stdout.read_exact(&mut [0]).unwrap();
    let mut process = Process::open(child.id()).unwrap();
    let listed = std::fs::read_dir(format!("/proc/{}/fd", child.id())).unwrap().count();
    assert_eq!(process.descriptors().unwrap().open, Some(listed as u64));
    drop(child.stdin.take());
    child.wait().unwrap();
}

#[test]
fn an_ended_process_differs_from_one_that_never_existed() {
    let mut child = child();
    let pid = child.id();
    let mut process = Process::open(pid).unwrap();
    assert!(process.sample().is_ok());
    drop(child.stdin.take());
    // The child has ended, but is not reaped, so its id is not free.
    let deadline = Instant::now() + Duration::from_secs(30);
    let error = loop {
        match process.sample() {
            Ok(_) => assert!(Instant::now() < deadline, "a child without input does not end"),
            Err(error) => break error,
        }
        thread::yield_now();
    };
    assert!(error.is_end(), "{error}");
    assert!(process.descriptors().unwrap_err().is_end());
    assert!(process.sockets().unwrap_err().is_end());
    child.wait().unwrap();
    assert!(process.sample().unwrap_err().is_end());
    assert!(process.pss_bytes().unwrap_err().is_end());
    assert!(matches!(Process::open(pid), Err(Error::NoSuchProcess { .. })));
}

#[test]
fn the_number_of_a_thread_stands_for_its_process() {
    let own = Process::own().unwrap();
    let tid = rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned();
    assert_ne!(tid, own.pid(), "a test runs in a thread of its own");
    assert_eq!(Process::open(tid).unwrap().pid(), own.pid());
}
