//! Durations.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use jiff::fmt::friendly::{Designator, SpanPrinter};
use jiff::{SignedDuration, Span, SpanRelativeTo};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserializer, Error, Visitor};
use serde::{Deserialize, Serialize, Serializer};

use crate::config::read::two_lines;
use crate::config::visible;

/// A duration from `MIN` to `MAX` milliseconds, as in `"500ms"`, `"10s"`, `"1.5s"`, `"5m"`, `"1h 30m"` or `"1d"`; a number is in
/// seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time<const MIN: u64 = 0, const MAX: u64 = { u64::MAX }>(pub Duration);

/// A timeout, from a millisecond (for fast tests) to a day.
pub(crate) type Timeout = Time<1, 86_400_000>;

impl<const MIN: u64, const MAX: u64> Time<MIN, MAX> {
    fn within(time: Duration) -> Result<Self, String> {
        let bounds = Duration::from_millis(MIN)..=Duration::from_millis(MAX);
        if bounds.contains(&time) {
            return Ok(Self(time));
        }
        let [time, min, max] = [time, *bounds.start(), *bounds.end()].map(<Time>::from);
        Err(two_lines(format_args!("{time} is out of range"), format_args!("expected {min} to {max}")))
    }

    fn seconds<E: Error>(seconds: f64) -> Result<Self, E> {
        let time = Duration::try_from_secs_f64(seconds);
        let time =
            time.map_err(|_| E::custom(two_lines(format_args!("{seconds} is not a time"), EXPECTED_TIME)))?;
        Self::within(time).map_err(E::custom)
    }
}

const EXPECTED_TIME: &str = "expected a number and a unit (ms, s, m, h or d), as in \"10s\"";

impl From<Duration> for Time {
    fn from(time: Duration) -> Self {
        Self(time)
    }
}

/// Parses a duration with units, or in seconds without one.
pub(crate) fn parse_time(text: &str) -> Option<Duration> {
    if let Ok(seconds) = text.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let span: Span = text.parse().ok()?;
    let time = span.to_duration(SpanRelativeTo::days_are_24_hours()).ok()?;
    time.try_into().ok()
}

impl<const MIN: u64, const MAX: u64> FromStr for Time<MIN, MAX> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::within(parse_time(text).ok_or_else(|| EXPECTED_TIME.to_owned())?)
    }
}

impl<const MIN: u64, const MAX: u64> fmt::Display for Time<MIN, MAX> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = SignedDuration::try_from(self.0).unwrap_or(SignedDuration::MAX);
        f.write_str(&SpanPrinter::new().designator(Designator::Compact).duration_to_string(&time))
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
                let invalid = || {
                    E::custom(two_lines(format_args!("\"{}\" is not a time", visible(text)), EXPECTED_TIME))
                };
                Time::within(parse_time(text).ok_or_else(invalid)?).map_err(E::custom)
            }

            fn visit_u64<E: Error>(self, seconds: u64) -> Result<Self::Value, E> {
                Time::within(Duration::from_secs(seconds)).map_err(E::custom)
            }

            #[expect(clippy::cast_precision_loss, reason = "a negative number is an error, however large")]
            fn visit_i64<E: Error>(self, seconds: i64) -> Result<Self::Value, E> {
                Time::seconds(seconds as f64)
            }

            fn visit_f64<E: Error>(self, seconds: f64) -> Result<Self::Value, E> {
                Time::seconds(seconds)
            }
        }

        deserializer.deserialize_any(Times)
    }
}

/// The schema of every [`Time`], independent of its bounds.
struct TimeText;

impl JsonSchema for TimeText {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Time".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A duration: numbers with the units `ms`, `s`, `m`, `h` or `d`. A number without a unit is in seconds.",
            "type": ["string", "number"], "minimum": 0, "examples": ["10s", "500ms", "5m", "1h", 75]
        })
    }
}

inline_schema!([const MIN: u64, const MAX: u64] Time<MIN, MAX>, |generator| {
    generator.subschema_for::<TimeText>()
});

impl<const MIN: u64, const MAX: u64> Serialize for Time<MIN, MAX> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Serializes a duration as a [`Time`].
pub(crate) mod as_time {
    use super::{Deserialize, Deserializer, Duration, Serialize, Serializer, Time};

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        <Time>::deserialize(deserializer).map(|time| time.0)
    }

    pub(crate) fn serialize<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        <Time>::from(*time).serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_parsed_and_formatted() {
        for (text, ms) in
            [("500ms", 500), ("10s", 10_000), ("5m", 300_000), ("1h", 3_600_000), ("1h 30m", 5_400_000)]
        {
            let time = parse_time(text).unwrap();
            assert_eq!(time.as_millis(), ms);
            assert_eq!(<Time>::from(time).to_string(), text);
        }
        for (text, ms) in
            [("1.5s", 1500), ("90 s", 90_000), ("2d", 172_800_000), ("75", 75_000), ("0.25", 250), ("0ms", 0)]
        {
            assert_eq!(parse_time(text).unwrap().as_millis(), ms, "{text}");
        }
        for wrong in ["", "s", "10 parsecs", "-1s", "-1", "99999999999999999999s", "1y", "nan", "inf"] {
            assert_eq!(parse_time(wrong), None, "{wrong}");
        }
    }
}
