//! Generates the reference of the configuration file from the descriptions of its tables, with type, default, description and example of every
//! key: as Markdown (`docs/reference.md`), and as the manual page rudy.toml(5).

mod man;
#[cfg(test)]
mod markdown;
mod notation;
#[cfg(test)]
mod tests;
mod walk;

pub(crate) use man::man_page;
pub(crate) use walk::example;

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
    /// The name of its struct.
    id: &'static str,
    /// The paths where the table can be; the first one is its heading.
    paths: Vec<TablePath>,
    description: String,
    /// Keys of which exactly one is required, of each choice.
    choices: Vec<Vec<String>>,
    keys: Vec<Key>,
}

/// The path of a table in the file.
#[derive(Debug, Clone, PartialEq, Eq)]
struct TablePath {
    path: Vec<String>,
    /// Whether it is an array of tables: `[[site]]`.
    is_array: bool,
}

#[derive(Debug)]
struct Key {
    name: &'static str,
    description: &'static str,
    kind: Kind,
    /// The bounds of the value, as text.
    bounds: Option<String>,
    is_required: bool,
    /// The value without the key, as in TOML.
    default: Option<String>,
    /// Why this is the default.
    reason: Option<&'static str>,
    /// An example value, if better than the default.
    example: Option<String>,
}

/// The type of a value.
#[derive(Debug, Clone, PartialEq)]
enum Kind {
    /// `string`, `integer`, `boolean`, or `any`.
    Basic(&'static str),
    /// One of these values, as in TOML, with their descriptions.
    Values(Vec<(String, &'static str)>),
    /// The table of this id.
    Table(&'static str),
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
    description: &'static str,
    /// As in TOML.
    examples: &'static [&'static str],
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

/// The sentence about the keys of a choice, formatted by `shown`.
fn choice_sentence(keys: &[String], shown: impl Fn(&str) -> String) -> String {
    let keys: Vec<_> = keys.iter().map(|key| shown(key)).collect();
    format!("Exactly one of these keys is required: {}.", keys.join(", "))
}

impl Kind {
    /// Describes the type as text; `link` formats tables and named types, in the plural if `several`.
    fn words(&self, several: bool, link: &impl Fn(&Self, bool) -> String) -> String {
        match self {
            Self::Basic(name) if several => format!("{name}s"),
            Self::Basic(name) => (*name).to_owned(),
            Self::Values(values) => notation::list(values.iter().map(|(value, _)| notation::code(value))),
            Self::Table(_) | Self::Type(_) => link(self, several),
            Self::Array(of) => format!("array of {}", of.words(true, link)),
            Self::Map(of) => format!("table of {}", of.words(true, link)),
            Self::Either(kinds) => notation::list(kinds.iter().map(|kind| kind.words(several, link))),
        }
    }

    /// The values of an enumeration, with their descriptions.
    fn values(&self) -> &[(String, &'static str)] {
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
        Some(format!("{} = {value}", notation::key(self.name)))
    }

    /// `required`, `optional`, or the default.
    fn presence(&self) -> String {
        match &self.default {
            _ if self.is_required => "required".to_owned(),
            Some(default) => format!("default {}", notation::code(default)),
            None => "optional".to_owned(),
        }
    }

    /// The reason of the default.
    fn reason(&self) -> Option<String> {
        self.reason.map(|reason| format!("Reason of the default: {reason}"))
    }

    /// The values of an enumeration that have descriptions.
    fn explained_values(&self) -> impl Iterator<Item = (String, &str)> {
        let explained = self.kind.values().iter().filter(|(_, meaning)| !meaning.is_empty());
        explained.map(|(value, meaning)| (notation::code(value), *meaning))
    }
}
