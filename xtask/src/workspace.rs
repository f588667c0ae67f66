//! Paths in the repository, and `cargo metadata`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::{Outcome, command};

/// Returns the root of the repository.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask is a folder of the repository")
}

/// Returns the build folder: `target`, or `CARGO_TARGET_DIR`.
pub(crate) fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), |folder| root().join(folder))
}

/// Returns the virtual environment with a Python package.
pub(crate) fn environment(package: &str) -> PathBuf {
    root().join("target").join(package)
}

/// Returns the folder of the Go programs for the tests.
pub(crate) fn go_programs() -> PathBuf {
    root().join("target/go")
}

/// Returns the folder in which `setup` unpacks `DokuWiki`.
pub(crate) fn dokuwiki() -> PathBuf {
    root().join("target/dokuwiki")
}

/// Returns the folder in which `setup` unpacks `MediaWiki`.
pub(crate) fn mediawiki() -> PathBuf {
    root().join("target/mediawiki")
}

/// The packages and features of all development builds: with another selection, cargo would unify the features of dependencies
/// differently, and compile them again. `tests/src/binary.rs` has the same one.
pub(crate) const SELECTION: [&str; 4] = ["--workspace", "--locked", "--features", "rudy/resolver"];

/// What we build for. Dependencies for other systems are not ours to judge.
const TARGETS: [&str; 4] = [
    "x86_64-unknown-linux-gnu",
    "aarch64-unknown-linux-gnu",
    "x86_64-unknown-linux-musl",
    "aarch64-unknown-linux-musl",
];

/// Returns the output of `cargo metadata` with resolved dependencies.
pub(crate) fn metadata() -> Outcome<Value> {
    let output = command::output(cargo().args(["metadata", "--format-version", "1", "--locked"]))?;
    serde_json::from_str(&output).map_err(|error| format!("cargo metadata printed no JSON: {error}"))
}

/// Returns the dependencies of these kinds as lines of `cargo tree`, such as `2bytes v1.12.0|MIT`: the depth, the package, its licence.
/// Unlike the metadata, the tree omits optional dependencies that nothing enables.
pub(crate) fn tree(kinds: &str) -> Outcome<String> {
    let mut cargo = cargo();
    cargo.args(["tree", "--workspace", "--all-features", "--locked", "--prefix", "depth"]);
    cargo.args(["--edges", kinds, "--format", "{p}|{l}"]);
    for target in TARGETS {
        cargo.args(["--target", target]);
    }
    command::output(&mut cargo)
}

/// Returns a command for the cargo that runs xtask.
pub(crate) fn cargo() -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(root());
    cargo
}

/// Returns all files of the repository with this extension, sorted, with paths relative to the root. Skips build folders, and links to
/// what has another path.
pub(crate) fn files(extension: &str) -> Outcome<Vec<PathBuf>> {
    let mut found = Vec::new();
    collect(root(), extension, &mut found)?;
    found.sort();
    Ok(found)
}

fn collect(folder: &Path, extension: &str, found: &mut Vec<PathBuf>) -> Outcome {
    let unreadable = |error| format!("cannot read the folder {}: {error}", folder.display());
    for entry in fs::read_dir(folder).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        let (path, name) = (entry.path(), entry.file_name());
        let kind = entry.file_type().map_err(unreadable)?;
        if kind.is_dir() {
            // Hidden folders belong to tools (.git), and `target` is a build folder, also in `fuzz`.
            if name != "target" && !name.as_encoded_bytes().starts_with(b".") {
                collect(&path, extension, found)?;
            }
        } else if kind.is_file() && path.extension().is_some_and(|e| e == extension) {
            found.push(path.strip_prefix(root()).unwrap_or(&path).to_path_buf());
        }
    }
    Ok(())
}

/// Reads a file; its path is relative to the root.
pub(crate) fn read(path: impl AsRef<Path>) -> Outcome<String> {
    let path = path.as_ref();
    fs::read_to_string(root().join(path)).map_err(|error| format!("cannot read {}: {error}", path.display()))
}
