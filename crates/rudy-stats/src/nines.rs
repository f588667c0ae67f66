//! The success rate in nines, and how many of them the sample supports.

use std::fmt;

/// The confidence level of the bound.
pub const CONFIDENCE: f64 = 0.95;

/// A number of successes in a total.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nines {
    right: u64,
    total: u64,
}

impl Nines {
    /// `right` of `total`; limited to `total`.
    #[must_use]
    pub fn new(right: u64, total: u64) -> Self {
        Self { right: right.min(total), total }
    }

    /// The success rate; 1 for an empty sample.
    #[must_use]
    pub fn share(self) -> f64 {
        if self.total == 0 { 1.0 } else { float(self.right) / float(self.total) }
    }

    /// The number of nines as a real number: 0.999 has 3, 0.998 has 2.7. Infinite without a failure.
    #[must_use]
    pub fn seen(self) -> f64 {
        // From the failures, because 1 - share loses digits.
        if self.total == 0 {
            f64::INFINITY
        } else {
            // Not the negative logarithm, which is -0 if all failed.
            (float(self.total) / float(self.total - self.right)).log10()
        }
    }

    /// The upper bound of the failure rate with [`CONFIDENCE`]: the exact one-sided bound (Clopper and
    /// Pearson, Biometrika 26, 1934). Without any failure it is about 3 / total.
    #[must_use]
    pub fn failures_at_most(self) -> f64 {
        let (failed, total) = (self.total - self.right, self.total);
        if failed == total {
            return 1.0;
        }
        // The bound is the rate at which this number of failures, or fewer, has the probability 1 -
        // CONFIDENCE. The probability falls with the rate, so bisection finds the bound to the last bit.
        let (mut low, mut high) = (float(failed) / float(total), 1.0);
        loop {
            let middle = f64::midpoint(low, high);
            if middle <= low || middle >= high {
                return high;
            }
            if at_most(failed, total, middle) > 1.0 - CONFIDENCE { low = middle } else { high = middle }
        }
    }

    /// The number of nines that the sample supports, as a real number.
    #[must_use]
    pub fn proven(self) -> f64 {
        self.failures_at_most().recip().log10()
    }
}

impl fmt::Display for Nines {
    /// `100 % of 30000 right; that proves 3 nines (fewer than 1 failure in 10014, 95 % sure)`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { right, total } = *self;
        if total == 0 {
            return f.write_str("no request, which proves nothing");
        }
        if right == total {
            write!(f, "100 % of {total} right")?;
        } else {
            // As many digits as distinguish the rate from 100 %.
            let digits = (self.seen().ceil() + 1.0).clamp(2.0, 12.0);
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 2 and 12")]
            let digits = digits as usize;
            write!(
                f,
                "{:.digits$} % of {total} right, {}",
                truncated(self.share() * 100.0, digits),
                count(self.seen())
            )?;
        }
        let most = self.failures_at_most();
        write!(f, "; the sample proves {}", count(self.proven()))?;
        if most < 1.0 {
            write!(
                f,
                " (at most 1 failure in {:.0}, {:.0} % sure)",
                (1.0 / most).floor(),
                CONFIDENCE * 100.0
            )?;
        }
        Ok(())
    }
}

/// Whole nines as text.
fn count(nines: f64) -> String {
    // A rate of 0.999 is slightly less than three nines in binary.
    match (nines + 1e-9).floor() {
        n if n < 1.0 => "not one nine".into(),
        1.0 => "1 nine".into(),
        n => format!("{n:.0} nines"),
    }
}

/// Rounds down: 99.996 % never becomes 100 %.
fn truncated(percent: f64, digits: usize) -> f64 {
    let scale = 10_f64.powi(i32::try_from(digits).unwrap_or(0));
    (percent * scale + 1e-6).floor() / scale
}

/// The probability of at most `failed` failures among `total`, each with probability `share`.
fn at_most(failed: u64, total: u64, share: f64) -> f64 {
    // Sums backwards from the last term, as a logarithm, because its factors exceed an `f64`. The last term
    // is the largest if share is above failed / total, and the earlier ones shrink by growing factors, so
    // terms below 1e-17 of the sum can be dropped. For 10^8 requests, half of them failed, that makes about
    // 40,000 terms instead of 5 × 10^7; only one if the last is already too small for an `f64`.
    let (n, k) = (float(total), float(failed));
    let last = log_gamma(n + 1.0) - log_gamma(k + 1.0) - log_gamma(n - k + 1.0)
        + k * share.ln()
        + (n - k) * (-share).ln_1p();
    let odds = (1.0 - share) / share;
    let mut term = last.exp();
    let mut sum = term;
    let mut i = k;
    while i > 0.0 && term > sum * 1e-17 {
        // The term before: C(n, i-1) / C(n, i) = i / (n - i + 1).
        term *= odds * i / (n - i + 1.0);
        sum += term;
        i -= 1.0;
    }
    sum
}

/// ln Γ(x) for x ≥ 1: Stirling's series, from 10 on exact to 1e-15; below by Γ(x + 1) = x Γ(x).
fn log_gamma(x: f64) -> f64 {
    let (mut x, mut shift) = (x, 0.0);
    while x < 10.0 {
        shift += x.ln();
        x += 1.0;
    }
    let square = x * x;
    let series =
        (1.0 / 12.0 - (1.0 / 360.0 - (1.0 / 1260.0 - 1.0 / (1680.0 * square)) / square) / square) / x;
    (x - 0.5) * x.ln() - x + 0.5 * std::f64::consts::TAU.ln() + series - shift
}

/// Counts beyond 2^53 lose their last digits, which no rate shows.
#[expect(clippy::cast_precision_loss, reason = "a share has no use for more than 53 bits")]
fn float(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nines_are_counted_from_the_failures() {
        for (right, total, nines) in
            [(999, 1000, 3.0), (9_999_999, 10_000_000, 7.0), (1, 2, 0.301), (0, 5, 0.0)]
        {
            let seen = Nines::new(right, total).seen();
            assert!((seen - nines).abs() < 1e-3, "{right} of {total}: {seen}");
        }
        assert!(Nines::new(5, 5).seen().is_infinite());
        let none = Nines::new(0, 5);
        assert_eq!(
            (none.seen().to_string(), none.proven().to_string()),
            ("0".into(), "0".into()),
            "and not -0"
        );
    }

    #[test]
    fn no_failure_in_n_proves_a_share_below_3_over_n() {
        for total in [100_u64, 3000, 1_000_000, 100_000_000] {
            let exact = 1.0 - 0.05_f64.powf(1.0 / float(total));
            let most = Nines::new(total, total).failures_at_most();
            assert!((most / exact - 1.0).abs() < 1e-6, "{total}: {most} {exact}");
            assert!((most * float(total) - 3.0).abs() < 0.05);
        }
    }

    #[test]
    fn the_bound_is_that_of_the_tables() {
        // Clopper and Pearson, one-sided 95 %: R's binom.test(k, n, alternative = "less")$conf.int[2].
        for (failed, total, bound) in
            [(1, 10, 0.394_163), (5, 100, 0.102_253), (50, 1000, 0.062_863), (10, 10, 1.0)]
        {
            let most = Nines::new(total - failed, total).failures_at_most();
            assert!((most - bound).abs() < 1e-6, "{failed} of {total}: {most}");
        }
    }

    #[test]
    fn a_hundred_million_requests_of_which_half_failed_are_judged_at_once() {
        // For large samples, the 95th percentile of the normal distribution, 1.644854 standard deviations, is
        // a good approximation.
        let (failed, total) = (50_000_000, 100_000_000);
        let normal = 0.5 + 1.644_854 * (0.25 / float(total)).sqrt();
        let most = Nines::new(total - failed, total).failures_at_most();
        assert!((most - normal).abs() < 2e-8, "{most} {normal}");
    }

    #[test]
    fn the_logarithm_of_the_factorial_is_right() {
        for (x, factorial) in
            [(1.0, 1.0_f64), (5.0, 24.0), (11.0, 3_628_800.0), (21.0, 2.432_902_008_176_64e18)]
        {
            assert!((log_gamma(x) - factorial.ln()).abs() < 1e-12, "{x}");
        }
    }

    #[test]
    fn it_is_said_in_a_sentence() {
        for (right, total, sentence) in [
            (0, 0, "no request, which proves nothing"),
            (10, 10, "100 % of 10 right; the sample proves not one nine (at most 1 failure in 3, 95 % sure)"),
            (
                30_000,
                30_000,
                "100 % of 30000 right; the sample proves 4 nines (at most 1 failure in 10014, 95 % sure)",
            ),
            (0, 3, "0.00 % of 3 right, not one nine; the sample proves not one nine"),
        ] {
            assert_eq!(Nines::new(right, total).to_string(), sentence);
        }
        let nearly = Nines::new(99_999, 100_000).to_string();
        assert!(nearly.starts_with("99.999"), "{nearly}");
    }
}
