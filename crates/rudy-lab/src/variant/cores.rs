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
    /// Whether both are hardware threads of the same physical core, which compete for it.
    pub(crate) share_a_core: bool,
}

impl Cores {
    /// The first half of the physical cores for the servers, the other half for the load generator. Their numbers say nothing: Linux
    /// often numbers all cores first, and then their second hardware threads. The threads of a single core are separated, for want
    /// of better; a single thread cannot be.
    pub(crate) fn separate() -> io::Result<Self> {
        Ok(Self::halves(&listed(&sched_getaffinity(None)?), rudy_observe::thread_siblings))
    }

    /// The cores that a plan gives explicitly, or else these.
    pub(crate) fn of<'a>(given: &'a [usize], otherwise: &'a [usize]) -> &'a [usize] {
        if given.is_empty() { otherwise } else { given }
    }

    /// `siblings` names the hardware threads of the core of one of them: the same for all of a core, or `None` if it is unknown.
    fn halves(cores: &[usize], siblings: impl Fn(usize) -> Option<String>) -> Self {
        let mut physical: Vec<(Option<String>, Vec<usize>)> = Vec::new();
        for &core in cores {
            let name = siblings(core);
            match physical.iter_mut().find(|(other, _)| name.is_some() && *other == name) {
                Some((_, threads)) => threads.push(core),
                None => physical.push((name, vec![core])),
            }
        }
        let share_a_core = physical.len() == 1 && cores.len() > 1;
        if share_a_core {
            physical = cores.iter().map(|core| (None, vec![*core])).collect();
        }
        if physical.len() < 2 {
            return Self::default();
        }
        let generator = physical.split_off(physical.len() / 2);
        let [servers, generator] =
            [physical, generator].map(|side| side.into_iter().flat_map(|(_, threads)| threads).collect());
        Self { servers, generator, share_a_core }
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

    /// The halves of this number of processors, whose siblings have the same number in `core`.
    fn halves(processors: usize, core: impl Fn(usize) -> usize) -> (Vec<usize>, Vec<usize>, bool) {
        let siblings = |processor| Some(core(processor).to_string());
        let Cores { servers, generator, share_a_core } =
            Cores::halves(&(0..processors).collect::<Vec<_>>(), siblings);
        (servers, generator, share_a_core)
    }

    #[test]
    fn hardware_threads_of_a_core_are_on_the_same_side_however_they_are_numbered() {
        // Four cores: their second threads follow all first ones, or each follows its first.
        assert_eq!(halves(8, |processor| processor % 4), (vec![0, 4, 1, 5], vec![2, 6, 3, 7], false));
        assert_eq!(halves(8, |processor| processor / 2), (vec![0, 1, 2, 3], vec![4, 5, 6, 7], false));
        // Without second threads, and an odd number.
        assert_eq!(halves(3, |processor| processor), (vec![0], vec![1, 2], false));
        // Two with second threads, and two without.
        assert_eq!(
            halves(6, |processor| [0, 0, 1, 1, 2, 3][processor]),
            (vec![0, 1, 2, 3], vec![4, 5], false)
        );
    }

    #[test]
    fn the_threads_of_a_single_core_are_separated_and_known_to_share_it() {
        assert_eq!(halves(2, |_| 0), (vec![0], vec![1], true));
        assert_eq!(halves(1, |_| 0), (vec![], vec![], false));
        // A kernel without topology.
        let Cores { servers, generator, share_a_core } = Cores::halves(&[3, 5], |_| None);
        assert_eq!((servers, generator, share_a_core), (vec![3], vec![5], false));
    }
}
