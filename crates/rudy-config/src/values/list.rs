//! Lists that can be a single value, and tables with their location.

use std::fmt;
use std::marker::PhantomData;

use schemars::{JsonSchema, json_schema};
use serde::Deserialize;
use serde::de::{Deserializer, Error, SeqAccess, Visitor};

use crate::diagnostics::Location;
use crate::read::marker;

pub(super) fn empty_list<E: Error>() -> E {
    E::custom("the list is empty\nexpected at least one value\nremove the key to use its default")
}

/// One value, or a list of at least one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OneOrMany<T>(Vec<T>);

impl<T> OneOrMany<T> {
    /// All values.
    #[must_use]
    pub fn as_slice(&self) -> &[T] {
        &self.0
    }
}

impl<T> FromIterator<T> for OneOrMany<T> {
    fn from_iter<I: IntoIterator<Item = T>>(values: I) -> Self {
        Self(values.into_iter().collect())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for OneOrMany<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct List<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for List<T> {
            type Value = OneOrMany<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a value or a list")
            }

            fn visit_newtype_struct<D: Deserializer<'de>>(self, one: D) -> Result<Self::Value, D::Error> {
                T::deserialize(one).map(|one| OneOrMany(vec![one]))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
                let mut values = Vec::new();
                while let Some(value) = list.next_element()? {
                    values.push(value);
                }
                if values.is_empty() { Err(empty_list()) } else { Ok(OneOrMany(values)) }
            }
        }

        deserializer.deserialize_newtype_struct(marker::LIST, List(PhantomData))
    }
}

inline_schema!([T: JsonSchema] OneOrMany<T>, |generator| {
    let one = generator.subschema_for::<T>();
    json_schema!({ "anyOf": [one, { "type": "array", "items": one, "minItems": 1 }] })
});

/// A table with its location.
#[derive(Debug, Clone)]
pub struct Located<T> {
    /// Where the value is written.
    pub location: Location,
    /// The table.
    pub value: T,
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Located<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(rename = "$at")]
        struct Pair<T> {
            location: String,
            value: T,
        }

        let Pair { location, value } = Pair::deserialize(deserializer)?;
        Ok(Self { location: Location::from_text(&location), value })
    }
}

inline_schema!([T: JsonSchema] Located<T>, |generator| {
    generator.subschema_for::<T>()
});
