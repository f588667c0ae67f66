//! Sizes in bytes.

use std::fmt;
use std::str::FromStr;

use serde::de::{Deserializer, Error, Visitor};
use serde::{Deserialize, Serialize, Serializer};

use crate::visible;

/// A number of bytes from `MIN` to `MAX`: `"16k"`, `"16KiB"` (× 1024), `"20M"` (× 1024²), `"2T"`, or `"10MB"` (× 1,000,000).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Size<const MIN: u64 = 0, const MAX: u64 = { u64::MAX }>(pub u64);

/// As in nginx, single letters are binary units; SI units with a B are decimal. The last ones are in the order that `Display` needs.
const UNITS: [(&str, u64); 19] = [
    ("", 1),
    ("B", 1),
    ("kB", 1000),
    ("KB", 1000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
    ("k", 1 << 10),
    ("K", 1 << 10),
    ("M", 1 << 20),
    ("m", 1 << 20),
    ("G", 1 << 30),
    ("g", 1 << 30),
    ("T", 1 << 40),
    ("t", 1 << 40),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
];

const EXPECTED: &str =
    "expected a number of bytes, or a number and a unit, as in \"16k\", \"20M\" or \"10MB\"";

impl<const MIN: u64, const MAX: u64> Size<MIN, MAX> {
    fn within(bytes: u64) -> Result<Self, String> {
        if (MIN..=MAX).contains(&bytes) {
            return Ok(Self(bytes));
        }
        let [size, min, max] = [bytes, MIN, MAX].map(<Size>::from);
        Err(format!("{size} is out of range\nexpected {min} to {max}"))
    }

    /// Parses a size. The error has two lines: the problem, and what is expected.
    ///
    /// # Errors
    ///
    /// The text is no size, or the size is out of bounds.
    pub fn of_text(text: &str) -> Result<Self, String> {
        let invalid = || format!("\"{}\" is not a size\n{EXPECTED}", visible(text));
        Self::within(parse_size(text).ok_or_else(invalid)?)
    }

    /// Returns the size of a number of bytes. The error is that of [`Self::of_text`].
    ///
    /// # Errors
    ///
    /// The number is negative, or out of bounds.
    pub fn of_bytes(bytes: i128) -> Result<Self, String> {
        Self::within(u64::try_from(bytes).map_err(|_| format!("{bytes} is not a size\n{EXPECTED}"))?)
    }

    /// Converts to `usize`.
    #[must_use]
    pub fn as_usize(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

impl From<u64> for Size {
    fn from(bytes: u64) -> Self {
        Self(bytes)
    }
}

impl<const MIN: u64, const MAX: u64> From<Size<MIN, MAX>> for u64 {
    fn from(size: Size<MIN, MAX>) -> Self {
        size.0
    }
}

impl<const MIN: u64, const MAX: u64> From<Size<MIN, MAX>> for Option<u64> {
    fn from(size: Size<MIN, MAX>) -> Self {
        Some(size.0)
    }
}

fn parse_size(text: &str) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let unit = text[digits..].trim_start();
    let (_, factor) = UNITS.iter().find(|(name, _)| *name == unit)?;
    text[..digits].parse::<u64>().ok()?.checked_mul(*factor)
}

impl<const MIN: u64, const MAX: u64> FromStr for Size<MIN, MAX> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::within(parse_size(text).ok_or(EXPECTED)?)
    }
}

impl<const MIN: u64, const MAX: u64> fmt::Display for Size<MIN, MAX> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut binary = UNITS[15..].iter().rev();
        match binary.find(|(_, factor)| self.0 >= *factor && self.0.is_multiple_of(*factor)) {
            Some((unit, factor)) => write!(f, "{}{unit}", self.0 / factor),
            None => write!(f, "{}B", self.0),
        }
    }
}

impl<'de, const MIN: u64, const MAX: u64> Deserialize<'de> for Size<MIN, MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Sizes<const MIN: u64, const MAX: u64>;

        impl<const MIN: u64, const MAX: u64> Visitor<'_> for Sizes<MIN, MAX> {
            type Value = Size<MIN, MAX>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a size (\"16k\")")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
                Size::of_text(text).map_err(E::custom)
            }

            fn visit_i64<E: Error>(self, bytes: i64) -> Result<Self::Value, E> {
                Size::of_bytes(bytes.into()).map_err(E::custom)
            }
        }

        deserializer.deserialize_any(Sizes)
    }
}

impl<const MIN: u64, const MAX: u64> Serialize for Size<MIN, MAX> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_parsed_and_formatted() {
        for (text, bytes) in [("16KiB", 16_384), ("1MiB", 1 << 20), ("512B", 512), ("3GiB", 3 << 30)] {
            assert_eq!(parse_size(text), Some(bytes));
            assert_eq!(<Size>::from(bytes).to_string(), text);
        }
        for (text, bytes) in [
            ("16k", 16_384),
            ("20M", 20 << 20),
            ("1g", 1 << 30),
            ("2T", 2 << 40),
            ("10MB", 10_000_000),
            ("2 kB", 2000),
            ("7", 7),
        ] {
            assert_eq!(parse_size(text), Some(bytes), "{text}");
        }
        for wrong in ["", "KiB", "1.5MiB", "-1B", "18446744073709551615GiB", "16kb"] {
            assert_eq!(parse_size(wrong), None, "{wrong}");
        }
    }
}
