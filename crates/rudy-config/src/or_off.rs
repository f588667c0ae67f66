//! Settings that `false` switches off.

use std::fmt;
use std::marker::PhantomData;

use schemars::{JsonSchema, json_schema};
use serde::Deserialize;
use serde::de::{Deserializer, Error, Visitor};

use crate::inline_schema;
use crate::read::marker;

/// A setting, or `false` to switch off the one of the site on a route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OrOff<T> {
    /// `false`: the setting of the site has no effect.
    Off,
    /// The setting. It is boxed, because most sites and routes do not have it.
    On(Box<T>),
}

impl<T> OrOff<T> {
    /// Returns the setting unless it is switched off.
    #[must_use]
    pub fn on(&self) -> Option<&T> {
        match self {
            Self::Off => None,
            Self::On(setting) => Some(setting),
        }
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for OrOff<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Switch<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for Switch<T> {
            type Value = OrOff<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a setting or false")
            }

            fn visit_bool<E: Error>(self, _: bool) -> Result<OrOff<T>, E> {
                Ok(OrOff::Off)
            }

            fn visit_newtype_struct<D: Deserializer<'de>>(self, setting: D) -> Result<OrOff<T>, D::Error> {
                T::deserialize(setting).map(|setting| OrOff::On(Box::new(setting)))
            }
        }

        deserializer.deserialize_newtype_struct(marker::OR_OFF, Switch(PhantomData))
    }
}

inline_schema!([T: JsonSchema] OrOff<T>, |generator| {
    json_schema!({ "anyOf": [{ "const": false }, generator.subschema_for::<T>()] })
});

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FilePath, Int, OneOrMany, from_text};

    #[derive(Debug, Deserialize)]
    struct Table<T> {
        key: Option<OrOff<T>>,
    }

    #[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Inner {
        of: Int<1, 9>,
    }

    #[test]
    fn false_is_off_and_every_other_value_is_the_setting() {
        let table = |text| from_text::<Table<Inner>>(text).unwrap().key;
        assert_eq!(table(""), None);
        assert_eq!(table("key = false"), Some(OrOff::Off));
        assert_eq!(table("key = { of = 3 }").unwrap().on(), Some(&Inner { of: Int(3) }));
        let path = from_text::<Table<FilePath>>("key = 'a'").unwrap().key.unwrap();
        assert_eq!(path.on(), Some(&FilePath::from("a")));
        let list = from_text::<Table<OneOrMany<Int<1, 9>>>>("key = [1, 2]").unwrap().key.unwrap();
        assert_eq!(list.on().unwrap().as_slice(), [Int(1), Int(2)]);
        let switch = from_text::<Table<bool>>("key = true").unwrap().key.unwrap();
        assert_eq!(switch.on(), Some(&true));
    }

    #[test]
    fn an_invalid_setting_is_reported_as_without_the_switch() {
        for (text, expected) in [
            ("key = true", "expected a table, found true or false"),
            ("key = 1", "expected a table, found an integer"),
            ("key = { of = 10 }", "10 is out of range"),
            ("key = { of = 1, or = 2 }", "unknown key"),
        ] {
            let problems = from_text::<Table<Inner>>(text).unwrap_err();
            let lines: Vec<_> = problems.iter().map(crate::Problem::line).collect();
            assert!(lines.len() == 1 && lines[0].contains(expected), "{text}: {lines:?}");
        }
    }
}
