//! Durations of a configuration file or a flag.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::de::{Deserializer, Error, Visitor};
use serde::{Deserialize, Serialize, Serializer};

use crate::{float, parse_decimal, visible};

/// A duration from `MIN` to `MAX` milliseconds, as in `"500ms"`, `"10s"`, `"1.5s"`, `"5m"`, `"1h 30m"` or `"1d"`; a number is in
/// seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time<const MIN: u64 = 0, const MAX: u64 = { u64::MAX }>(pub Duration);

/// A timeout, from a millisecond (for fast tests) to a day.
pub type Timeout = Time<1, 86_400_000>;

/// Units with their nanoseconds, the largest first.
const UNITS: [(&str, u64); 8] = [
    ("d", 86_400_000_000_000),
    ("h", 3_600_000_000_000),
    ("m", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1000),
    ("ns", 1),
    ("µs", 1000),
];

const EXPECTED: &str = "expected a number and a unit (ms, s, m, h or d), as in \"10s\"";

impl<const MIN: u64, const MAX: u64> Time<MIN, MAX> {
    fn within(time: Duration) -> Result<Self, String> {
        let bounds = Duration::from_millis(MIN)..=Duration::from_millis(MAX);
        if bounds.contains(&time) {
            return Ok(Self(time));
        }
        let [time, min, max] = [time, *bounds.start(), *bounds.end()].map(<Time>::from);
        Err(format!("{time} is out of range\nexpected {min} to {max}"))
    }

    /// Parses a time. The error has two lines: the problem, and what is expected.
    ///
    /// # Errors
    ///
    /// The text is no time, or the time is out of bounds.
    pub fn of_text(text: &str) -> Result<Self, String> {
        let invalid = || format!("\"{}\" is not a time\n{EXPECTED}", visible(text));
        Self::within(parse_time(text).ok_or_else(invalid)?)
    }

    /// Returns the time of a number of seconds. The error is that of [`Self::of_text`].
    ///
    /// # Errors
    ///
    /// The number is negative or too large, or the time is out of bounds.
    pub fn of_seconds(seconds: f64) -> Result<Self, String> {
        let time = Duration::try_from_secs_f64(seconds);
        Self::within(time.map_err(|_| format!("{seconds} is not a time\n{EXPECTED}"))?)
    }
}

impl From<Duration> for Time {
    fn from(time: Duration) -> Self {
        Self(time)
    }
}

impl<const MIN: u64, const MAX: u64> From<Time<MIN, MAX>> for Duration {
    fn from(time: Time<MIN, MAX>) -> Self {
        time.0
    }
}

impl<const MIN: u64, const MAX: u64> From<Time<MIN, MAX>> for Option<Duration> {
    fn from(time: Time<MIN, MAX>) -> Self {
        Some(time.0)
    }
}

/// Parses a sum of numbers with units: `500ms`, `1.5s`, `1h 30m`. A number without a unit is rejected.
#[must_use]
pub fn parse_duration(text: &str) -> Option<Duration> {
    let mut nanoseconds = 0.0;
    let mut rest = text.trim();
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let (number, after) = rest.split_at(rest.find(|c: char| !c.is_ascii_digit() && c != '.')?);
        let after = after.trim_start();
        let (name, next) = after.split_at(after.find(|c: char| !c.is_alphabetic()).unwrap_or(after.len()));
        let (_, unit) = UNITS.into_iter().find(|(unit, _)| *unit == name)?;
        nanoseconds += parse_decimal(number)? * float(unit);
        rest = next.trim_start();
    }
    Duration::try_from_secs_f64(nanoseconds / 1e9).ok()
}

/// Parses a duration with units, or in seconds without one.
fn parse_time(text: &str) -> Option<Duration> {
    parse_duration(text).or_else(|| Duration::try_from_secs_f64(parse_decimal(text)?).ok())
}

impl<const MIN: u64, const MAX: u64> FromStr for Time<MIN, MAX> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::within(parse_time(text).ok_or(EXPECTED)?)
    }
}

/// The notation that [`FromStr`] parses, exact to the nanosecond: `1.5s`, `1h 30m`.
impl<const MIN: u64, const MAX: u64> fmt::Display for Time<MIN, MAX> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0.as_nanos();
        let mut space = "";
        for (name, unit) in &UNITS[1..3] {
            let whole = rest / u128::from(*unit);
            if whole > 0 {
                write!(f, "{space}{whole}{name}")?;
                (space, rest) = (" ", rest % u128::from(*unit));
            }
        }
        // Less than a minute is left.
        let rest = u64::try_from(rest).unwrap_or(u64::MAX);
        match UNITS[3..].iter().find(|(_, unit)| rest >= *unit) {
            Some((name, unit)) => write!(f, "{space}{}{name}", float(rest) / float(*unit)),
            None if space.is_empty() => f.write_str("0s"),
            None => Ok(()),
        }
    }
}

impl<'de, const MIN: u64, const MAX: u64> Deserialize<'de> for Time<MIN, MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Times<const MIN: u64, const MAX: u64>;

        impl<const MIN: u64, const MAX: u64> Visitor<'_> for Times<MIN, MAX> {
            type Value = Time<MIN, MAX>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a time (\"10s\")")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
                Time::of_text(text).map_err(E::custom)
            }

            fn visit_u64<E: Error>(self, seconds: u64) -> Result<Self::Value, E> {
                Time::within(Duration::from_secs(seconds)).map_err(E::custom)
            }

            #[expect(clippy::cast_precision_loss, reason = "a negative number is an error, however large")]
            fn visit_i64<E: Error>(self, seconds: i64) -> Result<Self::Value, E> {
                self.visit_f64(seconds as f64)
            }

            fn visit_f64<E: Error>(self, seconds: f64) -> Result<Self::Value, E> {
                Time::of_seconds(seconds).map_err(E::custom)
            }
        }

        deserializer.deserialize_any(Times)
    }
}

impl<const MIN: u64, const MAX: u64> Serialize for Time<MIN, MAX> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn times_are_parsed_and_formatted() {
        for (text, ms) in [
            ("0s", 0),
            ("500ms", 500),
            ("1.5s", 1500),
            ("10s", 10_000),
            ("5m", 300_000),
            ("1h", 3_600_000),
            ("1h 30m", 5_400_000),
            ("24h 1m 500ms", 86_460_500),
        ] {
            let time = text.parse::<Time>().unwrap();
            assert_eq!(time.0.as_millis(), ms);
            assert_eq!(time.to_string(), text);
        }
        for (text, ns) in [("20us", 20_000), ("20µs", 20_000), ("7ns", 7), (".5 us", 500)] {
            assert_eq!(parse_duration(text).map(|time| time.as_nanos()), Some(ns), "{text}");
        }
        for (text, ms) in
            [("90 s", 90_000), ("2d", 172_800_000), ("75", 75_000), ("0.25", 250), ("1h30m", 5_400_000)]
        {
            assert_eq!(text.parse::<Time>().unwrap().0.as_millis(), ms, "{text}");
        }
        for wrong in
            ["", " ", "s", "10 parsecs", "-1s", "-1", "99999999999999999999s", "1y", "nan", "1e9", "1s 5"]
        {
            assert_eq!(wrong.parse::<Time>(), Err(EXPECTED.to_owned()), "{wrong}");
        }
        assert_eq!(parse_duration("75"), None);
    }

    #[test]
    fn a_time_out_of_range_is_an_error_with_the_range() {
        let error = "2d".parse::<Timeout>().unwrap_err();
        assert_eq!(error, "48h is out of range\nexpected 1ms to 24h");
    }

    proptest! {
        #[test]
        fn what_is_displayed_is_parsed_to_the_same_time(ns in 0..3_600_000_000_000_u64) {
            let time = <Time>::from(Duration::from_nanos(ns));
            prop_assert_eq!(time.to_string().parse(), Ok(time));
        }
    }
}
