//! The install script, and the recipes of package managers: what they download, and its sums.

use std::process::Command;

use super::{archives, facts, tree};
use crate::steps::Run;
use crate::{Outcome, command, setup, workspace};

/// The program that checks the script, and its package.
const PROGRAMS: &[(&str, &str)] = &[("shellcheck", "shellcheck")];

/// Files in `packaging`, and their names in a release.
const FILES: &[(&str, &str)] = &[
    ("install.sh", "install.sh"),
    ("homebrew/rudy.rb", "recipes/homebrew/rudy.rb"),
    ("nix/flake.nix", "recipes/nix/flake.nix"),
    ("nix/package.nix", "recipes/nix/package.nix"),
    ("arch/PKGBUILD", "recipes/arch/PKGBUILD"),
];

/// Writes them with the values of this release.
pub(super) fn run(_: &mut Run) -> Outcome {
    setup::programs(PROGRAMS)?;
    let url = url()?;
    let (x86_64, aarch64) = (sum("x86_64")?, sum("aarch64")?);
    let values = [
        ("@VERSION@", facts::VERSION),
        ("@URL@", &url),
        ("@SHA256_X86_64@", &x86_64),
        ("@SHA256_AARCH64@", &aarch64),
    ];
    let folder = facts::folder();
    for (source, name) in FILES {
        tree::fill(&format!("packaging/{source}"), &folder.join(name), &values)?;
    }
    command::run(Command::new("shellcheck").arg(folder.join("install.sh")))
}

/// Returns the URL of the folder from which users download the files of this release.
fn url() -> Outcome<String> {
    let metadata = workspace::metadata()?;
    let url = metadata["metadata"]["release"]["url"].as_str();
    let url = url.ok_or("Cargo.toml has no `url` in the table `workspace.metadata.release`")?;
    Ok(url.replace("{version}", facts::VERSION))
}

fn sum(processor: &str) -> Outcome<String> {
    let output = command::output(Command::new("sha256sum").arg(archives::path(processor)))?;
    Ok(output.split(' ').next().unwrap_or_default().to_owned())
}
