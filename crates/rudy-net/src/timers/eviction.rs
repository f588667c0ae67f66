//! Which idle connection is closed when a new one has no room.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::{Duration, Instant};

use crate::engine::AddressKey;

/// One look at all connections yields victims for this part of them, so that each costs a look at a few.
const BATCH_PART: usize = 16;
/// Connections that are looked at each time, however few are idle.
const SMALL_SCAN: usize = 64;
/// How long, for each connection, the next look waits after one that has found too few: many times what the look takes.
const PAUSE_PER_CONNECTION: Duration = Duration::from_micros(1);

/// A connection as one look has seen it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Candidate {
    /// Whose it is, by its place among the workers.
    pub(crate) worker: usize,
    pub(super) group: AddressKey,
    /// How many connections of its worker have become idle since it did; `None` if it is not idle.
    pub(super) age: Option<u32>,
    /// Tells this time of being idle from later ones.
    pub(super) stamp: u32,
    pub(super) slot: u32,
}

/// The connections that the last look has chosen.
#[derive(Debug, Default)]
pub(crate) struct VictimQueue {
    /// The next one is the last.
    chosen: Vec<Candidate>,
    /// When to look again, after a look that has found too few.
    next_scan: Option<Instant>,
}

impl VictimQueue {
    /// The next victim, which may have become busy since it was chosen. `look` looks at all connections, and says how many slots
    /// it has looked at; `own` is the worker that needs room.
    pub(crate) fn next(
        &mut self,
        own: usize,
        scan: impl FnOnce() -> (Vec<Candidate>, usize),
    ) -> Option<Candidate> {
        if self.chosen.is_empty() && self.next_scan.is_none_or(|next_scan| next_scan <= Instant::now()) {
            let (candidates, slots) = scan();
            let most = (slots / BATCH_PART).max(1);
            self.chosen = choose(candidates, own, most);
            let scanned = u32::try_from(slots).unwrap_or(u32::MAX);
            let is_short = self.chosen.len() < most && slots > SMALL_SCAN;
            self.next_scan = is_short.then(|| Instant::now() + PAUSE_PER_CONNECTION * scanned);
        }
        self.chosen.pop()
    }
}

/// The longest-idle connection of the group that has most connections, one of its own worker first, and so on, as if each were
/// closed before the next is chosen. The first one is the last in the list.
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
        // Of a group whose connections are all busy none is chosen.
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

    /// Connections by the last part of their address and their age, in slots from 0.
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
    fn the_group_with_most_connections_loses_its_longest_idle_one_until_others_have_as_many() {
        let of = [(1, Some(9)), (2, Some(3)), (2, Some(5)), (2, Some(4)), (1, Some(1)), (3, Some(20))];
        // 2 has three, then 1 and 2 have two each, and the longest idle of them is next.
        assert_eq!(chosen(&of, 2), [2, 0]);
        assert_eq!(chosen(&of, 9), [2, 0, 3, 5, 1, 4]);
    }

    #[test]
    fn the_group_counts_on_all_workers_and_the_worker_that_needs_room_comes_first() {
        let mut of = candidates(&[(1, Some(9)), (2, Some(3)), (2, Some(5)), (2, Some(4))]);
        (of[1].worker, of[2].worker) = (1, 1);
        let slots =
            |own| choose(of.clone(), own, 2).iter().rev().map(|chosen| chosen.slot).collect::<Vec<_>>();
        assert_eq!((slots(0), slots(1)), (vec![3, 2], vec![2, 1]));
    }

    #[test]
    fn busy_connections_count_for_their_group_and_are_not_chosen() {
        assert_eq!(chosen(&[(1, None), (1, None), (1, Some(0)), (2, Some(7)), (2, Some(8))], 9), [2, 4, 3]);
        assert_eq!(chosen(&[(1, None), (1, None), (1, None), (2, Some(7))], 9), [3]);
        assert_eq!(chosen(&[(1, None), (2, None)], 9), [0_u32; 0]);
    }

    #[test]
    fn a_look_at_many_connections_serves_for_many_victims() {
        let mut victims = VictimQueue::default();
        let many: Vec<_> = (0..1600).map(|age| (1, Some(age))).collect();
        let scan = || (candidates(&many), many.len());
        assert_eq!(victims.next(0, scan).unwrap().slot, 1599);
        for slot in (1500..1599).rev() {
            assert_eq!(victims.next(0, || unreachable!("they are chosen")).unwrap().slot, slot);
        }
        assert_eq!(
            victims.next(0, scan).unwrap().slot,
            1599,
            "this look was found good, so another one follows at once"
        );
    }

    #[test]
    fn where_nothing_is_idle_a_few_connections_are_looked_at_each_time_and_many_after_a_pause() {
        let few = vec![(1, None); SMALL_SCAN];
        let mut victims = VictimQueue::default();
        assert_eq!(victims.next(0, || (candidates(&few), SMALL_SCAN)), None);
        assert_eq!(victims.next(0, || (candidates(&[(1, Some(0))]), SMALL_SCAN)).unwrap().slot, 0);
        // The pause is longer than the test may take.
        assert_eq!(victims.next(0, || (candidates(&few), usize::MAX)), None);
        assert_eq!(victims.next(0, || unreachable!("it was looked just now")), None);
    }
}
