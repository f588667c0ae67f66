//! Checks a change within a minute: format, lints, the unit tests of the crates that changed, and the tests over sockets that concern them.

use std::collections::BTreeSet;

use crate::steps::{Run, Step};
use crate::{Outcome, command, test, workspace};

/// Folders, and the modules of `tests/tests` that concern them: a file takes the row with the longest folder that contains it.
const CONCERNED: &[(&str, &[&str])] = &[
    ("crates/rudy-acme/", &["serve::acme"]),
    ("crates/rudy-admin/", &["serve::admin", "serve::status"]),
    ("crates/rudy-cache/", &["apps::cache"]),
    ("crates/rudy-caching/", &["apps::cache"]),
    ("crates/rudy-client/", &["apps::proxy", "apps::fastcgi"]),
    ("crates/rudy-config/", &["tools::cli", "serve::recipes"]),
    ("crates/rudy-config-derive/", &["tools::cli", "serve::recipes"]),
    ("crates/rudy-diagnose/", &["measure::observe", "measure::top", "measure::leaks"]),
    ("crates/rudy-experiment/", &["measure::lab_report"]),
    ("crates/rudy-fastcgi/", &["apps::fastcgi"]),
    ("crates/rudy-files/", &["serve::handlers"]),
    ("crates/rudy-gateway/", &["apps::fastcgi"]),
    ("crates/rudy-guard/", &["serve::steps", "serve::limits"]),
    ("crates/rudy-handlers/", &["serve::handlers", "serve::broadcast"]),
    ("crates/rudy-http/", &["serve::conformance", "serve::machine", "serve::http2"]),
    ("crates/rudy-import/", &["tools::import"]),
    ("crates/rudy-lab/", &["measure::lab"]),
    ("crates/rudy-limit/", &["serve::limits"]),
    ("crates/rudy-load/", &["measure::bench", "tools::get"]),
    ("crates/rudy-log/", &["serve::logs"]),
    ("crates/rudy-message/", &["serve::conformance", "serve::machine", "serve::http2"]),
    ("crates/rudy-mirror/", &["apps::mirror"]),
    (
        "crates/rudy-net/",
        &["serve::conformance", "serve::live", "serve::stop", "serve::http2", "serve::http3"],
    ),
    ("crates/rudy-observe/", &["measure::observe", "measure::top", "measure::leaks"]),
    ("crates/rudy-pipeline/", &["serve::steps", "serve::handlers"]),
    ("crates/rudy-pipeline/src/client_address/", &["serve::client_address"]),
    ("crates/rudy-pipeline/src/compression/", &["serve::compression"]),
    ("crates/rudy-pipeline/src/routing/", &["serve::hosts", "serve::listeners", "serve::recipes"]),
    ("crates/rudy-proxy/", &["apps::proxy"]),
    ("crates/rudy-proxy/src/tcp/", &["serve::tcp"]),
    ("crates/rudy-quic/", &["serve::http3"]),
    ("crates/rudy-replay/", &["tools::replay"]),
    ("crates/rudy-request/", &["tools::get", "tools::trust", "measure::http2_client", "serve::acme"]),
    ("crates/rudy-runtime/", &["serve::live", "serve::run"]),
    ("crates/rudy-server/", &["serve::handlers", "serve::run"]),
    ("crates/rudy-server/src/config/", &["tools::cli", "serve::recipes"]),
    ("crates/rudy-server/src/run/", &["serve::run", "serve::reload", "serve::upgrade", "serve::stop"]),
    ("crates/rudy-service/", &["serve::conformance", "serve::handlers"]),
    ("crates/rudy-site-tls/", &["serve::https", "serve::tls"]),
    ("crates/rudy-site-tls/src/acme/", &["serve::acme"]),
    ("crates/rudy-store/", &["apps::cache"]),
    ("crates/rudy-system/", &["serve::admin", "serve::run"]),
    ("crates/rudy-tls/", &["serve::https", "serve::tls"]),
    ("crates/rudy-trace/", &["serve::tracing"]),
    ("crates/rudy-upstream/", &["apps::proxy"]),
    ("crates/rudy-watch/", &["serve::status"]),
    ("crates/rudy-watch/src/access_log/", &["serve::logs"]),
    ("crates/rudy-watch/src/metrics/", &["serve::metrics"]),
    ("crates/rudy-watch/src/status/", &["serve::status"]),
    ("crates/rudy-watch/src/traces/", &["serve::tracing"]),
    ("crates/rudy/", &["tools::cli", "tools::manual"]),
    ("crates/rudy/src/running/", &["serve::admin", "serve::status"]),
    ("docs/", &["serve::recipes"]),
    ("docs/kubernetes/", &["measure::shares", "packages::kubernetes"]),
    ("examples/weblog/", &["apps::weblog"]),
    ("libraries/", &["apps::weblog"]),
    ("packaging/helm/", &["packages::kubernetes"]),
    ("packaging/image/", &["packages::image"]),
];

const TESTS: Step = Step {
    name: "tests",
    budget_s: 60,
    run: |run| {
        let files = changed()?;
        if files.is_empty() {
            println!("no file differs from the last commit; `cargo xtask quick -- NAME` runs tests by name");
            return Ok(());
        }
        let filter = filter(&files);
        println!("nextest -E '{filter}'");
        test::tests(run, &["-E", &filter])
    },
    remedy: "`cargo xtask quick -- NAME` runs a single test",
};

/// Runs the checks for the changes since the last commit, or only the tests whose names contain one of `names`.
pub(crate) fn run(names: &[String]) -> Outcome {
    let mut run = Run::new(std::env::var_os("RUDY_TEST_LONG").is_some());
    if names.is_empty() {
        return run.all([&test::FORMAT, &test::TIDY, &test::BUILD, &TESTS]);
    }
    (test::BUILD.run)(&mut run)?;
    test::tests(&mut run, &names.iter().map(String::as_str).collect::<Vec<_>>())
}

/// Returns the files that differ from the last commit, also new ones.
fn changed() -> Outcome<Vec<String>> {
    let git = |arguments: &[&str]| {
        command::output(std::process::Command::new("git").current_dir(workspace::root()).args(arguments))
    };
    let files =
        git(&["diff", "--name-only", "HEAD"])? + &git(&["ls-files", "--others", "--exclude-standard"])?;
    Ok(files.lines().map(String::from).collect())
}

/// Returns the filter of nextest for the unit tests of changed crates, changed modules of `tests/tests`, and those in [`CONCERNED`].
fn filter(files: &[String]) -> String {
    let mut parts = BTreeSet::new();
    for file in files {
        let mut folders = file.split('/');
        match (folders.next(), folders.next(), folders.next(), folders.next()) {
            (Some("crates" | "libraries"), Some(package), ..) => {
                parts.insert(format!("package({package})"));
            }
            (Some("xtask"), ..) => {
                parts.insert("package(xtask)".to_owned());
            }
            (Some("tests"), Some("tests"), Some(binary), Some(module)) => {
                parts.insert(module_filter(binary, module.trim_end_matches(".rs")));
            }
            _ => {}
        }
        let rows = CONCERNED.iter().filter(|(folder, _)| file.starts_with(folder));
        let row = rows.max_by_key(|(folder, _)| folder.len());
        let modules = row.into_iter().flat_map(|(_, modules)| modules.iter());
        parts.extend(modules.filter_map(|m| m.split_once("::")).map(|(binary, m)| module_filter(binary, m)));
    }
    if parts.is_empty() {
        return "none()".into();
    }
    parts.into_iter().collect::<Vec<_>>().join(" | ")
}

fn module_filter(binary: &str, module: &str) -> String {
    format!("(package(rudy-tests) & binary({binary}) & test(/^{module}::/))")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_selects_its_crate_and_the_tests_of_its_folder() {
        let proxy = filter(&["crates/rudy-proxy/src/lib.rs".into()]);
        let expected = "(package(rudy-tests) & binary(apps) & test(/^proxy::/)) | package(rudy-proxy)";
        assert_eq!(proxy, expected);
        let of_tests = filter(&["tests/tests/serve/stop.rs".into(), "README.md".into()]);
        assert_eq!(of_tests, "(package(rudy-tests) & binary(serve) & test(/^stop::/))");
        assert_eq!(filter(&["README.md".into()]), "none()");
    }

    #[test]
    fn the_folders_and_modules_exist() {
        let tests = workspace::root().join("tests/tests");
        for (folder, modules) in CONCERNED {
            assert!(workspace::root().join(folder).is_dir(), "{folder}");
            for module in *modules {
                let path = tests.join(module.replace("::", "/"));
                assert!(path.is_dir() || path.with_extension("rs").is_file(), "{module}");
            }
        }
    }

    #[test]
    fn every_crate_is_in_the_table_or_pure() {
        let pure = ["rudy-charts", "rudy-command", "rudy-socket", "rudy-stats", "rudy-units"];
        let folder = std::fs::read_dir(workspace::root().join("crates")).expect("the folder exists");
        for name in folder.map(|entry| entry.expect("readable").file_name()) {
            let name = name.to_string_lossy();
            let is_listed = CONCERNED.iter().any(|(folder, _)| *folder == format!("crates/{name}/"));
            assert!(is_listed || pure.contains(&&*name), "{name} has no row");
        }
    }
}
