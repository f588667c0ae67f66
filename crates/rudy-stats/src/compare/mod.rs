//! Whether A is better than B, from a few noisy rounds of both: how much, how sure, and what may be said of it.
//!
//! What is repeated is the round: a fresh process of each subject, one after the other, in an [order](crate::rotation)
//! that changes. Two values of a round are a pair, since both had the same machine and the same neighbours, and a pair gives a
//! ratio. Of the ratios' logarithms:
//!
//! - [`Paired`] is the estimate and its interval: Hodges and Lehmann's, with the interval that belongs to Wilcoxon's
//!   signed-rank test. Both take a symmetric distribution for granted and nothing else. The difference of two
//!   logarithms is symmetric about that of the true ratio whenever the noise multiplies both subjects alike, however skewed
//!   it is. No value is dropped as an outlier: one wild round of ten moves the estimate little and the interval not to
//!   infinity.
//! - [`judge`] is the verdicts of a whole report, corrected for how many they are (Holm).
//! - [`Control`] is a subject against itself: whether the machine could tell it from itself.
//! - [`Summary`] is the rounds of one subject alone.
//!
//! ```
//! use rudy_stats::compare::{Better, Comparison, Control, Delta, Paired, Verdict, judge};
//!
//! // CPU microseconds per request in eight rounds: a new build, the old one, and the old one a second time.
//! let new = [9.1, 9.3, 9.0, 9.2, 9.1, 9.4, 9.2, 9.1];
//! let old = [10.2, 10.3, 10.1, 10.4, 10.2, 10.5, 10.1, 10.3];
//! let again = [10.3, 10.2, 10.1, 10.3, 10.3, 10.4, 10.2, 10.2];
//!
//! let control = Control::of(&Paired::new(&old, &again)?, Delta::default());
//! let comparison = Comparison {
//!     paired: Paired::new(&new, &old)?,
//!     better: Better::Lower,
//!     delta: Delta::default(),
//!     controls: vec![control],
//! };
//! let finding = &judge(&[comparison])[0];
//! assert_eq!(finding.verdict, Verdict::Better);
//! assert!(!finding.is_flagged);
//! assert_eq!(finding.to_string(), "0.893 times (0.887 to 0.903, 96.0 % sure): better");
//! # Ok::<(), rudy_stats::compare::Error>(())
//! ```

mod control;
mod holm;
mod interval;
mod null;
mod paired;
mod summary;
mod verdict;

pub use self::control::{Control, Outcome};
pub use self::holm::{Comparison, Finding, TooFew, holm, judge, rounds_needed};
pub use self::interval::Interval;
pub use self::paired::{Error, PAIRS_MAX, PAIRS_MIN, Paired};
pub use self::summary::Summary;
pub use self::verdict::{Better, Delta, Verdict};

/// With what confidence a report is right in all that it calls better or worse.
pub const CONFIDENCE: f64 = 0.95;

/// The probability that is left to chance: 1 - [`CONFIDENCE`], of which the arithmetic is made.
const ERROR: f64 = 0.05;
