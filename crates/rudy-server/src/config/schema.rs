//! The JSON Schema of `rudy.toml`, generated from its structs.

use schemars::generate::SchemaSettings;
use schemars::transform::{RecursiveTransform, Transform};
use schemars::{JsonSchema, Schema};
use serde_json::Value;

use super::file::MainFile;

/// Returns the JSON Schema of `rudy.toml`, as in `docs/rudy.schema.json`.
#[must_use]
pub fn json_schema() -> String {
    let mut text = serde_json::to_string_pretty(&schema_of::<MainFile>()).unwrap_or_default();
    text.push('\n');
    text
}

/// Generates the schema of a type.
pub(super) fn schema_of<T: JsonSchema>() -> Value {
    let mut schema =
        SchemaSettings::draft2020_12().for_deserialize().into_generator().into_root_schema_for::<T>();
    RecursiveTransform(tidy).transform(&mut schema);
    schema.to_value()
}

/// Removes what TOML does not need: TOML has no null, and `required` already lists the optional keys. Puts descriptions on one line.
fn tidy(schema: &mut Schema) {
    let Some(object) = schema.as_object_mut() else { return };
    // The keys of a table have their own defaults.
    if object.get("default").is_some_and(|default| default.is_null() || default.is_object()) {
        object.remove("default");
    }
    // A required key has no default.
    let required = object.get("required").cloned();
    if let Some(Value::Object(properties)) = object.get_mut("properties") {
        for key in required.iter().filter_map(|keys| keys.as_array()).flatten().filter_map(Value::as_str) {
            if let Some(Value::Object(property)) = properties.get_mut(key) {
                property.remove("default");
            }
        }
    }
    if let Some(Value::String(text)) = object.get_mut("description") {
        *text = text.replace('\n', " ");
    }
    if let Some(Value::Array(types)) = object.get_mut("type") {
        types.retain(|kind| kind != "null");
        if let [only] = types.as_slice() {
            let only = only.clone();
            object.insert("type".to_owned(), only);
        }
    }
    let Some(Value::Array(alternatives)) = object.get_mut("anyOf") else { return };
    alternatives.retain(|schema| schema.get("type").is_none_or(|kind| kind != "null"));
    if let [Value::Object(only)] = alternatives.as_slice() {
        let only = only.clone();
        object.remove("anyOf");
        for (key, value) in only {
            object.entry(key).or_insert(value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/rudy.schema.json");

    #[test]
    fn the_committed_schema_is_up_to_date() {
        let schema = json_schema();
        if std::env::var_os("RUDY_WRITE_SCHEMA").is_some() {
            std::fs::write(FILE, &schema).unwrap();
        }
        let committed = std::fs::read_to_string(FILE).unwrap_or_default();
        assert!(
            committed == schema,
            "docs/rudy.schema.json is stale: RUDY_WRITE_SCHEMA=1 cargo test -p rudy-server schema"
        );
    }

    #[test]
    fn every_key_has_a_description_and_unknown_keys_are_rejected() {
        let schema = schema_of::<MainFile>();
        let tables = schema["$defs"].as_object().unwrap().values().chain([&schema]);
        for table in tables.filter(|table| table.get("properties").is_some()) {
            // A handler is one of several tables: the keys of each are closed, and those of the route after them.
            let closed = [&table["additionalProperties"], &table["unevaluatedProperties"]];
            assert!(closed.contains(&&Value::Bool(false)), "{table}");
            for (key, value) in table["properties"].as_object().unwrap() {
                assert!(value.get("description").is_some(), "{key} of {table}");
            }
        }
    }
}
