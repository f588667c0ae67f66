//! A small seeded random number generator.

/// Steele, Lea, Flood, "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014. Implemented here, so
/// that a seed gives the same schedule and order in every version.
#[derive(Clone, Debug)]
pub(crate) struct SplitMix64(pub(crate) u64);

impl SplitMix64 {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Uniform in [0, 1).
    #[expect(clippy::cast_precision_loss, reason = "53 bits are what an f64 holds")]
    pub(crate) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Shuffles uniformly (Fisher and Yates; Durstenfeld, Communications of the ACM 7, 1964).
    pub(crate) fn shuffle(&mut self, items: &mut [usize]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.up_to(last));
        }
    }

    /// A uniform integer from 0 to `most`: the high half of a product, with a bias of at most `most` in 2^64.
    fn up_to(&mut self, most: usize) -> usize {
        let product = u128::from(self.next()) * (most as u128 + 1);
        usize::try_from(product >> 64).expect("the high half is at most `most`")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generator_is_the_published_one() {
        // The first numbers of the reference implementation (Vigna, splitmix64.c) from the seed 1234567.
        let mut random = SplitMix64(1_234_567);
        let first = [random.next(), random.next(), random.next()];
        assert_eq!(first, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
    }

    #[test]
    fn each_order_of_three_comes_as_often_as_any_other() {
        let mut random = SplitMix64(1);
        let mut seen = std::collections::BTreeMap::new();
        for _ in 0..6000 {
            let mut items = [0, 1, 2];
            random.shuffle(&mut items);
            *seen.entry(items).or_insert(0) += 1;
        }
        // 1000 each, with a standard deviation of 29.
        assert_eq!(seen.len(), 6);
        assert!(seen.values().all(|count| (880..1120).contains(count)), "{seen:?}");
    }
}
