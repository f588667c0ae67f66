//! Response header fields in a table.

use std::fmt;
use std::str::FromStr;

use http::{HeaderMap, HeaderName, HeaderValue};

use crate::read::{Invalid, Setting, Value, two_lines};
use crate::shape::Shape;
use crate::written_as_text;

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

impl Setting for FieldName {
    const SHAPE: Shape = String::SHAPE;

    fn read(value: &Value<'_>) -> Result<Self, Invalid> {
        let key = value.text()?.to_owned();
        let Ok(name) = HeaderName::try_from(&key) else {
            let title = format!("\"{}\" is not a field name", key.escape_debug());
            return value.invalid(two_lines(title, "expected letters, digits and hyphens"));
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

written_as_text!(HeaderFieldName, "the name of a header field (\"Remote-User\")", {
    doc: "The name of a header field.",
    examples: ["Remote-User"],
});

/// The value of a header field, without line feeds and control characters.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct FieldValue(pub HeaderValue);

impl From<FieldValue> for HeaderValue {
    fn from(value: FieldValue) -> Self {
        value.0
    }
}

impl Setting for FieldValue {
    const SHAPE: Shape = String::SHAPE;

    fn read(value: &Value<'_>) -> Result<Self, Invalid> {
        let invalid = |_| value.invalid("a field value cannot contain line feeds or control characters");
        HeaderValue::try_from(value.text()?).map(Self).or_else(invalid)
    }
}

impl Setting for Fields {
    const SHAPE: Shape = Shape::Map(&String::SHAPE, None);

    fn read(value: &Value<'_>) -> Result<Self, Invalid> {
        let fields = field_table(value)?.into_iter();
        let field = |(FieldName(key, name), FieldValue(value))| Field { key, name, value };
        Ok(Self(fields.map(field).collect()))
    }
}

/// Reads a table whose keys are the names of header fields, each once.
///
/// # Errors
///
/// It is no table, or a field has two keys.
pub fn field_table<V: Setting>(value: &Value<'_>) -> Result<Vec<(FieldName, V)>, Invalid> {
    let fields: Vec<(FieldName, V)> = value.entries()?;
    for (number, (FieldName(_, name), _)) in fields.iter().enumerate() {
        if fields[..number].iter().any(|(other, _)| other.1 == name) {
            let title = format!("duplicate header field {name}");
            return value.invalid(two_lines(title, "field names are case-insensitive"));
        }
    }
    Ok(fields)
}
