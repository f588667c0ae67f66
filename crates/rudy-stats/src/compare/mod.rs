//! Compares two servers from a few noisy rounds of each: the difference, its confidence interval, and a verdict.
//!
//! A round starts a new process of each variant, one after the other, in an [order](crate::rotation) that changes. Two
//! values of the same round form a pair, because both had the same conditions, and each pair gives a ratio. For the
//! logarithms of the ratios:
//!
//! - [`RatioEstimate`] computes the Hodges-Lehmann estimate, and the interval that belongs to Wilcoxon's signed-rank test. Both
//!   assume a symmetric distribution and nothing else. The difference of two logarithms is symmetric about that of the
//!   true ratio if the noise multiplies both variants alike, however skewed it is. No value is dropped as an outlier: one
//!   extreme round of ten moves the estimate slightly, and the interval by a bounded amount.
//! - [`evaluate()`] computes the verdicts of a whole report, corrected for their number (Bonferroni).
//! - [`Control`] compares a variant with itself, to find out how much the machine varies.
//! - [`Summary`] summarizes the rounds of one variant.
//!
//! ```
//! use rudy_stats::compare::{Better, Comparison, Control, Delta, RatioEstimate, Verdict, evaluate};
//!
//! // CPU microseconds per request in eight rounds: a new build, the old one, and the old one a second time.
//! let new = [9.1, 9.3, 9.0, 9.2, 9.1, 9.4, 9.2, 9.1];
//! let old = [10.2, 10.3, 10.1, 10.4, 10.2, 10.5, 10.1, 10.3];
//! let again = [10.3, 10.2, 10.1, 10.3, 10.3, 10.4, 10.2, 10.2];
//!
//! let control = Control::new(&RatioEstimate::paired(&old, &again)?, Delta::default());
//! let comparison = Comparison {
//!     estimate: RatioEstimate::paired(&new, &old)?,
//!     better: Better::Lower,
//!     delta: Delta::default(),
//!     controls: vec![control],
//! };
//! let finding = &evaluate(&[comparison])[0];
//! assert_eq!(finding.verdict, Verdict::Better);
//! assert!(!finding.is_flagged);
//! assert_eq!(finding.to_string(), "0.893 times (0.887 to 0.903, 96.0 % CI): better");
//! # Ok::<(), rudy_stats::compare::Error>(())
//! ```

mod control;
mod estimate;
mod evaluate;
mod interval;
mod null_distribution;
mod summary;
mod verdict;

pub use self::control::{Control, Outcome, expected_to_differ};
pub use self::estimate::{Error, PAIRS_MAX, PAIRS_MIN, RatioEstimate};
pub use self::evaluate::{Comparison, Finding, TooFew, evaluate, rounds_needed};
pub use self::interval::Interval;
pub use self::summary::Summary;
pub use self::verdict::{Better, Delta, Verdict};

/// The confidence that all verdicts of a report are right.
pub const CONFIDENCE: f64 = 0.95;

/// The probability of an error: 1 - [`CONFIDENCE`].
const ERROR: f64 = 0.05;
