//! The state of the whole machine, to detect other activity during a measurement.

use std::time::{Duration, Instant};

use crate::Error;
use crate::folder::read;
use crate::process::{field, ticks};

/// A sample of the machine. Times are sums over all cores since boot.
#[derive(Debug, Clone, Copy)]
pub struct Machine {
    /// When it was taken.
    pub at: Instant,
    /// The number of cores.
    pub cores: usize,
    /// CPU time used by all processes.
    pub busy: Duration,
    /// Idle CPU time.
    pub idle: Duration,
    /// CPU time that the host of this virtual machine gave to others (steal).
    pub steal: Duration,
}

impl Machine {
    /// Takes a sample.
    pub fn sample() -> Result<Self, Error> {
        let at = Instant::now();
        let mut buffer = Vec::new();
        let unexpected = |path: &str, expected| Error::Unexpected { path: path.to_owned(), expected };
        read(STAT, &mut buffer)?;
        let cpu = Cpu::parse(&buffer).ok_or_else(|| unexpected(STAT, "a line `cpu` with eight numbers"))?;
        Ok(Self {
            at,
            cores: cpu.cores,
            busy: ticks(cpu.busy),
            idle: ticks(cpu.idle),
            steal: ticks(cpu.steal),
        })
    }
}

/// The hardware and the kernel, as far as known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hardware {
    /// The CPU model.
    pub cpu: Option<String>,
    /// The memory size; 0 if unknown.
    pub memory_bytes: u64,
    /// The kernel release; empty if unknown.
    pub kernel: String,
    /// The frequency governor of the first core.
    pub governor: Option<String>,
    /// Whether two hardware threads share a core (SMT).
    pub has_smt: bool,
}

impl Hardware {
    /// Reads the description of this machine.
    #[must_use]
    pub fn read() -> Self {
        let text = |path: &str| {
            let mut buffer = Vec::new();
            // What cannot be read is unknown.
            let _ = read(path, &mut buffer);
            String::from_utf8_lossy(&buffer).into_owned()
        };
        let cpu = text("/proc/cpuinfo");
        let cpu =
            cpu.lines().find(|line| line.starts_with("model name")).and_then(|line| line.split_once(':'));
        let memory_kib = field(text("/proc/meminfo").as_bytes(), "MemTotal:").unwrap_or(0);
        let governor = text("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor").trim().to_owned();
        Self {
            cpu: cpu.map(|(_, model)| model.trim().to_owned()),
            memory_bytes: memory_kib * 1024,
            kernel: text("/proc/sys/kernel/osrelease").trim().to_owned(),
            governor: Some(governor).filter(|governor| !governor.is_empty()),
            has_smt: text("/sys/devices/system/cpu/smt/active").trim() == "1",
        }
    }
}

/// The hardware threads of the physical core of this one, such as `0,4`: the same text for each of them. `None` if it is unknown.
#[must_use]
pub fn thread_siblings(processor: usize) -> Option<String> {
    let path = format!("/sys/devices/system/cpu/cpu{processor}/topology/thread_siblings_list");
    std::fs::read_to_string(path).ok().map(|list| list.trim().to_owned()).filter(|list| !list.is_empty())
}

const STAT: &str = "/proc/stat";

/// In ticks.
#[derive(Debug, PartialEq, Eq)]
struct Cpu {
    cores: usize,
    busy: u64,
    idle: u64,
    steal: u64,
}

impl Cpu {
    fn parse(stat: &[u8]) -> Option<Self> {
        let text = String::from_utf8_lossy(stat);
        let mut lines = text.lines();
        let all = lines.next()?.strip_prefix("cpu ")?;
        let cores = lines.take_while(|line| line.starts_with("cpu")).count();
        // proc(5): user nice system idle iowait irq softirq steal. `user` includes the time of guests.
        let ticks: Vec<u64> = all.split_ascii_whitespace().map_while(|field| field.parse().ok()).collect();
        let [user, nice, system, idle, iowait, irq, softirq, steal] = *ticks.first_chunk()?;
        Some(Self { cores, busy: user + nice + system + irq + softirq, idle: idle + iowait, steal })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_is_busy_idle_or_steal() {
        let stat = b"cpu  1778650 117476 617125 3247794 32728 7 133619 5800 0 0\n\
            cpu0 864521 55134 299347 1669942 9099 0 65409 2864 0 0\ncpu1 1 2 3 4 5 6 7 8 9 10\nintr 5 6\n";
        let busy = 1_778_650 + 117_476 + 617_125 + 7 + 133_619;
        assert_eq!(Cpu::parse(stat), Some(Cpu { cores: 2, busy, idle: 3_247_794 + 32_728, steal: 5800 }));
        for broken in ["", "cpu 1 2 3\n", "cpu0 1 2 3 4 5 6 7 8\n", "cpu 1 2 3 x 5 6 7 8\n"] {
            assert_eq!(Cpu::parse(broken.as_bytes()), None, "{broken}");
        }
    }

    #[test]
    fn a_processor_that_does_not_exist_has_no_siblings() {
        assert_eq!(thread_siblings(usize::MAX), None);
    }

    #[test]
    fn this_machine_has_a_kernel_and_memory() {
        let hardware = Hardware::read();
        assert!(!hardware.kernel.is_empty() && hardware.memory_bytes > 0);
    }

    #[test]
    fn this_machine_has_cores_and_has_been_busy() {
        let machine = Machine::sample().unwrap();
        assert!(machine.cores > 0 && machine.busy > Duration::ZERO);
    }
}
