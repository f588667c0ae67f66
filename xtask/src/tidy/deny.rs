//! The rules of `deny.toml` that need no network, from `cargo tree` and `cargo metadata`: licences, banned crates, sources. `cargo deny
//! check` reads the same file and knows more rules, but takes two minutes to build.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use spdx::{Expression, LicenseReq, ParseMode};
use toml::Table;

use super::layers::{array, string};
use crate::Outcome;

/// The only registry: `[sources]` of `deny.toml` permits no other.
const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// Rules read from `deny.toml`.
pub(super) struct Rules {
    licences: BTreeSet<String>,
    /// Banned crates, each with the crates that may depend on it.
    bans: BTreeMap<String, BTreeSet<String>>,
}

impl Rules {
    /// Parses the text of `deny.toml`.
    pub(super) fn new(text: &str) -> Outcome<Self> {
        let table: Table = text.parse().map_err(|error| format!("deny.toml: {error}"))?;
        let mut bans = BTreeMap::new();
        for entry in list(&table, "bans", "deny")? {
            let name = entry.get("crate").and_then(toml::Value::as_str);
            let name = name.ok_or("deny.toml: an entry of bans.deny lacks `crate`")?;
            let wrappers = entry.get("wrappers").and_then(toml::Value::as_array);
            bans.insert(name.to_owned(), texts(wrappers.map_or(&[][..], Vec::as_slice)));
        }
        Ok(Self { licences: texts(list(&table, "licenses", "allow")?), bans })
    }

    fn allows(&self, requirement: &LicenseReq) -> bool {
        self.licences.contains(&requirement.to_string())
    }
}

fn list<'a>(table: &'a Table, section: &str, key: &str) -> Outcome<&'a [toml::Value]> {
    let found = table.get(section).and_then(|section| section.get(key)).and_then(toml::Value::as_array);
    found.map(Vec::as_slice).ok_or_else(|| format!("deny.toml lacks the list {section}.{key}"))
}

fn texts(values: &[toml::Value]) -> BTreeSet<String> {
    values.iter().filter_map(toml::Value::as_str).map(String::from).collect()
}

/// Returns crates whose licence is not in the list, from lines of [`tree`](crate::workspace::tree).
pub(super) fn licences(tree: &str, rules: &Rules) -> Outcome<Vec<String>> {
    let mut problems = BTreeSet::new();
    for line in lines(tree) {
        let Line { name, licence, .. } = line?;
        match Expression::parse_mode(licence, ParseMode::LAX) {
            Ok(expression) if expression.evaluate(|requirement| rules.allows(requirement)) => {}
            Ok(_) => _ = problems.insert(format!("{name}: deny.toml does not allow the licence {licence}")),
            Err(_) => _ = problems.insert(format!("{name}: its licence {licence:?} is no SPDX expression")),
        }
    }
    Ok(problems.into_iter().collect())
}

/// Returns dependencies on banned crates by others than their wrappers.
pub(super) fn bans(tree: &str, rules: &Rules) -> Outcome<Vec<String>> {
    let mut problems = BTreeSet::new();
    let mut parents: Vec<&str> = Vec::new();
    for line in lines(tree) {
        let Line { depth, name, .. } = line?;
        parents.truncate(depth);
        if let (Some(parent), Some(wrappers)) = (parents.last(), rules.bans.get(name))
            && !wrappers.contains(*parent)
        {
            problems.insert(format!("{parent} depends on {name}, which deny.toml bans"));
        }
        parents.push(name);
    }
    Ok(problems.into_iter().collect())
}

/// Reads the lines; an empty one is before each member.
fn lines(tree: &str) -> impl Iterator<Item = Outcome<Line<'_>>> {
    tree.lines().filter(|line| !line.is_empty()).map(Line::read)
}

/// A line of `cargo tree`, such as `2bytes v1.12.0|MIT`.
struct Line<'a> {
    depth: usize,
    name: &'a str,
    licence: &'a str,
}

impl<'a> Line<'a> {
    fn read(line: &'a str) -> Outcome<Self> {
        let fields = || {
            let (package, licence) = line.split_once('|')?;
            let digits = package.find(|c: char| !c.is_ascii_digit())?;
            let (depth, package) = package.split_at(digits);
            // A package whose dependencies are above has a mark after its licence.
            let licence = licence.trim_end_matches(" (*)");
            Some(Self { depth: depth.parse().ok()?, name: package.split(' ').next()?, licence })
        };
        fields()
            .ok_or_else(|| format!("cargo tree printed a line without depth, package and licence: {line}"))
    }
}

/// Returns crates that are not from the registry, and dependencies on any version.
pub(super) fn sources(metadata: &Value) -> Outcome<Vec<String>> {
    let mut problems = Vec::new();
    for package in array(metadata, "packages")? {
        let name = string(package, "name")?;
        if let Some(source) = package["source"].as_str() {
            if source != REGISTRY {
                problems.push(format!("{name} is from {source}, not from crates.io"));
            }
            continue;
        }
        for dependency in array(package, "dependencies")? {
            if dependency["req"] == "*" && dependency["path"].is_null() {
                problems.push(format!("{name} accepts any version of {}", string(dependency, "name")?));
            }
        }
    }
    Ok(problems)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn rules() -> Rules {
        let text =
            "[licenses]\nallow = ['MIT', 'ISC']\n[bans]\ndeny = [{ crate = 'tokio', wrappers = ['net'] }]";
        Rules::new(text).expect("valid rules")
    }

    #[test]
    fn a_licence_is_allowed_if_one_alternative_is() {
        let tree = "0a v1|MIT OR GPL-3.0\n1b v1|MIT/Apache-2.0\n1c v1|MIT AND ISC (*)";
        assert_eq!(licences(tree, &rules()), Ok(vec![]));
    }

    #[test]
    fn another_licence_is_reported() {
        let tree = "0a v1|MIT AND GPL-3.0\n1b v1|Apache-2.0 WITH LLVM-exception\n1c v1|";
        let problems = licences(tree, &rules()).expect("well formed");
        assert_eq!(problems.len(), 3, "{problems:?}");
    }

    #[test]
    fn only_wrappers_depend_on_a_banned_crate() {
        let tree = "0net v1|MIT\n1tokio v1|MIT\n2bytes v1|MIT\n1http v1|MIT\n2tokio v1|MIT (*)";
        assert_eq!(bans(tree, &rules()), Ok(vec!["http depends on tokio, which deny.toml bans".into()]));
    }

    #[test]
    fn another_source_and_any_version_are_reported() {
        let own = json!({ "name": "own", "dependencies": [{ "name": "any", "req": "*" }, { "name": "sister", "req": "*", "path": "/x" }] });
        let git = json!({ "name": "git", "source": "git+https://example.org/x" });
        let known = json!({ "name": "a", "source": REGISTRY });
        let problems = sources(&json!({ "packages": [known, own, git] }));
        let expected =
            ["own accepts any version of any", "git is from git+https://example.org/x, not from crates.io"];
        assert_eq!(problems, Ok(expected.map(String::from).to_vec()));
    }
}
