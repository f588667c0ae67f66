//! Makes a release twice, in two folders: each file must have the same bytes.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::release::tree;
use crate::steps::Run;
use crate::{Outcome, command, release, workspace};

/// Makes a release of the last commit here, if it is not made, and another one in a clean clone, which installs its own tools.
pub(crate) fn run(_: &mut Run) -> Outcome {
    release::run(&[])?;
    let clone = workspace::target().join("clone");
    tree::remove(&clone)?;
    command::run(Command::new("git").args(["clone", "--quiet"]).args([workspace::root(), &clone]))?;
    let mut again = workspace::cargo();
    again.args(["xtask", "release"]).current_dir(&clone).env_remove("CARGO_TARGET_DIR");
    command::run(&mut again)?;
    compare(&release::folder(), &clone.join("target/release-files"))
}

/// Compares the sums of two releases, which name all files.
fn compare(here: &Path, there: &Path) -> Outcome {
    let read = |folder: &Path| {
        let path = folder.join("SHA256SUMS");
        fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))
    };
    let (ours, theirs) = (read(here)?, read(there)?);
    let only_in = |one: &str, other: &str| -> Vec<String> {
        one.lines()
            .filter(|line| !other.lines().any(|of_other| of_other == *line))
            .map(String::from)
            .collect()
    };
    let differing = [only_in(&ours, &theirs), only_in(&theirs, &ours)].concat();
    if differing.is_empty() {
        println!("{} files are identical", ours.lines().count());
        return Ok(());
    }
    let (here, there) = (here.display(), there.display());
    Err(format!("{here} and {there} differ in:\n{}", differing.join("\n")))
}
