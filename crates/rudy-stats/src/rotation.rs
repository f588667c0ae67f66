//! The order in which the variants of a round are measured.

use crate::random::SplitMix64;

/// The order of `variants` under a workload in a round, both counted from 0: a permutation of 0 to `variants` - 1.
///
/// Warm-up, drift and after-effects influence all variants alike if each variant has each position, and follows
/// each other one, equally often. Williams' squares have both properties (Australian Journal of Scientific
/// Research A 2, 1949): with an even number of variants, in as many rounds; with an odd number, in twice as
/// many, of which the first half already balances the positions. Rounds continue from square to square. In an
/// unfinished square, the counts of positions differ by at most one.
///
/// The workloads of a round use different rows of the same square, so that no variant always follows the same
/// one from workload to workload, nor is always the first of a round.
///
/// The assignment of variants, and the order of the rounds in a square, are drawn for each square from
/// `seed`. Otherwise the same two variants would always meet at the boundary of rounds.
///
/// ```
/// use rudy_stats::rotation::order;
///
/// let rounds: Vec<_> = (0..4).map(|round| order(4, 0, round, 7)).collect();
/// for position in 0..4 {
///     let mut there: Vec<_> = rounds.iter().map(|order| order[position]).collect();
///     there.sort_unstable();
///     assert_eq!(there, [0, 1, 2, 3]);
/// }
/// assert_ne!(order(4, 0, 0, 7), order(4, 1, 0, 7));
/// ```
#[must_use]
pub fn order(variants: usize, workload: usize, round: usize, seed: u64) -> Vec<usize> {
    if variants < 2 {
        return (0..variants).collect();
    }
    let square = round / variants;
    let is_mirrored = variants % 2 == 1 && square % 2 == 1;
    // A square and its mirror image are the same design, with the same names.
    let design = if is_mirrored { square - 1 } else { square };
    let labels = shuffled(variants, seed, 2 * design);
    let rows = shuffled(variants, seed, 2 * square + 1);
    let row = rows[(round % variants + workload % variants) % variants];
    let mut order: Vec<_> = zigzag(variants).map(|position| labels[(position + row) % variants]).collect();
    if is_mirrored {
        order.reverse();
    }
    order
}

/// 0, 1, n - 1, 2, n - 2, …: each step is of another length.
fn zigzag(variants: usize) -> impl Iterator<Item = usize> {
    (0..variants).map(move |position| {
        if position % 2 == 1 { position.div_ceil(2) } else { (variants - position / 2) % variants }
    })
}

fn shuffled(variants: usize, seed: u64, draw: usize) -> Vec<usize> {
    let mut items: Vec<usize> = (0..variants).collect();
    // The generator hashes its state, so seeds and draws that differ by one are unrelated.
    let own = SplitMix64(seed).next() ^ SplitMix64(draw as u64).next();
    SplitMix64(own).shuffle(&mut items);
    items
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The counts of each variant at each position, and of each adjacent pair.
    fn counts(variants: usize, workload: usize, rounds: usize, seed: u64) -> (Vec<Vec<u32>>, Vec<Vec<u32>>) {
        let mut positions = vec![vec![0; variants]; variants];
        let mut after = vec![vec![0; variants]; variants];
        for round in 0..rounds {
            let order = order(variants, workload, round, seed);
            for (position, variant) in order.iter().enumerate() {
                positions[*variant][position] += 1;
            }
            for pair in order.windows(2) {
                after[pair[0]][pair[1]] += 1;
            }
        }
        (positions, after)
    }

    #[test]
    fn positions_and_successors_are_balanced() {
        for variants in 2..=9 {
            let rounds = if variants % 2 == 0 { variants } else { 2 * variants };
            let (positions, after) = counts(variants, 1, rounds, 3);
            let expected_count = u32::try_from(rounds / variants).unwrap();
            assert!(
                positions.iter().flatten().all(|count| *count == expected_count),
                "{variants}: {positions:?}"
            );
            for (first, row) in after.iter().enumerate() {
                for (second, count) in row.iter().enumerate() {
                    let expected = if first == second { 0 } else { expected_count };
                    assert_eq!(*count, expected, "{variants}: {first} before {second}");
                }
            }
        }
    }

    #[test]
    fn two_variants_alternate() {
        for seed in 0..10 {
            let firsts: Vec<_> = (0..10).map(|round| order(2, 0, round, seed)[0]).collect();
            assert!(firsts.chunks(2).all(|pair| pair[0] != pair[1]), "{firsts:?}");
        }
    }

    #[test]
    fn the_workloads_of_a_round_have_different_orders() {
        for variants in 2..=9 {
            for round in 0..2 * variants {
                let mut orders: Vec<_> =
                    (0..variants).map(|workload| order(variants, workload, round, 3)).collect();
                orders.sort_unstable();
                orders.dedup();
                assert_eq!(orders.len(), variants, "{variants} variants in round {round}");
            }
        }
    }

    #[test]
    fn fewer_than_two_variants_have_one_order() {
        assert_eq!(order(1, 0, 5, 1), [0]);
        assert!(order(0, 0, 5, 1).is_empty());
    }

    #[test]
    fn seed_and_square_change_the_order() {
        let rounds =
            |seed, first| (first..first + 6).map(|round| order(6, 0, round, seed)).collect::<Vec<_>>();
        assert_eq!(rounds(1, 0), rounds(1, 0));
        assert_ne!(rounds(1, 0), rounds(2, 0));
        assert_ne!(rounds(1, 0), rounds(1, 6));
    }

    proptest! {
        #[test]
        fn counts_of_positions_differ_by_at_most_one(
            variants in 1..12_usize, workload in 0..5_usize, rounds in 1..60_usize, seed: u64,
        ) {
            let (positions, _) = counts(variants, workload, rounds, seed);
            let all: Vec<u32> = positions.into_iter().flatten().collect();
            let (least, most) = (all.iter().min().unwrap(), all.iter().max().unwrap());
            prop_assert!(most - least <= 1);
        }

        #[test]
        fn an_order_is_a_permutation(variants in 0..40_usize, round: usize, seed: u64) {
            let mut order = order(variants, 3, round, seed);
            order.sort_unstable();
            prop_assert!(order.into_iter().eq(0..variants));
        }
    }
}
