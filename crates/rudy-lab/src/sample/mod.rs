//! Samples the processes of a variant once per second, and more often while connections are opened.

mod alike;

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use rudy_experiment::record::Sample;
use rudy_load::flood::monotonic;
use rudy_observe::{Process, ThreadTimes};

use crate::variant::process_tree;
use crate::workload::OpenConnections;

/// The time between samples.
const INTERVAL: Duration = Duration::from_secs(1);

/// Samples while connections are opened, from which the memory per connection is calculated.
const SAMPLES_PER_RAMP: u32 = 10;

/// Minimum ratio of the time between samples to the time that a sample took: a server with thousands of threads is
/// sampled less often.
const REST: u32 = 10;

/// Samples a variant during a workload.
pub(crate) struct Sampler {
    without: Vec<u32>,
    idle: Idle,
    begun: Instant,
    /// The same on the clock of the generator.
    begun_monotonic: Duration,
    ramp: Duration,
    next: Instant,
    watched: HashMap<u32, Watched>,
    threads: BTreeMap<String, [f64; 2]>,
    voluntary: u64,
    involuntary: u64,
    samples: Vec<Sample>,
    times: ThreadTimes,
}

struct Watched {
    process: Process,
    last: Option<rudy_observe::Sample>,
}

/// The variant before the workload.
#[derive(Debug, Clone, Default)]
pub(crate) struct Idle {
    /// Allocated memory, with each shared page once: `smaps_rollup`, which walks all pages and blocks the process
    /// meanwhile, and is therefore not read during the workload.
    pub(crate) private_bytes: u64,
    /// The same by the counters of `status`, where shared pages count in each process.
    counted_bytes: u64,
    /// Why a process is not included.
    pub(crate) problem: Option<String>,
}

impl Idle {
    pub(crate) fn read(without: &[u32]) -> Self {
        let mut idle = Self::default();
        for member in process_tree::members(without) {
            note(
                &mut idle.problem,
                idle_of(member.pid).map(|(private, counted)| {
                    idle.private_bytes += private;
                    idle.counted_bytes += counted;
                }),
            );
        }
        idle
    }
}

fn idle_of(pid: u32) -> Result<(u64, u64), rudy_observe::Error> {
    let mut process = Process::open(pid)?;
    let private = process.allocated_pss_bytes()?;
    Ok((private, process.memory()?.0.allocated_bytes()))
}

/// Keeps the first problem. A process that has ended since it was listed is none.
fn note(problem: &mut Option<String>, read: Result<(), rudy_observe::Error>) {
    if let Err(error) = read
        && !error.is_end()
        && !matches!(error, rudy_observe::Error::NoSuchProcess { .. })
    {
        problem.get_or_insert_with(|| format!("the memory of a process is missing: {error}"));
    }
}

impl Sampler {
    /// Starts sampling. `without` are processes that do not belong to the variant: the workload and companion
    /// programs. `ramp` is the time in which the workload opens its connections.
    pub(crate) fn new(without: Vec<u32>, idle: Idle, ramp: Duration) -> Self {
        let now = Instant::now();
        Self {
            without,
            idle,
            begun: now,
            begun_monotonic: monotonic(),
            ramp,
            next: now,
            watched: HashMap::new(),
            threads: BTreeMap::new(),
            voluntary: 0,
            involuntary: 0,
            samples: Vec::new(),
            times: ThreadTimes::default(),
        }
    }

    /// Takes a sample if one is due, and returns whether it was.
    pub(crate) fn poll(&mut self) -> bool {
        let now = Instant::now();
        if now < self.next {
            return false;
        }
        let elapsed = now - self.begun;
        let sample = self.sample(elapsed.as_secs_f64());
        self.samples.push(sample);
        let interval =
            if elapsed < self.ramp { INTERVAL.min(self.ramp / SAMPLES_PER_RAMP) } else { INTERVAL };
        self.next = (self.next + interval).max(now + REST * now.elapsed());
        true
    }

    /// All samples, with the open connections of the workload, and why one lacks a process.
    pub(crate) fn samples(mut self, open: Option<&OpenConnections>) -> (Vec<Sample>, Option<String>) {
        alike::combine(&mut self.samples);
        for sample in &mut self.samples {
            let at = self.begun_monotonic.as_secs_f64() + sample.t_s;
            sample.connections = open.map_or(0, |open| open.at(at));
        }
        (self.samples, self.idle.problem)
    }

    /// How each thread has spent the workload, up to now.
    pub(crate) fn thread_times(&mut self) -> &ThreadTimes {
        self.times.poll(process_tree::members(&self.without).iter().map(|member| member.pid));
        &self.times
    }

    fn sample(&mut self, t_s: f64) -> Sample {
        let members = process_tree::members(&self.without);
        self.times.poll(members.iter().map(|member| member.pid));
        self.watched.retain(|pid, _| members.iter().any(|member| member.pid == *pid));
        let mut sample = Sample {
            t_s,
            threads: BTreeMap::new(),
            private_bytes: 0,
            shared_bytes: 0,
            descriptors: 0,
            connections: 0,
            voluntary_switches: 0,
            involuntary_switches: 0,
        };
        for member in members {
            let read = self.add(member.pid, &mut sample);
            note(&mut self.idle.problem, read);
        }
        let Idle { private_bytes, counted_bytes, .. } = self.idle;
        sample.private_bytes = (sample.private_bytes + private_bytes).saturating_sub(counted_bytes);
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
        let memory = now.memory;
        sample.private_bytes += memory.allocated_bytes();
        sample.shared_bytes += memory.shared_memory_bytes;
        watched.last = Some(now);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn an_ended_process_is_no_problem_and_an_unreadable_one_is_shown() {
        let mut problem = None;
        note(&mut problem, Err(rudy_observe::Error::Ended { pid: 1 }));
        note(&mut problem, Err(rudy_observe::Error::NoSuchProcess { pid: 1 }));
        assert_eq!(problem, None);
        note(&mut problem, Err(rudy_observe::Error::Denied { path: "/proc/1/smaps_rollup".to_owned() }));
        assert!(problem.is_some_and(|problem| problem.contains("/proc/1/smaps_rollup")));
    }

    /// A gateway may have two descriptors for each client, or one for many that wait.
    #[test]
    fn connections_are_those_of_the_generator_whatever_the_number_of_descriptors() {
        for each in [0, 1, 2] {
            let mut sampler = Sampler::new(Vec::new(), Idle::default(), Duration::ZERO);
            let started_s = sampler.begun_monotonic.as_secs_f64() + 0.5;
            sampler.samples = [0.25, 1.5, 4.5, 5.0]
                .map(|t_s| {
                    let mut sample = sampler.sample(t_s);
                    sample.descriptors = 10 + each * 1_000;
                    sample
                })
                .to_vec();
            let points = vec![(0.0, 0.0), (2.0, 1_000.0), (5.0, 1_000.0)];
            let open = OpenConnections::new(started_s, 2.0, points);
            let counts: Vec<_> =
                sampler.samples(Some(&open)).0.iter().map(|sample| sample.connections).collect();
            assert_eq!(counts, [0, 500, 1_000, 1_000], "{each}");
        }
    }

    #[test]
    fn a_process_has_memory_before_the_workload() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let (private, counted) = idle_of(child.id()).unwrap();
        assert!(private > 0 && counted > 0);
        drop(child.stdin.take());
        child.wait().unwrap();
    }
}
