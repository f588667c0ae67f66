//! The cores of the servers and of the load generator.

use std::io;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The cores on which the programs of a run start; all cores of the lab if empty.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Cores {
    /// Of the servers.
    pub(crate) servers: Vec<usize>,
    /// Of the load generator.
    pub(crate) generator: Vec<usize>,
}

impl Cores {
    /// The first half for the servers, the other half for the load generator. A single core cannot be separated.
    pub(crate) fn separate() -> io::Result<Self> {
        Ok(Self::halves(&listed(&sched_getaffinity(None)?)))
    }

    /// The cores that a plan gives explicitly, or else these.
    pub(crate) fn of<'a>(given: &'a [usize], otherwise: &'a [usize]) -> &'a [usize] {
        if given.is_empty() { otherwise } else { given }
    }

    fn halves(cores: &[usize]) -> Self {
        if cores.len() < 2 {
            return Self::default();
        }
        let (servers, generator) = cores.split_at(cores.len() / 2);
        Self { servers: servers.to_vec(), generator: generator.to_vec() }
    }
}

/// Starts a process on these cores: it inherits those of the thread that starts it.
pub(crate) fn on<T>(cores: &[usize], start: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    if cores.is_empty() {
        return start();
    }
    let before = sched_getaffinity(None)?;
    let wanted = among(&before, cores).map_err(io::Error::other)?;
    sched_setaffinity(None, &wanted)?;
    let started = start();
    sched_setaffinity(None, &before)?;
    started
}

/// These cores, if all of them are available. The kernel would ignore unavailable ones silently.
fn among(ours: &CpuSet, cores: &[usize]) -> Result<CpuSet, String> {
    let ours = listed(ours);
    let mut wanted = CpuSet::new();
    for core in cores {
        if !ours.contains(core) {
            let ours: Vec<_> = ours.iter().map(ToString::to_string).collect();
            return Err(format!("core {core} is not available; expected one of {}", ours.join(", ")));
        }
        wanted.set(*core);
    }
    Ok(wanted)
}

fn listed(set: &CpuSet) -> Vec<usize> {
    (0..CpuSet::MAX_CPU).filter(|core| set.is_set(*core)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_a_core_that_is_not_available() {
        let mut ours = CpuSet::new();
        ours.set(0);
        ours.set(2);
        assert_eq!(among(&ours, &[2]).unwrap().count(), 1);
        for (cores, missing) in [(&[0, 7][..], 7), (&[1], 1), (&[CpuSet::MAX_CPU], CpuSet::MAX_CPU)] {
            let expected = format!("core {missing} is not available; expected one of 0, 2");
            assert_eq!(among(&ours, cores).unwrap_err(), expected);
        }
    }

    #[test]
    fn servers_and_generator_have_half_of_the_cores_each() {
        let halves = |cores: &[usize]| {
            let Cores { servers, generator } = Cores::halves(cores);
            (servers, generator)
        };
        assert_eq!(halves(&[3]), (vec![], vec![]));
        assert_eq!(halves(&[0, 5]), (vec![0], vec![5]));
        let (servers, generator) = halves(&(0..16).collect::<Vec<_>>());
        assert_eq!((servers, generator), ((0..8).collect(), (8..16).collect()));
    }
}
