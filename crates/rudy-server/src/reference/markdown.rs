//! The reference as Markdown, with an anchor for each table, key and type.

use std::fmt::{Arguments, Write};

use rudy_config::TableInfo;

use super::{Key, Kind, ORDER, Reference, Table, TablePath, Type, choice_sentence, notation};
use crate::step_settings::StepKind;

const INTRODUCTION: &str = "All keys, with type, default, description and example. This page is generated from the source;
`rudy schema` prints a JSON Schema of the file, and `rudy manual DIR` writes the same text as the manual page rudy.toml(5). [Configuration](configuration.md) is the guide.";

/// Generates the reference of a file with this table.
pub(super) fn markdown(title: &str, table: &'static TableInfo) -> String {
    let reference = Reference::of(title, table);
    let mut out = format!("# {}\n\n{}\n{INTRODUCTION}\n\n", reference.title, reference.description);
    contents(&mut out, &reference);
    for table in &reference.tables {
        table_section(&mut out, &reference, table);
    }
    put(&mut out, format_args!("\n## Order of steps\n\n{ORDER}\n\n"));
    for (number, (_, name)) in StepKind::ALL.iter().enumerate() {
        put(&mut out, format_args!("{}. {name}\n", number + 1));
    }
    if !reference.types.is_empty() {
        out.push_str("\n## Types of values\n");
    }
    for kind in &reference.types {
        type_section(&mut out, kind);
    }
    out
}

fn contents(out: &mut String, reference: &Reference) {
    for table in &reference.tables {
        let link = |key: &Key| format!("[`{}`](#{})", key.name, path_of(table, key.name));
        let keys: Vec<_> = table.keys.iter().map(link).collect();
        let place = |place: &TablePath| format!("[{}](#{})", place.heading(), path_anchor(place));
        let paths: Vec<_> = table.paths.iter().map(place).collect();
        put(out, format_args!("- {}: {}\n", paths.join(", "), keys.join(", ")));
    }
    out.push_str("- [Order of steps](#order-of-steps)\n");
    if !reference.types.is_empty() {
        let types: Vec<_> = reference.types.iter().map(|kind| type_link(&kind.name, &kind.name)).collect();
        put(out, format_args!("- [Types of values](#types-of-values): {}\n", types.join(", ")));
    }
}

fn table_section(out: &mut String, reference: &Reference, table: &Table) {
    out.push('\n');
    for place in &table.paths {
        put(out, format_args!("<a id=\"{}\"></a>\n", path_anchor(place)));
    }
    put(out, format_args!("\n## {}\n", table.heading()));
    if let Some(description) = table.own_description() {
        put(out, format_args!("\n{description}\n"));
    }
    let others = table.other_headings();
    if !others.is_empty() {
        put(out, format_args!("\nThe same keys are in {}.\n", others.join(", ")));
    }
    for choice in &table.choices {
        let sentence = choice_sentence(choice, |key| format!("[`{key}`](#{})", path_of(table, key)));
        put(out, format_args!("\n{sentence}\n"));
    }
    for key in &table.keys {
        key_section(out, reference, &path_of(table, key.name), key);
    }
}

fn key_section(out: &mut String, reference: &Reference, path: &str, key: &Key) {
    let kind = key.kind.words(false, &|kind, several| link(reference, kind, several));
    let facts: Vec<_> =
        [Some(kind), key.bounds.clone(), Some(key.presence())].into_iter().flatten().collect();
    put(out, format_args!("\n<a id=\"{path}\"></a>\n\n### `{}`\n\n{}\n", key.name, facts.join(" · ")));
    if !key.description.is_empty() {
        put(out, format_args!("\n{}\n", key.description));
    }
    if let Some(reason) = key.reason() {
        put(out, format_args!("\n{reason}\n"));
    }
    for (number, (value, meaning)) in key.explained_values().enumerate() {
        let before = if number == 0 { "\n" } else { "" };
        put(out, format_args!("{before}- {value}: {meaning}\n"));
    }
    if let Some(line) = key.line() {
        put(out, format_args!("\nExample: `{line}`\n"));
    }
}

fn type_section(out: &mut String, of: &Type) {
    let kind = of.kind.words(false, &|_, _| String::new());
    put(out, format_args!("\n<a id=\"{}\"></a>\n\n### {}\n\n{kind}\n", type_anchor(&of.name), of.name));
    if !of.description.is_empty() {
        put(out, format_args!("\n{}\n", of.description));
    }
    if !of.examples.is_empty() {
        let examples: Vec<_> = of.examples.iter().map(|example| notation::code(example)).collect();
        put(out, format_args!("\nExamples: {}\n", examples.join(", ")));
    }
}

fn link(reference: &Reference, kind: &Kind, several: bool) -> String {
    match kind {
        Kind::Table(id) => {
            let word = if several { "tables" } else { "table" };
            let table = reference.table(id);
            table.map_or_else(|| word.to_owned(), |table| format!("[{word}](#{})", anchor(table)))
        }
        Kind::Type(name) if several => type_link(name, &notation::plural(name)),
        Kind::Type(name) => type_link(name, name),
        _ => String::new(),
    }
}

fn type_link(name: &str, shown: &str) -> String {
    format!("[{shown}](#{})", type_anchor(name))
}

fn type_anchor(name: &str) -> String {
    format!("type.{}", name.replace(' ', "-"))
}

fn anchor(table: &Table) -> String {
    table.paths.first().map_or_else(String::new, path_anchor)
}

/// The path of a key, such as `site.route.path`.
pub(super) fn path_of(table: &Table, key: &str) -> String {
    let place = table.paths.first().map_or(&[][..], |place| &place.path);
    place.iter().map(String::as_str).chain([key]).collect::<Vec<_>>().join(".")
}

/// The anchor of a table. It has a prefix, because the key of the table has the same path.
fn path_anchor(place: &TablePath) -> String {
    ["table"].into_iter().chain(place.path.iter().map(String::as_str)).collect::<Vec<_>>().join(".")
}

fn put(out: &mut String, text: Arguments<'_>) {
    // Writing to a string cannot fail.
    let _ = out.write_fmt(text);
}
