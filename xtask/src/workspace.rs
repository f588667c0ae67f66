//! Where things stand in the repository, and what `cargo metadata` knows of it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::{Outcome, command};

/// The repository's root.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask stands in a folder of the repository")
}

/// Where cargo builds: `target`, unless somebody has moved it.
pub(crate) fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), |moved| root().join(moved))
}

/// Where the virtual environment stands from which the tests run `redbot`.
pub(crate) fn redbot_environment() -> PathBuf {
    root().join("target/redbot")
}

/// Where the virtual environment stands from which the tests run apps with flup.
pub(crate) fn flup_environment() -> PathBuf {
    root().join("target/flup")
}

/// Where programs stand that are built with Go for the tests.
pub(crate) fn go_programs() -> PathBuf {
    root().join("target/go")
}

/// Where `setup` unpacks `DokuWiki`, which the tests serve.
pub(crate) fn dokuwiki() -> PathBuf {
    root().join("target/dokuwiki")
}

/// Where `setup` unpacks `MediaWiki`, which the tests install and serve.
pub(crate) fn mediawiki() -> PathBuf {
    root().join("target/mediawiki")
}

/// What `cargo metadata` says, dependencies resolved.
pub(crate) fn metadata() -> Outcome<Value> {
    let output = command::output(cargo().args(["metadata", "--format-version", "1", "--locked"]))?;
    serde_json::from_str(&output).map_err(|error| format!("cargo metadata printed no JSON: {error}"))
}

/// The cargo that runs us.
pub(crate) fn cargo() -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(root());
    cargo
}

/// Every file of the repository with this extension, its path from the root, in order. What is built is not looked at.
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
        if entry.file_type().map_err(unreadable)?.is_dir() {
            // Hidden folders are tools' own (.git), `target` is what cargo builds, here and in `fuzz`.
            if name != "target" && !name.as_encoded_bytes().starts_with(b".") {
                collect(&path, extension, found)?;
            }
        } else if path.extension().is_some_and(|e| e == extension) {
            found.push(path.strip_prefix(root()).unwrap_or(&path).to_path_buf());
        }
    }
    Ok(())
}

/// The text of a file, its path from the root.
pub(crate) fn read(path: impl AsRef<Path>) -> Outcome<String> {
    let path = path.as_ref();
    fs::read_to_string(root().join(path)).map_err(|error| format!("cannot read {}: {error}", path.display()))
}
