//! The serde deserializer of tables. Unknown keys are reported and skipped.
//!
//! A struct can have parts that share its table: fields whose names begin with a dollar sign (`#[serde(rename = "$app")]`).
//! serde's `flatten` would copy the values and lose their locations and the names of the keys. If a part is an enum, the key in
//! the table selects the variant.

use std::cell::{Cell, RefCell};

use serde::de::value::StrDeserializer;
use serde::de::{DeserializeSeed, Deserializer, EnumAccess, Error as _, MapAccess, VariantAccess, Visitor};
use serde::forward_to_deserialize_any;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::error::Error;
use super::value::Value;
use crate::diagnostics::{Location, Problem};
use crate::hints;

/// The state that a struct and its parts share while they read one table.
struct TableContext<'r> {
    value: Value<'r>,
    table: &'r DeTable<'r>,
    /// The keys of the struct and its parts.
    known: RefCell<Vec<&'static str>>,
    /// Whether the whole table was read, so that `known` is complete.
    is_complete: Cell<bool>,
}

/// The next entry to read.
enum Entry<'r> {
    Key(&'r str, &'r DeValue<'r>),
    Part(&'static str),
}

/// Iterates over the entries of a table.
pub(super) struct Entries<'r, 'f> {
    location: &'f Location,
    reader: &'r super::Reader<'r>,
    /// `None` for a map, which accepts all keys.
    context: Option<&'f TableContext<'r>>,
    rest: std::vec::IntoIter<Entry<'r>>,
    next: Option<Entry<'r>>,
}

impl<'r, 'f> Entries<'r, 'f> {
    /// All entries, for a map.
    pub(super) fn all(value: &'f Value<'r>, table: &'r DeTable<'r>) -> Self {
        Self::new(value, None, table, |_| true, &[])
    }

    fn new(
        value: &'f Value<'r>,
        context: Option<&'f TableContext<'r>>,
        table: &'r DeTable<'r>,
        is_wanted: impl Fn(&str) -> bool,
        fields: &'static [&'static str],
    ) -> Self {
        let (reader, location) = (value.reader, &value.location);
        let keys = table.iter().filter_map(|(key, value)| {
            let key = key.get_ref().as_ref();
            let is_read = is_wanted(key) && !reader.is_invalid(&location.key(key));
            is_read.then(|| Entry::Key(key, value.get_ref()))
        });
        // Parts come last, when the keys of the struct itself are known.
        let parts = fields.iter().copied().filter(|field| field.starts_with('$')).map(Entry::Part);
        let entries: Vec<_> = keys.chain(parts).collect();
        Self { location, reader, context, rest: entries.into_iter(), next: None }
    }

    /// Reads a struct with these fields.
    pub(super) fn read<'de, V: Visitor<'de>>(
        value: &Value<'r>,
        table: &'r DeTable<'r>,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        let known = RefCell::new(fields.to_vec());
        let context = TableContext { value: value.clone(), table, known, is_complete: Cell::new(false) };
        let result = context.struct_of(fields, visitor);
        if context.is_complete.get() {
            context.report_unknown();
        }
        result
    }
}

impl TableContext<'_> {
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

    /// Reports each unknown key once, and returns whether there are any.
    fn report_unknown(&self) -> bool {
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
            if !reader.is_invalid(&location) {
                reader.report(hints::unknown(reader.hints, &location, key, &known));
                reader.invalid.borrow_mut().push(location);
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
            if let Some(context) = self.context {
                context.is_complete.set(true);
            }
            return Ok(None);
        };
        let (Entry::Key(key, _) | Entry::Part(key)) = *next;
        let name = seed.deserialize(StrDeserializer::<Error>::new(key));
        name.map(Some).map_err(|error| error.at_key(&self.location.key(key)))
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        match (self.next.take(), self.context) {
            (Some(Entry::Key(key, value)), _) => {
                let location = self.location.key(key);
                seed.deserialize(Value::new(self.reader, value, location.clone()))
                    .map_err(|error| error.at(&location))
            }
            (Some(Entry::Part(_)), Some(context)) => seed.deserialize(Part(context)),
            _ => Err(Error::custom("a value is read before its key")),
        }
    }
}

/// The location of a missing variant, whose problem is already reported.
const NO_VARIANT: &str = "$none";

/// A part of a struct: another struct, or an enum, in the same table.
struct Part<'r, 'f>(&'f TableContext<'r>);

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

    /// Reads the variant whose key is in the table. A second one is an error.
    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        let TableContext { value, table, known, .. } = self.0;
        known.borrow_mut().extend(variants);
        let (table_name, variant) = value.reader.hints.choice();
        let location = &value.location;
        let there =
            |key: &&&'static str| table.contains_key(**key) && !value.reader.is_invalid(&location.key(key));
        let mut given = variants.iter().filter(there).copied();
        let Some(first) = given.next() else {
            if !self.0.report_unknown() && !value.reader.contains_invalid(location) {
                let names: Vec<_> = variants.iter().map(|key| format!("`{key}`")).collect();
                value.reader.report(no_variant(location, table_name, variant, &names));
            }
            return Err(Error::reported(&location.key(NO_VARIANT)));
        };
        if let Some(second) = given.next() {
            let title =
                format!("a {table_name} can only have one {variant}; this one has `{first}` and `{second}`");
            let problem = Problem::key(&location.key(second), title).label(format!("a second {variant}"));
            value.reader.report(problem.also(&location.key(first), "the first"));
            return Err(Error::reported(&location.key(second)));
        }
        let Some(inner) = table.get(first).map(Spanned::get_ref) else {
            return Err(Error::reported(location));
        };
        visitor
            .visit_enum(Variant { key: first, value: Value::new(value.reader, inner, location.key(first)) })
    }

    /// `None` if no variant is valid, so that the rest of the table is read.
    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let Value { reader, location, .. } = &self.0.value;
        if reader.is_invalid(&location.key(NO_VARIANT)) {
            visitor.visit_none()
        } else {
            visitor.visit_some(self)
        }
    }

    /// Supports boxed parts and newtypes.
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

/// The key of a variant, and its value.
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
        Err(self.value.unexpected("a table"))
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Error> {
        let location = self.value.location.clone();
        seed.deserialize(self.value).map_err(|error| error.at(&location))
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, _: V) -> Result<V::Value, Error> {
        Err(self.value.unexpected("a table"))
    }

    fn struct_variant<V: Visitor<'de>>(self, _: &'static [&'static str], _: V) -> Result<V::Value, Error> {
        Err(self.value.unexpected("a table"))
    }
}

/// Presents a value as a map of its location and itself: [`crate::Located`].
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
        let Some(value) = value else { return Err(Error::custom("a value is read before its key")) };
        if self.is_location_read {
            return seed.deserialize(value);
        }
        self.is_location_read = true;
        seed.deserialize(serde::de::value::StringDeserializer::new(value.location.to_text()))
    }
}

/// Reports a table without any of the keys of which it needs one.
fn no_variant(location: &Location, table: &str, variant: &str, names: &[String]) -> Problem {
    let problem = Problem::value(location, format!("this {table} has no {variant}"));
    let [before @ .., last] = names else { return problem };
    problem.label(format!("expected {} or {last}", before.join(", ")))
}
