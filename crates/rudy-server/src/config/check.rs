//! Holds a parsed file against the schema: unknown keys, wrong types, missing keys, values out of range; all at once.
//!
//! The schema is made from the structs, so there is one definition of what may stand in a file. What is checked here is
//! what schemars writes for those structs, not JSON Schema at large.

use serde_json::{Map, Value};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::diagnostics::{Place, Problem, Source, Spans};
use super::nearest::{nearest, replacement};
use super::values::{EngineName, ListenAddress, Size, Time};
use crate::routing::{HostPattern, PathPattern};
use crate::upstream::UpstreamAddress;

/// Adds what is wrong with `document` to `problems`, and where each value stands to `source`.
pub(super) fn check(
    schema: &Value,
    document: &Spanned<DeTable<'_>>,
    place: &Place,
    source: &mut Source,
    problems: &mut Vec<Problem>,
) {
    let mut walk = Walk { root: schema, source, problems };
    walk.table(schema, document.get_ref(), place);
}

struct Walk<'a> {
    root: &'a Value,
    source: &'a mut Source,
    problems: &'a mut Vec<Problem>,
}

impl<'a> Walk<'a> {
    fn value(&mut self, schema: &'a Value, value: &Spanned<DeValue<'_>>, place: &Place) {
        let schema = self.resolve(schema);
        if let Some(alternatives) = schema.get("anyOf").and_then(Value::as_array) {
            return self.any_of(alternatives, value, place);
        }
        if !self.accepts(schema, value.get_ref()) {
            let expected = self.names(std::iter::once(schema));
            return self.wrong_type(&expected, value, place);
        }
        match value.get_ref() {
            DeValue::Table(table) => self.table(schema, table, place),
            DeValue::Array(array) => self.array(schema, array, place),
            DeValue::String(text) => self.text(schema, text, place),
            DeValue::Integer(number) => self.integer(schema, &number.to_string(), place),
            DeValue::Float(_) | DeValue::Boolean(_) | DeValue::Datetime(_) => {}
        }
    }

    /// The alternatives in our schemas differ in type, so the type decides which one is meant.
    fn any_of(&mut self, alternatives: &'a [Value], value: &Spanned<DeValue<'_>>, place: &Place) {
        let fitting = alternatives.iter().find(|schema| self.accepts(self.resolve(schema), value.get_ref()));
        if let Some(schema) = fitting {
            self.value(schema, value, place);
        } else {
            let expected = self.names(alternatives.iter());
            self.wrong_type(&expected, value, place);
        }
    }

    fn wrong_type(&mut self, expected: &str, value: &Spanned<DeValue<'_>>, place: &Place) {
        self.note_inside(value, place);
        let found = name_of_type(json_type(value.get_ref()));
        let problem = Problem::value(place, format!("expected {expected}, found {found}"));
        self.problems.push(match value.get_ref() {
            DeValue::Table(_) if expected == "a list" => problem.label(format!("write [[{}]]", place.keys())),
            _ => problem,
        });
    }

    fn table(&mut self, schema: &'a Value, table: &DeTable<'_>, place: &Place) {
        let schema = self.resolve(schema);
        let none = Map::new();
        let properties = schema.get("properties").and_then(Value::as_object);
        let others = schema.get("additionalProperties").filter(|others| others.is_object());
        for (key, value) in table {
            let inner = place.key(key.get_ref());
            self.note(&inner, Some(key.span()), value.span());
            if let Some(schema) = properties.and_then(|known| known.get(key.get_ref().as_ref())).or(others) {
                self.value(schema, value, &inner);
            } else {
                self.note_inside(value, &inner);
                self.unknown_key(key.get_ref(), properties.unwrap_or(&none), &inner);
            }
        }
        for required in schema.get("required").and_then(Value::as_array).into_iter().flatten() {
            let key = required.as_str().unwrap_or_default();
            if !table.contains_key(key) {
                self.problems.push(
                    Problem::value(place, format!("the key `{key}` is missing"))
                        .label(format!("needs `{key}`")),
                );
            }
        }
    }

    fn unknown_key(&mut self, key: &str, known: &Map<String, Value>, place: &Place) {
        let title = format!("unknown key `{key}`");
        let problem = Problem::key(place, title);
        if let Some(replacement) = replacement(key) {
            return self.problems.push(problem.label(format!("replaced by {replacement}")));
        }
        self.problems.push(if let Some(near) = nearest(key, known.keys().map(String::as_str)) {
            problem.label(format!("did you mean `{near}`?"))
        } else {
            let names: Vec<_> = known.keys().map(|key| format!("`{key}`")).collect();
            problem.label("not known here").help(format!("the keys known here are {}", names.join(", ")))
        });
    }

    fn array(&mut self, schema: &'a Value, array: &[Spanned<DeValue<'_>>], place: &Place) {
        if array.is_empty() && schema.get("minItems").and_then(Value::as_u64).unwrap_or(0) > 0 {
            self.problems.push(
                Problem::value(place, "the list is empty")
                    .label("expected one value at least")
                    .help("leave the key out if there is nothing to say"),
            );
        }
        let Some(items) = schema.get("items") else { return };
        for (index, value) in array.iter().enumerate() {
            let inner = place.index(index);
            self.note(&inner, None, value.span());
            self.value(items, value, &inner);
        }
    }

    fn text(&mut self, schema: &'a Value, text: &str, place: &Place) {
        if let Some(allowed) = allowed_values(schema) {
            if !allowed.iter().any(|value| *value == text) {
                let names: Vec<_> = allowed.iter().map(ToString::to_string).collect();
                let problem =
                    Problem::value(place, format!("expected {}, found \"{text}\"", names.join(" or ")));
                let near = nearest(text, allowed.iter().filter_map(|value| value.as_str()));
                self.problems.push(match near {
                    Some(near) => problem.label(format!("did you mean \"{near}\"?")),
                    None => problem,
                });
            }
            return;
        }
        if text.is_empty() && schema.get("minLength").is_some() {
            return self.problems.push(Problem::value(place, "the text is empty"));
        }
        let Some(format) = schema.get("format").and_then(Value::as_str) else { return };
        if let Err(expected) = check_format(format, text) {
            // The label has an example already.
            let name = what_it_is(format).and_then(|name| name.split(" (").next()).unwrap_or("valid");
            self.problems.push(Problem::value(place, format!("\"{text}\" is not {name}")).label(expected));
        }
    }

    fn integer(&mut self, schema: &'a Value, number: &str, place: &Place) {
        let Ok(number) = number.parse::<i128>() else { return };
        if let Some(allowed) = allowed_values(schema) {
            if !allowed.iter().any(|value| value.as_i64().map(i128::from) == Some(number)) {
                let names: Vec<_> = allowed.iter().map(ToString::to_string).collect();
                self.problems.push(Problem::value(
                    place,
                    format!("expected one of {}, found {number}", names.join(", ")),
                ));
            }
            return;
        }
        let bound = |name| {
            schema.get(name).and_then(Value::as_number).and_then(|n| n.to_string().parse::<f64>().ok())
        };
        #[expect(clippy::cast_precision_loss, reason = "the bounds in the schema are far below 2^53")]
        let value = number as f64;
        if bound("minimum").is_some_and(|least| value < least)
            || bound("maximum").is_some_and(|most| value > most)
        {
            let expected = match (bound("minimum"), bound("maximum")) {
                (Some(least), Some(most)) => format!("expected {least} to {most}"),
                (Some(least), None) => format!("expected {least} or more"),
                (None, Some(most)) => format!("expected {most} or less"),
                (None, None) => String::new(),
            };
            self.problems.push(Problem::value(place, format!("{number} is out of range")).label(expected));
        }
    }

    fn note(&mut self, place: &Place, key: Option<std::ops::Range<usize>>, value: std::ops::Range<usize>) {
        self.source.spans.insert(place.pointer().to_owned(), Spans { key, value });
    }

    /// Spans only, for values that nothing is known about.
    fn note_inside(&mut self, value: &Spanned<DeValue<'_>>, place: &Place) {
        if !self.source.spans.contains_key(place.pointer()) {
            self.note(place, None, value.span());
        }
    }

    fn resolve(&self, schema: &'a Value) -> &'a Value {
        let Some(reference) = schema.get("$ref").and_then(Value::as_str) else { return schema };
        reference.strip_prefix('#').and_then(|pointer| self.root.pointer(pointer)).unwrap_or(schema)
    }

    fn accepts(&self, schema: &'a Value, value: &DeValue<'_>) -> bool {
        let types = types_of(self.resolve(schema));
        types.is_empty() || types.contains(&json_type(value))
    }

    fn names(&self, schemas: impl Iterator<Item = &'a Value>) -> String {
        let mut names: Vec<&str> = Vec::new();
        for schema in schemas.map(|schema| self.resolve(schema)) {
            match schema.get("format").and_then(Value::as_str).and_then(what_it_is) {
                Some(name) => names.push(name),
                None => names.extend(types_of(schema).into_iter().map(name_of_type)),
            }
        }
        names.join(" or ")
    }
}

fn check_format(format: &str, text: &str) -> Result<(), String> {
    match format {
        "rudy-time" => text.parse::<Time>().map(drop),
        "rudy-size" => text.parse::<Size>().map(drop),
        "rudy-engine" => text.parse::<EngineName>().map(drop),
        "rudy-upstream" => text.parse::<UpstreamAddress>().map(drop),
        "rudy-listen" => text.parse::<ListenAddress>().map(drop),
        "rudy-host" => text.parse::<HostPattern>().map(drop),
        "rudy-path" => text.parse::<PathPattern>().map(drop),
        _ => Ok(()),
    }
}

fn what_it_is(format: &str) -> Option<&'static str> {
    match format {
        "rudy-time" => Some("a length of time (\"10s\")"),
        "rudy-size" => Some("a size (\"16KiB\")"),
        "rudy-engine" => Some("an engine (\"percore\")"),
        "rudy-listen" => Some("an address to listen on (\"127.0.0.1:8080\")"),
        "rudy-host" => Some("a host (\"example.org\")"),
        "rudy-path" => Some("a path (\"/docs/*\")"),
        _ => None,
    }
}

/// The values of an enumeration: schemars writes `enum`, or `oneOf` with `const` where the variants are documented.
fn allowed_values(schema: &Value) -> Option<Vec<&Value>> {
    if let Some(values) = schema.get("enum").and_then(Value::as_array) {
        return Some(values.iter().collect());
    }
    let alternatives = schema.get("oneOf")?.as_array()?;
    alternatives.iter().map(|alternative| alternative.get("const")).collect()
}

fn types_of(schema: &Value) -> Vec<&str> {
    match schema.get("type") {
        Some(Value::String(one)) => vec![one],
        Some(Value::Array(several)) => several.iter().filter_map(Value::as_str).collect(),
        _ if allowed_values(schema).is_some() => vec!["string"],
        _ => Vec::new(),
    }
}

fn json_type(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "string",
        DeValue::Integer(_) => "integer",
        DeValue::Float(_) => "number",
        DeValue::Boolean(_) => "boolean",
        DeValue::Datetime(_) => "date",
        DeValue::Array(_) => "array",
        DeValue::Table(_) => "object",
    }
}

fn name_of_type(json_type: &str) -> &'static str {
    match json_type {
        "string" => "a string",
        "integer" => "an integer",
        "number" => "a number",
        "boolean" => "true or false",
        "date" => "a date",
        "array" => "a list",
        _ => "a table",
    }
}
