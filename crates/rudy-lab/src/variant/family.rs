//! Determines the processes of a variant and their CPU time.
//!
//! The lab is the subreaper of its descendants: a process whose parent has ended becomes its child, in any
//! session or process group. All descendants of the lab therefore belong to the variant, except those that
//! the lab has started for measuring.

use std::collections::HashMap;
use std::fs;
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

/// A process of a variant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) pid: u32,
    pub(crate) name: String,
    /// CPU time in ticks, in user mode and in the kernel: its own, and that of its reaped children.
    own: [u64; 2],
    waited: [u64; 2],
    parent: u32,
    has_ended: bool,
}

/// CPU time of a whole variant.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Cpu {
    pub(crate) user: Duration,
    pub(crate) system: Duration,
}

/// CPU time of the lab.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Lab {
    /// Its own.
    pub(crate) itself: Cpu,
    /// That of all reaped children: between start and end of a workload, that of its generator.
    pub(crate) waited: Cpu,
}

impl Cpu {
    fn of([user, system]: [u64; 2]) -> Self {
        Self { user: time(user), system: time(system) }
    }

    pub(crate) fn since(self, earlier: Self) -> Self {
        Self {
            user: self.user.saturating_sub(earlier.user),
            system: self.system.saturating_sub(earlier.system),
        }
    }

    pub(crate) fn total(self) -> Duration {
        self.user + self.system
    }
}

/// All living descendants of the lab, except these and their descendants; parents first.
pub(crate) fn members(without: &[u32]) -> Vec<Member> {
    living(descendants(vec![std::process::id()], without))
}

/// These processes and all their living descendants.
pub(crate) fn below(roots: &[u32]) -> Vec<Member> {
    let mut found: Vec<_> = roots.iter().filter_map(|pid| member(*pid)).collect();
    found.extend(living(descendants(roots.to_vec(), &[])));
    found
}

fn living(mut members: Vec<Member>) -> Vec<Member> {
    members.retain(|member| !member.has_ended);
    members
}

/// All descendants, including zombies, which still have their CPU time.
fn descendants(mut parents: Vec<u32>, without: &[u32]) -> Vec<Member> {
    let mut children: HashMap<u32, Vec<Member>> = HashMap::new();
    for member in all() {
        children.entry(member.parent).or_default().push(member);
    }
    let mut found = Vec::new();
    while let Some(parent) = parents.pop() {
        for member in children.remove(&parent).unwrap_or_default() {
            if !without.contains(&member.pid) {
                parents.push(member.pid);
                found.push(member);
            }
        }
    }
    found
}

/// All processes.
fn all() -> impl Iterator<Item = Member> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| read(entry.file_name().to_str()?))
}

/// This process, which may be a zombie.
pub(crate) fn member(pid: u32) -> Option<Member> {
    read(&pid.to_string())
}

/// The sum of their CPU times.
pub(crate) fn cpu(members: &[Member]) -> Cpu {
    let sum = |mode: usize| members.iter().map(|member| member.own[mode] + member.waited[mode]).sum();
    Cpu::of([sum(0), sum(1)])
}

/// Of the variant: all descendants of the lab except these and their descendants.
pub(crate) fn cpu_without(others: &[u32]) -> Cpu {
    cpu(&descendants(vec![std::process::id()], others))
}

/// Of these and their descendants.
pub(crate) fn cpu_below(roots: &[u32]) -> Cpu {
    let roots_themselves: Vec<_> = roots.iter().filter_map(|pid| member(*pid)).collect();
    let below = cpu(&descendants(roots.to_vec(), &[]));
    let themselves = cpu(&roots_themselves);
    Cpu { user: below.user + themselves.user, system: below.system + themselves.system }
}

/// Of the lab.
pub(crate) fn lab() -> Lab {
    let lab = member(std::process::id());
    lab.map(|lab| Lab { itself: Cpu::of(lab.own), waited: Cpu::of(lab.waited) }).unwrap_or_default()
}

/// Sends a signal to all. Ignores those that have ended meanwhile.
pub(crate) fn signal(members: &[Member], signal: Signal) {
    for pid in members.iter().filter_map(|member| raw(member.pid)) {
        let _ = kill_process(pid, signal);
    }
}

/// Reaps orphaned processes that have ended, except those that are awaited elsewhere.
pub(crate) fn reap(without: &[u32]) {
    let own = std::process::id();
    let is_ours =
        |member: &Member| member.has_ended && member.parent == own && !without.contains(&member.pid);
    for pid in all().filter(is_ours).filter_map(|member| raw(member.pid)) {
        // It has ended, so this does not block.
        let _ = waitpid(Some(pid), WaitOptions::NOHANG);
    }
}

fn raw(pid: u32) -> Option<Pid> {
    i32::try_from(pid).ok().and_then(Pid::from_raw)
}

fn time(ticks: u64) -> Duration {
    let per_second = rustix::param::clock_ticks_per_second().max(1);
    Duration::from_nanos(ticks.saturating_mul(1_000_000_000 / per_second))
}

fn read(pid: &str) -> Option<Member> {
    let pid = pid.parse().ok()?;
    parse(pid, &fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// proc(5). The name is in parentheses and may contain any characters, so only the part after the last
/// parenthesis counts.
fn parse(pid: u32, stat: &str) -> Option<Member> {
    let (name, fields) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = fields.split_ascii_whitespace().collect();
    let number = |index: usize| fields.get(index)?.parse::<u64>().ok();
    Some(Member {
        pid,
        name: name.split_once('(')?.1.to_owned(),
        has_ended: matches!(*fields.first()?, "Z" | "X"),
        parent: fields.get(1)?.parse().ok()?,
        own: [number(11)?, number(12)?],
        waited: [number(13)?, number(14)?],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_the_time_of_the_children_it_has_waited_for() {
        let stat = "17 (a) b (c) S 4 17 17 0 -1 4194304 1 2 3 4 10 20 3 5 20 0 1 0 99 0 0";
        let member = parse(17, stat).unwrap();
        assert_eq!((member.name.as_str(), member.parent, member.has_ended), ("a) b (c", 4, false));
        assert_eq!((member.own, member.waited), ([10, 20], [3, 5]));
        assert_eq!(cpu(&[member]), Cpu { user: time(13), system: time(25) });
        assert!(parse(1, "1 (init").is_none() && parse(1, "1 (init) S 0").is_none());
    }
}
