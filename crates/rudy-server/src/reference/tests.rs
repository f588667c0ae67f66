use std::collections::HashSet;

use serde_json::{Value, json};

use super::markdown::{markdown, path_of};
use super::{Kind, Reference, man_page, notation};
use crate::config::json_schema;

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference.md");

fn schema() -> Value {
    serde_json::from_str(&json_schema()).unwrap()
}

/// The type of the only key of a table with this schema.
fn words(key: &Value, defs: &Value) -> String {
    let schema = json!({ "properties": { "key": key }, "$defs": defs });
    let reference = Reference::of(&schema);
    let link = |kind: &Kind, several| match kind {
        Kind::Table(id) => format!("<{id}>{}", if several { "s" } else { "" }),
        Kind::Type(name) => format!("<{name}>{}", if several { "s" } else { "" }),
        _ => unreachable!("only tables and types are links"),
    };
    reference.tables[0].keys[0].kind.words(false, &link)
}

/// The example line of the only key of a table.
fn line(key: &Value, defs: &Value) -> Option<String> {
    let schema = json!({ "properties": { "key": key }, "$defs": defs });
    Reference::of(&schema).tables[0].keys[0].line()
}

#[test]
fn the_committed_reference_is_that_of_the_schema() {
    let reference = markdown(&schema());
    if std::env::var_os("RUDY_WRITE_SCHEMA").is_some() {
        std::fs::write(FILE, &reference).unwrap();
    }
    let committed = std::fs::read_to_string(FILE).unwrap_or_default();
    assert!(
        committed == reference,
        "docs/reference.md is stale: RUDY_WRITE_SCHEMA=1 cargo test -p rudy-server schema"
    );
}

#[test]
fn every_key_of_the_configuration_has_an_example() {
    for table in Reference::of(&schema()).tables {
        // The heading of its section shows how each table begins.
        let is_array_of_tables =
            |kind: &Kind| matches!(kind, Kind::Array(of) if matches!(**of, Kind::Table(_)));
        for key in table.keys.iter().filter(|key| !is_array_of_tables(&key.kind)) {
            let path = path_of(&table, &key.name);
            let line = key.line();
            let line = line.unwrap_or_else(|| {
                panic!("{path} has no example: #[schemars(extend(\"examples\" = [...]))] above its field gives one")
            });
            line.parse::<toml::Table>().unwrap_or_else(|error| panic!("{path}: {line}: {error}"));
            let value = key.example.as_ref().or(key.default.as_ref());
            assert!(
                value.is_some_and(|value| fits(&key.kind, value)),
                "{path} cannot be as in its example: {line}"
            );
        }
    }
}

/// Whether the JSON type of a value matches a type.
fn fits(kind: &Kind, value: &Value) -> bool {
    match kind {
        Kind::Basic(name) => match name.as_str() {
            "string" => value.is_string(),
            "integer" => value.is_i64() || value.is_u64(),
            "boolean" => value.is_boolean(),
            name => name == "any" || name == "number" && value.is_number(),
        },
        Kind::Values(values) => values.iter().any(|(known, _)| known == value),
        Kind::Table(_) => value.is_object(),
        Kind::Type(_) => value.is_string() || value.is_number(),
        Kind::Array(of) => value.as_array().is_some_and(|items| items.iter().all(|item| fits(of, item))),
        Kind::Map(of) => {
            value.as_object().is_some_and(|entries| entries.values().all(|entry| fits(of, entry)))
        }
        Kind::Either(kinds) => kinds.iter().any(|kind| fits(kind, value)),
    }
}

#[test]
fn every_link_of_the_reference_leads_to_its_only_anchor() {
    let text = markdown(&schema());
    let anchors: Vec<_> = text.split("<a id=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    let unique: HashSet<_> = anchors.iter().copied().collect();
    assert_eq!(anchors.len(), unique.len(), "duplicate anchor");
    for target in text.split("](#").skip(1).filter_map(|rest| rest.split(')').next()) {
        assert!(
            unique.contains(target) || ["order-of-steps", "types-of-values"].contains(&target),
            "{target}"
        );
    }
}

#[test]
fn types_are_described_as_text() {
    let defs = json!({
        "Time": { "type": "string", "pattern": "x", "description": "A time." },
        "HostPattern": { "type": "string", "examples": ["a.org"] },
        "OneOrMany": { "anyOf": [{ "$ref": "#/$defs/HostPattern" }, { "type": "array", "items": { "$ref": "#/$defs/HostPattern" } }] },
        "Table": { "type": "object", "properties": { "a": {} } },
        "Format": { "oneOf": [{ "const": "a", "description": "First." }, { "const": "b" }] },
        "Loop": { "$ref": "#/$defs/Loop" },
        "Address": { "title": "upstream address", "anyOf": [{ "type": "string" }, { "type": "integer" }] },
    });
    for (key, expected) in [
        (json!({ "type": "string" }), "string"),
        (json!({ "type": ["integer", "string", "null"] }), "integer or string"),
        (json!({ "type": "array", "items": { "type": "string" } }), "array of strings"),
        (
            json!({ "type": "array", "items": { "type": "array", "items": { "type": "integer" } } }),
            "array of array of integers",
        ),
        (json!({ "type": "array" }), "array of any"),
        (json!({ "type": "object", "additionalProperties": { "type": "string" } }), "table of strings"),
        (
            json!({ "type": "object", "patternProperties": { "^x": { "type": "integer" } } }),
            "table of integers",
        ),
        (json!({ "$ref": "#/$defs/Time" }), "<time>"),
        (json!({ "anyOf": [{ "$ref": "#/$defs/Time" }, { "type": "null" }] }), "<time>"),
        (json!({ "allOf": [{ "$ref": "#/$defs/Time" }] }), "<time>"),
        (json!({ "$ref": "#/$defs/OneOrMany" }), "<host pattern> or array of <host pattern>s"),
        (json!({ "anyOf": [{ "type": "boolean" }, { "$ref": "#/$defs/Table" }] }), "boolean or <Table>"),
        (json!({ "anyOf": [{ "const": false }, { "$ref": "#/$defs/Table" }] }), "`false` or <Table>"),
        (json!({ "type": "array", "items": { "$ref": "#/$defs/Table" } }), "array of <Table>s"),
        (json!({ "type": "object", "properties": { "x": {} } }), "<key>"),
        (
            json!({ "oneOf": [{ "type": "integer" }, { "type": "string" }, { "type": "integer" }] }),
            "integer or string",
        ),
        (json!({ "enum": ["a", 1, true] }), "`\"a\"`, `1` or `true`"),
        (json!({ "$ref": "#/$defs/Format" }), "`\"a\"` or `\"b\"`"),
        (json!({ "$ref": "#/$defs/Address" }), "<upstream address>"),
        (json!({ "$ref": "#/$defs/Loop" }), "any"),
        (json!({ "$ref": "#/$defs/Nowhere" }), "any"),
        (json!(true), "any"),
    ] {
        assert_eq!(words(&key, &defs), expected, "{key}");
    }
}

#[test]
fn an_example_is_the_one_given_or_the_default_or_made_of_parts() {
    let defs = json!({
        "Host": { "type": "string", "examples": ["a.org", "b.org"] },
        "Format": { "oneOf": [{ "const": "a" }, { "const": "b" }] },
        "Loop": { "items": { "$ref": "#/$defs/Loop" } },
    });
    for (key, expected) in [
        (json!({ "type": "integer", "examples": [1, 2], "default": 3 }), Some("key = 1")),
        (json!({ "type": "integer", "default": 3 }), Some("key = 3")),
        (json!({ "type": "integer" }), None),
        (json!({ "type": "boolean" }), Some("key = true")),
        (json!({ "type": "boolean", "default": false }), Some("key = true")),
        (json!({ "type": "boolean", "default": true }), Some("key = false")),
        (json!({ "type": "string", "default": "a\"\u{7f}\n" }), Some(r#"key = "a\"\u007F\n""#)),
        (json!({ "type": "object", "default": {} }), Some("key = {}")),
        (
            json!({ "type": "object", "examples": [{ "404": "x", "a b": [1] }] }),
            Some(r#"key = { 404 = "x", "a b" = [1] }"#),
        ),
        (json!({ "$ref": "#/$defs/Host" }), Some(r#"key = "a.org""#)),
        (json!({ "$ref": "#/$defs/Host", "default": "c.org" }), Some(r#"key = "c.org""#)),
        (json!({ "$ref": "#/$defs/Host", "default": "" }), Some(r#"key = "a.org""#)),
        (
            json!({ "type": "array", "items": { "$ref": "#/$defs/Host" }, "default": [] }),
            Some(r#"key = ["a.org"]"#),
        ),
        (json!({ "type": "array", "default": [] }), Some("key = []")),
        (json!({ "type": "array", "items": { "$ref": "#/$defs/Host" } }), Some(r#"key = ["a.org"]"#)),
        (
            json!({ "anyOf": [{ "type": "array", "items": { "$ref": "#/$defs/Host" } }, { "type": "null" }] }),
            Some(r#"key = ["a.org"]"#),
        ),
        (json!({ "$ref": "#/$defs/Format" }), Some(r#"key = "a""#)),
        (json!({ "$ref": "#/$defs/Format", "default": "b" }), Some(r#"key = "b""#)),
        (json!({ "$ref": "#/$defs/Loop" }), None),
        (json!({ "type": "integer", "default": null }), None),
    ] {
        assert_eq!(line(&key, &defs).as_deref(), expected, "{key}");
    }
}

#[test]
fn the_bounds_of_a_value_are_described() {
    for (key, expected) in [
        (json!({ "minimum": 1, "maximum": 9 }), Some("1 to 9")),
        (json!({ "minimum": 1 }), Some("1 or more")),
        (json!({ "minimum": 0 }), None),
        (json!({ "maximum": 9 }), Some("9 at most")),
        (json!({ "minItems": 1 }), Some("not empty")),
        (json!({ "minLength": 1 }), Some("not empty")),
        (json!({ "$ref": "#/$defs/Small" }), Some("3 at most")),
    ] {
        let schema = json!({ "properties": { "key": key }, "$defs": { "Small": { "maximum": 3 } } });
        assert_eq!(Reference::of(&schema).tables[0].keys[0].bounds.as_deref(), expected, "{key}");
    }
}

fn site() -> Value {
    json!({
        "title": "file.toml",
        "description": "The file.",
        "properties": {
            "limits": { "$ref": "#/$defs/Limits", "description": "What is allowed." },
            "site": { "type": "array", "items": { "$ref": "#/$defs/Site" } },
        },
        "$defs": {
            "Limits": { "description": "Limits.", "properties": { "size": { "type": "integer", "default": 1 } } },
            "Site": {
                "description": "A site.",
                "required": ["hosts"],
                "properties": {
                    "hosts": { "type": "string", "examples": ["a.org"], "description": "The hosts." },
                    "guard": { "$ref": "#/$defs/App" },
                    "route": { "type": "array", "items": { "$ref": "#/$defs/Route" } },
                },
            },
            "Route": {
                "properties": { "guard": { "anyOf": [{ "const": false }, { "$ref": "#/$defs/App" }] } },
                "oneOf": [
                    { "type": "object", "properties": { "app": { "$ref": "#/$defs/App" } }, "required": ["app"] },
                    { "type": "object", "properties": { "site": { "$ref": "#/$defs/Site" } }, "required": ["site"] },
                    { "type": "object", "properties": { "inline": { "type": "object", "properties": { "x": {} } } }, "required": ["inline"] },
                ],
            },
            "App": { "properties": { "address": { "type": "string" } } },
        },
    })
}

#[test]
fn tables_are_in_the_order_in_which_an_operator_reads() {
    let reference = Reference::of(&site());
    let headings: Vec<_> = reference.tables.iter().map(super::Table::heading).collect();
    assert_eq!(
        headings,
        [
            "Top-level keys",
            "`[[site]]`",
            "`[[site.route]]`",
            "`[site.route.app]`",
            "`[site.route.inline]`",
            "`[limits]`"
        ]
    );
    // Each table is described once, even if it is recursive or has several paths.
    assert_eq!(reference.tables[3].other_headings(), ["`[site.route.guard]`", "`[site.guard]`"]);
    assert_eq!(reference.tables[1].other_headings(), ["`[site.route.site]`"]);
    assert_eq!(path_of(&reference.tables[3], "address"), "site.route.app.address");
}

#[test]
fn alternatives_are_described_and_not_required() {
    let reference = Reference::of(&site());
    let route = &reference.tables[2];
    let sentence = route.choices[0].sentence(str::to_owned);
    assert_eq!(sentence, "Exactly one of these keys is required: app, site, inline.");
    let required: Vec<_> = route.keys.iter().map(|key| (key.name.as_str(), key.is_required)).collect();
    assert_eq!(required, [("guard", false), ("app", false), ("site", false), ("inline", false)]);
}

#[test]
fn alternatives_may_only_name_keys_and_tables_may_be_combined() {
    let reference = Reference::of(&json!({
        "allOf": [{ "properties": { "a": {} }, "required": ["a"] }, { "$ref": "#/$defs/More" }],
        "properties": { "b": {}, "c": {} },
        "anyOf": [{ "required": ["b"] }, { "required": ["c"] }],
        "$defs": { "More": { "properties": { "d": {} } } },
    }));
    let [table] = &reference.tables[..] else { panic!("{reference:?}") };
    let keys: Vec<_> = table.keys.iter().map(|key| (key.name.as_str(), key.is_required)).collect();
    assert_eq!(keys, [("b", false), ("c", false), ("a", true), ("d", false)]);
    assert_eq!(table.choices[0].sentence(str::to_owned), "At least one of these keys is required: b, c.");
}

#[test]
fn a_file_becomes_markdown() {
    let text = markdown(&site());
    for part in [
        "# file.toml\n\nThe file.\nAll keys, with",
        "\n\n- [Top-level keys](#table): [`limits`](#limits), [`site`](#site)\n",
        "\n- [`[[site]]`](#table.site), [`[site.route.site]`](#table.site.route.site): [`hosts`](#site.hosts), ",
        "\n<a id=\"table.site\"></a>\n<a id=\"table.site.route.site\"></a>\n\n## `[[site]]`\n\nA site.\n",
        "\n<a id=\"site.hosts\"></a>\n\n### `hosts`\n\nstring · required\n\nThe hosts.\n\nExample: `hosts = \"a.org\"`\n",
        "### `limits`\n\n[table](#table.limits) · optional\n\nWhat is allowed.\n\n<a",
        "### `size`\n\ninteger · default `1`\n\nExample: `size = 1`\n",
    ] {
        assert!(text.contains(part), "{part}\nis not in\n{text}");
    }
}

#[test]
fn a_file_becomes_a_manual_page() {
    let page = man_page(&site(), &["rudy(1)"]);
    for part in [
        ".TH file.toml 5 \"\" \"rudy ",
        ".SH [[site.route]]\n",
        ".TP\n\\fBhosts\\fR (string, required)\nThe hosts.\n.IP\nExample: \\fBhosts = \"a.org\"\\fR\n",
        ".SH \"SEE ALSO\"\nrudy(1)\n",
    ] {
        assert!(page.contains(part), "{part}\nis not in\n{page}");
    }
}

#[test]
fn an_unusual_schema_does_not_panic() {
    for schema in [
        json!(null),
        json!([]),
        json!({ "properties": 1, "oneOf": {}, "required": "a" }),
        json!({ "properties": { "a": { "$ref": 1 }, "b": { "items": [] }, "c": { "examples": 1, "enum": {} } } }),
        json!({ "$ref": "#/$defs/A", "$defs": { "A": { "allOf": [{ "$ref": "#/$defs/A" }, { "$ref": "#/$defs/A" }] } } }),
    ] {
        assert!(markdown(&schema).starts_with("# "), "{schema}");
        assert!(man_page(&schema, &[]).contains(".TH"), "{schema}");
    }
    assert_eq!(notation::list(std::iter::empty()), "");
}
