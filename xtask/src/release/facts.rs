//! What the parts of a release share: its version, its commit and its folders.

use std::path::PathBuf;
use std::process::Command;

use crate::{Outcome, command, workspace};

/// The version of the workspace.
pub(super) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Returns the folder with the files of the release.
pub(crate) fn folder() -> PathBuf {
    workspace::target().join("release-files")
}

/// Returns the commit, and `+changes` if the work tree differs from it.
pub(super) fn commit() -> Outcome<String> {
    let commit = git(&["rev-parse", "HEAD"])?;
    let is_clean = git(&["status", "--porcelain"])?.is_empty();
    Ok(if is_clean { commit } else { commit + "+changes" })
}

/// Returns the time of the commit in seconds of Unix time. All files of the release have it, so that it depends only on the commit.
pub(super) fn time() -> Outcome<String> {
    git(&["log", "--max-count=1", "--format=%ct"])
}

/// Returns the committed files that match these patterns of git, one in a line.
pub(super) fn files(patterns: &[&str]) -> Outcome<String> {
    git(&[&["ls-files", "--"], patterns].concat())
}

fn git(arguments: &[&str]) -> Outcome<String> {
    let mut git = Command::new("git");
    let output = command::output(git.current_dir(workspace::root()).args(arguments))?;
    Ok(output.trim().to_owned())
}
