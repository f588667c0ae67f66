//! Short forms of tables.

use schemars::{Schema, json_schema};
use serde_json::Value;

/// Turns the schema of a table into an alternative of the short form and the table. Description and examples stay outside.
pub fn add_short_form(schema: &mut Schema, short: &Value) {
    let mut table = std::mem::take(schema);
    let about = ["description", "examples"].map(|key| (key, table.remove(key)));
    *schema = json_schema!({ "anyOf": [short, table] });
    for (key, value) in about {
        if let Some(value) = value {
            schema.insert(key.to_owned(), value);
        }
    }
}

/// Gives a table a short form: a value of another type. The table itself derives `Deserialize` with `#[serde(remote = "Self")]`.
#[macro_export]
macro_rules! short_form {
    ($type:ident, $marker:ident, $what:literal, $kind:literal, { $($visit:ident($value:ident: $from:ty) => $table:expr;)+ }) => {
        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Short;

                impl<'de> serde::de::Visitor<'de> for Short {
                    type Value = $type;

                    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        f.write_str($what)
                    }

                    fn visit_newtype_struct<D: serde::Deserializer<'de>>(self, table: D) -> Result<$type, D::Error> {
                        $type::deserialize(table)
                    }

                    $(fn $visit<E: serde::de::Error>(self, $value: $from) -> Result<$type, E> {
                        $table
                    })+
                }

                deserializer.deserialize_newtype_struct($crate::marker::$marker, Short)
            }
        }

        impl $type {
            /// Adds the short form to the schema of the table.
            fn with_short_form(schema: &mut schemars::Schema) {
                let short = serde_json::from_str($kind).unwrap_or_default();
                $crate::add_short_form(schema, &short);
            }
        }
    };
}
