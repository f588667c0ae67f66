//! A program under measurement: started, looked at through `/proc` with all its descendants, ended with them.

use std::collections::HashMap;
use std::fs;
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};

use crate::{Outcome, command};

/// How long a program may take to end when asked to, and how often we look whether it has.
const STOP_TIME: Duration = Duration::from_secs(5);
const POLL_TIME: Duration = Duration::from_millis(50);

/// A running program. It ends when this is dropped.
pub(crate) struct Program(Child);

impl Program {
    pub(crate) fn start(command: &mut Command) -> Outcome<Self> {
        let child = command.spawn();
        child.map(Self).map_err(|error| format!("cannot start `{}`: {error}", command::line(command)))
    }

    pub(crate) fn pid(&self) -> u32 {
        self.0.id()
    }

    /// How it ended, if it has.
    pub(crate) fn ended(&mut self) -> Option<std::process::ExitStatus> {
        self.0.try_wait().ok().flatten()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let everything = tree(self.pid());
        // A signal to a process that has ended meanwhile fails, which is what we want of it.
        let _ = rustix::process::kill_process(Pid::from_child(&self.0), Signal::TERM);
        let deadline = Instant::now() + STOP_TIME;
        while Instant::now() < deadline {
            if self.ended().is_some() {
                return;
            }
            thread::sleep(POLL_TIME);
        }
        for pid in everything.into_iter().filter_map(|pid| Pid::from_raw(pid.cast_signed())) {
            let _ = rustix::process::kill_process(pid, Signal::KILL);
        }
        let _ = self.0.wait();
    }
}

/// CPU of the tree so far in µs, user and system; children that ended and were waited for are in it.
pub(crate) fn cpu_us(root: u32) -> f64 {
    let ticks: u64 = tree(root).into_iter().filter_map(stat).map(|stat| stat.cpu_ticks).sum();
    #[expect(clippy::cast_precision_loss, reason = "52 bits of clock ticks are centuries")]
    let seconds = ticks as f64 / rustix::param::clock_ticks_per_second() as f64;
    seconds * 1e6
}

/// The tree's proportional set size in bytes: what it has for itself, and its share of what it shares.
pub(crate) fn memory_bytes(root: u32) -> Outcome<u64> {
    let mut kib = 0;
    for pid in tree(root) {
        let path = format!("/proc/{pid}/smaps_rollup");
        let text = fs::read_to_string(&path).map_err(|error| format!("cannot read {path}: {error}"))?;
        kib += pss_kib(&text).ok_or_else(|| format!("{path} names no Pss"))?;
    }
    Ok(kib * 1024)
}

/// The process and its living descendants, parents first.
pub(crate) fn tree(root: u32) -> Vec<u32> {
    let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        if let Some(stat) = stat(pid) {
            children.entry(stat.parent).or_default().push(pid);
        }
    }
    let mut found = vec![root];
    let mut visited = 0;
    while let Some(pid) = found.get(visited) {
        found.extend(children.get(pid).into_iter().flatten());
        visited += 1;
    }
    found
}

/// What is wanted of `/proc/PID/stat`.
#[derive(Debug, PartialEq, Eq)]
struct Stat {
    parent: u32,
    cpu_ticks: u64,
}

/// `None` where the process has ended in the meantime.
fn stat(pid: u32) -> Option<Stat> {
    parse_stat(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// The name stands in parentheses and may hold anything, parentheses too: only what follows the last one counts.
fn parse_stat(text: &str) -> Option<Stat> {
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_ascii_whitespace().collect();
    // proc(5): the state is field 3, the parent 4, utime, stime, cutime and cstime 14 to 17.
    let cpu_ticks = fields.get(11..15)?.iter().map(|field| field.parse::<u64>().ok()).sum::<Option<u64>>()?;
    Some(Stat { parent: fields.get(1)?.parse().ok()?, cpu_ticks })
}

fn pss_kib(smaps_rollup: &str) -> Option<u64> {
    let line = smaps_rollup.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_may_be_named_like_the_end_of_its_name() {
        let text = "7 (a) b) S 3 7 7 0 -1 4194560 100 0 0 0 11 22 33 44 20 0 1 0 5 0 0";
        assert_eq!(parse_stat(text), Some(Stat { parent: 3, cpu_ticks: 110 }));
    }

    #[test]
    fn the_proportional_set_size_is_not_one_of_its_parts() {
        let text = "55-66 ---p 0 0 0 [rollup]\nRss: 9 kB\nPss:              1234 kB\nPss_Anon: 5 kB\n";
        assert_eq!(pss_kib(text), Some(1234));
    }

    #[test]
    fn this_process_stands_in_its_own_tree_and_takes_memory() {
        let own = std::process::id();
        assert!(tree(own).contains(&own));
        assert!(memory_bytes(own).expect("our own is readable") > 0);
    }
}
