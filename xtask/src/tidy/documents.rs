//! Rules for the documents: every dependency has its reason, and every link leads somewhere.

use std::collections::BTreeSet;
use std::path::Path;

use super::File;
use super::layers::Graph;
use crate::workspace;

/// The table that says why each direct dependency is there.
const DEPENDENCIES: &str = "docs/dependencies.md";

/// Direct dependencies without a row in [`DEPENDENCIES`], and rows without a dependency.
pub(super) fn dependencies(graph: &Graph, documents: &[File]) -> Vec<String> {
    let Some(document) = documents.iter().find(|file| file.path == DEPENDENCIES) else {
        return vec![format!("{DEPENDENCIES} is not there")];
    };
    let used: BTreeSet<&str> = graph
        .members
        .values()
        .flatten()
        .map(String::as_str)
        .filter(|d| !graph.members.contains_key(*d))
        .collect();
    let listed: BTreeSet<&str> = document.text.lines().filter_map(row_name).collect();
    let missing =
        used.difference(&listed).map(|d| format!("{d} has no row in {DEPENDENCIES}: why is it needed?"));
    let stale =
        listed.difference(&used).map(|d| format!("{DEPENDENCIES} has a row for {d}, which nothing uses"));
    missing.chain(stale).collect()
}

/// Links to files that are not there.
pub(super) fn dead_links(documents: &[File]) -> Vec<String> {
    let mut problems = Vec::new();
    for document in documents {
        let folder = Path::new(&document.path).parent().unwrap_or(Path::new(""));
        for (line, target) in relative_links(&document.text) {
            if !workspace::root().join(folder).join(target).exists() {
                problems.push(format!("{}:{line}: {target} is not there", document.path));
            }
        }
    }
    problems
}

/// The name in a table's row that begins with one: ``| `bytes` | …``.
fn row_name(line: &str) -> Option<&str> {
    line.strip_prefix("| `")?.split_once('`').map(|(name, _)| name)
}

/// The targets of a document's links within the repository, their fragments left off, each with its line. What stands
/// in a fenced block is no link.
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
    fn links_are_found_and_those_that_leave_the_repository_are_not() {
        let text = "[a](b.md) and [c](d/e.md#f), [g](https://h/i), [j](#k), ![l](m.png \"n\")\n```\n[o](p)\n```\n[q](r)";
        assert_eq!(relative_links(text), [(1, "b.md"), (1, "d/e.md"), (1, "m.png"), (5, "r")]);
    }

    #[test]
    fn a_dead_link_is_named_from_its_own_folder() {
        let documents = [file("docs/a.md", "[x](../Cargo.toml)\n[y](Cargo.toml)\n")];
        assert_eq!(dead_links(&documents), ["docs/a.md:2: Cargo.toml is not there"]);
    }

    #[test]
    fn a_dependency_without_a_reason_and_a_reason_without_a_dependency_are_named() {
        let mut graph = Graph::default();
        graph.members.insert("rudy".into(), ["bytes".to_string(), "clap".to_string()].into());
        let table = file(DEPENDENCIES, "| crate | why |\n|---|---|\n| `bytes` | a |\n| `gone` | b |\n");
        let problems = dependencies(&graph, &[table]);
        assert_eq!(problems.len(), 2);
        assert!(problems[0].starts_with("clap "), "{problems:?}");
        assert!(problems[1].contains("gone"), "{problems:?}");
    }
}
