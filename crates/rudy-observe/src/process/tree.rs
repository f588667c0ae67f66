//! A process and its descendants.

use std::collections::HashMap;
use std::fs;
use std::time::Duration;

use super::{cpu_time, ticks};

/// A process of a tree: one and its descendants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessEntry {
    /// Its id.
    pub pid: u32,
    /// Its name.
    pub name: String,
    /// The id of its parent.
    pub parent: u32,
    /// Whether it has ended, and was not waited for.
    pub has_ended: bool,
    /// Its own CPU time: from its clock, or in ticks of 10 ms if it was reaped meanwhile.
    pub cpu: Duration,
    /// The part in user mode, in ticks of 10 ms.
    pub cpu_user: Duration,
    /// The part in the kernel, in ticks of 10 ms.
    pub cpu_system: Duration,
    /// CPU time in user mode of the children that it has waited for, in ticks of 10 ms. Children that end while it
    /// ignores SIGCHLD are in no count.
    pub reaped_user: Duration,
    /// The same in the kernel.
    pub reaped_system: Duration,
}

/// All descendants of `roots`, without the processes in `without` and their descendants; parents first. Includes ended
/// ones that were not waited for, which still have their CPU time.
#[must_use]
pub fn descendants(mut roots: Vec<u32>, without: &[u32]) -> Vec<ProcessEntry> {
    let mut children: HashMap<u32, Vec<ProcessEntry>> = HashMap::new();
    for process_entry in all() {
        children.entry(process_entry.parent).or_default().push(process_entry);
    }
    let mut found = Vec::new();
    while let Some(parent) = roots.pop() {
        for mut process_entry in children.remove(&parent).unwrap_or_default() {
            if !without.contains(&process_entry.pid) {
                roots.push(process_entry.pid);
                process_entry.cpu = cpu_time(process_entry.pid).unwrap_or(process_entry.cpu);
                found.push(process_entry);
            }
        }
    }
    found
}

/// This process, which may have ended; `None` if it was waited for.
#[must_use]
pub fn process_entry(pid: u32) -> Option<ProcessEntry> {
    let mut process_entry = read(&pid.to_string())?;
    process_entry.cpu = cpu_time(pid).unwrap_or(process_entry.cpu);
    Some(process_entry)
}

fn all() -> impl Iterator<Item = ProcessEntry> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| read(entry.file_name().to_str()?))
}

fn read(pid: &str) -> Option<ProcessEntry> {
    let pid = pid.parse().ok()?;
    // The name may have any bytes.
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    parse(pid, &String::from_utf8_lossy(&stat))
}

/// proc(5). The name is in parentheses and may contain any characters, so only the part after the last
/// parenthesis counts.
fn parse(pid: u32, stat: &str) -> Option<ProcessEntry> {
    let (name, fields) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = fields.split_ascii_whitespace().collect();
    let time = |index: usize| fields.get(index)?.parse().ok().map(ticks);
    let (cpu_user, cpu_system) = (time(11)?, time(12)?);
    Some(ProcessEntry {
        pid,
        name: name.split_once('(')?.1.to_owned(),
        has_ended: matches!(*fields.first()?, "Z" | "X"),
        parent: fields.get(1)?.parse().ok()?,
        cpu: cpu_user + cpu_system,
        cpu_user,
        cpu_system,
        reaped_user: time(13)?,
        reaped_system: time(14)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_the_time_of_the_children_it_has_waited_for() {
        let stat = "17 (a) b (c) S 4 17 17 0 -1 4194304 1 2 3 4 10 20 3 5 20 0 1 0 99 0 0";
        let process_entry = parse(17, stat).unwrap();
        assert_eq!(
            (process_entry.name.as_str(), process_entry.parent, process_entry.has_ended),
            ("a) b (c", 4, false)
        );
        assert_eq!([process_entry.cpu_user, process_entry.cpu_system], [ticks(10), ticks(20)]);
        assert_eq!([process_entry.reaped_user, process_entry.reaped_system], [ticks(3), ticks(5)]);
        assert!(parse(1, "1 (init").is_none() && parse(1, "1 (init) S 0").is_none());
    }
}
