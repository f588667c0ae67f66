//! The serde deserializer of a value.

use std::os::unix::ffi::OsStrExt;

use serde::de::value::StrDeserializer;
use serde::de::{DeserializeSeed, Deserializer, Error as _, SeqAccess, Unexpected, Visitor};
use serde::forward_to_deserialize_any;
use toml::Spanned;
use toml::de::DeValue;

use super::error::Error;
use super::table::{Entries, LocatedAccess};
use super::{Reader, marker};
use crate::diagnostics::{Location, Problem};
use crate::nearest::nearest;

/// A value of a file.
#[derive(Clone)]
pub(super) struct Value<'r> {
    pub(super) reader: &'r Reader<'r>,
    pub(super) content: &'r DeValue<'r>,
    pub(super) location: Location,
}

impl<'r> Value<'r> {
    pub(super) fn new(reader: &'r Reader<'r>, content: &'r DeValue<'r>, location: Location) -> Self {
        Self { reader, content, location }
    }

    /// The type of this value, for people.
    fn type_name(&self) -> &'static str {
        match self.content {
            DeValue::String(_) => "a string",
            DeValue::Integer(_) => "an integer",
            DeValue::Float(_) => "a number",
            DeValue::Boolean(_) => "true or false",
            DeValue::Datetime(_) => "a date",
            DeValue::Array(_) => "a list",
            DeValue::Table(_) => "a table",
        }
    }

    /// The error that this value has the wrong type.
    pub(super) fn unexpected(&self, expected: &'static str) -> Error {
        let message = format!("expected {expected}, found {}", self.type_name());
        match self.content {
            DeValue::Table(_) if expected == "a list" => {
                Error::custom(super::two_lines(message, format_args!("write [[{}]]", self.location.keys())))
            }
            DeValue::Integer(number) if expected == "a string" => {
                Error::custom(super::two_lines(message, format_args!("write \"{}\"", number.as_str())))
            }
            _ => match self.reader.hints.example(&self.location, expected) {
                Some(line) => Error::custom(super::two_lines(message, line)),
                None => Error::custom(message),
            },
        }
        .at(&self.location)
    }

    fn text(&self) -> Result<&'r str, Error> {
        if let DeValue::String(text) = self.content { Ok(text) } else { Err(self.unexpected("a string")) }
    }

    /// The text as a path relative to the folder of the file. With `is_program`, a name without a slash stays a name in `PATH`.
    fn path<'de, V: Visitor<'de>>(&self, visitor: V, is_program: bool) -> Result<V::Value, Error> {
        let text = self.text()?;
        if text.is_empty() {
            return Err(Error::custom("the value is empty"));
        }
        if is_program && !text.contains('/') {
            return visitor.visit_str(text);
        }
        visitor.visit_bytes(self.reader.folder.join(text).as_os_str().as_bytes())
    }

    fn integer<'de, V: Visitor<'de>>(&self, visitor: V) -> Result<V::Value, Error> {
        let number = match self.content {
            DeValue::Integer(number) => i128::from_str_radix(number.as_str(), number.radix()).ok(),
            // The value of an environment variable is text.
            DeValue::String(text) if self.reader.expanded.contains(&self.location) => text.parse().ok(),
            _ => return Err(self.unexpected("an integer")),
        };
        match number {
            Some(number) if number >= 0 => u64::try_from(number).map_or_else(
                |_| Err(Error::custom(format_args!("{number} is out of range"))),
                |number| visitor.visit_u64(number),
            ),
            Some(number) => visitor.visit_i64(i64::try_from(number).unwrap_or(i64::MIN)),
            None => Err(Error::custom("this is not an integer")),
        }
    }

    fn list<'de, V: Visitor<'de>>(&self, visitor: V) -> Result<V::Value, Error> {
        let DeValue::Array(array) = self.content else { return Err(self.unexpected("a list")) };
        visitor.visit_seq(Elements {
            list: self,
            rest: array.iter().enumerate(),
            is_whole: true,
            has_any: array.is_empty(),
        })
    }

    fn any<'de, V: Visitor<'de>>(&self, visitor: V) -> Result<V::Value, Error> {
        match self.content {
            DeValue::String(text) => visitor.visit_str(text),
            DeValue::Integer(_) => self.integer(visitor),
            DeValue::Float(number) => match number.as_str().parse() {
                Ok(number) => visitor.visit_f64(number),
                Err(_) => Err(Error::custom("not a number")),
            },
            DeValue::Boolean(value) => visitor.visit_bool(*value),
            DeValue::Datetime(_) => Err(Error::invalid_type(Unexpected::Other("a date"), &visitor)),
            DeValue::Array(_) => self.list(visitor),
            DeValue::Table(table) => visitor.visit_map(Entries::all(self, table)),
        }
    }

    /// An enumeration of words.
    fn word<'de, V: Visitor<'de>>(
        &self,
        words: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        let (text, found) = match self.content {
            DeValue::String(text) if words.contains(&&**text) => {
                return visitor.visit_enum(StrDeserializer::<Error>::new(text));
            }
            DeValue::String(text) => (&**text, format!("\"{text}\"")),
            DeValue::Boolean(false) => ("off", self.type_name().to_owned()),
            _ => ("", self.type_name().to_owned()),
        };
        let names: Vec<_> = words.iter().map(|word| format!("\"{word}\"")).collect();
        let title = format!("expected {}, found {found}", names.join(" or "));
        let label = nearest(text, words.iter().copied()).map(|near| format!("did you mean \"{near}\"?"));
        self.reader.report(Problem::value(&self.location, title).label(label.unwrap_or_default()));
        Err(Error::reported(&self.location))
    }
}

/// Adds the location of the value to the errors of each method.
macro_rules! methods {
    ($($name:ident($self:ident, $visitor:ident $(, $argument:ident: $type:ty)*) => $body:expr;)*) => {
        $(fn $name<V: Visitor<'de>>($self $(, $argument: $type)*, $visitor: V) -> Result<V::Value, Error> {
            let location = $self.location.clone();
            let result: Result<V::Value, Error> = $body;
            result.map_err(|error| error.at(&location))
        })*
    };
}

impl<'de> Deserializer<'de> for Value<'_> {
    type Error = Error;

    methods! {
        deserialize_any(self, visitor) => self.any(visitor);
        deserialize_bool(self, visitor) => match self.content {
            DeValue::Boolean(value) => visitor.visit_bool(*value),
            _ => Err(self.unexpected("true or false")),
        };
        deserialize_u8(self, visitor) => self.integer(visitor);
        deserialize_u16(self, visitor) => self.integer(visitor);
        deserialize_u32(self, visitor) => self.integer(visitor);
        deserialize_u64(self, visitor) => self.integer(visitor);
        deserialize_i64(self, visitor) => self.integer(visitor);
        deserialize_str(self, visitor) => visitor.visit_str(self.text()?);
        deserialize_string(self, visitor) => visitor.visit_str(self.text()?);
        deserialize_option(self, visitor) => visitor.visit_some(self);
        deserialize_seq(self, visitor) => self.list(visitor);
        deserialize_map(self, visitor) => match self.content {
            DeValue::Table(table) => visitor.visit_map(Entries::all(&self, table)),
            _ => Err(self.unexpected("a table")),
        };
        deserialize_newtype_struct(self, visitor, name: &'static str) => match (name, self.content) {
            (marker::LIST, DeValue::Array(_)) => self.list(visitor),
            (marker::SHORT_PATH, DeValue::String(_)) | (marker::PATH, _) => self.path(visitor, false),
            (marker::SHORT | marker::SHORT_PATH, value) if !matches!(value, DeValue::Table(_)) => self.any(visitor),
            (marker::OR_OFF, DeValue::Boolean(false)) => visitor.visit_bool(false),
            (marker::PROGRAM, _) => self.path(visitor, true),
            _ => visitor.visit_newtype_struct(self),
        };
        deserialize_struct(self, visitor, name: &'static str, fields: &'static [&'static str]) => {
            match self.content {
                _ if name == marker::AT => visitor.visit_map(LocatedAccess::new(self)),
                DeValue::Table(table) => Entries::read(&self, table, fields, visitor),
                _ => Err(self.unexpected("a table")),
            }
        };
        deserialize_enum(self, visitor, _name: &'static str, words: &'static [&'static str]) => {
            self.word(words, visitor)
        };
    }

    forward_to_deserialize_any! {
        i8 i16 i32 i128 u128 f32 f64 char bytes byte_buf unit unit_struct tuple tuple_struct identifier ignored_any
    }
}

/// The elements of a list, without the invalid ones. If an invalid element is not a table, or no element is left, the whole list is
/// skipped, because the indices of the others would change.
struct Elements<'r, 'l> {
    list: &'l Value<'r>,
    rest: std::iter::Enumerate<std::slice::Iter<'r, Spanned<DeValue<'r>>>>,
    is_whole: bool,
    /// Whether an element was valid, or the list is empty.
    has_any: bool,
}

impl<'de> SeqAccess<'de> for Elements<'_, '_> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Error> {
        for (index, element) in self.rest.by_ref() {
            let location = self.list.location.index(index);
            if !self.list.reader.is_invalid(&location) {
                self.has_any = true;
                return seed.deserialize(Value::new(self.list.reader, element.get_ref(), location)).map(Some);
            }
            self.is_whole &= element.get_ref().is_table();
        }
        if self.is_whole && self.has_any { Ok(None) } else { Err(Error::reported(&self.list.location)) }
    }
}
