//! Generates the reference of the configuration file from its JSON Schema, with type, default, description and example of every
//! key: as Markdown (`docs/reference.md`), and as the manual page rudy.toml(5).

mod man;
#[cfg(test)]
mod markdown;
mod notation;
mod schema;
#[cfg(test)]
mod tests;
mod walk;

use serde_json::Value;

pub(crate) use man::man_page;

/// What precedes the kinds of steps.
const ORDER: &str = "A request passes these settings of its route in this order, whatever their order in the file, then the handler. \
    The response passes them back. Errors of the server itself pass those of the site that change responses.";

/// The reference: the tables, the outermost first, then the types of values.
#[derive(Debug)]
struct Reference {
    title: String,
    description: String,
    tables: Vec<Table>,
    types: Vec<Type>,
}

/// A table of the configuration.
#[derive(Debug)]
struct Table {
    /// The name of its schema, or its path without one.
    id: String,
    /// The paths where the table can be; the first one is its heading.
    paths: Vec<TablePath>,
    description: String,
    choices: Vec<Choice>,
    keys: Vec<Key>,
}

/// The path of a table in the file.
#[derive(Debug, Clone, PartialEq, Eq)]
struct TablePath {
    path: Vec<String>,
    /// Whether it is an array of tables: `[[site]]`.
    is_array: bool,
}

/// Keys of which exactly one, or at least one, is required.
#[derive(Debug, PartialEq, Eq)]
struct Choice {
    keys: Vec<String>,
    /// Whether the keys exclude each other.
    is_exclusive: bool,
}

#[derive(Debug)]
struct Key {
    name: String,
    description: String,
    kind: Kind,
    /// The bounds of the value, as text.
    bounds: Option<String>,
    is_required: bool,
    default: Option<Value>,
    /// An example value, if better than the default.
    example: Option<Value>,
}

/// The type of a value.
#[derive(Debug, Clone, PartialEq)]
enum Kind {
    /// `string`, `integer`, `boolean`, or `any`.
    Basic(String),
    /// One of these values, with their descriptions.
    Values(Vec<(Value, String)>),
    /// The table of this id.
    Table(String),
    /// The type of this name.
    Type(String),
    Array(Box<Kind>),
    /// A table with arbitrary keys.
    Map(Box<Kind>),
    Either(Vec<Kind>),
}

/// A named type that several keys share, such as a time or an address.
#[derive(Debug)]
struct Type {
    name: String,
    kind: Kind,
    description: String,
    examples: Vec<Value>,
}

/// Finds the first key `name` in any table with an example that `is_expected`, and returns it with the example, both as TOML.
pub(crate) fn example(
    root: &Value,
    name: &str,
    is_expected: impl Fn(&str) -> bool,
) -> Option<(String, String)> {
    let mut keys = Vec::new();
    find_properties(root, name, &mut keys);
    let examples = keys.into_iter().filter_map(|key| schema::Schemas { root }.example(key));
    let example = examples.map(|example| notation::value(&example)).find(|text| is_expected(text))?;
    Some((notation::key(name), example))
}

fn find_properties<'s>(schema: &'s Value, name: &str, found: &mut Vec<&'s Value>) {
    match schema {
        Value::Array(parts) => parts.iter().for_each(|part| find_properties(part, name, found)),
        Value::Object(parts) => {
            found.extend(parts.get("properties").and_then(|keys| keys.get(name)));
            parts.values().for_each(|part| find_properties(part, name, found));
        }
        _ => {}
    }
}

impl Reference {
    fn table(&self, id: &str) -> Option<&Table> {
        self.tables.iter().find(|table| table.id == id)
    }
}

impl Table {
    /// The heading, from its first path.
    fn heading(&self) -> String {
        self.paths.first().map(TablePath::heading).unwrap_or_default()
    }

    /// The headings of its other paths.
    fn other_headings(&self) -> Vec<String> {
        self.paths.iter().skip(1).map(TablePath::heading).collect()
    }

    /// Its description, except for the outermost table, whose description is that of the file.
    fn own_description(&self) -> Option<&str> {
        let is_outermost = self.paths.iter().any(|place| place.path.is_empty());
        (!is_outermost && !self.description.is_empty()).then_some(&self.description)
    }
}

impl TablePath {
    /// The heading of a table at this path.
    fn heading(&self) -> String {
        let path = self.path.join(".");
        match (path.as_str(), self.is_array) {
            ("", _) => "Top-level keys".to_owned(),
            (path, true) => format!("`[[{path}]]`"),
            (path, false) => format!("`[{path}]`"),
        }
    }
}

impl Choice {
    /// The sentence about the required keys, formatted by `shown`.
    fn sentence(&self, shown: impl Fn(&str) -> String) -> String {
        let keys: Vec<_> = self.keys.iter().map(|key| shown(key)).collect();
        let number = if self.is_exclusive { "Exactly" } else { "At least" };
        format!("{number} one of these keys is required: {}.", keys.join(", "))
    }
}

impl Kind {
    /// Describes the type as text; `link` formats tables and named types, in the plural if `several`.
    fn words(&self, several: bool, link: &impl Fn(&Self, bool) -> String) -> String {
        match self {
            Self::Basic(name) if several && name != "any" => format!("{name}s"),
            Self::Basic(name) => name.clone(),
            Self::Values(values) => notation::list(values.iter().map(|(value, _)| notation::code(value))),
            Self::Table(_) | Self::Type(_) => link(self, several),
            Self::Array(of) => format!("array of {}", of.words(true, link)),
            Self::Map(of) => format!("table of {}", of.words(true, link)),
            Self::Either(kinds) => notation::list(kinds.iter().map(|kind| kind.words(several, link))),
        }
    }

    /// The values of an enumeration, with their descriptions.
    fn values(&self) -> &[(Value, String)] {
        match self {
            Self::Values(values) => values,
            Self::Array(of) | Self::Map(of) => of.values(),
            Self::Either(kinds) => {
                kinds.iter().map(Self::values).find(|values| !values.is_empty()).unwrap_or_default()
            }
            Self::Basic(_) | Self::Table(_) | Self::Type(_) => &[],
        }
    }
}

impl Key {
    /// An example line, if there is a value.
    fn line(&self) -> Option<String> {
        let value = self.example.as_ref().or(self.default.as_ref())?;
        Some(format!("{} = {}", notation::key(&self.name), notation::value(value)))
    }

    /// `required`, `optional`, or the default.
    fn presence(&self) -> String {
        match &self.default {
            _ if self.is_required => "required".to_owned(),
            Some(default) => format!("default {}", notation::code(default)),
            None => "optional".to_owned(),
        }
    }

    /// The values of an enumeration that have descriptions.
    fn explained_values(&self) -> impl Iterator<Item = (String, &str)> {
        let explained = self.kind.values().iter().filter(|(_, meaning)| !meaning.is_empty());
        explained.map(|(value, meaning)| (notation::code(value), meaning.as_str()))
    }
}
