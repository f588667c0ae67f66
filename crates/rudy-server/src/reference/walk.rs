//! Collects the tables, keys and types that a JSON Schema describes.

use serde_json::Value;

use super::schema::{DEPTH_MAX, Schemas, alternatives, bounds, entries, list, listed_values, text};
use super::{Choice, Key, Kind, Reference, Table, TablePath, Type};

impl Reference {
    /// Builds the reference of `schema`.
    pub(super) fn of(schema: &Value) -> Self {
        let mut walk = Walk { schemas: Schemas { root: schema }, tables: Vec::new(), types: Vec::new() };
        walk.add_table(schema, String::new(), TablePath { path: Vec::new(), is_array: false });
        let (title, description) = (text(schema, "title"), text(schema, "description"));
        Self { title, description, tables: walk.tables, types: walk.types }
    }
}

struct Walk<'s> {
    schemas: Schemas<'s>,
    tables: Vec<Table>,
    types: Vec<Type>,
}

/// The members of a table, including those of combined schemas.
#[derive(Default)]
struct Members<'s> {
    properties: Vec<(&'s str, &'s Value)>,
    required: Vec<&'s str>,
    choices: Vec<Choice>,
}

/// A table inside another one.
struct Found<'s> {
    schema: &'s Value,
    id: String,
    place: TablePath,
}

impl<'s> Walk<'s> {
    /// Adds a table, then the tables inside it: arrays of tables first, then alternatives, then the others. Each table is added once,
    /// so recursion ends.
    fn add_table(&mut self, schema: &'s Value, id: String, place: TablePath) {
        if let Some(known) = self.tables.iter_mut().find(|table| table.id == id) {
            // A list of tables may also be a single one, at the same path.
            if known.paths.iter().all(|known| known.path != place.path) {
                known.paths.push(place);
            }
            return;
        }
        let mut members = Members::default();
        self.gather(schema, &mut members, 0);
        let (mut keys, mut inner) = (Vec::new(), Vec::new());
        for (name, schema) in &members.properties {
            let path = place.path.iter().cloned().chain([(*name).to_owned()]).collect::<Vec<_>>();
            self.find_tables(schema, &TablePath { path: path.clone(), is_array: false }, &mut inner, 0);
            keys.push(self.key(name, schema, members.required.contains(name), &path.join(".")));
        }
        let choices = members.choices;
        let is_choice = |place: &TablePath| {
            place.path.last().is_some_and(|key| choices.iter().any(|choice| choice.keys.contains(key)))
        };
        inner.sort_by_key(|found| (!found.place.is_array, !is_choice(&found.place)));
        let description = self.schemas.find(schema, &description).unwrap_or_default();
        self.tables.push(Table { id, paths: vec![place], description, choices, keys });
        for Found { schema, id, place } in inner {
            self.add_table(schema, id, place);
        }
    }

    fn gather(&self, schema: &'s Value, members: &mut Members<'s>, depth: usize) {
        if depth > DEPTH_MAX {
            return;
        }
        if let Some((_, target)) = self.schemas.target(schema) {
            self.gather(target, members, depth + 1);
        }
        members.required.extend(list(schema, "required").filter_map(Value::as_str));
        for (name, schema) in entries(schema, "properties") {
            if !members.properties.iter().any(|(known, _)| *known == name) {
                members.properties.push((name, schema));
            }
        }
        list(schema, "allOf").for_each(|part| self.gather(part, members, depth + 1));
        for (word, is_exclusive) in [("oneOf", true), ("anyOf", false)] {
            let keys: Vec<_> =
                list(schema, word).flat_map(|one| self.gather_alternative(one, members, depth)).collect();
            if !keys.is_empty() {
                members.choices.push(Choice { keys, is_exclusive });
            }
        }
    }

    /// The keys that select an alternative. They are not required individually.
    fn gather_alternative(&self, one: &'s Value, members: &mut Members<'s>, depth: usize) -> Vec<String> {
        let mut alternative = Members::default();
        self.gather(one, &mut alternative, depth + 1);
        let Members { properties, required, choices } = alternative;
        members.choices.extend(choices);
        let names: Vec<_> = properties.iter().map(|(name, _)| *name).collect();
        let new = properties
            .into_iter()
            .filter(|(name, _)| !members.properties.iter().any(|(known, _)| known == name));
        let new: Vec<_> = new.collect();
        members.properties.extend(new);
        let chosen = if required.is_empty() { names } else { required };
        chosen.into_iter().map(str::to_owned).collect()
    }

    /// Finds the tables in the type of a value: directly, in an array, or as an alternative.
    fn find_tables(&self, schema: &'s Value, place: &TablePath, found: &mut Vec<Found<'s>>, depth: usize) {
        if depth > DEPTH_MAX {
            return;
        }
        let (name, target) =
            self.schemas.target(schema).map_or((None, schema), |(name, target)| (Some(name), target));
        if self.schemas.is_table(schema) {
            let id = name.map_or_else(|| place.path.join("."), str::to_owned);
            found.push(Found { schema: target, id, place: place.clone() });
            return;
        }
        alternatives(target).for_each(|one| self.find_tables(one, place, found, depth + 1));
        if let Some(items) = target.get("items") {
            self.find_tables(items, &TablePath { is_array: true, ..place.clone() }, found, depth + 1);
        }
    }

    fn key(&mut self, name: &str, schema: &'s Value, is_required: bool, path: &str) -> Key {
        let schemas = self.schemas;
        let kind = self.kind(schema, path, 0);
        let default = schemas.find(schema, &|schema| schema.get("default").filter(|value| !value.is_null()));
        let says_nothing = |value: &Value| matches!(value.as_array().map(Vec::len), Some(0)) || value == "";
        let own = list(schema, "examples").next().cloned();
        let example = own.or_else(|| match &kind {
            // The example of a boolean is the opposite of its default.
            Kind::Basic(basic) if basic == "boolean" => Some(default.is_none_or(|on| *on != true).into()),
            _ if default.is_none_or(says_nothing) => {
                schemas.example(schema).or_else(|| Some(kind.values().first()?.0.clone()))
            }
            _ => None,
        });
        Key {
            name: name.to_owned(),
            description: schemas.find(schema, &description).unwrap_or_default(),
            bounds: schemas.find(schema, &bounds),
            kind,
            is_required,
            default: default.cloned(),
            example,
        }
    }

    /// The type of a value; `path` is the name of a table without one.
    fn kind(&mut self, schema: &'s Value, path: &str, depth: usize) -> Kind {
        if depth > DEPTH_MAX {
            return any();
        }
        if let Some((name, target)) = self.schemas.target(schema) {
            return self.kind_of_named(name, target, path, depth);
        }
        if self.schemas.is_table(schema) {
            return Kind::Table(path.to_owned());
        }
        if let Some(values) = listed_values(schema) {
            return Kind::Values(values);
        }
        let kinds: Vec<_> = alternatives(schema).map(|schema| self.kind(schema, path, depth + 1)).collect();
        if !kinds.is_empty() {
            return either(kinds);
        }
        let types: Vec<_> = match schema.get("type") {
            Some(Value::Array(types)) => types.iter().filter_map(Value::as_str).collect(),
            Some(Value::String(one)) => vec![one.as_str()],
            _ => Vec::new(),
        };
        let types = types.into_iter().filter(|name| *name != "null");
        either(types.map(|name| self.kind_of_type(name, schema, path, depth)).collect())
    }

    /// A definition is a named type if it has a description.
    fn kind_of_named(&mut self, name: &'s str, target: &'s Value, path: &str, depth: usize) -> Kind {
        if self.schemas.is_table(target) {
            return Kind::Table(name.to_owned());
        }
        let kind = self.kind(target, path, depth + 1);
        let has = |words: &[&str]| words.iter().any(|word| target.get(*word).is_some());
        let is_simple = alternatives(target).next().is_none() && has(&["pattern", "examples", "format"]);
        if !is_simple && !has(&["title"]) {
            return kind;
        }
        let title = Some(text(target, "title")).filter(|title| !title.is_empty());
        let name = title.unwrap_or_else(|| spaced(name));
        if !self.types.iter().any(|known| known.name == name) {
            let examples = list(target, "examples").cloned().collect();
            self.types.push(Type {
                name: name.clone(),
                kind,
                description: text(target, "description"),
                examples,
            });
        }
        Kind::Type(name)
    }

    fn kind_of_type(&mut self, name: &str, schema: &'s Value, path: &str, depth: usize) -> Kind {
        let mut inner = |schema: Option<&'s Value>| {
            Box::new(schema.map_or_else(any, |schema| self.kind(schema, path, depth + 1)))
        };
        match name {
            "array" => Kind::Array(inner(schema.get("items"))),
            "object" => {
                let free = schema.get("additionalProperties").filter(|free| free.is_object());
                Kind::Map(inner(free.or_else(|| Some(entries(schema, "patternProperties").next()?.1))))
            }
            basic => Kind::Basic(basic.to_owned()),
        }
    }
}

fn any() -> Kind {
    Kind::Basic("any".to_owned())
}

fn either(mut kinds: Vec<Kind>) -> Kind {
    if kinds.len() > 1 { Kind::Either(kinds) } else { kinds.pop().unwrap_or_else(any) }
}

fn description(schema: &Value) -> Option<String> {
    Some(text(schema, "description")).filter(|text| !text.is_empty())
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
