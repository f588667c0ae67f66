//! Values written as text.

use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;

use rudy_units::visible;
use serde::de::{Error, Unexpected, Visitor};

use crate::read::two_lines;

/// Visits text, and optionally an integer, for a type that implements `FromStr`.
pub struct TextVisitor<T> {
    what: &'static str,
    accepts_integers: bool,
    of: PhantomData<T>,
}

impl<T> TextVisitor<T> {
    /// `what` describes the text, with an example: `a host ("example.org")`.
    #[must_use]
    pub fn new(what: &'static str) -> Self {
        Self { what, accepts_integers: false, of: PhantomData }
    }

    /// Also accepts integers, which are converted to text.
    #[must_use]
    pub fn or_integer(self) -> Self {
        Self { accepts_integers: true, ..self }
    }
}

impl<T: FromStr<Err = String>> Visitor<'_> for TextVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.what)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        // The label already has an example.
        let what = self.what.split(" (").next().unwrap_or_default();
        text.parse().map_err(|why: String| {
            E::custom(two_lines(format_args!("\"{}\" is not {what}", visible(text)), visible(&why)))
        })
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<T, E> {
        if self.accepts_integers {
            return self.visit_str(&number.to_string());
        }
        Err(E::invalid_type(Unexpected::Unsigned(number), &self))
    }
}

/// Implements `Deserialize` and `JsonSchema` for a type with `FromStr`, whose error is the expected value, and `Display`.
#[macro_export]
macro_rules! written_as_text {
    ($type:ident, $what:literal, $schema:tt $($or_integer:ident)?) => {
        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_any($crate::TextVisitor::<$type>::new($what)$(.$or_integer())?)
            }
        }

        impl schemars::JsonSchema for $type {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($type).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!($schema)
            }
        }
    };
}
