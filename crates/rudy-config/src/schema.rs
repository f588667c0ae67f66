//! The JSON Schema of a table, for editors.

use serde_json::{Map, Value, json};

use crate::shape::{Key, Kind, Member, Named, Shape, TableInfo};

/// Returns the schema of a file with this table.
///
/// # Panics
///
/// If an example or a default of a key is not TOML.
#[must_use]
pub fn json_schema(title: &str, table: &'static TableInfo) -> Value {
    let mut definitions = Map::new();
    let mut schema = Map::new();
    schema.insert("$schema".to_owned(), "https://json-schema.org/draft/2020-12/schema".into());
    schema.insert("title".to_owned(), title.into());
    schema.extend(keys_of(table, &mut definitions));
    definitions.sort_keys();
    schema.insert("$defs".to_owned(), definitions.into());
    schema.into()
}

/// The schema of a table without its short form.
fn keys_of(table: &'static TableInfo, definitions: &mut Map<String, Value>) -> Map<String, Value> {
    let (mut properties, mut required, mut choices) = (Map::new(), Vec::new(), Vec::new());
    table.each_key(&mut |key| {
        properties.insert(key.name.to_owned(), property(key, definitions));
        if key.is_required {
            required.push(Value::from(key.name));
        }
    });
    each_choice(table, &mut |keys| choices.extend(keys.iter().map(|key| json!({ "required": [key.name] }))));
    let mut schema = Map::new();
    insert_text(&mut schema, table.doc);
    schema.insert("type".to_owned(), "object".into());
    schema.insert("additionalProperties".to_owned(), false.into());
    schema.insert("properties".to_owned(), properties.into());
    insert_list(&mut schema, "required", required);
    insert_list(&mut schema, "oneOf", choices);
    schema
}

fn each_choice(table: &'static TableInfo, visit: &mut impl FnMut(&'static [Key])) {
    for member in table.members {
        match member {
            Member::Key(_) => {}
            Member::Part(part) => each_choice(part(), visit),
            Member::Choice(keys) => visit(keys),
        }
    }
}

fn property(key: &'static Key, definitions: &mut Map<String, Value>) -> Value {
    let mut schema = match schema_of(key.shape, definitions) {
        Value::Object(schema) => schema,
        _ => Map::new(),
    };
    schema.insert("description".to_owned(), key.doc.into());
    if let Some(default) = key.default() {
        schema.insert("default".to_owned(), json_of(&default));
    }
    insert_examples(&mut schema, key.examples);
    schema.into()
}

fn schema_of(shape: &'static Shape, definitions: &mut Map<String, Value>) -> Value {
    match shape {
        Shape::Boolean => json!({ "type": "boolean" }),
        Shape::False => json!({ "const": false }),
        Shape::Integer { min, max: u64::MAX } => json!({ "type": "integer", "minimum": min }),
        Shape::Integer { min, max } => json!({ "type": "integer", "minimum": min, "maximum": max }),
        Shape::Integers(values) => json!({ "enum": values }),
        Shape::Text { is_required: false } => json!({ "type": "string" }),
        Shape::Text { is_required: true } => json!({ "type": "string", "minLength": 1 }),
        Shape::Words(words) => {
            let word = |word: &'static crate::shape::Word| {
                word.spellings().map(move |text| match word.doc {
                    "" => json!({ "const": text }),
                    doc => json!({ "const": text, "description": doc }),
                })
            };
            json!({ "oneOf": words.iter().flat_map(word).collect::<Vec<_>>() })
        }
        Shape::Named(named) => {
            if !definitions.contains_key(named.name) {
                definitions.insert(named.name.to_owned(), of_named(named));
            }
            reference(named.name)
        }
        Shape::List(of, 0) => json!({ "type": "array", "items": schema_of(of, definitions) }),
        Shape::List(of, min) => {
            json!({ "type": "array", "items": schema_of(of, definitions), "minItems": min })
        }
        Shape::Map(of, None) => {
            json!({ "type": "object", "additionalProperties": schema_of(of, definitions) })
        }
        Shape::Map(of, Some(pattern)) => json!({
            "type": "object", "patternProperties": { *pattern: schema_of(of, definitions) }, "additionalProperties": false
        }),
        Shape::Table(table) => {
            let table = table();
            if !definitions.contains_key(table.name) {
                // Before its keys, because a table can be in itself.
                definitions.insert(table.name.to_owned(), Value::Null);
                let schema = of_table(table, definitions);
                definitions.insert(table.name.to_owned(), schema);
            }
            reference(table.name)
        }
        Shape::Either(shapes) => {
            json!({ "anyOf": shapes.iter().map(|shape| schema_of(shape, definitions)).collect::<Vec<_>>() })
        }
    }
}

fn reference(name: &str) -> Value {
    json!({ "$ref": format!("#/$defs/{name}") })
}

fn of_table(table: &'static TableInfo, definitions: &mut Map<String, Value>) -> Value {
    let mut keys = keys_of(table, definitions);
    let mut schema = match table.short {
        Some(short) => {
            let doc = keys.remove("description");
            let mut schema = Map::new();
            schema.extend(doc.map(|doc| ("description".to_owned(), doc)));
            schema.insert("anyOf".to_owned(), json!([schema_of(short, definitions), keys]));
            schema
        }
        None => keys,
    };
    insert_examples(&mut schema, table.examples);
    schema.into()
}

fn of_named(named: &Named) -> Value {
    let kind = |kind: &Kind| match kind {
        Kind::Text => "string",
        Kind::Integer => "integer",
        Kind::Number => "number",
    };
    let kinds: Vec<_> = named.kinds.iter().map(kind).collect();
    let mut schema = Map::new();
    insert_text(&mut schema, named.doc);
    schema
        .insert("type".to_owned(), if let [only] = kinds.as_slice() { (*only).into() } else { kinds.into() });
    if let Some(pattern) = named.pattern {
        schema.insert("pattern".to_owned(), pattern.into());
    }
    insert_examples(&mut schema, named.examples);
    schema.into()
}

fn insert_text(schema: &mut Map<String, Value>, doc: &str) {
    if !doc.is_empty() {
        schema.insert("description".to_owned(), doc.into());
    }
}

fn insert_list(schema: &mut Map<String, Value>, key: &str, values: Vec<Value>) {
    if !values.is_empty() {
        schema.insert(key.to_owned(), values.into());
    }
}

fn insert_examples(schema: &mut Map<String, Value>, examples: &[&str]) {
    insert_list(schema, "examples", examples.iter().map(|example| json_of(example)).collect());
}

/// Converts a value from TOML.
fn json_of(toml: &str) -> Value {
    let document: toml::Table = format!("value = {toml}").parse().expect("a value as in TOML");
    serde_json::to_value(&document["value"]).unwrap_or_default()
}
