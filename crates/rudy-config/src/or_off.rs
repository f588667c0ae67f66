//! Settings that `false` switches off.

use crate::read::{Invalid, Setting, Value};
use crate::shape::Shape;

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

impl<T: Setting> Setting for OrOff<T> {
    const SHAPE: Shape = Shape::Either(&[&Shape::False, &T::SHAPE]);

    fn read(value: &Value<'_>) -> Result<Self, Invalid> {
        if value.boolean() == Some(false) {
            return Ok(Self::Off);
        }
        T::read(value).map(|setting| Self::On(Box::new(setting)))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::{FilePath, Int, OneOrMany, Table, from_text};

    type Settings<T> = BTreeMap<String, OrOff<T>>;

    #[derive(Debug, Clone, PartialEq, Eq, Table)]
    struct Inner {
        /// A number.
        of: Int<1, 9>,
    }

    #[test]
    fn false_is_off_and_every_other_value_is_the_setting() {
        let table = |text| from_text::<Settings<Inner>>(text).unwrap().remove("key");
        assert_eq!(table(""), None);
        assert_eq!(table("key = false"), Some(OrOff::Off));
        assert_eq!(table("key = { of = 3 }").unwrap().on(), Some(&Inner { of: Int(3) }));
        let path = from_text::<Settings<FilePath>>("key = 'a'").unwrap().remove("key").unwrap();
        assert_eq!(path.on(), Some(&FilePath::from("a")));
        let list =
            from_text::<Settings<OneOrMany<Int<1, 9>>>>("key = [1, 2]").unwrap().remove("key").unwrap();
        assert_eq!(list.on().unwrap().as_slice(), [Int(1), Int(2)]);
        let switch = from_text::<Settings<bool>>("key = true").unwrap().remove("key").unwrap();
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
            let problems = from_text::<Settings<Inner>>(text).unwrap_err();
            let lines: Vec<_> = problems.iter().map(crate::Problem::line).collect();
            assert!(lines.len() == 1 && lines[0].contains(expected), "{text}: {lines:?}");
        }
    }
}
