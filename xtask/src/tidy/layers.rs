//! The layer of each crate, and the check that it only depends on lower ones.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::File;
use crate::Outcome;

/// The layer of every crate in `crates/`. A new crate needs a line here.
const LAYERS: &[(&str, u8)] = &[
    ("rudy-http", 0),
    ("rudy-fastcgi", 0),
    ("rudy-stats", 0),
    ("rudy-observe", 1),
    ("rudy-socket-file", 1),
    ("rudy-upstream", 1),
    ("rudy-fastcgi-app", 2),
    ("rudy-net", 2),
    ("rudy-server", 3),
    ("rudy-load", 3),
    ("rudy-lab", 4),
    ("rudy", 5),
];

/// Allowed dependencies within a layer: the head of a CGI response has the syntax of HTTP.
const WITHIN: &[(&str, &str)] = &[("rudy-fastcgi", "rudy-http")];

/// Members outside of the layers, on which no crate may depend.
const OUTSIDE: &[&str] = &["fastcgi-info", "rudy-tests", "xtask"];

/// Crates that layer 0 must not depend on, even indirectly, because they provide clocks and sockets.
const IMPURE: &[&str] = &["async-std", "mio", "smol", "socket2", "tokio"];

/// The line that layer 0 must have in `lib.rs`; `clippy.toml` lists the methods and types that these lints ban.
const DENIAL: &str = "#![deny(clippy::disallowed_methods, clippy::disallowed_types)]";

/// The members of the workspace and their dependencies.
#[derive(Default)]
pub(super) struct Graph {
    /// Each member with its direct dependencies of every kind, by name.
    pub(super) members: BTreeMap<String, BTreeSet<String>>,
    /// The dependencies of each package, including members, without those for tests. By name and version, as in `bytes 1.12.0`.
    built_in: BTreeMap<String, Vec<String>>,
    /// Members that have features.
    with_features: BTreeSet<String>,
}

impl Graph {
    /// Parses the output of `cargo metadata`.
    pub(super) fn new(metadata: &Value) -> Outcome<Self> {
        let mut graph = Self::default();
        let mut labels = BTreeMap::new();
        for package in list(metadata, "packages")? {
            let (name, id) = (text(package, "name")?, text(package, "id")?);
            labels.insert(id, format!("{name} {}", text(package, "version")?));
            if list(metadata, "workspace_members")?.iter().any(|member| member == id) {
                let dependencies =
                    list(package, "dependencies")?.iter().map(|d| text(d, "name").map(String::from));
                graph.members.insert(name.into(), dependencies.collect::<Outcome<_>>()?);
                if package["features"].as_object().is_some_and(|features| !features.is_empty()) {
                    graph.with_features.insert(name.into());
                }
            }
        }
        for node in list(&metadata["resolve"], "nodes")? {
            let mut built_in = Vec::new();
            for dependency in list(node, "deps")? {
                let kinds = list(dependency, "dep_kinds")?;
                if kinds.iter().any(|kind| kind["kind"] != "dev") {
                    built_in.push(labels[text(dependency, "pkg")?].clone());
                }
            }
            graph.built_in.insert(labels[text(node, "id")?].clone(), built_in);
        }
        Ok(graph)
    }

    /// Returns all direct and indirect dependencies of `member`, each with the chain of packages that leads to it.
    fn tree(&self, member: &str) -> BTreeMap<String, String> {
        let start = self.built_in.keys().filter(|label| name(label) == member);
        let mut to_visit: Vec<(String, String)> = start.map(|label| (label.clone(), member.into())).collect();
        let mut chains = BTreeMap::new();
        while let Some((label, chain)) = to_visit.pop() {
            for next in self.built_in.get(&label).into_iter().flatten() {
                if !chains.contains_key(next) {
                    let chain = format!("{chain} -> {}", name(next));
                    chains.insert(next.clone(), chain.clone());
                    to_visit.push((next.clone(), chain));
                }
            }
        }
        chains
    }
}

/// Returns members without a layer, and dependencies on the same or a higher layer.
pub(super) fn upward(graph: &Graph) -> Vec<String> {
    let mut problems = Vec::new();
    for (member, dependencies) in &graph.members {
        let own = layer(member);
        if own.is_none() && !OUTSIDE.contains(&member.as_str()) {
            problems.push(format!("{member} has no layer: add it to xtask/src/tidy/layers.rs"));
        }
        for dependency in dependencies.iter().filter(|d| graph.members.contains_key(*d)) {
            match (own, layer(dependency)) {
                _ if WITHIN.contains(&(member.as_str(), dependency.as_str())) => {}
                (Some(own), Some(below)) if below >= own => {
                    problems.push(format!("{member} (layer {own}) depends on {dependency} (layer {below})"));
                }
                (_, None) => {
                    problems.push(format!("{member} depends on {dependency}, which is outside the layers"));
                }
                _ => {}
            }
        }
    }
    problems
}

/// Returns crates of layer 0 that depend on a runtime or sockets, or could do so with a feature.
pub(super) fn impure(graph: &Graph) -> Vec<String> {
    let mut problems = Vec::new();
    for member in layer_0() {
        if graph.with_features.contains(member) {
            problems
                .push(format!("{member} has features: move the optional code to a crate on a higher layer"));
        }
        for (label, chain) in graph.tree(member) {
            if IMPURE.contains(&name(&label)) {
                problems.push(format!("{member} depends on {}: {chain}", name(&label)));
            }
        }
    }
    problems
}

/// Returns crates of layer 0 without the line [`DENIAL`].
pub(super) fn without_denial(sources: &[File]) -> Vec<String> {
    let mut problems = Vec::new();
    for member in layer_0() {
        let path = format!("crates/{member}/src/lib.rs");
        match sources.iter().find(|file| file.path == path) {
            None => problems.push(format!("{path} is missing")),
            Some(file) if !file.text.lines().any(|line| line == DENIAL) => {
                problems.push(format!("{path} lacks the line {DENIAL}"));
            }
            Some(_) => {}
        }
    }
    problems
}

fn layer(member: &str) -> Option<u8> {
    LAYERS.iter().find(|(name, _)| *name == member).map(|(_, layer)| *layer)
}

fn layer_0() -> impl Iterator<Item = &'static str> {
    LAYERS.iter().filter(|(_, layer)| *layer == 0).map(|(name, _)| *name)
}

/// Returns the name in a label: `bytes` in `bytes 1.12.0`.
fn name(label: &str) -> &str {
    label.split_once(' ').map_or(label, |(name, _)| name)
}

fn list<'a>(value: &'a Value, key: &str) -> Outcome<&'a Vec<Value>> {
    value[key].as_array().ok_or_else(|| format!("the output of cargo metadata lacks the list `{key}`"))
}

fn text<'a>(value: &'a Value, key: &str) -> Outcome<&'a str> {
    value[key].as_str().ok_or_else(|| format!("the output of cargo metadata lacks the string `{key}`"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::file;

    fn graph(edges: &[(&str, &[&str])]) -> Graph {
        let mut graph = Graph::default();
        for (package, dependencies) in edges {
            let label = |name: &str| format!("{name} 1.0.0");
            graph.built_in.insert(label(package), dependencies.iter().map(|d| label(d)).collect());
            if layer(package).is_some() || OUTSIDE.contains(package) || package.starts_with("new") {
                let names = dependencies.iter().map(|d| (*d).to_string()).collect();
                graph.members.insert((*package).to_string(), names);
            }
        }
        graph
    }

    #[test]
    fn a_dependency_downward_is_allowed() {
        assert!(upward(&graph(&[("rudy-http", &["bytes"]), ("rudy-net", &["rudy-http"])])).is_empty());
    }

    #[test]
    fn a_dependency_upward_is_reported() {
        let problems = upward(&graph(&[("rudy-http", &["rudy-net"]), ("rudy-net", &[])]));
        assert_eq!(problems, ["rudy-http (layer 0) depends on rudy-net (layer 2)"]);
    }

    #[test]
    fn a_dependency_within_a_layer_is_reported_unless_it_is_listed() {
        let problems = upward(&graph(&[
            ("rudy-fastcgi", &["rudy-http", "rudy-stats"]),
            ("rudy-http", &[]),
            ("rudy-stats", &[]),
        ]));
        assert_eq!(problems, ["rudy-fastcgi (layer 0) depends on rudy-stats (layer 0)"]);
    }

    #[test]
    fn a_crate_without_a_layer_is_reported() {
        assert_eq!(upward(&graph(&[("newcomer", &[])])).len(), 1);
    }

    #[test]
    fn a_dependency_on_a_member_outside_of_the_layers_is_reported() {
        assert_eq!(upward(&graph(&[("rudy", &["xtask"]), ("xtask", &[])])).len(), 1);
    }

    #[test]
    fn an_indirect_dependency_of_layer_0_on_a_runtime_is_reported_with_its_chain() {
        let graph = graph(&[("rudy-http", &["nice"]), ("nice", &["tokio"]), ("tokio", &[])]);
        assert_eq!(impure(&graph), ["rudy-http depends on tokio: rudy-http -> nice -> tokio"]);
    }

    #[test]
    fn a_feature_of_layer_0_is_reported() {
        let mut graph = graph(&[("rudy-http", &[]), ("rudy-net", &[])]);
        graph.with_features = ["rudy-http".to_string(), "rudy-net".to_string()].into();
        assert_eq!(
            impure(&graph),
            ["rudy-http has features: move the optional code to a crate on a higher layer"]
        );
    }

    #[test]
    fn layer_0_must_deny_banned_methods_and_types() {
        let files = |text: &str| -> Vec<_> {
            layer_0().map(|name| file(&format!("crates/{name}/src/lib.rs"), text)).collect()
        };
        assert!(without_denial(&files(&format!("//! Pure.\n{DENIAL}\n"))).is_empty());
        assert_eq!(without_denial(&files("//! Pure.\n")).len(), layer_0().count());
        assert_eq!(without_denial(&[]).len(), layer_0().count());
    }

    #[test]
    fn dependencies_for_tests_are_ignored() {
        let metadata = serde_json::json!({
            "workspace_members": ["a"],
            "packages": [
                {"name": "rudy-http", "id": "a", "version": "1.0.0", "features": {"extra": ["dep:serde"]},
                 "dependencies": [{"name": "bytes"}, {"name": "tokio"}, {"name": "serde", "optional": true}]},
                {"name": "bytes", "id": "b", "version": "1.0.0", "dependencies": []},
                {"name": "tokio", "id": "c", "version": "1.0.0", "dependencies": []},
            ],
            "resolve": {"nodes": [
                {"id": "a", "deps": [
                    {"pkg": "b", "dep_kinds": [{"kind": null}]},
                    {"pkg": "c", "dep_kinds": [{"kind": "dev"}]},
                ]},
            ]},
        });
        let graph = Graph::new(&metadata).expect("well formed");
        assert_eq!(graph.members["rudy-http"].len(), 3);
        assert!(graph.with_features.contains("rudy-http"));
        assert!(graph.tree("rudy-http").keys().eq(["bytes 1.0.0"]));
    }
}
