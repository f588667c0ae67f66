//! Parses counts, rates and times of the command line.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::schedule::RATE_MAX;

/// Why a text is not a number, rate or time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    given: String,
    expected: &'static str,
}

impl ParseError {
    fn new(given: &str, expected: &'static str) -> Self {
        Self { given: given.to_owned(), expected }
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is not {}", self.given, self.expected)
    }
}

impl std::error::Error for ParseError {}

/// A count: `1000`, `10k`, `2m`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count(pub u64);

impl FromStr for Count {
    type Err = ParseError;

    fn from_str(given: &str) -> Result<Self, ParseError> {
        let error = || ParseError::new(given, "a whole number, such as 1000, 10k or 2m");
        let number = scaled(given).ok_or_else(error)?;
        // Whole numbers up to 2^53 are exact in an f64.
        if number.fract() != 0.0 || !(0.0..=9e15).contains(&number) {
            return Err(error());
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "whole, and within the bounds above"
        )]
        Ok(Self(number as u64))
    }
}

/// Requests per second: constant, or a linear ramp.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rate {
    /// `1000`, `2.5k`.
    Constant(f64),
    /// `100:5k`, over the whole run.
    Ramp(f64, f64),
}

impl FromStr for Rate {
    type Err = ParseError;

    fn from_str(given: &str) -> Result<Self, ParseError> {
        let error = || {
            ParseError::new(
                given,
                "a rate in requests per second, such as 1000 or 2.5k, or a ramp such as 100:5k",
            )
        };
        let rate = |text| scaled(text).filter(|rate| (0.0..=RATE_MAX).contains(rate)).ok_or_else(error);
        match given.split_once(':') {
            Some((from, to)) => match (rate(from)?, rate(to)?) {
                (_, 0.0) => Err(error()),
                (from, to) => Ok(Self::Ramp(from, to)),
            },
            None => {
                rate(given).and_then(|rate| if rate > 0.0 { Ok(Self::Constant(rate)) } else { Err(error()) })
            }
        }
    }
}

/// A time: `30s`, `2m`, `1.5h`, `500ms`, `100us`; a bare number is seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Time(pub Duration);

impl FromStr for Time {
    type Err = ParseError;

    fn from_str(given: &str) -> Result<Self, ParseError> {
        let units =
            [("ns", 1e-9), ("us", 1e-6), ("µs", 1e-6), ("ms", 1e-3), ("s", 1.0), ("m", 60.0), ("h", 3600.0)];
        let (number, unit) = units
            .iter()
            .find_map(|(name, seconds)| given.strip_suffix(name).map(|number| (number, *seconds)))
            .unwrap_or((given, 1.0));
        parse_decimal(number)
            .and_then(|number| Duration::try_from_secs_f64(number * unit).ok())
            .map(Self)
            .ok_or_else(|| ParseError::new(given, "a time, such as 30s, 2m, 500ms, or a number of seconds"))
    }
}

/// A number with the suffix k for thousand or m for million.
fn scaled(text: &str) -> Option<f64> {
    let (number, factor) = match text.char_indices().next_back()? {
        (end, 'k' | 'K') => (&text[..end], 1e3),
        (end, 'm' | 'M') => (&text[..end], 1e6),
        _ => (text, 1.0),
    };
    parse_decimal(number).map(|number| number * factor)
}

/// A decimal number without a sign; rejects `inf`, `nan` and exponents.
#[must_use]
pub fn parse_decimal(text: &str) -> Option<f64> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    if is_plain { text.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_have_a_thousand_and_a_million() {
        for (text, count) in [("0", 0), ("17", 17), ("10k", 10_000), ("2.5K", 2500), ("1m", 1_000_000)] {
            assert_eq!(text.parse(), Ok(Count(count)), "{text}");
        }
        for wrong in ["", "k", "-1", "1.5", "1e3", "inf", "NaN", "10 k", "99999999999999999"] {
            assert!(wrong.parse::<Count>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_rate_is_one_or_a_line() {
        assert_eq!("2.5k".parse(), Ok(Rate::Constant(2500.0)));
        assert_eq!("0.5".parse(), Ok(Rate::Constant(0.5)));
        assert_eq!("0:1k".parse(), Ok(Rate::Ramp(0.0, 1000.0)));
        for wrong in ["0", "", ":", "1:", "5:0", "a", "-1", "1:2:3", "2000m"] {
            let error = wrong.parse::<Rate>().unwrap_err();
            assert!(error.to_string().contains("such as 1000 or 2.5k"), "{error}");
        }
    }

    #[test]
    fn a_time_has_a_unit_or_is_seconds() {
        for (text, nanoseconds) in [
            ("2", 2_000_000_000),
            ("1.5s", 1_500_000_000),
            ("2m", 120_000_000_000),
            ("1h", 3_600_000_000_000),
            ("500ms", 500_000_000),
            ("20us", 20_000),
            ("20µs", 20_000),
            ("7ns", 7),
        ] {
            assert_eq!(text.parse(), Ok(Time(Duration::from_nanos(nanoseconds))), "{text}");
        }
        for wrong in ["", "s", "1d", "-1s", "1 s", "1e9", "99999999999999999999h"] {
            assert!(wrong.parse::<Time>().is_err(), "{wrong}");
        }
    }
}
