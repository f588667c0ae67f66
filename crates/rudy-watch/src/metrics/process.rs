//! Metrics of the process: CPU by thread, memory, descriptors.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rudy_observe::Process;

use super::exposition::{Exposition, Kind};

/// The maximum number of names of threads. An engine with a thread per connection has thousands, which share few names.
const NAMES_MAX: usize = 64;

/// Writes the metrics of this process. Without `/proc`, there are none.
pub(super) fn write(out: &mut Exposition, started: SystemTime) {
    let since_epoch = started.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
    let help = "Start time of the process, in seconds since 1970.";
    out.single("process_start_time_seconds", Kind::Gauge, help, since_epoch);
    let Ok(sample) = Process::own().and_then(|mut process| process.sample()) else { return };
    let cpu = (sample.cpu_user + sample.cpu_system).as_secs_f64();
    out.single("process_cpu_seconds_total", Kind::Counter, "CPU time in user mode and in the kernel.", cpu);
    let resident = sample.memory.rss_bytes;
    out.single("process_resident_memory_bytes", Kind::Gauge, "Resident memory.", resident);
    if let Some(open) = sample.descriptors.open {
        out.single("process_open_fds", Kind::Gauge, "Open file descriptors.", open);
    }
    if let Some(most) = sample.descriptors.limit {
        out.single("process_max_fds", Kind::Gauge, "Maximum number of open file descriptors.", most);
    }
    out.single("process_threads", Kind::Gauge, "Threads.", sample.threads.len());
    let mut by_name: BTreeMap<String, Duration> = BTreeMap::new();
    for thread in &sample.threads {
        let is_known = by_name.contains_key(&thread.name) || by_name.len() < NAMES_MAX;
        let name = if is_known { thread.name.clone() } else { "other".to_owned() };
        *by_name.entry(name).or_default() += thread.cpu;
    }
    let help = "CPU time of the threads of each name that run.";
    out.begin("rudy_thread_cpu_seconds_total", Kind::Counter, help);
    for (name, cpu) in &by_name {
        out.sample("rudy_thread_cpu_seconds_total", &[("thread", name)], cpu.as_secs_f64());
    }
}
