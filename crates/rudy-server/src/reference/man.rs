//! The reference as a manual page, in the man(7) macros.

use roff::{Inline, Roff, bold, roman};
use rudy_config::TableInfo;

use super::{Key, Kind, ORDER, Reference, Table, Type, choice_sentence, notation};
use crate::step_settings::StepKind;

/// Generates the manual page of a file with this table. `also` are the pages under SEE ALSO.
#[must_use]
pub(crate) fn man_page(title: &str, table: &'static TableInfo, also: &[&str]) -> String {
    let reference = Reference::of(title, table);
    let mut page = Roff::new();
    page.control("SH", ["NAME"]);
    page.text([roman(format!("{} - the configuration of rudy", reference.title))]);
    page.control("SH", ["DESCRIPTION"]).text(inlines(&reference.description));
    for table in &reference.tables {
        table_section(&mut page, &reference, table);
    }
    page.control("SH", ["ORDER OF STEPS"]).text(inlines(ORDER));
    for (number, (_, name)) in StepKind::ALL.iter().enumerate() {
        page.control("IP", [format!("{}.", number + 1).as_str(), "4"]).text(inlines(name));
    }
    if !reference.types.is_empty() {
        page.control("SH", ["TYPES OF VALUES"]);
    }
    for of in &reference.types {
        type_section(&mut page, of);
    }
    page.control("SH", ["SEE ALSO"]).text([roman(also.join(", "))]);
    // `control` drops an empty date.
    let title =
        format!(".TH {} 5 \"\" \"rudy {}\" \"File Formats\"\n", reference.title, env!("CARGO_PKG_VERSION"));
    title + &page.render()
}

fn table_section(page: &mut Roff, reference: &Reference, table: &Table) {
    page.control("SH", [table.heading().replace('`', "").as_str()]);
    if let Some(description) = table.own_description() {
        page.text(inlines(description));
    }
    let others = table.other_headings();
    if !others.is_empty() {
        page.control("PP", []).text(inlines(&format!("The same keys are in {}.", others.join(", "))));
    }
    for choice in &table.choices {
        page.control("PP", []).text(inlines(&choice_sentence(choice, |key| format!("`{key}`"))));
    }
    for key in &table.keys {
        key_section(page, reference, key);
    }
}

fn key_section(page: &mut Roff, reference: &Reference, key: &Key) {
    let kind = key.kind.words(false, &|kind, several| name(reference, kind, several));
    let facts: Vec<_> =
        [Some(kind), key.bounds.clone(), Some(key.presence())].into_iter().flatten().collect();
    page.control("TP", []).text(tag(key.name, &facts.join(", "))).text(inlines(key.description));
    if let Some(reason) = key.reason() {
        page.control("IP", []).text(inlines(&reason));
    }
    for (value, meaning) in key.explained_values() {
        page.control("IP", []).text(inlines(&format!("{value}: {meaning}")));
    }
    if let Some(line) = key.line() {
        page.control("IP", []).text(inlines(&format!("Example: `{line}`")));
    }
}

fn type_section(page: &mut Roff, of: &Type) {
    let kind = of.kind.words(false, &|_, _| String::new());
    page.control("TP", []).text(tag(&of.name, &kind)).text(inlines(of.description));
    if !of.examples.is_empty() {
        let examples: Vec<_> = of.examples.iter().map(|example| notation::code(example)).collect();
        page.control("IP", []).text(inlines(&format!("Examples: {}", examples.join(", "))));
    }
}

fn name(reference: &Reference, kind: &Kind, several: bool) -> String {
    match kind {
        Kind::Table(id) => match reference.table(id) {
            Some(table) => table.heading(),
            None => "table".to_owned(),
        },
        Kind::Type(name) if several => notation::plural(name),
        Kind::Type(name) => name.clone(),
        _ => String::new(),
    }
}

fn tag(name: &str, facts: &str) -> Vec<Inline> {
    let mut tag = vec![bold(name), roman(" (")];
    tag.extend(inlines(facts));
    tag.push(roman(")"));
    tag
}

/// Converts text in backticks to bold.
fn inlines(text: &str) -> Vec<Inline> {
    let style = |(number, part)| if number % 2 == 0 { roman(part) } else { bold(part) };
    text.split('`').map(str::to_owned).enumerate().filter(|(_, part)| !part.is_empty()).map(style).collect()
}
