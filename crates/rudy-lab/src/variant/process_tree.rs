//! Determines the processes of a variant and their CPU time.
//!
//! The lab is the subreaper of its descendants: a process whose parent has ended becomes its child, in any
//! session or process group. All descendants of the lab therefore belong to the variant, except those that
//! the lab has started for measuring.

use std::time::Duration;

use rudy_observe::{ProcessEntry, descendants, process_entry};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

/// CPU time of a whole variant.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Cpu {
    /// In nanoseconds; that of reaped children in ticks of 10 ms.
    pub(crate) total: Duration,
    /// The part in user mode, in ticks of 10 ms per process.
    pub(crate) user: Duration,
    /// The part in the kernel, likewise.
    pub(crate) system: Duration,
}

/// CPU time of the lab.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Lab {
    /// Its own.
    pub(crate) itself: Cpu,
    /// That of all reaped children: between start and end of a workload, that of its generator.
    pub(crate) reaped: Cpu,
}

impl Cpu {
    fn own(member: &ProcessEntry) -> Self {
        Self { total: member.cpu, user: member.cpu_user, system: member.cpu_system }
    }

    fn reaped(member: &ProcessEntry) -> Self {
        let (user, system) = (member.reaped_user, member.reaped_system);
        Self { total: user + system, user, system }
    }

    fn plus(self, other: Self) -> Self {
        Self {
            total: self.total + other.total,
            user: self.user + other.user,
            system: self.system + other.system,
        }
    }

    pub(crate) fn since(self, earlier: Self) -> Self {
        Self {
            total: self.total.saturating_sub(earlier.total),
            user: self.user.saturating_sub(earlier.user),
            system: self.system.saturating_sub(earlier.system),
        }
    }
}

/// All living descendants of the lab, except these and their descendants; parents first.
pub(crate) fn members(without: &[u32]) -> Vec<ProcessEntry> {
    living(descendants(vec![std::process::id()], without))
}

/// Whether the lab has no descendants, except these and theirs. Certain, unlike an empty list of
/// [`members`]: of a process that starts another and exits while we read `/proc`, we may see only its end.
pub(crate) fn is_empty(without: &[u32]) -> bool {
    descendants(vec![std::process::id()], without).is_empty()
}

/// These processes and all their living descendants.
pub(crate) fn below(roots: &[u32]) -> Vec<ProcessEntry> {
    living(with_descendants(roots))
}

fn with_descendants(roots: &[u32]) -> Vec<ProcessEntry> {
    let themselves = roots.iter().filter_map(|pid| process_entry(*pid));
    themselves.chain(descendants(roots.to_vec(), &[])).collect()
}

fn living(mut members: Vec<ProcessEntry>) -> Vec<ProcessEntry> {
    members.retain(|member| !member.has_ended);
    members
}

/// The sum of their CPU times, and those of the children that they have waited for.
pub(crate) fn cpu(members: &[ProcessEntry]) -> Cpu {
    members.iter().fold(Cpu::default(), |sum, member| sum.plus(Cpu::own(member)).plus(Cpu::reaped(member)))
}

/// Of a process, which may have ended.
pub(crate) fn cpu_of(pid: u32) -> Cpu {
    cpu(process_entry(pid).as_slice())
}

/// Of the variant: all descendants of the lab except these and their descendants.
pub(crate) fn cpu_without(others: &[u32]) -> Cpu {
    cpu(&descendants(vec![std::process::id()], others))
}

/// Of these and their descendants.
pub(crate) fn cpu_below(roots: &[u32]) -> Cpu {
    cpu(&with_descendants(roots))
}

/// Of the lab.
pub(crate) fn lab() -> Lab {
    let lab = process_entry(std::process::id());
    lab.map(|lab| Lab { itself: Cpu::own(&lab), reaped: Cpu::reaped(&lab) }).unwrap_or_default()
}

/// Sends a signal to all. Ignores those that have ended meanwhile.
pub(crate) fn signal(members: &[ProcessEntry], signal: Signal) {
    for pid in members.iter().filter_map(|member| raw(member.pid)) {
        let _ = kill_process(pid, signal);
    }
}

/// Reaps orphaned processes that have ended, except those that are awaited elsewhere.
pub(crate) fn reap(without: &[u32]) {
    let own = std::process::id();
    let all = descendants(vec![own], without);
    let ended = all.iter().filter(|member| member.has_ended && member.parent == own);
    for pid in ended.filter_map(|member| raw(member.pid)) {
        // It has ended, so this does not block.
        let _ = waitpid(Some(pid), WaitOptions::NOHANG);
    }
}

fn raw(pid: u32) -> Option<Pid> {
    i32::try_from(pid).ok().and_then(Pid::from_raw)
}
