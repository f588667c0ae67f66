//! Changes to header fields in the configuration.

use std::fmt;

use http::{HeaderName, HeaderValue, header};
use rudy_config::{FieldName, Location, Problem, field_table, inline_schema, two_lines};
use schemars::json_schema;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use crate::routing::PathPattern;
use crate::routing::template::{Piece, Template};

/// Changes to header fields by name: `{ X-Frame-Options = "DENY", Server = false }`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FieldChanges(pub Vec<FieldChange>);

/// A change to a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldChange {
    /// The name as written.
    pub key: String,
    /// The name of the field.
    pub name: HeaderName,
    /// What is changed.
    pub action: Action<Template>,
}

/// What is changed, with values of type `V`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action<V> {
    /// Replaces the field with these lines.
    Set(Vec<V>),
    /// Adds lines.
    Add(Vec<V>),
    /// Sets the field if it is missing.
    Default(V),
    /// Replaces a text by another one, wherever it is in the lines.
    Replace {
        /// The text to find.
        text: V,
        /// What takes its place.
        with: V,
    },
    /// Removes the field.
    Remove,
}

/// A change to a field, with values of type `V`.
#[derive(Debug, Clone)]
pub struct Change<V> {
    /// The name of the field.
    pub name: HeaderName,
    /// What is changed.
    pub action: Action<V>,
}

impl FieldChange {
    /// Returns a change that sets a field if a response lacks it.
    #[must_use]
    pub fn default(name: &'static str, value: &str) -> Self {
        let (key, value) = (name.to_owned(), Template::literal(value));
        let name = HeaderName::from_bytes(name.as_bytes()).expect("a name of the preset");
        Self { key, name, action: Action::Default(value) }
    }

    /// Returns a change that sets a field.
    pub fn set(name: &HeaderName, value: &str) -> Self {
        let action = Action::Set(vec![Template::literal(value)]);
        Self { key: name.to_string(), name: name.clone(), action }
    }
}

impl<V> Action<V> {
    /// Converts the values.
    pub fn map<W>(&self, value: impl Fn(&V) -> W) -> Action<W> {
        match self {
            Self::Set(values) => Action::Set(values.iter().map(value).collect()),
            Self::Add(values) => Action::Add(values.iter().map(value).collect()),
            Self::Default(only) => Action::Default(value(only)),
            Self::Replace { text, with } => Action::Replace { text: value(text), with: value(with) },
            Self::Remove => Action::Remove,
        }
    }

    /// `None` if a value becomes none.
    pub fn try_map<W>(&self, value: impl Fn(&V) -> Option<W>) -> Option<Action<W>> {
        Some(match self {
            Self::Set(values) => Action::Set(values.iter().map(value).collect::<Option<_>>()?),
            Self::Add(values) => Action::Add(values.iter().map(value).collect::<Option<_>>()?),
            Self::Default(only) => Action::Default(value(only)?),
            Self::Replace { text, with } => Action::Replace { text: value(text)?, with: value(with)? },
            Self::Remove => Action::Remove,
        })
    }

    /// Returns the values.
    pub fn values(&self) -> Vec<&V> {
        match self {
            Self::Set(values) | Self::Add(values) => values.iter().collect(),
            Self::Default(only) => vec![only],
            Self::Replace { text, with } => vec![text, with],
            Self::Remove => Vec::new(),
        }
    }
}

impl FieldChanges {
    /// Returns these changes after those of `earlier`, which they replace for each field that they set or remove.
    #[must_use]
    pub fn after(&self, earlier: &Self) -> Self {
        let is_replaced = |change: &&FieldChange| {
            let extends = |action: &_| matches!(action, Action::Add(_) | Action::Replace { .. });
            self.0.iter().any(|own| own.name == change.name && !extends(&own.action))
        };
        let kept = earlier.0.iter().filter(|change| !is_replaced(change));
        Self(kept.chain(&self.0).cloned().collect())
    }

    /// Whether nothing is changed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// A value: a text without control characters, with placeholders.
struct Value(Template);

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        value(&String::deserialize(deserializer)?).map(Self)
    }
}

fn value<E: Error>(text: &str) -> Result<Template, E> {
    let template =
        Template::parse(text).map_err(|(title, expected)| E::custom(two_lines(title, &expected)))?;
    let is_valid = |piece: &Piece| match piece {
        Piece::Literal(text) => HeaderValue::from_str(text).is_ok(),
        _ => true,
    };
    if template.pieces().iter().all(is_valid) {
        return Ok(template);
    }
    Err(E::custom("a field value cannot contain line feeds or control characters"))
}

/// One value, or a list.
struct Values(Vec<Template>);

impl<'de> Deserialize<'de> for Values {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        rudy_config::OneOrMany::<Value>::deserialize(deserializer)
            .map(|values| Self(values.as_slice().iter().map(|value| value.0.clone()).collect()))
    }
}

impl<'de> Deserialize<'de> for Action<Template> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ActionVisitor)
    }
}

struct ActionVisitor;

impl<'de> Visitor<'de> for ActionVisitor {
    type Value = Action<Template>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value, a list of values, false, { add = ... }, { default = ... } or { replace = ..., with = ... }")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Action::Set(vec![value(text)?]))
    }

    fn visit_bool<E: Error>(self, is_kept: bool) -> Result<Self::Value, E> {
        if is_kept {
            return Err(E::custom(two_lines(
                "`true` is not a value",
                "expected a text, or `false` to remove the field",
            )));
        }
        Ok(Action::Remove)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let mut values = Vec::new();
        while let Some(Value(value)) = list.next_element()? {
            values.push(value);
        }
        Ok(Action::Set(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut table: A) -> Result<Self::Value, A::Error> {
        let expected = "expected one of { add = \"...\" }, { default = \"...\" } and { replace = \"...\", with = \"...\" }";
        let action = match table.next_key::<String>()?.as_deref() {
            Some("add") => Action::Add(table.next_value::<Values>()?.0),
            Some("default") => Action::Default(table.next_value::<Value>()?.0),
            Some(first @ ("replace" | "with")) => replacement(first == "replace", &mut table)?,
            _ => return Err(A::Error::custom(two_lines("unknown change to a field", expected))),
        };
        match table.next_key::<String>()? {
            None => Ok(action),
            Some(_) => Err(A::Error::custom(two_lines("two changes to a field", expected))),
        }
    }
}

/// Reads the rest of `{ replace = "...", with = "..." }`, in any order.
fn replacement<'de, A: MapAccess<'de>>(
    begins_with_text: bool,
    table: &mut A,
) -> Result<Action<Template>, A::Error> {
    let Value(first) = table.next_value()?;
    let expected = if begins_with_text { "with" } else { "replace" };
    if table.next_key::<String>()?.as_deref() != Some(expected) {
        let example = "expected both, as in { replace = \"https://public/\", with = \"http://app/\" }";
        return Err(A::Error::custom(two_lines(format!("`{expected}` is missing"), example)));
    }
    let Value(second) = table.next_value()?;
    let (text, with) = if begins_with_text { (first, second) } else { (second, first) };
    if text.as_fixed().is_some_and(str::is_empty) {
        return Err(A::Error::custom("the text to replace is empty"));
    }
    Ok(Action::Replace { text, with })
}

impl<'de> Deserialize<'de> for FieldChanges {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let changes = field_table(deserializer)?.into_iter();
        Ok(Self(changes.map(|(FieldName(key, name), action)| FieldChange { key, name, action }).collect()))
    }
}

inline_schema!([] FieldChanges, |_generator| {
    let values = json_schema!({ "type": ["string", "array"], "items": { "type": "string" } });
    json_schema!({
        "type": "object",
        "additionalProperties": { "anyOf": [
            values,
            { "const": false },
            { "type": "object", "properties": { "add": values }, "required": ["add"], "additionalProperties": false },
            { "type": "object", "properties": { "default": { "type": "string" } }, "required": ["default"], "additionalProperties": false },
            {
                "type": "object",
                "properties": { "replace": { "type": "string" }, "with": { "type": "string" } },
                "required": ["replace", "with"],
                "additionalProperties": false,
            },
        ] },
        "examples": [{ "X-Frame-Options": "DENY", "Server": false, "Link": { "add": "</a.css>; rel=preload" } }]
    })
});

/// Whether only the connection sets a field.
pub fn is_of_connection(name: &HeaderName) -> bool {
    CONNECTION_FIELDS.contains(name)
}

/// The fields that [`header`] frames messages and manages connections with. No setting can change them.
pub const CONNECTION_FIELDS: [HeaderName; 8] = [
    header::CONNECTION,
    header::CONTENT_LENGTH,
    header::DATE,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    HeaderName::from_static("keep-alive"),
];

impl FieldChanges {
    /// Reports fields that no setting can change, and placeholders that the paths do not define.
    #[must_use]
    pub fn problems(&self, paths: &[PathPattern], location: &Location, of_request: bool) -> Vec<Problem> {
        let mut problems = Vec::new();
        for change in &self.0 {
            let location = location.key(&change.key);
            if let Some(why) = change.fault(of_request) {
                problems
                    .push(Problem::key(&location, format!("{} cannot be changed", change.key)).label(why));
            }
            for template in change.action.values() {
                if let Err((title, expected)) = template.check_paths(paths) {
                    problems.push(Problem::value(&location, title).label(expected));
                }
            }
        }
        problems
    }
}

impl FieldChange {
    /// Why no setting can change the field.
    fn fault(&self, of_request: bool) -> Option<&'static str> {
        let of_request_only: &[HeaderName] = &[header::HOST, header::EXPECT];
        if is_of_connection(&self.name) {
            Some("the server sets it for each connection, or frames messages with it")
        } else if of_request && of_request_only.contains(&self.name) {
            Some("the server has selected the site and the form of the request with it")
        } else {
            None
        }
    }
}
