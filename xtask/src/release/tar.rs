//! Archives that depend only on the content, names and modes of their files.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::facts;
use crate::{Outcome, command};

/// Creates the folder of an archive, and removes the archive of an earlier run.
pub(super) fn begin(archive: &Path) -> Outcome {
    let cannot = |error| format!("{}: {error}", archive.display());
    fs::create_dir_all(archive.parent().expect("the archive is in a folder")).map_err(cannot)?;
    if archive.exists() {
        fs::remove_file(archive).map_err(cannot)?;
    }
    Ok(())
}

/// Appends these files and folders of a folder to an archive, which is created if it is missing.
pub(super) fn pack(archive: &Path, folder: &Path, owner: &str, mode: &str, names: &[&str]) -> Outcome {
    let mut tar = Command::new("tar");
    tar.args(["--append", "--format=ustar", "--sort=name", "--numeric-owner"]);
    tar.args([format!("--mtime=@{}", facts::time()?), format!("--mode={mode}")]);
    tar.args([format!("--owner={owner}"), format!("--group={owner}")]);
    tar.arg("--file").arg(archive).arg("--directory").arg(folder);
    command::run(tar.args(names))
}

/// Compresses a file, and removes it.
pub(super) fn compress(file: &Path) -> Outcome<PathBuf> {
    command::run(Command::new("gzip").args(["--force", "--no-name", "--best"]).arg(file))?;
    Ok(file.with_extension("tar.gz"))
}
