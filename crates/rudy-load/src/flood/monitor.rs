//! Samples the processes of a server.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use rudy_observe::{Allocation, Error, Process, ProcessEntry, Sample, descendants, process_entry};
use rudy_request::Remote;

use super::series::{ServerPoint, ThreadPoint};
use super::warnings::listener_warning;

/// Samples a process and its descendants: the first process of nginx, gunicorn or Apache only starts those that serve.
#[derive(Debug)]
pub(super) struct ServerMonitor {
    pid: u32,
    name: String,
    /// The living processes, with their last samples.
    known: HashMap<u32, (Process, Sample)>,
    /// Their memory, by the last walk over their pages.
    allocation: Allocation,
    private_bytes_before: u64,
    cpu_before: Duration,
    /// The CPU time at the last sample, including that of ended children.
    cpu: Duration,
    at: Instant,
    /// The error that ended the measurement.
    pub(super) end_reason: Option<String>,
    /// A warning that this may not be the process of the server.
    pub(super) warning: Option<String>,
}

impl ServerMonitor {
    pub(super) fn new(mut process: Process, remote: &Remote) -> Result<Self, Error> {
        let (pid, name) = (process.pid(), process.name().to_owned());
        let warning = listener_warning(&mut process, remote);
        process.check_runs()?;
        let mut monitor = Self {
            pid,
            name,
            known: HashMap::new(),
            allocation: Allocation::default(),
            private_bytes_before: 0,
            cpu_before: Duration::ZERO,
            cpu: Duration::ZERO,
            at: Instant::now(),
            end_reason: None,
            warning,
        };
        let before = monitor.sample(true);
        monitor.private_bytes_before = before.map_or(0, |before| before.private_bytes);
        monitor.cpu_before = monitor.cpu;
        Ok(monitor)
    }

    /// `nginx (4711) and 2 other processes`
    pub(super) fn name(&self) -> String {
        let others = match self.known.len().saturating_sub(1) {
            0 => String::new(),
            1 => " and another process".to_owned(),
            others => format!(" and {others} other processes"),
        };
        format!("{} ({}){others}", self.name, self.pid)
    }

    /// The allocated memory before the first connection, in bytes.
    pub(super) fn private_bytes_before(&self) -> u64 {
        self.private_bytes_before
    }

    /// CPU time since the sample before the first connection.
    pub(super) fn cpu_since_start(&self) -> Duration {
        self.cpu.saturating_sub(self.cpu_before)
    }

    /// Takes a sample. If `is_exact`, walks over all pages, so that memory that the processes share counts once. Returns `None` if the
    /// first process has ended.
    pub(super) fn sample(&mut self, is_exact: bool) -> Option<ServerPoint> {
        if self.end_reason.is_some() {
            return None;
        }
        let entries = self.entries();
        let living = || entries.iter().filter(|entry| !entry.has_ended).map(|entry| entry.pid);
        if !living().any(|pid| pid == self.pid) {
            self.end_reason = Some(Error::Ended { pid: self.pid }.to_string());
            return None;
        }
        if is_exact {
            // Without the right to read them, the counters have to do.
            let (allocation, missing) = Allocation::read(living());
            self.allocation = if missing.is_none() { allocation } else { Allocation::default() };
        }
        let (cpu, at) = (entries.iter().map(cpu_of).sum::<Duration>(), Instant::now());
        let time = at.saturating_duration_since(self.at).as_secs_f64().max(1e-9);
        let mut point =
            ServerPoint { cpu: cpu.saturating_sub(self.cpu).as_secs_f64() / time, ..ServerPoint::default() };
        (self.cpu, self.at) = (cpu.max(self.cpu), at);
        let mut before = std::mem::take(&mut self.known);
        for pid in living() {
            // One that ends meanwhile is left out.
            if let Ok(known) = add(pid, before.remove(&pid), &mut point) {
                self.known.insert(pid, known);
            }
        }
        point.private_bytes = self.allocation.at(point.private_bytes);
        Some(point)
    }

    /// The first process and its descendants, except this one, which may be a child of what a user measures.
    fn entries(&self) -> Vec<ProcessEntry> {
        let others = descendants(vec![self.pid], &[std::process::id()]);
        process_entry(self.pid).into_iter().chain(others).collect()
    }
}

/// CPU time of a process, and of the children that it has waited for.
fn cpu_of(entry: &ProcessEntry) -> Duration {
    entry.cpu + entry.reaped_user + entry.reaped_system
}

/// Adds a process to a sample.
fn add(
    pid: u32,
    known: Option<(Process, Sample)>,
    point: &mut ServerPoint,
) -> Result<(Process, Sample), Error> {
    let (mut process, last) = match known {
        Some((process, last)) => (process, Some(last)),
        None => (Process::open(pid)?, None),
    };
    let sample = process.sample()?;
    point.rss_bytes += sample.memory.rss_bytes;
    point.private_bytes += sample.memory.allocated_bytes();
    if let Some(open) = sample.descriptors.open {
        *point.descriptors.get_or_insert(0) += open;
    }
    if let Some(last) = last {
        let difference = sample.since(&last);
        let switches =
            difference.threads.iter().map(|thread| thread.voluntary_switches + thread.involuntary_switches);
        point.switches += difference.rate(switches.sum());
        let busy = difference.threads.iter().filter(|thread| !thread.cpu.is_zero());
        point.threads.extend(busy.map(|thread| ThreadPoint {
            tid: thread.tid,
            name: thread.name.clone(),
            cpu: difference.share(thread.cpu),
        }));
    }
    Ok((process, sample))
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::path::PathBuf;
    use std::process::{Command, Stdio};

    use rudy_observe::cpu_time;

    use super::*;

    /// A first process that does nothing, and a child with 20 MB that computes, like a prefork server.
    const SCRIPT: &str = "(x=$(head -c 20000000 /dev/zero | tr '\\0' x); echo ready; read _; \
                          i=0; while [ $i -lt 200000 ]; do i=$((i + 1)); done; echo computed; read _); true";

    #[test]
    fn memory_and_cpu_of_a_prefork_server_are_those_of_its_children() {
        let mut shell = Command::new("/bin/sh")
            .args(["-c", SCRIPT])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(shell.stdout.take().unwrap()).lines().map(Result::unwrap);
        assert_eq!(lines.next().as_deref(), Some("ready"));
        let process = Process::open(shell.id()).unwrap();
        let mut monitor = ServerMonitor::new(process, &Remote::Unix(PathBuf::from("/none"))).unwrap();
        assert_eq!(monitor.name(), format!("sh ({}) and another process", shell.id()));
        assert!(monitor.private_bytes_before() >= 20_000_000, "{monitor:?}");
        let child = descendants(vec![shell.id()], &[])[0].pid;
        let before = cpu_time(child).unwrap();
        shell.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
        assert_eq!(lines.next().as_deref(), Some("computed"));
        let computed = cpu_time(child).unwrap().saturating_sub(before);
        let point = monitor.sample(true).unwrap();
        assert!(point.private_bytes >= 20_000_000 && point.descriptors >= Some(6), "{point:?}");
        assert!(!computed.is_zero() && monitor.cpu_since_start() >= computed, "{computed:?} {monitor:?}");
        assert!(point.cpu > 0.0 && !point.threads.is_empty(), "{point:?}");
        drop(shell.stdin.take());
        shell.wait().unwrap();
        assert!(monitor.sample(true).is_none() && monitor.end_reason.is_some());
    }
}
