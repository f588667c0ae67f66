//! Values that are written as text: lengths of time, sizes, addresses.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use rudy_net::engine::{Model, UnknownModel};
use rudy_net::listen::Address;
use serde::{Deserialize, Serialize};

/// A length of time: a whole number and its unit, as in `"500ms"`, `"10s"`, `"5m"`, `"1h"` or `"1d"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Time(pub Duration);

/// Longest first within a letter, so that `ms` is not read as `s`.
const TIME_UNITS: [(&str, u64); 5] =
    [("ms", 1), ("s", 1000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];

impl FromStr for Time {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = || "expected a whole number and a unit (ms, s, m, h or d), as in \"10s\"".to_owned();
        let (number, unit) = split_number(text).ok_or_else(expected)?;
        let (_, factor) = TIME_UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(expected)?;
        let ms = number.checked_mul(*factor).ok_or("this time is too long to count")?;
        Ok(Self(Duration::from_millis(ms)))
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Whole milliseconds: nothing finer can be written.
        let ms = u64::try_from(self.0.as_millis()).unwrap_or(u64::MAX);
        let (unit, factor) = TIME_UNITS
            .iter()
            .rev()
            .find(|(_, factor)| ms >= *factor && ms.is_multiple_of(*factor))
            .unwrap_or(&("s", 1000));
        write!(f, "{}{unit}", ms / factor)
    }
}

/// A number of bytes: a whole number, or one with a unit, as in `"16KiB"` (× 1024) or `"10MB"` (× 1,000,000).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "IntegerOrText", into = "String")]
pub struct Size(pub u64);

const SIZE_UNITS: [(&str, u64); 9] = [
    ("B", 1),
    ("kB", 1000),
    ("KB", 1000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
];

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = || {
            "expected a number of bytes, or a whole number and a unit, as in \"16KiB\" or \"10MB\"".to_owned()
        };
        let (number, unit) = split_number(text).ok_or_else(expected)?;
        let (_, factor) = SIZE_UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(expected)?;
        number.checked_mul(*factor).map(Self).ok_or_else(|| "this size is too large to count".to_owned())
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let binary = SIZE_UNITS[5..].iter().rev();
        match binary.clone().find(|(_, factor)| self.0 >= *factor && self.0.is_multiple_of(*factor)) {
            Some((unit, factor)) => write!(f, "{}{unit}", self.0 / factor),
            None => write!(f, "{}B", self.0),
        }
    }
}

/// `10ms` into `(10, "ms")`; a space between the two is let through.
fn split_number(text: &str) -> Option<(u64, &str)> {
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    Some((text[..digits].parse().ok()?, text[digits..].trim_start()))
}

#[derive(Deserialize)]
#[serde(untagged)]
enum IntegerOrText {
    Integer(u64),
    Text(String),
}

impl TryFrom<IntegerOrText> for Size {
    type Error = String;

    fn try_from(value: IntegerOrText) -> Result<Self, String> {
        match value {
            IntegerOrText::Integer(bytes) => Ok(Self(bytes)),
            IntegerOrText::Text(text) => text.parse(),
        }
    }
}

/// Where to accept connections, as [`rudy_net::listen`] reads it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ListenAddress(pub Address);

impl FromStr for ListenAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        text.parse().map(Self).map_err(|error: rudy_net::listen::AddressError| error.problem().to_owned())
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// An engine, as [`rudy_net::engine`] names it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct EngineName(pub Model);

impl FromStr for EngineName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        text.parse().map(Self).map_err(|error: UnknownModel| error.to_string())
    }
}

impl fmt::Display for EngineName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Text on the outside, a checked value on the inside. `format` names the checker that the validator calls, see
/// [`super::check`]; editors see `pattern` or the examples.
macro_rules! written_as_text {
    ($type:ident, $format:literal, $schema:tt) => {
        impl TryFrom<String> for $type {
            type Error = String;

            fn try_from(text: String) -> Result<Self, String> {
                text.parse()
            }
        }

        written_as_text!(out: $type, $format, $schema);
    };
    (out: $type:ident, $format:literal, $schema:tt) => {
        impl From<$type> for String {
            fn from(value: $type) -> Self {
                value.to_string()
            }
        }

        impl schemars::JsonSchema for $type {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($type).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                let mut schema = schemars::json_schema!($schema);
                schema.insert("format".to_owned(), $format.into());
                schema
            }
        }
    };
}

written_as_text!(Time, "rudy-time", { "type": "string", "pattern": "^[0-9]+ *(ms|s|m|h|d)$" });
written_as_text!(out: Size, "rudy-size",
    { "type": ["integer", "string"], "minimum": 0, "pattern": "^[0-9]+ *([kKMG]?B|[KMGT]iB)$" });
written_as_text!(ListenAddress, "rudy-listen",
    { "type": "string", "examples": ["127.0.0.1:8080", "[::1]:80", ":8080", "unix:/run/rudy.sock", "systemd"] });

written_as_text!(EngineName, "rudy-engine",
    { "type": "string", "pattern": "^(serial|thread|pool:[0-9]+|task|mailbox|percore)$" });

pub(crate) use written_as_text;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_and_written_back() {
        for (text, ms) in
            [("500ms", 500), ("10s", 10_000), ("5m", 300_000), ("1h", 3_600_000), ("2d", 172_800_000)]
        {
            let time: Time = text.parse().unwrap();
            assert_eq!(time.0.as_millis(), ms);
            assert_eq!(time.to_string(), text);
        }
        assert_eq!("90 s".parse::<Time>().unwrap().to_string(), "90s");
        assert_eq!("0ms".parse::<Time>().unwrap().to_string(), "0s");
        for wrong in
            ["", "10", "s", "10 parsecs", "1.5s", "-1s", "99999999999999999999s", "18446744073709551615d"]
        {
            assert!(wrong.parse::<Time>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn sizes_are_read_and_written_back() {
        for (text, bytes) in [("16KiB", 16_384), ("1MiB", 1 << 20), ("512B", 512), ("3GiB", 3 << 30)] {
            let size: Size = text.parse().unwrap();
            assert_eq!(size.0, bytes);
            assert_eq!(size.to_string(), text);
        }
        assert_eq!("10MB".parse::<Size>().unwrap().0, 10_000_000);
        for wrong in ["", "16", "16k", "KiB", "1.5MiB", "-1B", "18446744073709551615GiB"] {
            assert!(wrong.parse::<Size>().is_err(), "{wrong}");
        }
    }
}
