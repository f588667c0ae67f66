//! Chooses the idle connection to close when a new one has no room.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::{Duration, Instant};

use rudy_runtime::clock;

use crate::address_key::AddressKey;

/// One scan of all connections chooses this fraction of them as victims, so that the cost of each is small.
const BATCH_PART: usize = 16;
/// Up to this number of connections, scan for every eviction.
const SMALL_SCAN: usize = 64;
/// Pause after a scan that finds too few victims, for each connection scanned: many times the duration of the
/// scan.
const PAUSE_PER_CONNECTION: Duration = Duration::from_micros(1);

/// A connection at the time of a scan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Candidate {
    /// The index of the worker.
    pub(crate) worker: usize,
    pub(super) group: AddressKey,
    /// How many connections of the worker have become idle since; `None` if the connection is busy.
    pub(super) age: Option<u32>,
    /// Identifies the idle period, so that a later one is not mistaken for it.
    pub(super) stamp: u32,
    pub(super) slot: u32,
}

/// The connections chosen by the last scan.
#[derive(Debug, Default)]
pub(crate) struct VictimQueue {
    /// In reverse order: the next victim is the last element.
    chosen: Vec<Candidate>,
    /// When to scan again, after a scan that found too few victims.
    next_scan: Option<Instant>,
}

impl VictimQueue {
    /// Returns the next victim, which may have become busy since. `scan` returns the candidates and the
    /// number of slots scanned; `own` is the worker that needs room.
    pub(crate) fn next(
        &mut self,
        own: usize,
        scan: impl FnOnce() -> (Vec<Candidate>, usize),
    ) -> Option<Candidate> {
        if self.chosen.is_empty() && self.next_scan.is_none_or(|next_scan| next_scan <= clock::now()) {
            let (candidates, slots) = scan();
            let most = (slots / BATCH_PART).max(1);
            self.chosen = choose(candidates, own, most);
            let scanned = u32::try_from(slots).unwrap_or(u32::MAX);
            let is_short = self.chosen.len() < most && slots > SMALL_SCAN;
            self.next_scan = is_short.then(|| clock::now() + PAUSE_PER_CONNECTION * scanned);
        }
        self.chosen.pop()
    }
}

/// Chooses victims one by one, as if each were closed before the next choice: the longest-idle connection of
/// the group with the most connections, preferably of worker `own`. Returns them in reverse order.
fn choose(mut candidates: Vec<Candidate>, own: usize, most: usize) -> Vec<Candidate> {
    candidates.sort_unstable_by_key(|candidate| {
        let Candidate { worker, group, age, .. } = *candidate;
        (group, age.is_none(), worker != own, Reverse(age))
    });
    let mut groups = BinaryHeap::new();
    let mut start = 0;
    for group in candidates.chunk_by(|one, other| one.group == other.group) {
        groups.push((group.len(), group[0].age, start));
        start += group.len();
    }
    let mut chosen = Vec::new();
    while chosen.len() < most
        && let Some((connections, age, first)) = groups.pop()
    {
        // A group without idle connections has no victims.
        if age.is_some() {
            chosen.push(candidates[first].clone());
            if connections > 1 {
                groups.push((connections - 1, candidates[first + 1].age, first + 1));
            }
        }
    }
    chosen.reverse();
    chosen
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    /// Creates candidates from the last byte of their address and their age, with slots from 0.
    fn candidates(of: &[(u8, Option<u32>)]) -> Vec<Candidate> {
        let candidate = |(slot, &(host, age)): (u32, &(u8, Option<u32>))| {
            let group = std::net::IpAddr::from(Ipv4Addr::new(192, 0, 2, host)).into();
            Candidate { worker: 0, group, age, stamp: 1, slot }
        };
        (0..).zip(of).map(candidate).collect()
    }

    fn chosen(of: &[(u8, Option<u32>)], most: usize) -> Vec<u32> {
        choose(candidates(of), 0, most).iter().rev().map(|candidate| candidate.slot).collect()
    }

    #[test]
    fn the_largest_group_loses_its_longest_idle_connection_first() {
        let of = [(1, Some(9)), (2, Some(3)), (2, Some(5)), (2, Some(4)), (1, Some(1)), (3, Some(20))];
        // Group 2 has three. Then groups 1 and 2 have two each, and the longest idle of these is next.
        assert_eq!(chosen(&of, 2), [2, 0]);
        assert_eq!(chosen(&of, 9), [2, 0, 3, 5, 1, 4]);
    }

    #[test]
    fn groups_span_workers_and_connections_of_the_own_worker_come_first() {
        let mut of = candidates(&[(1, Some(9)), (2, Some(3)), (2, Some(5)), (2, Some(4))]);
        (of[1].worker, of[2].worker) = (1, 1);
        let slots =
            |own| choose(of.clone(), own, 2).iter().rev().map(|chosen| chosen.slot).collect::<Vec<_>>();
        assert_eq!((slots(0), slots(1)), (vec![3, 2], vec![2, 1]));
    }

    #[test]
    fn busy_connections_count_for_their_group_but_are_not_chosen() {
        assert_eq!(chosen(&[(1, None), (1, None), (1, Some(0)), (2, Some(7)), (2, Some(8))], 9), [2, 4, 3]);
        assert_eq!(chosen(&[(1, None), (1, None), (1, None), (2, Some(7))], 9), [3]);
        assert_eq!(chosen(&[(1, None), (2, None)], 9), [0_u32; 0]);
    }

    #[test]
    fn one_scan_of_many_connections_chooses_many_victims() {
        let mut victims = VictimQueue::default();
        let many: Vec<_> = (0..1600).map(|age| (1, Some(age))).collect();
        let scan = || (candidates(&many), many.len());
        assert_eq!(victims.next(0, scan).unwrap().slot, 1599);
        for slot in (1500..1599).rev() {
            assert_eq!(victims.next(0, || unreachable!("they are chosen already")).unwrap().slot, slot);
        }
        assert_eq!(
            victims.next(0, scan).unwrap().slot,
            1599,
            "the first scan found enough, so another one follows at once"
        );
    }

    #[test]
    fn without_idle_connections_a_small_scan_repeats_and_a_large_one_pauses() {
        let few = vec![(1, None); SMALL_SCAN];
        let mut victims = VictimQueue::default();
        assert_eq!(victims.next(0, || (candidates(&few), SMALL_SCAN)), None);
        assert_eq!(victims.next(0, || (candidates(&[(1, Some(0))]), SMALL_SCAN)).unwrap().slot, 0);
        // The pause is longer than the test.
        assert_eq!(victims.next(0, || (candidates(&few), usize::MAX)), None);
        assert_eq!(victims.next(0, || unreachable!("the last scan was just now")), None);
    }
}
