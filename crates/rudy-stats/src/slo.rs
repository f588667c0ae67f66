//! A service level objective: `p99<20ms, errors<0.01%`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use rudy_units::{Time, Unit, counted, duration, parse_decimal, parse_duration, share};

use crate::success::{CONFIDENCE, exceeds_share};
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
}

impl Slo {
    /// Evaluates each term with the latencies of successful responses, and the success rate of all requests that
    /// were due: one that was not sent, or not answered, has failed.
    #[must_use]
    pub fn evaluate(&self, latency: &Histogram, successes: SuccessRate) -> Vec<Evaluation> {
        let evaluate = |term: &Term| Evaluation { term: *term, value: term.bound.value(latency, successes) };
        self.terms.iter().map(evaluate).collect()
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
            Self::Percentile(percent, _) => {
                // Successful requests sort before failed ones, so the success rate is the highest percentile
                // with a latency, up to the last bit.
                let q = percent / 100.0 / successes.share();
                if q > 1.0 + 1e-12 || latency.is_empty() {
                    Value::Never
                } else {
                    Value::Time(latency.quantile(q))
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
    let total = successes.total();
    let above = total - latency.count_within(limit).min(total);
    total >= requests_needed(percent) || exceeds_share(above, total, 1.0 - percent / 100.0)
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

    /// Whether there were too few requests to judge the term.
    #[must_use]
    pub fn has_too_few_requests(self) -> bool {
        matches!(self.value, Value::TooFew { .. })
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

/// The reason that a text is not an objective.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SloError {
    /// The position in characters, from 1.
    position: usize,
    found: String,
    expected: &'static str,
}

const EXPECTED_TERM: &str = "a term: p50, p99, p99.9 or another percentile, max, mean or errors, then < or <=, then a bound, \
                      as in p99<20ms";
const EXPECTED_RELATION: &str = "< or <=, as in p99<20ms";
const EXPECTED_TIME: &str = "a time above 0 with its unit (us, ms or s), such as 20ms";
const EXPECTED_PERCENTAGE: &str = "a percentage from 0% to 100%, such as 0.01%; for none at all, errors<=0%";

impl fmt::Display for SloError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { position, found, expected } = self;
        match found.as_str() {
            "" => write!(f, "at character {position}: expected {expected}"),
            found => write!(f, "at character {position}, {found:?}: expected {expected}"),
        }
    }
}

impl std::error::Error for SloError {}

impl FromStr for Slo {
    type Err = SloError;

    fn from_str(given: &str) -> Result<Self, SloError> {
        let mut terms = Vec::new();
        let mut position = 1;
        for text in given.split(',') {
            terms.push(parse_term(text, position)?);
            position += text.chars().count() + 1;
        }
        Ok(Self { terms })
    }
}

fn parse_term(text: &str, position: usize) -> Result<Term, SloError> {
    // `part` is a slice of `text`, so its position is the distance.
    let error = |part: &str, expected| {
        let before = part.as_ptr().addr() - text.as_ptr().addr();
        let spaces = part.len() - part.trim_start().len();
        let position = position + text[..before + spaces].chars().count();
        Err(SloError { position, found: part.trim().to_owned(), expected })
    };
    let Some(relation) = text.find('<') else {
        return match parse_metric(text.trim(), Duration::ZERO, 0.0) {
            Some(_) => error(text, EXPECTED_RELATION),
            None => error(text, EXPECTED_TERM),
        };
    };
    let (name, bound) = (&text[..relation], &text[relation + 1..]);
    let (bound, is_inclusive) = bound.strip_prefix('=').map_or((bound, false), |bound| (bound, true));
    let Some(kind) = parse_metric(name.trim(), Duration::ZERO, 0.0) else {
        return error(name, EXPECTED_TERM);
    };
    let (time, percent) = if matches!(kind, Bound::Errors(_)) {
        let percent = bound.trim().strip_suffix('%').and_then(|number| parse_decimal(number.trim_end()));
        // No value is below 0.
        match percent.filter(|limit| *limit <= 100.0 && (*limit > 0.0 || is_inclusive)) {
            Some(percent) => (Duration::ZERO, percent),
            None => return error(bound, EXPECTED_PERCENTAGE),
        }
    } else {
        match parse_duration(bound.trim()).filter(|time| !time.is_zero()) {
            Some(time) => (time, 0.0),
            None => return error(bound, EXPECTED_TIME),
        }
    };
    match parse_metric(name.trim(), time, percent) {
        Some(bound) => Ok(Term { bound, is_inclusive }),
        None => error(name, EXPECTED_TERM),
    }
}

/// Parses a metric by name, with its bound.
fn parse_metric(name: &str, time: Duration, percent: f64) -> Option<Bound> {
    match name {
        "max" => Some(Bound::Max(time)),
        "mean" => Some(Bound::Mean(time)),
        "errors" => Some(Bound::Errors(percent)),
        // The 100th percentile is `max`, and the 0th is never useful.
        _ => parse_decimal(name.strip_prefix('p')?)
            .filter(|percent| *percent > 0.0 && *percent < 100.0)
            .map(|percent| Bound::Percentile(percent, time)),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn slo(text: &str) -> Slo {
        text.parse().unwrap()
    }

    /// Latencies of 1 to 100 ms, ten each.
    fn latencies() -> Histogram {
        let mut histogram = Histogram::new();
        (1..=100).for_each(|ms| histogram.record_n(Duration::from_millis(ms), 10));
        histogram
    }

    #[test]
    fn the_strictest_bound_of_late_responses_decides_before_the_timeout() {
        let at_most = |text| slo(text).late_at_most().map(|(limit, share)| format!("{limit:?} {share:.3}"));
        assert_eq!(at_most("p50<5ms, p99<20ms, errors<0.01%").as_deref(), Some("20ms 0.010"));
        assert_eq!(at_most("p99<20ms, max<1s").as_deref(), Some("1s 0.000"));
        assert_eq!(at_most("mean<1ms, errors<1%"), None);
    }

    fn passes_and_text(text: &str, succeeded: u64, total: u64) -> (bool, String) {
        let evaluation = slo(text).evaluate(&latencies(), SuccessRate::new(succeeded, total))[0];
        (evaluation.passes(), evaluation.to_string())
    }

    /// The first responses took 1 ms, and the last ones, `slow`, a second.
    fn evaluate_slow(fast: u64, slow: u64) -> Evaluation {
        let mut latency = Histogram::new();
        latency.record_n(Duration::from_millis(1), fast);
        latency.record_n(Duration::from_secs(1), slow);
        slo("p99<20ms").evaluate(&latency, SuccessRate::new(fast + slow, fast + slow))[0]
    }

    #[test]
    fn a_percentile_needs_enough_requests() {
        assert_eq!(slo("p99<20ms, errors<1%").requests_needed(), 299);
        assert_eq!(slo("p99.9<20ms, p50<1ms").requests_needed(), 2995);
        assert_eq!(slo("p50<1ms, max<1s").requests_needed(), 5);
        let few = evaluate_slow(298, 0);
        assert!(!few.passes() && few.has_too_few_requests());
        assert_eq!(few.to_string(), "p99 needs 299 requests, after 298 requests");
        assert!(evaluate_slow(299, 0).passes());
        // 1 of 11 is no proof that more than 1 % are slow; 2 of 12 are.
        assert!(evaluate_slow(10, 1).has_too_few_requests());
        let slow = evaluate_slow(10, 2);
        assert!(!slow.passes() && !slow.has_too_few_requests(), "{slow}");
    }

    #[test]
    fn a_written_objective_can_be_parsed() {
        for (given, written) in [
            ("p99<20ms, errors<0.01%", "p99<20ms, errors<0.01%"),
            (" p99.9 <= 1.5 s,max<1000ms ", "p99.9<=1.5s, max<1s"),
            ("mean<250us,p50<0.1ms", "mean<250us, p50<100us"),
            ("errors <= 0 %", "errors<=0%"),
            ("p99.99<20µs", "p99.99<20us"),
        ] {
            assert_eq!(slo(given).to_string(), written);
            assert_eq!(slo(written), slo(given));
        }
    }

    #[test]
    fn an_invalid_objective_is_reported_with_its_position() {
        for (given, error) in [
            ("", "at character 1: expected a term: p50, p99, p99.9"),
            ("p99<20ms, ", "at character 11: expected a term"),
            ("p99<20ms, eror<1%", "at character 11, \"eror\": expected a term"),
            ("p100<1s", "at character 1, \"p100\": expected a term"),
            ("p99", "at character 1, \"p99\": expected < or <="),
            ("p99>20ms", "at character 1, \"p99>20ms\": expected a term"),
            ("p99<20", "at character 5, \"20\": expected a time above 0 with its unit"),
            ("p99<=  -1ms", "at character 8, \"-1ms\": expected a time"),
            ("p99<0ms", "at character 5, \"0ms\": expected a time"),
            ("p99<=0.0001us", "at character 6, \"0.0001us\": expected a time"),
            ("p99<1%", "at character 5, \"1%\": expected a time"),
            ("p99<99999999999999999999s", "expected a time"),
            ("max<1s,errors<1", "at character 15, \"1\": expected a percentage"),
            ("errors<0%", "at character 8, \"0%\": expected a percentage"),
            ("errors<101%", "at character 8, \"101%\": expected a percentage"),
            ("ä<1s", "at character 1, \"ä\": expected a term"),
        ] {
            let found = given.parse::<Slo>().unwrap_err().to_string();
            assert!(found.starts_with(error) || found.contains(error) && !error.starts_with("at"), "{found}");
        }
    }

    #[test]
    fn each_term_is_compared_with_its_metric() {
        for (given, passes, text) in [
            ("p99<100ms", true, "p99 99.0 ms"),
            ("p99<20ms", false, "p99 99.0 ms >= 20 ms"),
            ("p50<=49ms", false, "p50 50.0 ms > 49 ms"),
            ("max<101ms", true, "max 100 ms"),
            ("mean<50us", false, "mean 50.5 ms >= 50 µs"),
            ("errors<=0%", true, "errors 0 %"),
        ] {
            assert_eq!(passes_and_text(given, 1000, 1000), (passes, text.into()), "{given}");
        }
    }

    #[test]
    fn the_relation_decides_at_the_bound() {
        // 1 of 128 is a percentage that binary fractions hold.
        assert_eq!(
            passes_and_text("errors<0.78125%", 127, 128),
            (false, "errors 0.781 % >= 0.78125 %".into())
        );
        assert_eq!(passes_and_text("errors<=0.78125%", 127, 128), (true, "errors 0.781 %".into()));
    }

    #[test]
    fn failed_requests_count_as_infinite_latencies() {
        // 1000 of 2000 succeed: their maximum is the median of all, and the 51st percentile has no value.
        assert_eq!(passes_and_text("p50<=101ms", 1000, 2000), (true, "p50 100 ms".into()));
        assert_eq!(passes_and_text("p51<10s", 1000, 2000), (false, "p51 without a response".into()));
        assert_eq!(passes_and_text("max<10s", 1000, 1001), (false, "max without a response".into()));
        assert_eq!(passes_and_text("mean<51ms", 1000, 1001), (true, "mean 50.5 ms".into()));
        let nothing =
            slo("p50<10s, mean<10s, max<10s, errors<1%").evaluate(&Histogram::new(), SuccessRate::new(0, 0));
        assert!(nothing.iter().all(|evaluation| !evaluation.passes()));
    }

    proptest! {
        #[test]
        fn any_text_is_rejected_or_survives_a_round_trip(text in "(p|max|mean|errors|[0-9]|<|=|\\.|,| |ms|us|s|%|ä){0,12}") {
            if let Ok(slo) = text.parse::<Slo>() {
                prop_assert_eq!(slo.to_string().parse::<Slo>(), Ok(slo));
            }
        }
    }
}
