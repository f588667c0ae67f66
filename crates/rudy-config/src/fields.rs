//! Response header fields in a table.

use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;

use http::{HeaderMap, HeaderName, HeaderValue};
use schemars::json_schema;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};

use crate::read::two_lines;
use crate::{inline_schema, written_as_text};

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
    pub fn names(&self) -> impl Iterator<Item = (&str, &HeaderName)> {
        self.0.iter().map(|field| (field.key.as_str(), &field.name))
    }

    /// Converts them into the fields of a response.
    #[must_use]
    pub fn to_map(&self) -> HeaderMap {
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
pub struct FieldName(pub String, pub HeaderName);

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

/// The name of a header field, as a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeaderFieldName(pub HeaderName);

impl FromStr for HeaderFieldName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let name = HeaderName::from_bytes(text.as_bytes());
        name.map(Self).map_err(|_| "expected letters, digits and hyphens, as in \"Remote-User\"".to_owned())
    }
}

impl fmt::Display for HeaderFieldName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.as_str())
    }
}

written_as_text!(HeaderFieldName, "the name of a header field (\"Remote-User\")",
    { "type": "string", "description": "The name of a header field.", "examples": ["Remote-User"] });

struct Value(HeaderValue);

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        field_value(deserializer).map(Self)
    }
}

/// Deserializes the value of a field, without line feeds and control characters.
pub fn field_value<'de, D: Deserializer<'de>>(deserializer: D) -> Result<HeaderValue, D::Error> {
    let value = String::deserialize(deserializer)?;
    HeaderValue::try_from(value)
        .map_err(|_| D::Error::custom("a field value cannot contain line feeds or control characters"))
}

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let fields = field_table(deserializer)?.into_iter();
        Ok(Self(fields.map(|(FieldName(key, name), Value(value))| Field { key, name, value }).collect()))
    }
}

/// Deserializes a table whose keys are the names of header fields, each once.
pub fn field_table<'de, D, V>(deserializer: D) -> Result<Vec<(FieldName, V)>, D::Error>
where
    D: Deserializer<'de>,
    V: Deserialize<'de>,
{
    struct Table<V>(PhantomData<V>);

    impl<'de, V: Deserialize<'de>> Visitor<'de> for Table<V> {
        type Value = Vec<(FieldName, V)>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a table")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut table: A) -> Result<Self::Value, A::Error> {
            let mut fields: Self::Value = Vec::new();
            while let Some((FieldName(key, name), value)) = table.next_entry()? {
                if fields.iter().any(|(other, _)| other.1 == name) {
                    let title = format!("duplicate header field {name}");
                    return Err(Error::custom(two_lines(title, "field names are case-insensitive")));
                }
                fields.push((FieldName(key, name), value));
            }
            Ok(fields)
        }
    }

    deserializer.deserialize_map(Table(PhantomData))
}

inline_schema!([] Fields, |_generator| {
    json_schema!({
        "type": "object", "additionalProperties": { "type": "string" }, "examples": [{ "X-Frame-Options": "DENY" }]
    })
});
