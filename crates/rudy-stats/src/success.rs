//! The success rate with its lower confidence bound, and the number of nines of both.
//!
//! The bound holds for independent failures. Failures of servers come in bursts, so it is a best case.

use std::fmt;

/// The confidence level of the bound.
pub const CONFIDENCE: f64 = 0.95;

/// A number of successes in a total.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SuccessRate {
    succeeded: u64,
    total: u64,
}

impl SuccessRate {
    /// `succeeded` of `total`; limited to `total`.
    #[must_use]
    pub fn new(succeeded: u64, total: u64) -> Self {
        Self { succeeded: succeeded.min(total), total }
    }

    /// The number of failures.
    #[must_use]
    pub fn failed(self) -> u64 {
        self.total - self.succeeded
    }

    /// The number of all requests.
    #[must_use]
    pub fn total(self) -> u64 {
        self.total
    }

    /// The success rate; 1 for an empty sample.
    #[must_use]
    pub fn share(self) -> f64 {
        if self.total == 0 { 1.0 } else { float(self.succeeded) / float(self.total) }
    }

    /// The number of nines as a real number: 0.999 has 3, 0.998 has 2.7. Infinite without a failure.
    #[must_use]
    pub fn nines(self) -> f64 {
        // From the failures, because 1 - share loses digits.
        if self.total == 0 {
            f64::INFINITY
        } else {
            // Not the negative logarithm, which is -0 if all failed.
            (float(self.total) / float(self.failed())).log10()
        }
    }

    /// The upper bound of the failure rate with [`CONFIDENCE`]: the exact one-sided bound (Clopper and
    /// Pearson, Biometrika 26, 1934). Without any failure it is about 3 / total.
    #[must_use]
    pub fn failures_at_most(self) -> f64 {
        let (failed, total) = (self.failed(), self.total);
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
            if binomial_cdf(failed, total, middle) > 1.0 - CONFIDENCE { low = middle } else { high = middle }
        }
    }

    /// The number of nines that the sample supports, as a real number.
    #[must_use]
    pub fn nines_lower_bound(self) -> f64 {
        self.failures_at_most().recip().log10()
    }
}

impl fmt::Display for SuccessRate {
    /// `99.990 % of 30,000 requests; at least 99.97 % (3 nines) at 95 % confidence, if failures are independent`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.total == 0 {
            return f.write_str("no request ended");
        }
        let requests = rudy_units::counted(self.total, "request");
        write!(f, "{} of {requests}", percent(self.share()))?;
        let least = 1.0 - self.failures_at_most();
        let confidence = CONFIDENCE * 100.0;
        write!(
            f,
            "; at least {} ({}) at {confidence:.0} % confidence",
            percent(least),
            count(self.nines_lower_bound())
        )?;
        f.write_str(", if failures are independent")
    }
}

/// The exact one-sided binomial test: `true` if a probability above `share` explains `count` of `total` events, at
/// [`CONFIDENCE`].
pub(crate) fn exceeds_share(count: u64, total: u64, share: f64) -> bool {
    // At least `count` of a kind are at most `total - count` of the other kind.
    float(count) > share * float(total) && binomial_cdf(total - count, total, 1.0 - share) <= 1.0 - CONFIDENCE
}

/// The exact one-sided binomial test: `true` if only a probability below `share` explains `count` of `total` events, at
/// [`CONFIDENCE`]. Then the upper bound of Clopper and Pearson is at most `share`.
pub(crate) fn is_below_share(count: u64, total: u64, share: f64) -> bool {
    float(count) < share * float(total) && binomial_cdf(count, total, share) <= 1.0 - CONFIDENCE
}

/// A share with as many digits as distinguish it from 100 %.
fn percent(share: f64) -> String {
    if share >= 1.0 {
        return "100 %".into();
    }
    let digits = ((-(1.0 - share).log10()).ceil() - 1.0).clamp(2.0, 12.0);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 2 and 12")]
    let digits = digits as usize;
    format!("{:.digits$} %", truncated(share * 100.0, digits))
}

/// Whole nines as text.
fn count(nines: f64) -> String {
    // A rate of 0.999 is slightly less than three nines in binary.
    match (nines + 1e-9).floor() {
        n if n < 1.0 => "no nine".into(),
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
fn binomial_cdf(failed: u64, total: u64, share: f64) -> f64 {
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
    fn the_binomial_test_matches_r() {
        // R: binom.test(k, n, 0.01, alternative = "greater")$p.value is 0.0956, 0.0182 and 0.0000, 0.0805, 0.0399.
        for (count, total, is_more) in
            [(1, 10, false), (2, 20, true), (10, 10, true), (6, 300, false), (7, 300, true), (0, 0, false)]
        {
            assert_eq!(exceeds_share(count, total, 0.01), is_more, "{count} of {total}");
        }
    }

    #[test]
    fn nines_are_counted_from_the_failures() {
        for (succeeded, total, nines) in
            [(999, 1000, 3.0), (9_999_999, 10_000_000, 7.0), (1, 2, 0.301), (0, 5, 0.0)]
        {
            let observed = SuccessRate::new(succeeded, total).nines();
            assert!((observed - nines).abs() < 1e-3, "{succeeded} of {total}: {observed}");
        }
        assert!(SuccessRate::new(5, 5).nines().is_infinite());
        let none = SuccessRate::new(0, 5);
        assert_eq!(
            (none.nines().to_string(), none.nines_lower_bound().to_string()),
            ("0".into(), "0".into()),
            "and not -0"
        );
    }

    #[test]
    fn without_failures_the_bound_follows_the_rule_of_three() {
        for total in [100_u64, 3000, 1_000_000, 100_000_000] {
            let exact = 1.0 - 0.05_f64.powf(1.0 / float(total));
            let most = SuccessRate::new(total, total).failures_at_most();
            assert!((most / exact - 1.0).abs() < 1e-6, "{total}: {most} {exact}");
            assert!((most * float(total) - 3.0).abs() < 0.05);
        }
    }

    #[test]
    fn the_clopper_pearson_bound_matches_r() {
        // Clopper and Pearson, one-sided 95 %: R's binom.test(k, n, alternative = "less")$conf.int[2].
        for (failed, total, bound) in
            [(1, 10, 0.394_163), (5, 100, 0.102_253), (50, 1000, 0.062_863), (10, 10, 1.0)]
        {
            let most = SuccessRate::new(total - failed, total).failures_at_most();
            assert!((most - bound).abs() < 1e-6, "{failed} of {total}: {most}");
        }
    }

    #[test]
    fn the_bound_of_a_hundred_million_requests_matches_the_normal_approximation() {
        // For large samples, the 95th percentile of the normal distribution, 1.644854 standard deviations, is
        // a good approximation.
        let (failed, total) = (50_000_000, 100_000_000);
        let normal = 0.5 + 1.644_854 * (0.25 / float(total)).sqrt();
        let most = SuccessRate::new(total - failed, total).failures_at_most();
        assert!((most - normal).abs() < 2e-8, "{most} {normal}");
    }

    #[test]
    fn log_gamma_matches_factorials() {
        for (x, factorial) in
            [(1.0, 1.0_f64), (5.0, 24.0), (11.0, 3_628_800.0), (21.0, 2.432_902_008_176_64e18)]
        {
            assert!((log_gamma(x) - factorial.ln()).abs() < 1e-12, "{x}");
        }
    }

    #[test]
    fn the_sentence_has_the_rate_its_bound_and_the_nines_of_the_bound() {
        for (succeeded, total, sentence) in [
            (0, 0, "no request ended"),
            (
                1,
                1,
                "100 % of 1 request; at least 5.00 % (no nine) at 95 % confidence, if failures are independent",
            ),
            (
                30_000,
                30_000,
                "100 % of 30,000 requests; at least 99.9900 % (4 nines) at 95 % confidence, if failures are \
                 independent",
            ),
            (
                29_970,
                30_000,
                "99.90 % of 30,000 requests; at least 99.86 % (2 nines) at 95 % confidence, if failures \
                 are independent",
            ),
        ] {
            assert_eq!(SuccessRate::new(succeeded, total).to_string(), sentence);
        }
    }
}
