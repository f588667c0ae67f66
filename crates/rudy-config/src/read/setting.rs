//! The types of values, which are checked when they are read.

use std::collections::BTreeMap;
use std::path::PathBuf;

use toml::de::DeValue;

use super::{Invalid, TableReader, Value};
use crate::location::Location;
use crate::shape::{Key, Shape, TableInfo, Word};

/// A type of values of the configuration.
pub trait Setting: Sized {
    /// How its values are written.
    const SHAPE: Shape;

    /// Reads a value.
    ///
    /// # Errors
    ///
    /// The value is invalid, which has been reported.
    fn read(value: &Value<'_>) -> Result<Self, Invalid>;

    /// Writes it as in TOML, as a default. `None` if there is nothing to write.
    fn written(&self) -> Option<String> {
        None
    }
}

/// A table with known keys. The derive of the same name implements it.
pub trait Table: Setting {
    /// Its description.
    const TABLE: &'static TableInfo;

    /// Reads the keys of a table, or of this part of it.
    ///
    /// # Errors
    ///
    /// A required key is missing or invalid, which has been reported.
    fn read_keys(table: &TableReader<'_>) -> Result<Self, Invalid>;
}

/// An enumeration whose values are words. The derive of the same name implements it.
pub trait Words: Copy + PartialEq + 'static {
    /// The words.
    const WORDS: &'static [Word];
    /// The value of each.
    const VALUES: &'static [Self];

    /// The word of this value.
    fn word(&self) -> &'static str {
        let words = Self::VALUES.iter().zip(Self::WORDS);
        words.into_iter().find(|(value, _)| *value == self).map_or("", |(_, word)| word.text)
    }
}

/// An enumeration of tables, of which the key of a table selects one.
pub trait Choice: Sized {
    /// The keys.
    const KEYS: &'static [Key];

    /// Reads the value of the key with this name.
    ///
    /// # Errors
    ///
    /// The value is invalid, which has been reported.
    fn read(name: &str, value: &Value<'_>) -> Result<Self, Invalid>;
}

impl Setting for bool {
    const SHAPE: Shape = Shape::Boolean;

    fn read(value: &Value<'_>) -> Result<Self, Invalid> {
        value.boolean().map_or_else(|| value.expected("true or false"), Ok)
    }

    fn written(&self) -> Option<String> {
        Some(self.to_string())
    }
}

impl Setting for u32 {
    const SHAPE: Shape = Shape::Integer { min: 0, max: Self::MAX as u64 };

    fn read(value: &Value<'_>) -> Result<Self, Invalid> {
        let number = value.integer(0, Self::MAX.into())?;
        Ok(Self::try_from(number).unwrap_or(Self::MAX))
    }

    fn written(&self) -> Option<String> {
        Some(self.to_string())
    }
}

impl Setting for String {
    const SHAPE: Shape = Shape::Text { is_required: false };

    fn read(value: &Value<'_>) -> Result<Self, Invalid> {
        value.text().map(str::to_owned)
    }

    fn written(&self) -> Option<String> {
        Some(quoted(self))
    }
}

impl Setting for PathBuf {
    const SHAPE: Shape = String::SHAPE;

    /// Not relative to the file: a path of another machine or container.
    fn read(value: &Value<'_>) -> Result<Self, Invalid> {
        value.text().map(Self::from)
    }
}

impl<T: Setting> Setting for Option<T> {
    const SHAPE: Shape = T::SHAPE;

    fn read(value: &Value<'_>) -> Result<Self, Invalid> {
        T::read(value).map(Some)
    }

    fn written(&self) -> Option<String> {
        self.as_ref()?.written()
    }
}

impl<T: Setting> Setting for Box<T> {
    const SHAPE: Shape = T::SHAPE;

    fn read(value: &Value<'_>) -> Result<Self, Invalid> {
        T::read(value).map(Self::new)
    }
}

impl<T: Setting> Setting for Vec<T> {
    const SHAPE: Shape = Shape::List(&T::SHAPE, 0);

    fn read(value: &Value<'_>) -> Result<Self, Invalid> {
        value.list()
    }

    fn written(&self) -> Option<String> {
        let values: Option<Vec<_>> = self.iter().map(T::written).collect();
        values.filter(|values| !values.is_empty()).map(|values| format!("[{}]", values.join(", ")))
    }
}

impl<K: Setting + Ord, T: Setting> Setting for BTreeMap<K, T> {
    const SHAPE: Shape = Shape::Map(&T::SHAPE, None);

    fn read(value: &Value<'_>) -> Result<Self, Invalid> {
        Ok(value.entries()?.into_iter().collect())
    }
}

/// A value with its location.
#[derive(Debug, Clone)]
pub struct Located<T> {
    /// Where the value is written.
    pub location: Location,
    /// The value.
    pub value: T,
}

impl<T: Setting> Setting for Located<T> {
    const SHAPE: Shape = T::SHAPE;

    fn read(value: &Value<'_>) -> Result<Self, Invalid> {
        Ok(Self { location: value.location().clone(), value: T::read(value)? })
    }
}

/// Writes a text as in TOML.
pub(crate) fn quoted(text: &str) -> String {
    toml::Value::from(text).to_string()
}

impl Shape {
    /// Whether values of this shape can be of the kind of `value`. Whether they are valid is another question.
    pub(crate) fn accepts(&self, value: &DeValue<'_>) -> bool {
        use crate::shape::Kind;
        match (self, value) {
            (Self::Either(shapes), _) => shapes.iter().any(|shape| shape.accepts(value)),
            (Self::Named(named), DeValue::String(_)) => named.kinds.contains(&Kind::Text),
            (Self::Named(named), DeValue::Integer(_)) => named.kinds != [Kind::Text],
            (Self::Named(named), DeValue::Float(_)) => named.kinds.contains(&Kind::Number),
            (Self::Boolean | Self::False, DeValue::Boolean(_))
            | (Self::Integer { .. } | Self::Integers(_), DeValue::Integer(_))
            | (Self::Text { .. } | Self::Words(_), DeValue::String(_))
            | (Self::List(..), DeValue::Array(_))
            | (Self::Map(..) | Self::Table(_), DeValue::Table(_)) => true,
            (Self::Table(table), _) => table().short.is_some_and(|short| short.accepts(value)),
            _ => false,
        }
    }
}
