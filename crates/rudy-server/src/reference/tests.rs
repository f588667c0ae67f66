use std::collections::{BTreeMap, HashSet};

use rudy_config::{FilePath, Int, Located, OneOrMany, OrOff, Setting, Table, Words};
use rudy_units::Time;
use toml::Value;

use super::markdown::{markdown, path_of};
use super::{Kind, Reference, choice_sentence, man_page, notation};
use crate::config::Config;

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference.md");

fn reference() -> String {
    markdown("rudy.toml", Config::TABLE)
}

/// The type of values of a shape.
fn words<T: Setting>() -> String {
    let link = |kind: &Kind, several| match kind {
        Kind::Table(id) => format!("<{id}>{}", if several { "s" } else { "" }),
        Kind::Type(name) => format!("<{name}>{}", if several { "s" } else { "" }),
        _ => unreachable!("only tables and types are links"),
    };
    let mut walk = super::walk::Walk::default();
    walk.kind(&const { T::SHAPE }).words(false, &link)
}

#[test]
fn the_committed_reference_is_up_to_date() {
    let reference = reference();
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
    for table in Reference::of("rudy.toml", Config::TABLE).tables {
        // The heading of its section shows how each table begins.
        let is_array_of_tables =
            |kind: &Kind| matches!(kind, Kind::Array(of) if matches!(**of, Kind::Table(_)));
        for key in table.keys.iter().filter(|key| !is_array_of_tables(&key.kind)) {
            let path = path_of(&table, key.name);
            let line = key.line();
            let line = line.unwrap_or_else(|| {
                panic!("{path} has no example: #[setting(example = ...)] above its field gives one")
            });
            let parsed = line.parse::<toml::Table>();
            let parsed = parsed.unwrap_or_else(|error| panic!("{path}: {line}: {error}"));
            let value = parsed.values().next().unwrap();
            assert!(fits(&key.kind, value), "{path} cannot be as in its example: {line}");
        }
    }
}

/// Whether a value matches a type.
fn fits(kind: &Kind, value: &Value) -> bool {
    match kind {
        Kind::Basic("string") => value.is_str(),
        Kind::Basic("integer") => value.is_integer(),
        Kind::Basic("boolean") => value.is_bool(),
        Kind::Basic(name) => *name == "number" && (value.is_integer() || value.is_float()),
        Kind::Values(values) => values.iter().any(|(known, _)| *known == value.to_string()),
        Kind::Table(_) => value.is_table(),
        Kind::Type(_) => value.is_str() || value.is_integer(),
        Kind::Array(of) => value.as_array().is_some_and(|items| items.iter().all(|item| fits(of, item))),
        Kind::Map(of) => {
            value.as_table().is_some_and(|entries| entries.values().all(|entry| fits(of, entry)))
        }
        Kind::Either(kinds) => kinds.iter().any(|kind| fits(kind, value)),
    }
}

#[test]
fn every_link_of_the_reference_leads_to_its_only_anchor() {
    let text = reference();
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

/// A file.
#[derive(Table)]
#[setting(default)]
#[expect(dead_code, reason = "only described")]
struct Sites {
    /// What is allowed.
    limits: Limits,
    /// The sites.
    site: Vec<Located<Site>>,
}

/// Limits.
#[derive(Table)]
#[setting(default)]
#[expect(dead_code, reason = "only described")]
struct Limits {
    /// How many.
    #[setting(default = Int(1), reason = "One is enough.")]
    size: Int<1, 9>,
    /// Whether it counts.
    #[setting(default = true)]
    counts: bool,
    /// Any number.
    any: Option<Int<0, { u64::MAX }>>,
    /// How it is written.
    format: Option<Format>,
    /// When.
    times: Option<OneOrMany<Time>>,
}

/// A site.
#[derive(Table)]
#[expect(dead_code, reason = "only described")]
struct Site {
    /// The hosts.
    #[setting(example = "a.org")]
    hosts: String,
    /// Who guards it.
    guard: Option<OrOff<App>>,
    /// A site in it.
    #[setting(name = "site")]
    inner: Option<Box<Inner>>,
}

/// An app.
#[derive(Table)]
#[setting(short(address), what = "an address or a table", example = { address = "a:1" })]
#[expect(dead_code, reason = "only described")]
struct App {
    /// Where it is.
    address: FilePath,
}

#[derive(Clone, Copy, PartialEq, Words)]
enum Format {
    /// First.
    A,
    B,
}

/// A table that is in itself.
#[expect(dead_code, reason = "only described")]
struct Inner(Site);

impl Setting for Box<Inner> {
    const SHAPE: rudy_config::Shape = Site::SHAPE;

    fn read(value: &rudy_config::Value<'_>) -> Result<Self, rudy_config::Invalid> {
        Ok(Self::new(Inner(Site::read(value)?)))
    }
}

#[test]
fn types_are_described_as_text() {
    for (found, expected) in [
        (words::<String>(), "string"),
        (words::<Vec<Vec<Int<1, 2>>>>(), "array of array of integers"),
        (words::<BTreeMap<String, String>>(), "table of strings"),
        (words::<Time>(), "<time>"),
        (words::<OneOrMany<Time>>(), "<time> or array of <time>s"),
        (words::<OrOff<Limits>>(), "`false` or <Limits>"),
        (words::<App>(), "string or <App>"),
        (words::<Vec<Site>>(), "array of <Site>s"),
        (words::<Format>(), "`\"a\"` or `\"b\"`"),
    ] {
        assert_eq!(found, expected);
    }
}

#[test]
fn an_example_is_the_one_given_or_the_default_or_made_of_parts() {
    let reference = Reference::of("file.toml", Sites::TABLE);
    let lines = |id: &str| reference.table(id).unwrap().keys.iter().map(super::Key::line).collect::<Vec<_>>();
    assert_eq!(
        lines("Limits").iter().map(Option::as_deref).collect::<Vec<_>>(),
        [Some("size = 1"), Some("counts = false"), None, Some("format = \"a\""), Some("times = \"10s\"")]
    );
    assert_eq!(lines("Site")[0].as_deref(), Some("hosts = \"a.org\""));
    assert_eq!(lines("Site")[1].as_deref(), Some("guard = { address = \"a:1\" }"));
    let bounds: Vec<_> =
        reference.table("Limits").unwrap().keys.iter().map(|key| key.bounds.as_deref()).collect();
    assert_eq!(bounds, [Some("1 to 9"), None, None, None, None]);
    assert_eq!(notation::key("a b"), "\"a b\"");
    assert_eq!(notation::list(std::iter::empty()), "");
}

#[test]
fn tables_are_in_the_order_in_which_an_operator_reads() {
    let reference = Reference::of("file.toml", Sites::TABLE);
    let headings: Vec<_> = reference.tables.iter().map(super::Table::heading).collect();
    assert_eq!(headings, ["Top-level keys", "`[[site]]`", "`[site.guard]`", "`[limits]`"]);
    // Each table is described once, even if it is in itself.
    assert_eq!(reference.tables[1].other_headings(), ["`[site.site]`"]);
    assert_eq!(path_of(&reference.tables[2], "address"), "site.guard.address");
}

#[test]
fn a_choice_is_described_and_not_required() {
    let reference = Reference::of("rudy.toml", Config::TABLE);
    let route = reference.table("Route").unwrap();
    let sentence = choice_sentence(&route.choices[0], str::to_owned);
    assert!(sentence.starts_with("Exactly one of these keys is required: files, redirect, "), "{sentence}");
    assert!(route.keys.iter().all(|key| key.is_required == (key.name == "path")));
}

#[test]
fn a_file_becomes_markdown() {
    let text = markdown("file.toml", Sites::TABLE);
    for part in [
        "# file.toml\n\nA file.\nAll keys, with",
        "\n\n- [Top-level keys](#table): [`limits`](#limits), [`site`](#site)\n",
        "\n- [`[[site]]`](#table.site), [`[site.site]`](#table.site.site): [`hosts`](#site.hosts), ",
        "\n<a id=\"table.site\"></a>\n<a id=\"table.site.site\"></a>\n\n## `[[site]]`\n\nA site.\n",
        "\n<a id=\"site.hosts\"></a>\n\n### `hosts`\n\nstring · required\n\nThe hosts.\n\nExample: `hosts = \"a.org\"`\n",
        "### `limits`\n\n[table](#table.limits) · optional\n\nWhat is allowed.\n\n",
        "### `size`\n\ninteger · 1 to 9 · default `1`\n\nHow many.\n\nReason of the default: One is enough.\n\nExample: `size = 1`\n",
    ] {
        assert!(text.contains(part), "{part}\nis not in\n{text}");
    }
}

#[test]
fn a_file_becomes_a_manual_page() {
    let page = man_page("file.toml", Sites::TABLE, &["rudy(1)"]);
    for part in [
        ".TH file.toml 5 \"\" \"rudy ",
        ".SH [[site]]\n",
        ".TP\n\\fBhosts\\fR (string, required)\nThe hosts.\n.IP\nExample: \\fBhosts = \"a.org\"\\fR\n",
        ".SH \"SEE ALSO\"\nrudy(1)\n",
    ] {
        assert!(page.contains(part), "{part}\nis not in\n{page}");
    }
}
