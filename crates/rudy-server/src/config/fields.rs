//! Response header fields in a table.

use std::fmt;

use http::{HeaderMap, HeaderName, HeaderValue};
use schemars::json_schema;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};

use super::read::two_lines;
use super::values::inline_schema;

/// Header fields by name: `{ X-Frame-Options = "DENY" }`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Fields(Vec<Field>);

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Field {
    /// The name as written.
    key: String,
    name: HeaderName,
    value: HeaderValue,
}

impl Fields {
    /// The keys and names.
    pub(crate) fn names(&self) -> impl Iterator<Item = (&str, &HeaderName)> {
        self.0.iter().map(|field| (field.key.as_str(), &field.name))
    }

    /// Converts them into the fields of a response.
    pub(crate) fn to_map(&self) -> HeaderMap {
        self.0.iter().map(|field| (field.name.clone(), field.value.clone())).collect()
    }
}

impl FromIterator<(HeaderName, HeaderValue)> for Fields {
    fn from_iter<I: IntoIterator<Item = (HeaderName, HeaderValue)>>(fields: I) -> Self {
        let field = |(name, value): (HeaderName, HeaderValue)| Field { key: name.to_string(), name, value };
        Self(fields.into_iter().map(field).collect())
    }
}

/// A field name as the key of a table.
pub(crate) struct FieldName(pub(crate) String, pub(crate) HeaderName);

impl<'de> Deserialize<'de> for FieldName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let key = String::deserialize(deserializer)?;
        let Ok(name) = HeaderName::try_from(&key) else {
            let title = format!("\"{}\" is not a field name", key.escape_debug());
            return Err(D::Error::custom(two_lines(title, "expected letters, digits and hyphens")));
        };
        Ok(Self(key, name))
    }
}

struct Value(HeaderValue);

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        field_value(deserializer).map(Self)
    }
}

/// Deserializes the value of a field, without line feeds and control characters.
pub(crate) fn field_value<'de, D: Deserializer<'de>>(deserializer: D) -> Result<HeaderValue, D::Error> {
    let value = String::deserialize(deserializer)?;
    HeaderValue::try_from(value)
        .map_err(|_| D::Error::custom("a field value cannot contain line feeds or control characters"))
}

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Table;

        impl<'de> Visitor<'de> for Table {
            type Value = Fields;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a table")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut table: A) -> Result<Fields, A::Error> {
                let mut fields: Vec<Field> = Vec::new();
                while let Some((FieldName(key, name), Value(value))) = table.next_entry()? {
                    if fields.iter().any(|other| other.name == name) {
                        let title = format!("duplicate header field {name}");
                        return Err(Error::custom(two_lines(title, "field names are case-insensitive")));
                    }
                    fields.push(Field { key, name, value });
                }
                Ok(Fields(fields))
            }
        }

        deserializer.deserialize_map(Table)
    }
}

inline_schema!([] Fields, |_generator| {
    json_schema!({
        "type": "object", "additionalProperties": { "type": "string" }, "examples": [{ "X-Frame-Options": "DENY" }]
    })
});
