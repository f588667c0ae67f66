//! Parses counts and rates of the command line.

use std::str::FromStr;

/// The highest rate that can be scheduled: one request per nanosecond.
pub const RATE_MAX: f64 = 1e9;

/// A count: `1000`, `10k`, `2m`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count(pub u64);

const EXPECTED_COUNT: &str = "expected a whole number, such as 1000, 10k or 2m";

impl FromStr for Count {
    type Err = &'static str;

    fn from_str(given: &str) -> Result<Self, &'static str> {
        let number = scaled(given).ok_or(EXPECTED_COUNT)?;
        // Whole numbers up to 2^53 are exact in an f64.
        if number.fract() != 0.0 || !(0.0..=9e15).contains(&number) {
            return Err(EXPECTED_COUNT);
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

const EXPECTED_RATE: &str =
    "expected a rate in requests per second, such as 1000 or 2.5k, or a ramp such as 100:5k";

impl FromStr for Rate {
    type Err = &'static str;

    fn from_str(given: &str) -> Result<Self, &'static str> {
        let rate = |text| scaled(text).filter(|rate| (0.0..=RATE_MAX).contains(rate)).ok_or(EXPECTED_RATE);
        let (from, to) = given.split_once(':').map_or((None, given), |(from, to)| (Some(from), to));
        match (from.map(rate).transpose()?, rate(to)?) {
            (_, 0.0) => Err(EXPECTED_RATE),
            (None, rate) => Ok(Self::Constant(rate)),
            (Some(from), to) => Ok(Self::Ramp(from, to)),
        }
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
            assert!(error.contains("such as 1000 or 2.5k"), "{error}");
        }
    }
}
