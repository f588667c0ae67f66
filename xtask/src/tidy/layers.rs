//! The layer of each crate, and the check that it only depends on lower ones.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::File;
use crate::Outcome;

/// The layer of every crate in `crates/` and `libraries/`. A new crate needs an entry here.
const LAYERS: &[(&str, u8)] = &[
    ("rudy-message", 0),
    ("rudy-http", 0),
    ("rudy-cache", 0),
    ("rudy-fastcgi", 0),
    ("rudy-stats", 0),
    ("rudy-units", 0),
    ("rudy-charts", 0),
    ("rudy-import", 0),
    ("rudy-trace", 0),
    ("rudy-command", 1),
    ("rudy-config", 1),
    ("rudy-config-derive", 0),
    ("rudy-observe", 1),
    ("rudy-runtime", 1),
    ("rudy-socket", 1),
    ("rudy-store", 1),
    ("rudy-quic", 1),
    ("rudy-tls", 1),
    ("rudy-admin", 2),
    ("rudy-upstream", 1),
    ("rudy-limit", 1),
    ("rudy-fastcgi-app", 2),
    ("rudy-log", 2),
    ("rudy-service", 2),
    ("rudy-net", 2),
    ("rudy-diagnose", 2),
    ("rudy-experiment", 2),
    ("rudy-request", 2),
    ("rudy-acme", 3),
    ("rudy-load", 3),
    ("rudy-replay", 3),
    ("rudy-poll", 3),
    ("rudy-system", 3),
    ("rudy-lab", 4),
    ("rudy-pipeline", 4),
    ("rudy-client", 5),
    ("rudy-files", 5),
    ("rudy-handlers", 5),
    ("rudy-site-tls", 5),
    ("rudy-caching", 6),
    ("rudy-gateway", 6),
    ("rudy-proxy", 6),
    ("rudy-guard", 7),
    ("rudy-mirror", 7),
    ("rudy-watch", 7),
    ("rudy-server", 8),
    ("rudy", 10),
];

/// Allowed dependencies within a layer: a cache decides by the fields of messages, the head of a CGI response has their syntax, HTTP/1.1
/// and HTTP/2 carry them, an objective such as `p99<20ms` and the axis of a chart have units, a connection calls a service, and limits,
/// stores and tickets read the clock.
const ALLOWED_WITHIN_LAYER: &[(&str, &str)] = &[
    ("rudy-cache", "rudy-message"),
    ("rudy-charts", "rudy-units"),
    ("rudy-fastcgi", "rudy-message"),
    ("rudy-http", "rudy-message"),
    ("rudy-limit", "rudy-runtime"),
    ("rudy-net", "rudy-service"),
    ("rudy-stats", "rudy-units"),
    ("rudy-store", "rudy-runtime"),
    ("rudy-quic", "rudy-runtime"),
    ("rudy-quic", "rudy-tls"),
    ("rudy-tls", "rudy-runtime"),
];

/// Workspace members outside the layers. No crate may depend on them.
const OUTSIDE_LAYERS: &[&str] =
    &["fastcgi-info", "rudy-fuzz", "rudy-sim", TEST_SYNC, "rudy-tests", "weblog", "xtask"];

/// The one among them on which the tests of a crate may depend.
const TEST_SYNC: &str = "rudy-test-sync";

/// Crates that layer 0 must not depend on, even indirectly: they provide clocks and sockets.
const BANNED_IN_LAYER_0: &[&str] = &["async-std", "mio", "smol", "socket2", "tokio"];

/// The line that layer 0 must have in `lib.rs`; `clippy.toml` lists the methods and types that these lints ban.
const LAYER_0_LINTS: &str = "#![deny(clippy::disallowed_methods, clippy::disallowed_types)]";

/// The crates on the path of a request, which ask rudy-runtime for the time, chance and tasks.
const SIMULATED: &[&str] = &[
    "rudy-acme",
    "rudy-caching",
    "rudy-client",
    "rudy-files",
    "rudy-gateway",
    "rudy-guard",
    "rudy-handlers",
    "rudy-limit",
    "rudy-mirror",
    "rudy-net",
    "rudy-pipeline",
    "rudy-proxy",
    "rudy-service",
    "rudy-site-tls",
    "rudy-store",
    "rudy-tls",
    "rudy-upstream",
    "rudy-watch",
];

/// The line that these have in `lib.rs`. Their tests may use real clocks.
const SIMULATED_LINTS: &str = "#![cfg_attr(not(test), deny(clippy::disallowed_methods))]";

/// The members of the workspace and their dependencies.
#[derive(Default)]
pub(super) struct Graph {
    /// Each member with its direct dependencies of every kind, by name.
    pub(super) members: BTreeMap<String, BTreeSet<String>>,
    /// The dependencies of each package, including members, without dev-dependencies. Packages have a name and a version, as in
    /// `bytes 1.12.0`.
    resolved: BTreeMap<String, Vec<String>>,
    /// Members that have features.
    with_features: BTreeSet<String>,
}

impl Graph {
    /// Parses the output of `cargo metadata`.
    pub(super) fn new(metadata: &Value) -> Outcome<Self> {
        let mut graph = Self::default();
        let mut labels = BTreeMap::new();
        for package in array(metadata, "packages")? {
            let (name, id) = (string(package, "name")?, string(package, "id")?);
            labels.insert(id, format!("{name} {}", string(package, "version")?));
            if array(metadata, "workspace_members")?.iter().any(|member| member == id) {
                let dependencies =
                    array(package, "dependencies")?.iter().map(|d| string(d, "name").map(String::from));
                graph.members.insert(name.into(), dependencies.collect::<Outcome<_>>()?);
                if package["features"].as_object().is_some_and(|features| !features.is_empty()) {
                    graph.with_features.insert(name.into());
                }
            }
        }
        for node in array(&metadata["resolve"], "nodes")? {
            let mut resolved = Vec::new();
            for dependency in array(node, "deps")? {
                let kinds = array(dependency, "dep_kinds")?;
                if kinds.iter().any(|kind| kind["kind"] != "dev") {
                    resolved.push(labels[string(dependency, "pkg")?].clone());
                }
            }
            graph.resolved.insert(labels[string(node, "id")?].clone(), resolved);
        }
        Ok(graph)
    }

    /// Returns the members with their dependencies on other members, except those of tests.
    pub(super) fn dependencies(&self) -> BTreeMap<String, BTreeSet<String>> {
        let members = self.resolved.iter().filter(|(label, _)| self.members.contains_key(name(label)));
        let own = |labels: &[String]| {
            let names = labels.iter().map(|label| name(label).to_owned());
            names.filter(|name| self.members.contains_key(name)).collect()
        };
        members.map(|(label, labels)| (name(label).to_owned(), own(labels))).collect()
    }

    /// Returns all direct and indirect dependencies of `member`, each with the chain of packages that leads to it.
    fn dependency_chains(&self, member: &str) -> BTreeMap<String, String> {
        let start = self.resolved.keys().filter(|label| name(label) == member);
        let mut to_visit: Vec<(String, String)> = start.map(|label| (label.clone(), member.into())).collect();
        let mut chains = BTreeMap::new();
        while let Some((label, chain)) = to_visit.pop() {
            for next in self.resolved.get(&label).into_iter().flatten() {
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
pub(super) fn layer_violations(graph: &Graph) -> Vec<String> {
    let mut problems = Vec::new();
    let without_tests = graph.dependencies();
    let is_used_beyond_tests =
        |member: &str| without_tests.get(member).is_some_and(|names| names.contains(TEST_SYNC));
    for (member, dependencies) in &graph.members {
        let member_layer = layer(member);
        if member_layer.is_none() && !OUTSIDE_LAYERS.contains(&member.as_str()) {
            problems.push(format!("{member} has no layer: add it to xtask/src/tidy/layers.rs"));
        }
        // A member depends on itself to test its features.
        for dependency in dependencies.iter().filter(|d| graph.members.contains_key(*d) && *d != member) {
            match (member_layer, layer(dependency)) {
                _ if ALLOWED_WITHIN_LAYER.contains(&(member.as_str(), dependency.as_str())) => {}
                _ if dependency == TEST_SYNC && !is_used_beyond_tests(member) => {}
                (Some(own), Some(other)) if other >= own => {
                    problems.push(format!("{member} (layer {own}) depends on {dependency} (layer {other})"));
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

/// Returns crates of layer 0 that depend on a runtime or on sockets, and those with features, which could add such a dependency.
pub(super) fn banned_dependencies(graph: &Graph) -> Vec<String> {
    let mut problems = Vec::new();
    for member in layer_0() {
        if graph.with_features.contains(member) {
            problems
                .push(format!("{member} has features: move the optional code to a crate on a higher layer"));
        }
        for (label, chain) in graph.dependency_chains(member) {
            if BANNED_IN_LAYER_0.contains(&name(&label)) {
                problems.push(format!("{member} depends on {}: {chain}", name(&label)));
            }
        }
    }
    problems
}

/// Returns crates of layer 0 without the line [`LAYER_0_LINTS`], and simulated ones without [`SIMULATED_LINTS`].
pub(super) fn missing_lints(sources: &[File]) -> Vec<String> {
    let mut problems = Vec::new();
    let simulated = SIMULATED.iter().map(|member| (*member, SIMULATED_LINTS));
    for (member, lints) in layer_0().map(|member| (member, LAYER_0_LINTS)).chain(simulated) {
        let path = format!("crates/{member}/src/lib.rs");
        match sources.iter().find(|file| file.path == path) {
            None => problems.push(format!("{path} is missing")),
            Some(file) if !file.text.lines().any(|line| line == lints) => {
                problems.push(format!("{path} lacks the line {lints}"));
            }
            Some(_) => {}
        }
    }
    problems
}

pub(super) fn layer(member: &str) -> Option<u8> {
    LAYERS.iter().find(|(name, _)| *name == member).map(|(_, layer)| *layer)
}

fn layer_0() -> impl Iterator<Item = &'static str> {
    LAYERS.iter().filter(|(_, layer)| *layer == 0).map(|(name, _)| *name)
}

/// Returns the name in a label: `bytes` in `bytes 1.12.0`.
fn name(label: &str) -> &str {
    label.split_once(' ').map_or(label, |(name, _)| name)
}

pub(super) fn array<'a>(value: &'a Value, key: &str) -> Outcome<&'a Vec<Value>> {
    value[key].as_array().ok_or_else(|| format!("the output of cargo metadata lacks the array `{key}`"))
}

pub(super) fn string<'a>(value: &'a Value, key: &str) -> Outcome<&'a str> {
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
            graph.resolved.insert(label(package), dependencies.iter().map(|d| label(d)).collect());
            if layer(package).is_some() || OUTSIDE_LAYERS.contains(package) || package.starts_with("new") {
                let names = dependencies.iter().map(|d| (*d).to_string()).collect();
                graph.members.insert((*package).to_string(), names);
            }
        }
        graph
    }

    #[test]
    fn a_dependency_on_a_lower_layer_is_allowed() {
        assert!(
            layer_violations(&graph(&[("rudy-http", &["bytes"]), ("rudy-net", &["rudy-http"])])).is_empty()
        );
    }

    #[test]
    fn a_dependency_on_a_higher_layer_is_reported() {
        let problems = layer_violations(&graph(&[("rudy-http", &["rudy-net"]), ("rudy-net", &[])]));
        assert_eq!(problems, ["rudy-http (layer 0) depends on rudy-net (layer 2)"]);
    }

    #[test]
    fn a_dependency_within_a_layer_is_reported_unless_it_is_listed() {
        let problems = layer_violations(&graph(&[
            ("rudy-fastcgi", &["rudy-message", "rudy-stats"]),
            ("rudy-message", &[]),
            ("rudy-stats", &[]),
        ]));
        assert_eq!(problems, ["rudy-fastcgi (layer 0) depends on rudy-stats (layer 0)"]);
    }

    #[test]
    fn a_crate_without_a_layer_is_reported() {
        assert_eq!(layer_violations(&graph(&[("newcomer", &[])])).len(), 1);
    }

    #[test]
    fn a_dependency_on_a_member_outside_the_layers_is_reported() {
        assert_eq!(layer_violations(&graph(&[("rudy", &["xtask"]), ("xtask", &[])])).len(), 1);
    }

    #[test]
    fn an_indirect_dependency_of_layer_0_on_a_runtime_is_reported_with_its_chain() {
        let graph = graph(&[("rudy-http", &["nice"]), ("nice", &["tokio"]), ("tokio", &[])]);
        assert_eq!(banned_dependencies(&graph), ["rudy-http depends on tokio: rudy-http -> nice -> tokio"]);
    }

    #[test]
    fn a_feature_of_layer_0_is_reported() {
        let mut graph = graph(&[("rudy-http", &[]), ("rudy-net", &[])]);
        graph.with_features = ["rudy-http".to_string(), "rudy-net".to_string()].into();
        assert_eq!(
            banned_dependencies(&graph),
            ["rudy-http has features: move the optional code to a crate on a higher layer"]
        );
    }

    #[test]
    fn layer_0_must_deny_banned_methods_and_types() {
        let files = |text: &str| -> Vec<_> {
            let members = layer_0().chain(SIMULATED.iter().copied());
            members.map(|name| file(&format!("crates/{name}/src/lib.rs"), text)).collect()
        };
        let count = layer_0().count() + SIMULATED.len();
        assert!(
            missing_lints(&files(&format!("//! Pure.\n{LAYER_0_LINTS}\n{SIMULATED_LINTS}\n"))).is_empty()
        );
        assert_eq!(missing_lints(&files("//! Pure.\n")).len(), count);
        assert_eq!(missing_lints(&[]).len(), count);
    }

    #[test]
    fn only_tests_may_use_the_locks_of_tests() {
        let mut graph = graph(&[("rudy-store", &[TEST_SYNC]), (TEST_SYNC, &[])]);
        assert_eq!(layer_violations(&graph).len(), 1);
        // `graph` makes no dependencies of tests.
        graph.resolved.insert("rudy-store 1.0.0".into(), Vec::new());
        assert!(layer_violations(&graph).is_empty());
    }

    #[test]
    fn dev_dependencies_are_ignored() {
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
        assert!(graph.dependency_chains("rudy-http").keys().eq(["bytes 1.0.0"]));
    }
}
