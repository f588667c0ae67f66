//! A service level objective: `p99<20ms, errors<0.01%`.

mod parse;
#[cfg(test)]
mod tests;

use std::fmt;
use std::time::Duration;

use rudy_units::{Time, Unit, counted, duration, share};

use crate::success::{CONFIDENCE, exceeds_share, is_below_share};
use crate::{Histogram, SuccessRate};

/// An objective, which is met if all its terms are.
#[derive(Clone, Debug, PartialEq)]
pub struct Slo {
    terms: Vec<Term>,
}

/// A metric and its upper bound.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Term {
    bound: Bound,
    /// Whether the bound is inclusive (`<=`).
    is_inclusive: bool,
}

/// A metric with its bound. A failed request counts as infinitely slow: a server that rejects half of its
/// requests at once does not meet `p99<20ms`.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Bound {
    /// A percentile of the latency of all requests.
    Percentile(f64, Duration),
    /// The maximum latency of all requests.
    Max(Duration),
    /// The mean latency of successful responses.
    Mean(Duration),
    /// The percentage of failed requests.
    Errors(f64),
}

/// The result of one term.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Evaluation {
    term: Term,
    value: Value,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Value {
    Time(Duration),
    /// The request failed, so it has no latency.
    Never,
    Percent(f64),
    TooFew {
        requests: u64,
        needed: u64,
    },
    /// The percentile of these requests is below the limit, but they do not show that of all requests to be.
    Undecided {
        value: Duration,
        requests: u64,
    },
}

impl Slo {
    /// Evaluates each term with the latencies of successful responses, and the success rate of all requests that
    /// were due: one that was not sent, or not answered, has failed.
    ///
    /// A percentile is met if the requests show it with 95 % confidence: the upper bound of the share above the limit is at most 1 %
    /// for p99. The percentile of the requests alone is no proof: of 299 requests, one may exceed the limit of p99, or none by
    /// chance of a server at which 1.5 % do.
    #[must_use]
    pub fn evaluate(&self, latency: &Histogram, successes: SuccessRate) -> Vec<Evaluation> {
        let evaluate = |term: &Term| Evaluation { term: *term, value: term.bound.value(latency, successes) };
        self.terms.iter().map(evaluate).collect()
    }

    /// Whether a term limits the latency.
    #[must_use]
    pub fn is_about_latency(&self) -> bool {
        self.terms.iter().any(|term| !matches!(term.bound, Bound::Errors(_)))
    }

    /// A latency and the fraction of requests that may exceed it: the strictest such term. With more requests that had
    /// no response for this time, the objective is not met, whether they have one later or not.
    #[must_use]
    pub fn late_at_most(&self) -> Option<(Duration, f64)> {
        let late = self.terms.iter().filter_map(|term| match term.bound {
            Bound::Percentile(percent, limit) => Some((limit, 1.0 - percent / 100.0)),
            Bound::Max(limit) => Some((limit, 0.0)),
            // A mean is that of the responses, and a late response is no error.
            Bound::Mean(_) | Bound::Errors(_) => None,
        });
        late.min_by(|(_, a), (_, b)| a.total_cmp(b))
    }

    /// The minimum number of requests that can show that each percentile is met: 299 for p99, because without a
    /// request above the limit the 95 % confidence bound of their share is then 1 %.
    #[must_use]
    pub fn requests_needed(&self) -> u64 {
        let needed = |term: &Term| match term.bound {
            Bound::Percentile(percent, _) => requests_needed(percent),
            _ => 1,
        };
        self.terms.iter().map(needed).max().unwrap_or(1)
    }
}

/// The number n of requests with qⁿ ≤ 5 %.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive, and saturates")]
fn requests_needed(percent: f64) -> u64 {
    ((1.0 - CONFIDENCE).ln() / (percent / 100.0).ln()).ceil() as u64
}

impl Bound {
    fn value(self, latency: &Histogram, successes: SuccessRate) -> Value {
        match self {
            Self::Percentile(percent, limit) if !has_enough_requests(percent, limit, latency, successes) => {
                Value::TooFew { requests: successes.total(), needed: requests_needed(percent) }
            }
            Self::Percentile(percent, limit) => {
                // Successful requests sort before failed ones, so the success rate is the highest percentile
                // with a latency, up to the last bit.
                let q = percent / 100.0 / successes.share();
                if q > 1.0 + 1e-12 || latency.is_empty() {
                    return Value::Never;
                }
                let (value, requests) = (latency.quantile(q), successes.total());
                let is_shown =
                    is_below_share(above(limit, latency, successes), requests, 1.0 - percent / 100.0);
                if value > limit || is_shown {
                    Value::Time(value)
                } else {
                    Value::Undecided { value, requests }
                }
            }
            Self::Max(_) if successes.share() < 1.0 => Value::Never,
            Self::Max(_) | Self::Mean(_) if latency.is_empty() => Value::Never,
            Self::Max(_) => Value::Time(latency.max()),
            Self::Mean(_) => Value::Time(latency.mean()),
            // Without any request there are no errors, but the objective is not met either.
            Self::Errors(_) if successes.share() >= 1.0 && latency.is_empty() => Value::Never,
            Self::Errors(_) => Value::Percent((1.0 - successes.share()) * 100.0),
        }
    }
}

/// Whether there are enough requests to show that a percentile is met, or the exact test shows with fewer that
/// it is not.
fn has_enough_requests(percent: f64, limit: Duration, latency: &Histogram, successes: SuccessRate) -> bool {
    let (total, above) = (successes.total(), above(limit, latency, successes));
    total >= requests_needed(percent) || exceeds_share(above, total, 1.0 - percent / 100.0)
}

/// The number of requests that took longer than the limit, or failed.
fn above(limit: Duration, latency: &Histogram, successes: SuccessRate) -> u64 {
    successes.total() - latency.count_within(limit).min(successes.total())
}

impl Evaluation {
    /// Whether the term is met.
    #[must_use]
    pub fn passes(self) -> bool {
        let within = |order: Option<std::cmp::Ordering>| match order {
            Some(std::cmp::Ordering::Less) => true,
            Some(std::cmp::Ordering::Equal) => self.term.is_inclusive,
            _ => false,
        };
        match (self.value, self.term.bound) {
            (Value::Time(value), Bound::Percentile(_, limit) | Bound::Max(limit) | Bound::Mean(limit)) => {
                within(value.partial_cmp(&limit))
            }
            (Value::Percent(value), Bound::Errors(limit)) => within(value.partial_cmp(&limit)),
            _ => false,
        }
    }

    /// Whether there were too few requests to judge the term: it is neither met nor missed.
    #[must_use]
    pub fn has_too_few_requests(self) -> bool {
        matches!(self.value, Value::TooFew { .. } | Value::Undecided { .. })
    }

    /// Whether the term is about errors and not about latency.
    #[must_use]
    pub fn is_about_errors(self) -> bool {
        matches!(self.term.bound, Bound::Errors(_)) || self.value == Value::Never
    }
}

/// `p99 3.10 ms` if met, otherwise `p99 84.0 ms >= 20 ms`.
impl fmt::Display for Evaluation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.term.bound.write_name(f)?;
        match self.value {
            Value::Time(value) => write!(f, " {}", duration(value))?,
            Value::Never => f.write_str(" without a response")?,
            Value::TooFew { requests, needed } => {
                let requests = counted(requests, "request");
                return write!(f, " needs {}, after {requests}", counted(needed, "request"));
            }
            Value::Undecided { value, requests } => {
                let (value, requests) = (duration(value), counted(requests, "request"));
                return write!(f, " {value}, undecided: too near the limit after {requests}");
            }
            Value::Percent(value) => write!(f, " {}", share(value / 100.0))?,
        }
        if self.passes() || self.value == Value::Never {
            return Ok(());
        }
        f.write_str(if self.term.is_inclusive { " > " } else { " >= " })?;
        match self.term.bound {
            Bound::Percentile(_, limit) | Bound::Max(limit) | Bound::Mean(limit) => {
                f.write_str(&Unit::Time.tick(limit.as_secs_f64()))
            }
            Bound::Errors(limit) => write!(f, "{limit} %"),
        }
    }
}

/// The original notation without extra spaces, which can be parsed again.
impl fmt::Display for Slo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, term) in self.terms.iter().enumerate() {
            write!(f, "{}{term}", if index > 0 { ", " } else { "" })?;
        }
        Ok(())
    }
}

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.bound.write_name(f)?;
        f.write_str(if self.is_inclusive { "<=" } else { "<" })?;
        match self.bound {
            Bound::Percentile(_, limit) | Bound::Max(limit) | Bound::Mean(limit) => {
                write!(f, "{}", <Time>::from(limit))
            }
            Bound::Errors(limit) => write!(f, "{limit}%"),
        }
    }
}

impl Bound {
    fn write_name(self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Percentile(percent, _) => write!(f, "p{percent}"),
            Self::Max(_) => f.write_str("max"),
            Self::Mean(_) => f.write_str("mean"),
            Self::Errors(_) => f.write_str("errors"),
        }
    }
}
