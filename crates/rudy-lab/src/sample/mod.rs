//! Samples the processes of a variant once per second, and more often while connections are opened.

mod alike;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::{Duration, Instant};

use rudy_experiment::plan::Kind;
use rudy_experiment::record::Sample;
use rudy_load::flood::monotonic;
use rudy_observe::{Allocation, Process, ThreadTimes};

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
    memory: Memory,
    walks: VecDeque<Duration>,
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

/// The allocated memory of a variant, and why some of it is missing.
#[derive(Debug, Clone, Default)]
pub(crate) struct Memory {
    /// By the last walk.
    pub(crate) last: Allocation,
    /// Why a process is not included.
    problem: Option<String>,
}

impl Memory {
    /// Walks the pages of a variant before the workload.
    pub(crate) fn read(without: &[u32]) -> Self {
        let mut memory = Self::default();
        memory.walk(without);
        memory
    }

    fn walk(&mut self, without: &[u32]) {
        let members = process_tree::members(without);
        let (allocation, missing) = Allocation::read(members.iter().map(|member| member.pid));
        self.last = allocation;
        note(&mut self.problem, missing.map_or(Ok(()), Err));
    }
}

/// When pages are walked during a workload, in ascending order: with the first connections of which each further one is measured, and
/// shortly before its end, when it is fullest. Memory that processes share is unknown in between.
fn walks(kind: &Kind) -> VecDeque<Duration> {
    let first = Some(kind.ramp() / SAMPLES_PER_RAMP).filter(|time| !time.is_zero());
    let last = kind.end().map(|end| end.saturating_sub(INTERVAL));
    first.into_iter().chain(last).collect()
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
    /// programs.
    pub(crate) fn new(without: Vec<u32>, memory: Memory, kind: &Kind) -> Self {
        let now = Instant::now();
        Self {
            without,
            memory,
            walks: walks(kind),
            begun: now,
            begun_monotonic: monotonic(),
            ramp: kind.ramp(),
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
        if self.walks.pop_front_if(|at| *at <= elapsed).is_some() {
            self.memory.walk(&self.without);
        }
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
        (self.samples, self.memory.problem)
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
            note(&mut self.memory.problem, read);
        }
        sample.private_bytes = self.memory.last.at(sample.private_bytes);
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
    use std::io::{BufRead, BufReader, Write};
    use std::process::{Command, Stdio};

    use rudy_units::Time;

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
            let mut sampler = Sampler::new(Vec::new(), Memory::default(), &flood(Duration::ZERO));
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

    /// A flood that holds its connections for this time.
    fn flood(time: Duration) -> Kind {
        Kind::Idle { connections: 10, ramp: Time(Duration::ZERO), time: Time(time) }
    }

    #[test]
    fn pages_are_walked_with_the_first_connections_and_when_all_are_open() {
        let seconds = |time| Time(Duration::from_secs(time));
        let flood = Kind::Flood { connections: 1000, ramp: seconds(10), time: seconds(20) };
        assert_eq!(walks(&flood), [Duration::from_secs(1), Duration::from_secs(29)]);
        let sequence = Kind::Sequence { requests: 10, keeps_alive: true };
        assert!(walks(&sequence).is_empty(), "its end is unknown");
    }

    /// A prefork server that forks under the workload shares its memory with its children.
    #[test]
    fn memory_that_a_fork_shares_counts_once_when_all_connections_are_open() {
        let script =
            "x=$(head -c 20000000 /dev/zero | tr '\\0' x); echo ready; read _; (echo forked; read _); true";
        let mut shell = Command::new("/bin/sh")
            .args(["-c", script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(shell.stdout.take().unwrap()).lines().map(Result::unwrap);
        assert_eq!(lines.next().as_deref(), Some("ready"));
        let memory = Memory::read(&[]);
        let idle = memory.last.exact_bytes;
        let mut sampler = Sampler::new(Vec::new(), memory, &flood(INTERVAL));
        shell.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
        assert_eq!(lines.next().as_deref(), Some("forked"));
        assert!(sampler.poll());
        let (samples, problem) = sampler.samples(None);
        assert_eq!(problem, None);
        // A shell has less than a megabyte of its own.
        assert!(
            idle >= 20_000_000 && samples[0].private_bytes.abs_diff(idle) < 2_000_000,
            "{idle} {samples:?}"
        );
        drop(shell.stdin.take());
        shell.wait().unwrap();
    }
}
