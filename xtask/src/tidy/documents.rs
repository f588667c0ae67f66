//! Rules for documents: every dependency has a reason, every link works, and every claim about security has a test.

use std::collections::BTreeSet;
use std::path::Path;

use super::File;
use super::layers::Graph;
use crate::workspace;

/// The document with the reason for each direct dependency.
const DEPENDENCIES: &str = "docs/dependencies.md";

/// The document with a test for each claim.
const SECURITY: &str = "SECURITY.md";

/// Returns direct dependencies without a row in [`DEPENDENCIES`], and rows without a dependency.
pub(super) fn dependencies(graph: &Graph, documents: &[File]) -> Vec<String> {
    let Some(document) = documents.iter().find(|file| file.path == DEPENDENCIES) else {
        return vec![format!("{DEPENDENCIES} is missing")];
    };
    let used: BTreeSet<&str> = graph
        .members
        .values()
        .flatten()
        .map(String::as_str)
        .filter(|d| !graph.members.contains_key(*d))
        .collect();
    let listed: BTreeSet<&str> = document.text.lines().filter_map(row_name).collect();
    let missing = used
        .difference(&listed)
        .map(|d| format!("{d} has no row in {DEPENDENCIES}: add one with the reason"));
    let stale =
        listed.difference(&used).map(|d| format!("{DEPENDENCIES} has a row for {d}, which is not used"));
    missing.chain(stale).collect()
}

/// Returns links to missing files.
pub(super) fn dead_links(documents: &[File]) -> Vec<String> {
    let mut problems = Vec::new();
    for document in documents {
        let folder = Path::new(&document.path).parent().unwrap_or(Path::new(""));
        for (line, target) in relative_links(&document.text) {
            if !workspace::root().join(folder).join(target).exists() {
                problems.push(format!("{}:{line}: {target} does not exist", document.path));
            }
        }
    }
    problems
}

/// Returns the claims of [`SECURITY`] without a test: the rows in which the column `test` names none as ``[`name`](file)``, or one that
/// is not a function in the file.
pub(super) fn untested_claims(documents: &[File], sources: &[File]) -> Vec<String> {
    let Some(document) = documents.iter().find(|file| file.path == SECURITY) else {
        return vec![format!("{SECURITY} is missing")];
    };
    let mut problems = Vec::new();
    for (line, cell) in column(&document.text, "test") {
        let mut tests = named_tests(cell).peekable();
        if tests.peek().is_none() {
            problems.push(format!("{SECURITY}:{line}: name the test, as in [`name`](file)"));
        }
        for (name, path) in tests {
            let function = format!("fn {name}(");
            if !sources.iter().any(|file| file.path == path && file.text.contains(&function)) {
                problems.push(format!("{SECURITY}:{line}: {path} has no function {name}"));
            }
        }
    }
    problems
}

/// Returns the cells of a column in all tables of a document, each with its line.
fn column<'t>(text: &'t str, name: &str) -> impl Iterator<Item = (usize, &'t str)> {
    let mut index = None;
    text.lines().enumerate().filter_map(move |(number, line)| {
        let Some(row) = line.strip_prefix('|') else {
            index = None;
            return None;
        };
        let mut cells = row.split('|').map(str::trim);
        let Some(at) = index else {
            // The head of a table. One without the column has none of its cells.
            index = Some(cells.position(|cell| cell == name).unwrap_or(usize::MAX));
            return None;
        };
        cells.nth(at).filter(|cell| !cell.starts_with('-')).map(|cell| (number + 1, cell))
    })
}

/// Returns the tests that a cell names, each with its file: ``[`name`](file)``.
fn named_tests(cell: &str) -> impl Iterator<Item = (&str, &str)> {
    cell.split("[`").skip(1).filter_map(|rest| {
        let (name, rest) = rest.split_once("`](")?;
        Some((name, rest.split_once(')')?.0))
    })
}

/// Returns the name at the beginning of a table row: ``| `bytes` | …``.
fn row_name(line: &str) -> Option<&str> {
    line.strip_prefix("| `")?.split_once('`').map(|(name, _)| name)
}

/// Returns the targets of a document's links within the repository, without fragments, each with its line. Skips fenced blocks.
fn relative_links(text: &str) -> Vec<(usize, &str)> {
    let mut links = Vec::new();
    let mut fenced = false;
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        }
        if fenced {
            continue;
        }
        for rest in line.split("](").skip(1) {
            let target = rest.split([')', '#', ' ']).next().unwrap_or_default();
            if !target.is_empty() && !target.contains(':') {
                links.push((index + 1, target));
            }
        }
    }
    links
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::file;

    #[test]
    fn links_within_the_repository_are_found() {
        let text = "[a](b.md) and [c](d/e.md#f), [g](https://h/i), [j](#k), ![l](m.png \"n\")\n```\n[o](p)\n```\n[q](r)";
        assert_eq!(relative_links(text), [(1, "b.md"), (1, "d/e.md"), (1, "m.png"), (5, "r")]);
    }

    #[test]
    fn a_dead_link_is_reported() {
        let documents = [file("docs/a.md", "[x](../Cargo.toml)\n[y](Cargo.toml)\n")];
        assert_eq!(dead_links(&documents), ["docs/a.md:2: Cargo.toml does not exist"]);
    }

    #[test]
    fn a_claim_without_a_test_is_reported() {
        let claims = "| claim | test |\n|---|---|\n| a | [`one`](t.rs), [`two`](u.rs) |\n| b | [`on`](t.rs) |\n\
                      | c | `one` |\n| d | [`one`](u.rs) |\n\n| other | key |\n|---|---|\n| a | b |\n";
        let sources = [file("t.rs", "fn one() {}"), file("u.rs", "fn two() {}")];
        let problems = untested_claims(&[file(SECURITY, claims)], &sources);
        let expected = [
            "SECURITY.md:4: t.rs has no function on",
            "SECURITY.md:5: name the test, as in [`name`](file)",
            "SECURITY.md:6: u.rs has no function one",
        ];
        assert_eq!(problems, expected);
    }

    #[test]
    fn missing_and_stale_reasons_are_reported() {
        let mut graph = Graph::default();
        graph.members.insert("rudy".into(), ["bytes".to_string(), "clap".to_string()].into());
        let table = file(DEPENDENCIES, "| crate | why |\n|---|---|\n| `bytes` | a |\n| `gone` | b |\n");
        let problems = dependencies(&graph, &[table]);
        assert_eq!(problems.len(), 2);
        assert!(problems[0].starts_with("clap "), "{problems:?}");
        assert!(problems[1].contains("gone"), "{problems:?}");
    }
}
