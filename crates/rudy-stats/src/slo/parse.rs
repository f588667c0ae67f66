//! Parses an objective, such as `p99<20ms, errors<0.01%`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use rudy_units::{parse_decimal, parse_duration};

use super::{Bound, Slo, Term};

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
