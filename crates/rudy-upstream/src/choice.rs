//! Chooses the member for a request, as pure functions: without locks, a clock or a source of random numbers.

/// How a pool chooses the member for a request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Choice {
    /// Any idle connection, before a new one to the least busy member. For processes of one application, where opening
    /// a connection costs more than an uneven load.
    #[default]
    IdleFirst,
    /// The less busy of two members that are chosen at random. The least busy of all would get the requests of all
    /// workers at the same time (Mitzenmacher, "The Power of Two Choices in Randomized Load Balancing", 2001).
    LeastBusy,
    /// One after the other.
    RoundRobin,
    /// The member that the [key](crate::CheckoutOptions::key) of the request leads to; without a key, as [`Self::LeastBusy`].
    Hash {
        /// The most requests in flight of a member, in percent of the average, above 100; `None` for no limit. The requests above it
        /// go to the next members for their keys (Mirrokni, Thorup, Zadimoghaddam, "Consistent Hashing with Bounded
        /// Loads", 2018).
        balance_percent: Option<u32>,
    },
}

/// A member that can get a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Candidate {
    /// Its index in the list of members.
    pub(crate) member: usize,
    /// Its share of the requests in relation to the others, at least 1.
    pub(crate) weight: u64,
    /// Its weight without slow start.
    pub(crate) full_weight: u64,
    pub(crate) in_flight: usize,
    /// The virtual time of its next turn.
    pub(crate) turn: u64,
    /// The hash of its name.
    pub(crate) hash: u64,
    /// The lowest number comes first.
    pub(crate) priority: u32,
    pub(crate) has_capacity: bool,
    pub(crate) is_up: bool,
    /// Whether it is up for a single request that decides whether it stays up.
    pub(crate) is_half_open: bool,
    /// Whether the request has failed there.
    pub(crate) was_tried: bool,
}

/// The virtual time from one turn of a member of weight 1 to its next. With weights in thousandths, the time ends after
/// 10^13 turns of a member.
const STRIDE: u64 = 1 << 30;

/// Keeps the members that can get the request: those that are up, if any is, of them those that it has not tried, and of
/// them those of the first priority. A member that is not up is better than none. Members at their limit are removed
/// last: waiting for one that is up is better than failing.
pub(crate) fn keep_best(candidates: &mut Vec<Candidate>) {
    keep_if_any(candidates, |candidate| candidate.is_up);
    keep_if_any(candidates, |candidate| !candidate.was_tried);
    let first = candidates.iter().map(|candidate| candidate.priority).min();
    candidates.retain(|candidate| Some(candidate.priority) == first);
    candidates.retain(|candidate| candidate.has_capacity);
}

fn keep_if_any(candidates: &mut Vec<Candidate>, is_kept: impl Fn(&Candidate) -> bool) {
    if candidates.iter().any(&is_kept) {
        candidates.retain(is_kept);
    }
}

/// Chooses two members at random, each in proportion to its weight, and returns the one with fewer requests in flight
/// for its weight. The first one wins a tie, so that idle members get requests in proportion to their weights.
pub(crate) fn least_busy(candidates: &[Candidate], random: u64) -> Option<Candidate> {
    let (low, high) = (random & u64::from(u32::MAX), random >> 32);
    let first = pick(candidates.iter(), low)?;
    let others = candidates.iter().filter(|other| other.member != first.member);
    let Some(second) = pick(others, high) else { return Some(*first) };
    let load = |of: &Candidate, other: &Candidate| of.in_flight as u128 * u128::from(other.weight);
    Some(if load(second, first) < load(first, second) { *second } else { *first })
}

/// Returns an element in proportion to its weight; `random` has 32 bits.
fn pick<'a>(candidates: impl Iterator<Item = &'a Candidate> + Clone, random: u64) -> Option<&'a Candidate> {
    let total: u64 = candidates.clone().map(|candidate| candidate.weight).sum();
    let mut left = u64::try_from((u128::from(total) * u128::from(random)) >> 32).unwrap_or(0);
    candidates.into_iter().find(|candidate| match left.checked_sub(candidate.weight) {
        None => true,
        Some(rest) => {
            left = rest;
            false
        }
    })
}

/// Returns the member whose turn is next, and the time of its turn. `now` is the time of the last turn of any member: one
/// that was not chosen for a while must not catch up.
pub(crate) fn round_robin(candidates: &[Candidate], now: u64) -> Option<(Candidate, u64)> {
    let turns = candidates.iter().map(|candidate| (*candidate, candidate.turn.max(now)));
    turns.min_by_key(|(candidate, turn)| (*turn, candidate.member))
}

/// Returns the time of a member's turn after this one.
pub(crate) fn next_turn(turn: u64, weight: u64) -> u64 {
    turn.saturating_add(STRIDE / weight.max(1))
}

/// Returns the member that a key leads to, by weighted rendezvous hashing (Schindelhauer and Schomaker, "Weighted
/// Distributed Hash Tables", 2005). If a member leaves, only its keys move. Unlike a ring, it needs no table, and keys
/// spread evenly over few members. Members with more requests in flight than `balance_percent` of their share get no more.
pub(crate) fn by_hash(candidates: &[Candidate], key: u64, balance_percent: Option<u32>) -> Option<Candidate> {
    let distance =
        |candidate: &Candidate| -unit(mix(key ^ candidate.hash)).ln() / float(candidate.full_weight);
    let bound = balance_percent.map(|percent| Bound::new(candidates, percent));
    let has_room = |candidate: &&Candidate| bound.is_none_or(|bound| bound.has_room(candidate));
    let nearest = candidates.iter().filter(has_room);
    nearest.min_by(|one, other| distance(one).total_cmp(&distance(other))).copied()
}

/// The most requests in flight that a member may have.
#[derive(Debug, Clone, Copy)]
struct Bound {
    percent: u128,
    /// The requests in flight of all members, with the one whose member is chosen.
    in_flight: u128,
    weight: u128,
}

impl Bound {
    fn new(candidates: &[Candidate], percent: u32) -> Self {
        let in_flight: usize = candidates.iter().map(|candidate| candidate.in_flight).sum();
        let weight = candidates.iter().map(|candidate| u128::from(candidate.weight)).sum();
        Self { percent: percent.max(100).into(), in_flight: in_flight as u128 + 1, weight }
    }

    /// Whether a member has less than its share, rounded up. At least one has: all together have less than their shares.
    fn has_room(self, candidate: &Candidate) -> bool {
        let share = self.percent * self.in_flight * u128::from(candidate.weight);
        (candidate.in_flight as u128) * 100 * self.weight < share
    }
}

/// Returns the hash of a name or of a key: FNV-1a. It is the same in all processes, so that several proxies and a
/// restarted one send a key to the same member.
#[must_use]
pub fn hash(bytes: &[u8]) -> u64 {
    let start = 0xcbf2_9ce4_8422_2325;
    mix(bytes.iter().fold(start, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)))
}

/// Distributes the bits of a number, so that similar numbers become unrelated ones: the finalizer of `SplitMix64` (Steele,
/// Lea, Flood, "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014).
pub(crate) fn mix(number: u64) -> u64 {
    let mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// Maps a hash to a number above 0 and up to 1.
fn unit(hash: u64) -> f64 {
    float((hash >> 11) + 1) / float(1 << 53)
}

#[expect(
    clippy::cast_precision_loss,
    reason = "hashes have 53 bits here, which an f64 holds, and weights fewer"
)]
fn float(number: u64) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidates(weights: &[u64]) -> Vec<Candidate> {
        let candidate = |(member, weight): (usize, &u64)| Candidate {
            member,
            weight: *weight,
            full_weight: *weight,
            in_flight: 0,
            turn: 0,
            hash: hash(format!("10.0.0.{member}:80").as_bytes()),
            priority: 0,
            has_capacity: true,
            is_up: true,
            is_half_open: false,
            was_tried: false,
        };
        weights.iter().enumerate().map(candidate).collect()
    }

    /// How often each member is chosen for the numbers 0 to 9,999.
    fn counts(members: usize, choose: impl FnMut(u64) -> Option<Candidate>) -> Vec<usize> {
        let mut counts = vec![0; members];
        (0..10_000).map(choose).for_each(|chosen| counts[chosen.expect("there are members").member] += 1);
        counts
    }

    /// Whether each count is within 4 % of 10,000 of its share.
    fn is_proportional(counts: &[usize], weights: &[u64]) -> bool {
        let total = usize::try_from(weights.iter().sum::<u64>()).unwrap();
        let shares = weights.iter().map(|weight| 10_000 * usize::try_from(*weight).unwrap() / total);
        counts.iter().zip(shares).all(|(count, share)| count.abs_diff(share) <= 400)
    }

    const WEIGHTS: [&[u64]; 6] = [&[1], &[1, 1], &[1, 1, 1], &[3, 1], &[5, 2, 1], &[1000, 2000, 1000, 4000]];

    #[test]
    fn every_choice_respects_the_weights() {
        for weights in WEIGHTS {
            let mut members = candidates(weights);
            let count = members.len();
            let busy = counts(count, |random| least_busy(&members, mix(random)));
            assert!(is_proportional(&busy, weights), "least busy: {busy:?} for {weights:?}");
            let hashed = counts(count, |key| by_hash(&members, mix(key), None));
            assert!(is_proportional(&hashed, weights), "hash: {hashed:?} for {weights:?}");
            let mut now = 0;
            let turns = counts(count, |_| {
                let (chosen, turn) = round_robin(&members, now)?;
                now = turn;
                members[chosen.member].turn = next_turn(turn, chosen.weight);
                Some(chosen)
            });
            assert!(is_proportional(&turns, weights), "round robin: {turns:?} for {weights:?}");
        }
    }

    #[test]
    fn requests_in_flight_become_proportional_to_the_weights() {
        for weights in WEIGHTS {
            let mut members = candidates(weights);
            for random in 0..10_000 {
                let chosen = least_busy(&members, mix(random)).unwrap();
                members[chosen.member].in_flight += 1;
            }
            let in_flight: Vec<_> = members.iter().map(|member| member.in_flight).collect();
            assert!(is_proportional(&in_flight, weights), "{in_flight:?} for {weights:?}");
        }
    }

    #[test]
    fn of_two_members_the_less_busy_one_is_always_chosen() {
        let mut members = candidates(&[1, 1]);
        members[0].in_flight = 1;
        assert_eq!(counts(2, |random| least_busy(&members, mix(random))), [0, 10_000]);
        assert_eq!(least_busy(&[], 0), None);
    }

    #[test]
    fn only_the_keys_of_a_member_that_leaves_move_and_they_return_with_it() {
        let all = candidates(&[1, 1, 2, 1, 1]);
        let without = [&all[..2], &all[3..]].concat();
        let moved =
            (0..10_000).map(mix).filter(|key| by_hash(&all, *key, None) != by_hash(&without, *key, None));
        let moved: Vec<_> = moved.collect();
        assert!(moved.iter().all(|key| by_hash(&all, *key, None) == Some(all[2])));
        assert!((2933..3733).contains(&moved.len()), "a third: {}", moved.len());
        let reversed: Vec<_> = all.iter().rev().copied().collect();
        assert!((0..1000).map(mix).all(|key| by_hash(&all, key, None) == by_hash(&reversed, key, None)));
    }

    #[test]
    fn a_popular_key_spreads_over_the_members_as_far_as_the_bound_demands() {
        for weights in WEIGHTS {
            for percent in [101, 125, 200] {
                let mut members = candidates(weights);
                // The requests of one key, none of which ends.
                for count in 1..=1000_u64 {
                    let chosen = by_hash(&members, 7, Some(percent)).expect("a member has room");
                    members[chosen.member].in_flight += 1;
                    let total: u64 = weights.iter().sum();
                    let share = (u64::from(percent) * count * chosen.full_weight).div_ceil(100 * total);
                    assert!(members[chosen.member].in_flight as u64 <= share, "{weights:?} {percent}");
                }
            }
        }
        let idle = candidates(&[1, 1, 1]);
        let same = |key| by_hash(&idle, key, Some(101)) == by_hash(&idle, key, None);
        assert!((0..1000).map(mix).all(same), "a bound moves no key while members are idle");
    }

    #[test]
    fn a_member_that_returns_does_not_catch_up() {
        let mut members = candidates(&[1, 1]);
        let mut now = 0;
        let mut next = |members: &mut [Candidate]| {
            let (chosen, turn) = round_robin(members, now).unwrap();
            now = turn;
            let member = members.iter_mut().find(|member| member.member == chosen.member).unwrap();
            member.turn = next_turn(turn, chosen.weight);
            chosen.member
        };
        assert_eq!([(); 100].map(|()| next(&mut members[..1])), [0; 100]);
        let order = [(); 6].map(|()| next(&mut members));
        assert!([[0, 1, 0, 1, 0, 1], [1, 0, 1, 0, 1, 0]].contains(&order), "{order:?}");
    }

    #[test]
    fn members_that_are_up_and_not_tried_come_first() {
        // Each member is up or down; it was tried, is full, or a backup of a later priority.
        let table: &[(&[&str], &[usize])] = &[
            (&["up", "up", "up"], &[0, 1, 2]),
            (&["up", "down", "up"], &[0, 2]),
            (&["down", "down"], &[0, 1]),
            (&["up tried", "up", "up"], &[1, 2]),
            (&["up tried", "up tried"], &[0, 1]),
            (&["up tried", "down", "down"], &[0]),
            (&["down", "down", "down tried"], &[0, 1]),
            (&["up", "up", "up full"], &[0, 1]),
            (&["up full", "down", "down"], &[]),
            (&["up full", "up tried"], &[]),
            (&["up", "up backup"], &[0]),
            (&["down", "up backup"], &[1]),
            (&["up tried", "up backup", "up backup"], &[1, 2]),
            (&["down", "down backup"], &[0]),
            (&["up full", "up backup"], &[]),
        ];
        for (states, expected) in table {
            let mut candidates = candidates(&vec![1; states.len()]);
            for (candidate, state) in candidates.iter_mut().zip(*states) {
                candidate.is_up = state.starts_with("up");
                candidate.was_tried = state.ends_with("tried");
                candidate.has_capacity = !state.ends_with("full");
                candidate.priority = u32::from(state.ends_with("backup"));
            }
            keep_best(&mut candidates);
            let kept: Vec<_> = candidates.iter().map(|candidate| candidate.member).collect();
            assert_eq!(kept, *expected, "{states:?}");
        }
    }
}
