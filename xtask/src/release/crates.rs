//! The crates for a registry, with their index.

use std::path::Path;

use super::{facts, tree};
use crate::steps::Run;
use crate::{Outcome, command, workspace};

/// Packages the crates. Whether they build is tested by their installation.
pub(super) fn run(_: &mut Run) -> Outcome {
    let work = workspace::target().join("crates");
    tree::remove(&work)?;
    let mut package = workspace::cargo();
    // `facts::commit` and `.cargo_vcs_info.json` show uncommitted changes. Without `--quiet`, cargo misses a homepage in each crate.
    package.args(["package", "--workspace", "--locked", "--no-verify", "--allow-dirty", "--quiet"]);
    for member in unpublished()? {
        package.args(["--exclude", &member]);
    }
    command::run(package.arg("--target-dir").arg(&work))?;
    let folder = facts::folder().join("crates");
    tree::remove(&folder)?;
    for name in names(&work.join("package"))? {
        tree::copy(&work.join("package").join(&name), &folder.join(&name))?;
    }
    // cargo makes it in order to resolve the dependencies between the crates.
    let index = work.join("package/tmp-registry/index/ru/dy");
    names(&index)?
        .iter()
        .try_for_each(|name| tree::copy(&index.join(name), &folder.join("index/ru/dy").join(name)))
}

/// Returns the names of the members that are no part of a release.
fn unpublished() -> Outcome<Vec<String>> {
    let metadata = workspace::metadata()?;
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let unpublished = packages.filter(|package| package["publish"].as_array().is_some_and(Vec::is_empty));
    Ok(unpublished.filter_map(|package| Some(package["name"].as_str()?.to_owned())).collect())
}

/// Returns the names of the files in a folder.
fn names(folder: &Path) -> Outcome<Vec<String>> {
    let unreadable = |error| format!("cannot read the folder {}: {error}", folder.display());
    let entries: Result<Vec<_>, _> = std::fs::read_dir(folder).map_err(unreadable)?.collect();
    let files = entries.map_err(unreadable)?.into_iter().filter(|entry| entry.path().is_file());
    Ok(files.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect())
}
