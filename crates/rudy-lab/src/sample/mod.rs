//! Samples the processes of a variant once per second.

mod alike;

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::time::{Duration, Instant};

use rudy_observe::{Process, State, by_state};

use crate::record::Sample;
use crate::variant::family;

/// The time between samples.
const INTERVAL: Duration = Duration::from_secs(1);

/// Samples a variant during a workload.
pub(crate) struct Sampler {
    without: Vec<u32>,
    begun: Instant,
    next: Instant,
    watched: HashMap<u32, Watched>,
    threads: BTreeMap<String, [f64; 2]>,
    voluntary: u64,
    involuntary: u64,
    samples: Vec<Sample>,
}

struct Watched {
    process: Process,
    last: Option<rudy_observe::Sample>,
}

/// The memory of a process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Pages {
    pub(crate) private_bytes: u64,
    pub(crate) shared_bytes: u64,
}

impl Sampler {
    /// Starts sampling. `without` are processes that do not belong to the variant: the workload and companion
    /// programs.
    pub(crate) fn new(without: Vec<u32>) -> Self {
        let now = Instant::now();
        Self {
            without,
            begun: now,
            next: now,
            watched: HashMap::new(),
            threads: BTreeMap::new(),
            voluntary: 0,
            involuntary: 0,
            samples: Vec::new(),
        }
    }

    /// Takes a sample if one is due.
    pub(crate) fn poll(&mut self) {
        let now = Instant::now();
        if now < self.next {
            return;
        }
        self.next = (self.next + INTERVAL).max(now);
        let sample = self.sample((now - self.begun).as_secs_f64());
        self.samples.push(sample);
    }

    /// All samples.
    pub(crate) fn samples(mut self) -> Vec<Sample> {
        alike::take_together(&mut self.samples);
        self.samples
    }

    fn sample(&mut self, t_s: f64) -> Sample {
        let members = family::members(&self.without);
        self.watched.retain(|pid, _| members.iter().any(|member| member.pid == *pid));
        let mut sample = Sample {
            t_s,
            threads: BTreeMap::new(),
            private_bytes: 0,
            shared_bytes: 0,
            descriptors: 0,
            sockets: BTreeMap::new(),
            connections: 0,
            voluntary_switches: 0,
            involuntary_switches: 0,
        };
        for member in members {
            // A process may have ended since it was listed.
            let _ = self.add(member.pid, &mut sample);
        }
        sample.threads = self.threads.clone();
        (sample.voluntary_switches, sample.involuntary_switches) = (self.voluntary, self.involuntary);
        sample
    }

    fn add(&mut self, pid: u32, sample: &mut Sample) -> Result<(), rudy_observe::Error> {
        let watched = match self.watched.entry(pid) {
            std::collections::hash_map::Entry::Occupied(known) => known.into_mut(),
            std::collections::hash_map::Entry::Vacant(new) => {
                new.insert(Watched { process: Process::open(pid)?, last: None })
            }
        };
        let now = watched.process.sample()?;
        if let Some(last) = &watched.last {
            let done = now.since(last);
            for thread in &done.threads {
                let [user, system] = self.threads.entry(thread.name.clone()).or_default();
                *user += thread.cpu_user.as_secs_f64();
                *system += thread.cpu_system.as_secs_f64();
                self.voluntary += thread.voluntary_switches;
                self.involuntary += thread.involuntary_switches;
            }
            if !done.cpu_of_ended.is_zero() {
                let ended = self.threads.entry("(ended)".to_owned()).or_default();
                ended[0] += done.cpu_of_ended.as_secs_f64();
            }
        }
        sample.descriptors += now.descriptors.open.unwrap_or(0);
        watched.last = Some(now);
        let pages = pages(pid).unwrap_or_default();
        sample.private_bytes += pages.private_bytes;
        sample.shared_bytes += pages.shared_bytes;
        for (state, tally) in by_state(&watched.process.sockets()?.with_descriptor) {
            let sockets = tally.sockets as u64;
            *sample.sockets.entry(state.name().to_owned()).or_default() += sockets;
            if state == State::Established {
                sample.connections += sockets;
            }
        }
        Ok(())
    }
}

/// The private memory of all processes of the variant.
pub(crate) fn private_bytes(without: &[u32]) -> u64 {
    let members = family::members(without);
    members.iter().filter_map(|member| pages(member.pid)).map(|pages| pages.private_bytes).sum()
}

/// From `smaps_rollup`; `None` if it has ended or is not readable.
fn pages(pid: u32) -> Option<Pages> {
    parse(&fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?)
}

fn parse(text: &str) -> Option<Pages> {
    let kib = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_ascii_whitespace().next()?.parse::<u64>().ok()
    };
    Some(Pages {
        private_bytes: (kib("Private_Clean:")? + kib("Private_Dirty:")?) * 1024,
        shared_bytes: (kib("Shared_Clean:")? + kib("Shared_Dirty:")?) * 1024,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_private_or_shared() {
        let text = "Rss: 9 kB\nShared_Clean:   3 kB\nShared_Dirty: 1 kB\nPrivate_Clean: 2 kB\nPrivate_Dirty:  5 kB\n";
        assert_eq!(parse(text), Some(Pages { private_bytes: 7 * 1024, shared_bytes: 4 * 1024 }));
        assert_eq!(parse(""), None);
    }
}
