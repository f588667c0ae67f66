//! Evaluates a JSON Schema through its references and combinations.

use serde_json::Value;

/// The maximum depth of references, because a schema can refer to itself.
pub(super) const DEPTH_MAX: usize = 32;

/// A schema with its definitions.
#[derive(Debug, Clone, Copy)]
pub(super) struct Schemas<'s> {
    pub(super) root: &'s Value,
}

impl<'s> Schemas<'s> {
    /// Returns the definition that `schema` refers to, with its name.
    pub(super) fn target(self, schema: &Value) -> Option<(&'s str, &'s Value)> {
        let name = schema.get("$ref")?.as_str()?.strip_prefix("#/$defs/")?;
        let (name, target) = self.root.get("$defs")?.as_object()?.get_key_value(name)?;
        Some((name, target))
    }

    /// Evaluates `query` on `schema`, or else on its reference or its only part.
    pub(super) fn find<T>(self, schema: &'s Value, query: &impl Fn(&'s Value) -> Option<T>) -> Option<T> {
        self.find_within(schema, query, 0)
    }

    fn find_within<T>(
        self,
        schema: &'s Value,
        query: &impl Fn(&'s Value) -> Option<T>,
        depth: usize,
    ) -> Option<T> {
        if depth > DEPTH_MAX {
            return None;
        }
        query(schema).or_else(|| {
            let mut parts = list(schema, "allOf");
            let only = parts.next().filter(|_| parts.next().is_none());
            let target = self.target(schema).map(|(_, target)| target).or(only)?;
            self.find_within(target, query, depth + 1)
        })
    }

    /// Whether it describes a table with known keys.
    pub(super) fn is_table(self, schema: &Value) -> bool {
        self.is_table_within(schema, 0)
    }

    fn is_table_within(self, schema: &Value, depth: usize) -> bool {
        if depth > DEPTH_MAX {
            return false;
        }
        if let Some((_, target)) = self.target(schema) {
            return self.is_table_within(target, depth + 1);
        }
        let mut parts = alternatives(schema).peekable();
        schema.get("properties").is_some()
            || parts.peek().is_some() && parts.all(|part| self.is_table_within(part, depth + 1))
    }

    /// The example of the schema, or one built from its parts.
    pub(super) fn example(self, schema: &'s Value) -> Option<Value> {
        self.example_within(schema, 0)
    }

    fn example_within(self, schema: &'s Value, depth: usize) -> Option<Value> {
        if depth > DEPTH_MAX {
            return None;
        }
        if let Some(example) = list(schema, "examples").next() {
            return Some(example.clone());
        }
        let of_target = || self.example_within(self.target(schema)?.1, depth + 1);
        let of_items = || Some(Value::Array(vec![self.example_within(schema.get("items")?, depth + 1)?]));
        let of_one = || alternatives(schema).find_map(|one| self.example_within(one, depth + 1));
        of_target().or_else(of_items).or_else(of_one)
    }
}

/// The parts of a combined schema, without `null`, which TOML lacks.
pub(super) fn alternatives(schema: &Value) -> impl Iterator<Item = &Value> {
    let is_null = |one: &Value| one.get("type").is_some_and(|kind| kind == "null");
    ["anyOf", "oneOf", "allOf"]
        .into_iter()
        .flat_map(|word| list(schema, word))
        .filter(move |one| !is_null(one))
}

/// The values of an enumeration, with their descriptions.
pub(super) fn listed_values(schema: &Value) -> Option<Vec<(Value, String)>> {
    if let Some(value) = schema.get("const") {
        return Some(vec![(value.clone(), text(schema, "description"))]);
    }
    if let Some(Value::Array(values)) = schema.get("enum") {
        return Some(values.iter().map(|value| (value.clone(), String::new())).collect());
    }
    let values: Option<Vec<_>> = alternatives(schema).map(listed_values).collect();
    values.map(|values| values.concat()).filter(|values| !values.is_empty())
}

/// The bounds of a value as text.
pub(super) fn bounds(schema: &Value) -> Option<String> {
    let bound = |word: &str| schema.get(word).filter(|bound| bound.is_number());
    match (bound("minimum"), bound("maximum")) {
        (Some(min), Some(max)) => return Some(format!("{min} to {max}")),
        (Some(min), None) if *min != 0 => return Some(format!("{min} or more")),
        (None, Some(max)) => return Some(format!("{max} at most")),
        _ => {}
    }
    let is_needed = ["minLength", "minItems"].iter().any(|word| bound(word).is_some_and(|bound| *bound != 0));
    is_needed.then(|| "not empty".to_owned())
}

pub(super) fn list<'v>(schema: &'v Value, word: &str) -> impl Iterator<Item = &'v Value> + use<'v> {
    schema.get(word).and_then(Value::as_array).into_iter().flatten()
}

pub(super) fn entries<'v>(
    schema: &'v Value,
    word: &str,
) -> impl Iterator<Item = (&'v str, &'v Value)> + use<'v> {
    let entries = schema.get(word).and_then(Value::as_object);
    entries.into_iter().flatten().map(|(name, value)| (name.as_str(), value))
}

/// A string on one line; empty if missing.
pub(super) fn text(schema: &Value, word: &str) -> String {
    let text = schema.get(word).and_then(Value::as_str).unwrap_or_default();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
