//! The entries of a table, for serde: keys that are not known are said, and left out.
//!
//! A struct may consist of parts that share its table. Their fields are named with a dollar sign (`#[serde(rename = "$app")]`).
//! serde's `flatten` would copy the values, and lose their places and the names of the keys. An enum as a part is chosen by
//! the key that is there.

use std::cell::{Cell, RefCell};

use serde::de::value::StrDeserializer;
use serde::de::{DeserializeSeed, Deserializer, EnumAccess, Error as _, MapAccess, VariantAccess, Visitor};
use serde::forward_to_deserialize_any;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::error::Error;
use super::value::Value;
use crate::config::diagnostics::{Location, Problem};
use crate::config::hints;

/// What the readers of one table share.
struct Frame<'r> {
    value: Value<'r>,
    table: &'r DeTable<'r>,
    /// The keys that the struct and its parts have.
    known: RefCell<Vec<&'static str>>,
    /// Whether all of it was read, so that `known` is complete.
    is_complete: Cell<bool>,
}

/// An entry to read next.
enum Entry<'r> {
    Key(&'r str, &'r DeValue<'r>),
    Part(&'static str),
}

/// The entries of a table, one after the other.
pub(super) struct Entries<'r, 'f> {
    location: &'f Location,
    reader: &'r super::Reader<'r>,
    /// Nothing for a map, whose keys are all known.
    frame: Option<&'f Frame<'r>>,
    rest: std::vec::IntoIter<Entry<'r>>,
    next: Option<Entry<'r>>,
}

impl<'r, 'f> Entries<'r, 'f> {
    /// All entries, as of a map.
    pub(super) fn all(value: &'f Value<'r>, table: &'r DeTable<'r>) -> Self {
        Self::new(value, None, table, |_| true, &[])
    }

    fn new(
        value: &'f Value<'r>,
        frame: Option<&'f Frame<'r>>,
        table: &'r DeTable<'r>,
        is_wanted: impl Fn(&str) -> bool,
        fields: &'static [&'static str],
    ) -> Self {
        let (reader, location) = (value.reader, &value.location);
        let keys = table.iter().filter_map(|(key, value)| {
            let key = key.get_ref().as_ref();
            let is_read = is_wanted(key) && !reader.is_wrong(&location.key(key));
            is_read.then(|| Entry::Key(key, value.get_ref()))
        });
        // Parts come last: then the keys of the struct itself are known.
        let parts = fields.iter().copied().filter(|field| field.starts_with('$')).map(Entry::Part);
        let entries: Vec<_> = keys.chain(parts).collect();
        Self { location, reader, frame, rest: entries.into_iter(), next: None }
    }

    /// Reads a struct of these fields.
    pub(super) fn read<'de, V: Visitor<'de>>(
        value: &Value<'r>,
        table: &'r DeTable<'r>,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        let known = RefCell::new(fields.to_vec());
        let frame = Frame { value: value.clone(), table, known, is_complete: Cell::new(false) };
        let result = frame.struct_of(fields, visitor);
        if frame.is_complete.get() {
            frame.say_unknown();
        }
        result
    }
}

impl Frame<'_> {
    fn struct_of<'de, V: Visitor<'de>>(
        &self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_map(Entries::new(
            &self.value,
            Some(self),
            self.table,
            |key| fields.contains(&key) && !key.starts_with('$'),
            fields,
        ))
    }

    /// Says which keys are not known, once. Whether there are any.
    fn say_unknown(&self) -> bool {
        let Value { reader, location, .. } = &self.value;
        let known = self.known.borrow();
        let mut has_unknown = false;
        for (key, _) in self.table {
            let key = key.get_ref().as_ref();
            if known.contains(&key) && !key.starts_with('$') {
                continue;
            }
            has_unknown = true;
            let location = location.key(key);
            if !reader.is_wrong(&location) {
                reader.say(hints::unknown(&location, key, &known));
                reader.wrong.borrow_mut().push(location);
            }
        }
        has_unknown
    }
}

impl<'de> MapAccess<'de> for Entries<'_, '_> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        self.next = self.rest.next();
        let Some(next) = &self.next else {
            if let Some(frame) = self.frame {
                frame.is_complete.set(true);
            }
            return Ok(None);
        };
        let (Entry::Key(key, _) | Entry::Part(key)) = *next;
        let name = seed.deserialize(StrDeserializer::<Error>::new(key));
        name.map(Some).map_err(|error| error.at_key(&self.location.key(key)))
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        match (self.next.take(), self.frame) {
            (Some(Entry::Key(key, value)), _) => {
                let location = self.location.key(key);
                seed.deserialize(Value::new(self.reader, value, location.clone()))
                    .map_err(|error| error.at(&location))
            }
            (Some(Entry::Part(_)), Some(frame)) => seed.deserialize(Part(frame)),
            _ => Err(Error::custom("a value is asked for before its key")),
        }
    }
}

/// The place of a variant that is not there: what is wrong there was said.
const NO_VARIANT: &str = "$none";

/// A part of a struct: another struct, or an enum, in the same table.
struct Part<'r, 'f>(&'f Frame<'r>);

impl<'de> Deserializer<'de> for Part<'_, '_> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Error> {
        Err(Error::custom("a part of a table is a struct or an enum"))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.0.known.borrow_mut().extend(fields);
        self.0.struct_of(fields, visitor).map_err(|error| error.at(&self.0.value.location))
    }

    /// The variant whose key is there. Of several, the second is an error.
    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        let Frame { value, table, known, .. } = self.0;
        known.borrow_mut().extend(variants);
        let location = &value.location;
        let there =
            |key: &&&'static str| table.contains_key(**key) && !value.reader.is_wrong(&location.key(key));
        let mut given = variants.iter().filter(there).copied();
        let Some(first) = given.next() else {
            if !self.0.say_unknown() && !value.reader.has_wrong(location) {
                let names: Vec<_> = variants.iter().map(|key| format!("`{key}`")).collect();
                value.reader.say(hints::no_variant(location, &names));
            }
            return Err(Error::said(&location.key(NO_VARIANT)));
        };
        if let Some(second) = given.next() {
            let title = format!("a route has one handler, and this one has `{first}` and `{second}`");
            let problem = Problem::key(&location.key(second), title).label("a second handler");
            value.reader.say(problem.also(&location.key(first), "the first"));
            return Err(Error::said(&location.key(second)));
        }
        let Some(inner) = table.get(first).map(Spanned::get_ref) else { return Err(Error::said(location)) };
        visitor
            .visit_enum(Variant { key: first, value: Value::new(value.reader, inner, location.key(first)) })
    }

    /// Nothing where no variant is right, so that the rest of the table is read.
    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let Value { reader, location, .. } = &self.0.value;
        if reader.is_wrong(&location.key(NO_VARIANT)) {
            visitor.visit_none()
        } else {
            visitor.visit_some(self)
        }
    }

    /// Parts may be boxed, or have a name of their own.
    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct
        seq tuple tuple_struct map identifier ignored_any
    }
}

/// A key that chooses a variant, and the value of it.
struct Variant<'r> {
    key: &'static str,
    value: Value<'r>,
}

impl<'de> EnumAccess<'de> for Variant<'_> {
    type Error = Error;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self), Error> {
        Ok((seed.deserialize(StrDeserializer::<Error>::new(self.key))?, self))
    }
}

impl<'de> VariantAccess<'de> for Variant<'_> {
    type Error = Error;

    fn unit_variant(self) -> Result<(), Error> {
        Err(self.value.not("a table"))
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Error> {
        let location = self.value.location.clone();
        seed.deserialize(self.value).map_err(|error| error.at(&location))
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, _: V) -> Result<V::Value, Error> {
        Err(self.value.not("a table"))
    }

    fn struct_variant<V: Visitor<'de>>(self, _: &'static [&'static str], _: V) -> Result<V::Value, Error> {
        Err(self.value.not("a table"))
    }
}

/// A value behind its place: [`crate::config::Located`].
pub(super) struct LocatedAccess<'r> {
    value: Option<Value<'r>>,
    is_location_read: bool,
}

impl<'r> LocatedAccess<'r> {
    pub(super) fn new(value: Value<'r>) -> Self {
        Self { value: Some(value), is_location_read: false }
    }
}

impl<'de> MapAccess<'de> for LocatedAccess<'_> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        let key = match (&self.value, self.is_location_read) {
            (None, _) => return Ok(None),
            (Some(_), false) => "location",
            (Some(_), true) => "value",
        };
        seed.deserialize(StrDeserializer::<Error>::new(key)).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        let value = if self.is_location_read { self.value.take() } else { self.value.clone() };
        let Some(value) = value else { return Err(Error::custom("a value is asked for before its key")) };
        if self.is_location_read {
            return seed.deserialize(value);
        }
        self.is_location_read = true;
        seed.deserialize(serde::de::value::StringDeserializer::new(value.location.to_text()))
    }
}
