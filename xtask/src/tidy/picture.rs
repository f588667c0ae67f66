//! The picture of the crates in ARCHITECTURE.md: each crate with its layer, and an arrow to each crate that it needs.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::File;
use super::layers::{Graph, layer};

/// The lines around the picture.
const BEGIN: &str = "<!-- crates: `cargo xtask tidy` checks this picture -->\n```text\n";
const END: &str = "```\n";

/// Returns a picture in the document that differs from that of the graph, with the picture to write instead.
pub(super) fn outdated(graph: &Graph, documents: &[File]) -> Vec<String> {
    let text = documents.iter().find(|file| file.path == "ARCHITECTURE.md").map_or("", |file| &file.text);
    let written = text.split_once(BEGIN).and_then(|(_, rest)| rest.split_once(END));
    let expected = draw(&graph.dependencies());
    match written {
        Some((written, _)) if written == expected => Vec::new(),
        _ => vec![format!(
            "ARCHITECTURE.md: the picture of the crates is not this one:\n{BEGIN}{expected}{END}"
        )],
    }
}

/// Draws the highest layer first. A crate that another arrow leads to as well has no arrow of its own.
fn draw(dependencies: &BTreeMap<String, BTreeSet<String>>) -> String {
    let mut rows: Vec<_> =
        dependencies.keys().filter_map(|name| Some((std::cmp::Reverse(layer(name)?), name))).collect();
    rows.sort_unstable();
    let mut picture = String::new();
    for (std::cmp::Reverse(layer), name) in rows {
        let direct = &dependencies[name];
        let is_reached =
            |name: &String| direct.iter().any(|other| other != name && reaches(other, name, dependencies));
        let arrows: Vec<_> = direct.iter().filter(|name| !is_reached(name)).map(|name| short(name)).collect();
        let arrows = if arrows.is_empty() { String::new() } else { format!("─► {}", arrows.join(", ")) };
        let line = format!("{layer:>2}  {:<13} {arrows}", short(name));
        // Writing to a string cannot fail.
        let _ = writeln!(picture, "{}", line.trim_end());
    }
    picture
}

fn reaches(from: &str, to: &str, dependencies: &BTreeMap<String, BTreeSet<String>>) -> bool {
    dependencies.get(from).is_some_and(|direct| {
        direct.contains(to) || direct.iter().any(|next| reaches(next, to, dependencies))
    })
}

fn short(name: &str) -> &str {
    name.strip_prefix("rudy-").unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_arrow_leads_to_each_crate_that_no_other_arrow_reaches() {
        let names = |list: &[&str]| list.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
        let dependencies = [
            ("rudy-http", &[][..]),
            ("rudy-net", &["rudy-http", "rudy-tls"]),
            ("rudy-server", &["rudy-http", "rudy-net"]),
            ("rudy-tls", &["rudy-http"]),
            ("xtask", &["rudy-http"]),
        ];
        let dependencies = dependencies.map(|(name, list)| (name.to_owned(), names(list))).into();
        let expected =
            " 8  server        ─► net\n 2  net           ─► tls\n 1  tls           ─► http\n 0  http\n";
        assert_eq!(draw(&dependencies), expected);
    }
}
