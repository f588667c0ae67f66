//! The reference of a configuration file, made from its JSON Schema: every table and every key with type, default, meaning and
//! example. As Markdown it is `docs/reference.md`, as a manual page rudy.toml(5).

mod man;
#[cfg(test)]
mod markdown;
mod notation;
mod schema;
#[cfg(test)]
mod tests;
mod walk;

pub(crate) use man::man_page;
use serde_json::Value;

/// A file as an operator reads it: its tables, the outermost first, then the types that their values have in common.
#[derive(Debug)]
struct Reference {
    title: String,
    description: String,
    tables: Vec<Table>,
    types: Vec<Type>,
}

/// A table, wherever it is.
#[derive(Debug)]
struct Table {
    /// The name of its schema, or where it was found if the schema has none.
    id: String,
    /// Where it may be; the first one names it.
    places: Vec<Place>,
    description: String,
    choices: Vec<Choice>,
    keys: Vec<Key>,
}

/// Where a table may be: the keys that lead there.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Place {
    path: Vec<String>,
    /// Whether there may be several: `[[site]]`.
    is_array: bool,
}

/// Keys of which a table has exactly one, or at least one.
#[derive(Debug, PartialEq, Eq)]
struct Choice {
    keys: Vec<String>,
    /// Whether one excludes the others.
    is_exclusive: bool,
}

#[derive(Debug)]
struct Key {
    name: String,
    description: String,
    kind: Kind,
    /// Bounds of its value, in words.
    bounds: Option<String>,
    is_required: bool,
    default: Option<Value>,
    /// A value that shows more than the default.
    example: Option<Value>,
}

/// What a value may be.
#[derive(Debug, Clone, PartialEq)]
enum Kind {
    /// `string`, `integer`, `boolean`, or `any`.
    Basic(String),
    /// One of these values, each with what it means.
    Values(Vec<(Value, String)>),
    /// The table of this id.
    Table(String),
    /// The type of this name.
    Type(String),
    Array(Box<Kind>),
    /// A table whose keys are free.
    Map(Box<Kind>),
    Either(Vec<Kind>),
}

/// A kind of text that several keys have: a time, an address.
#[derive(Debug)]
struct Type {
    name: String,
    kind: Kind,
    description: String,
    examples: Vec<Value>,
}

/// The key `name`, in whichever table it is found first, as it is written, and an example of its value.
pub(crate) fn example(root: &Value, name: &str) -> Option<(String, String)> {
    let example = schema::Schemas { root }.example(property(root, name)?)?;
    Some((notation::key(name), notation::value(&example)))
}

fn property<'s>(schema: &'s Value, name: &str) -> Option<&'s Value> {
    match schema {
        Value::Array(parts) => parts.iter().find_map(|part| property(part, name)),
        Value::Object(parts) => {
            let own = parts.get("properties").and_then(|keys| keys.get(name));
            own.or_else(|| parts.values().find_map(|part| property(part, name)))
        }
        _ => None,
    }
}

impl Reference {
    fn table(&self, id: &str) -> Option<&Table> {
        self.tables.iter().find(|table| table.id == id)
    }
}

impl Table {
    /// How it begins in a file, for people.
    fn heading(&self) -> String {
        self.places.first().map(Place::heading).unwrap_or_default()
    }

    /// How it begins in the other places where it may be.
    fn other_headings(&self) -> Vec<String> {
        self.places.iter().skip(1).map(Place::heading).collect()
    }

    /// Its description. That of the outermost table is the description of the file, which comes before all tables.
    fn own_description(&self) -> Option<&str> {
        let is_outermost = self.places.iter().any(|place| place.path.is_empty());
        (!is_outermost && !self.description.is_empty()).then_some(&self.description)
    }
}

impl Place {
    /// How a table begins there.
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
    /// What holds for its keys, each of them as `shown` has it.
    fn sentence(&self, shown: impl Fn(&str) -> String) -> String {
        let keys: Vec<_> = self.keys.iter().map(|key| shown(key)).collect();
        let number = if self.is_exclusive { "Exactly" } else { "At least" };
        format!("{number} one of these keys is required: {}.", keys.join(", "))
    }
}

impl Kind {
    /// In words; `link` has those for a table and for a type, given whether there are several.
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

    /// The values that it lists, with what they mean.
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
    /// The line that sets it, if there is something to set it to.
    fn line(&self) -> Option<String> {
        let value = self.example.as_ref().or(self.default.as_ref())?;
        Some(format!("{} = {}", notation::key(&self.name), notation::value(value)))
    }

    /// Whether it must be there, or what it is if it is not.
    fn presence(&self) -> String {
        match &self.default {
            _ if self.is_required => "required".to_owned(),
            Some(default) => format!("default {}", notation::code(default)),
            None => "optional".to_owned(),
        }
    }

    /// The values that it lists and describes.
    fn explained_values(&self) -> impl Iterator<Item = (String, &str)> {
        let explained = self.kind.values().iter().filter(|(_, meaning)| !meaning.is_empty());
        explained.map(|(value, meaning)| (notation::code(value), meaning.as_str()))
    }
}
