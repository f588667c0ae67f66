//! Integers within bounds.

use std::fmt;

use schemars::json_schema;
use serde::de::{Deserializer, Error, Visitor};
use serde::{Deserialize, Serialize};

use crate::read::two_lines;

/// An integer from `MIN` to `MAX`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct Int<const MIN: u64, const MAX: u64>(pub u64);

impl<const MIN: u64, const MAX: u64> Int<MIN, MAX> {
    /// Converts to `usize`.
    #[must_use]
    pub fn as_usize(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }

    /// Converts to `u32`, which the bounds fit.
    #[must_use]
    pub fn as_u32(self) -> u32 {
        u32::try_from(self.0).unwrap_or(u32::MAX)
    }

    /// Converts to `u16`, which the bounds fit.
    #[must_use]
    pub fn as_u16(self) -> u16 {
        u16::try_from(self.0).unwrap_or(u16::MAX)
    }
}

impl<'de, const MIN: u64, const MAX: u64> Deserialize<'de> for Int<MIN, MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Ints<const MIN: u64, const MAX: u64>;

        fn out_of_range<E: Error>(number: impl fmt::Display, min: u64, max: u64) -> E {
            let expected = if max == u64::MAX {
                format!("expected {min} or more")
            } else {
                format!("expected {min} to {max}")
            };
            E::custom(two_lines(format_args!("{number} is out of range"), expected))
        }

        impl<const MIN: u64, const MAX: u64> Visitor<'_> for Ints<MIN, MAX> {
            type Value = Int<MIN, MAX>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an integer")
            }

            fn visit_u64<E: Error>(self, number: u64) -> Result<Self::Value, E> {
                let is_within = (MIN..=MAX).contains(&number);
                if is_within { Ok(Int(number)) } else { Err(out_of_range(number, MIN, MAX)) }
            }

            fn visit_i64<E: Error>(self, number: i64) -> Result<Self::Value, E> {
                self.visit_u64(u64::try_from(number).map_err(|_| out_of_range(number, MIN, MAX))?)
            }
        }

        deserializer.deserialize_u64(Ints)
    }
}

inline_schema!([const MIN: u64, const MAX: u64] Int<MIN, MAX>, |_generator| {
    let mut schema = json_schema!({ "type": "integer", "minimum": MIN });
    if MAX < u64::MAX {
        schema.insert("maximum".to_owned(), MAX.into());
    }
    schema
});

/// Deserializes a count from `MIN` to `MAX`.
pub fn count<'de, D, const MIN: u64, const MAX: u64>(deserializer: D) -> Result<usize, D::Error>
where
    D: Deserializer<'de>,
{
    Int::<MIN, MAX>::deserialize(deserializer).map(Int::as_usize)
}
