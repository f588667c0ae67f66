//! Collects the tables, keys and types that the descriptions of the tables contain.

use rudy_config::{Key as KeyInfo, Kind as BasicKind, Member, Named, Shape, TableInfo};

use super::{Key, Kind, Reference, Table, TablePath, Type, notation};

impl Reference {
    /// Builds the reference of a file with this table.
    pub(super) fn of(title: &str, table: &'static TableInfo) -> Self {
        let mut walk = Walk::default();
        walk.add_table(table, TablePath { path: Vec::new(), is_array: false });
        Self {
            title: title.to_owned(),
            description: table.doc.to_owned(),
            tables: walk.tables,
            types: walk.types,
        }
    }
}

#[derive(Default)]
pub(super) struct Walk {
    tables: Vec<Table>,
    types: Vec<Type>,
}

/// A table inside another one.
struct Found {
    table: &'static TableInfo,
    place: TablePath,
}

impl Walk {
    /// Adds a table, then the tables inside it: arrays of tables first, then those of a choice, then the others. Each table is added
    /// once, so recursion ends.
    fn add_table(&mut self, table: &'static TableInfo, place: TablePath) {
        if let Some(known) = self.tables.iter_mut().find(|known| known.id == table.name) {
            // A list of tables may also be a single one, at the same path.
            if known.paths.iter().all(|known| known.path != place.path) {
                known.paths.push(place);
            }
            return;
        }
        let (mut keys, mut inner) = (Vec::new(), Vec::new());
        table.each_key(&mut |key| {
            let path = place.path.iter().cloned().chain([key.name.to_owned()]).collect();
            find_tables(key.shape, &TablePath { path, is_array: false }, &mut inner);
            keys.push(self.key(key));
        });
        let choices = choices_of(table);
        let is_choice = |place: &TablePath| {
            place.path.last().is_some_and(|key| choices.iter().any(|choice| choice.contains(key)))
        };
        inner.sort_by_key(|found: &Found| (!found.place.is_array, !is_choice(&found.place)));
        let description = table.doc.to_owned();
        self.tables.push(Table { id: table.name, paths: vec![place], description, choices, keys });
        for Found { table, place } in inner {
            self.add_table(table, place);
        }
    }

    fn key(&mut self, key: &'static KeyInfo) -> Key {
        let kind = self.kind(key.shape);
        let default = key.default();
        let says_nothing = |value: &String| value == "[]" || value == "\"\"";
        let own = key.examples.first().map(|example| (*example).to_owned());
        let example = own.or_else(|| match &kind {
            // The example of a boolean is the opposite of its default.
            Kind::Basic("boolean") => Some((default.as_deref() != Some("true")).to_string()),
            _ if default.as_ref().is_none_or(says_nothing) => {
                example_of(key.shape).or_else(|| Some(kind.values().first()?.0.clone()))
            }
            _ => None,
        });
        Key {
            name: key.name,
            description: key.doc,
            reason: key.reason,
            bounds: bounds(key.shape),
            kind,
            is_required: key.is_required,
            default,
            example,
        }
    }

    /// The type of a value.
    pub(super) fn kind(&mut self, shape: &'static Shape) -> Kind {
        match shape {
            Shape::Boolean => Kind::Basic("boolean"),
            Shape::False => Kind::Values(vec![("false".to_owned(), "")]),
            Shape::Integer { .. } => Kind::Basic("integer"),
            Shape::Integers(values) => {
                Kind::Values(values.iter().map(|value| (value.to_string(), "")).collect())
            }
            Shape::Text { .. } => Kind::Basic("string"),
            Shape::Words(words) => {
                Kind::Values(words.iter().map(|word| (format!("\"{}\"", word.text), word.doc)).collect())
            }
            Shape::Named(named) => self.named(named),
            Shape::List(of, _) => Kind::Array(Box::new(self.kind(of))),
            Shape::Map(of, _) => Kind::Map(Box::new(self.kind(of))),
            Shape::Table(table) => match table().short {
                Some(short) => either(vec![self.kind(short), Kind::Table(table().name)]),
                None => Kind::Table(table().name),
            },
            Shape::Either(shapes) => either(shapes.iter().map(|shape| self.kind(shape)).collect()),
        }
    }

    fn named(&mut self, named: &'static Named) -> Kind {
        let name = spaced(named.name);
        if !self.types.iter().any(|known| known.name == name) {
            let kind = |kind: &BasicKind| match kind {
                BasicKind::Text => Kind::Basic("string"),
                BasicKind::Integer => Kind::Basic("integer"),
                BasicKind::Number => Kind::Basic("number"),
            };
            let kind = either(named.kinds.iter().map(kind).collect());
            self.types.push(Type {
                name: name.clone(),
                kind,
                description: named.doc,
                examples: named.examples,
            });
        }
        Kind::Type(name)
    }
}

/// The keys of each choice.
fn choices_of(table: &'static TableInfo) -> Vec<Vec<String>> {
    let mut choices = Vec::new();
    for member in table.members {
        match member {
            Member::Key(_) => {}
            Member::Part(part) => choices.extend(choices_of(part())),
            Member::Choice(keys) => choices.push(keys.iter().map(|key| key.name.to_owned()).collect()),
        }
    }
    choices
}

/// Finds the tables in the shape of a value: directly, in an array, or as an alternative.
fn find_tables(shape: &'static Shape, place: &TablePath, found: &mut Vec<Found>) {
    match shape {
        Shape::Table(table) => found.push(Found { table: table(), place: place.clone() }),
        Shape::Either(shapes) => shapes.iter().for_each(|shape| find_tables(shape, place, found)),
        Shape::List(of, _) => find_tables(of, &TablePath { is_array: true, ..place.clone() }, found),
        _ => {}
    }
}

/// The example of a shape, or one made of its parts.
fn example_of(shape: &'static Shape) -> Option<String> {
    match shape {
        Shape::Named(named) => named.examples.first().map(|example| (*example).to_owned()),
        Shape::Table(table) => table().examples.first().map(|example| (*example).to_owned()),
        Shape::List(of, _) => Some(format!("[{}]", example_of(of)?)),
        Shape::Either(shapes) => shapes.iter().find_map(|shape| example_of(shape)),
        _ => None,
    }
}

/// The bounds of a value as text.
fn bounds(shape: &Shape) -> Option<String> {
    match shape {
        Shape::Integer { min: 0, max: u64::MAX } => None,
        Shape::Integer { min, max: u64::MAX } => Some(format!("{min} or more")),
        Shape::Integer { min, max } => Some(format!("{min} to {max}")),
        Shape::Text { is_required: true } | Shape::List(_, 1..) => Some("not empty".to_owned()),
        _ => None,
    }
}

fn either(mut kinds: Vec<Kind>) -> Kind {
    if kinds.len() > 1 { Kind::Either(kinds) } else { kinds.pop().unwrap_or(Kind::Basic("any")) }
}

/// Converts `ListenAddress` to `listen address`.
fn spaced(name: &str) -> String {
    let mut spaced = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() && !spaced.is_empty() {
            spaced.push(' ');
        }
        spaced.extend(letter.to_lowercase());
    }
    spaced
}

/// Finds the first key `name` in a table or the tables in it that has an example for which `is_expected` holds, and returns it with
/// the example, both as in TOML.
pub(crate) fn example(
    table: &'static TableInfo,
    name: &str,
    is_expected: impl Fn(&str) -> bool,
) -> Option<(String, String)> {
    let (mut known, mut rest) = (Vec::new(), vec![table]);
    while let Some(table) = rest.pop() {
        if known.contains(&table.name) {
            continue;
        }
        known.push(table.name);
        let (mut found, mut inner) = (None, Vec::new());
        table.each_key(&mut |key| {
            if key.name == name {
                let examples = key.examples.iter().map(|example| (*example).to_owned());
                found = found
                    .take()
                    .or_else(|| examples.chain(example_of(key.shape)).find(|example| is_expected(example)));
            }
            find_tables(key.shape, &TablePath { path: Vec::new(), is_array: false }, &mut inner);
        });
        if let Some(found) = found {
            return Some((notation::key(name), found));
        }
        rest.extend(inner.into_iter().rev().map(|found| found.table));
    }
    None
}
