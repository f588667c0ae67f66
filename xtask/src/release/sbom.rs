//! The software bill of materials of each program: all crates in it, in the format of `CycloneDX`.

use std::process::Command;

use super::{binaries, facts, tree};
use crate::steps::Run;
use crate::{Outcome, command, setup, workspace};

/// The program that writes them, and its version.
const TOOL: (&str, &str) = ("cargo-cyclonedx", "0.5.9");

/// The programs contain no crates that only build scripts use.
const OPTIONS: &[&str] = &[
    "--format=json",
    "--spec-version=1.5",
    "--describe=binaries",
    "--no-build-deps",
    "--features=resolver",
    "--quiet",
];

/// Writes a bill for each program.
pub(super) fn run(_: &mut Run) -> Outcome {
    let tool = setup::cargo_command(TOOL.0, TOOL.1)?.join(TOOL.0);
    let sources = workspace::target().join("sbom");
    export(&sources)?;
    for (processor, target) in binaries::TARGETS {
        let mut describe = Command::new(&tool);
        describe.arg("cyclonedx").args(OPTIONS).args(["--target", target]);
        describe.args(["--manifest-path", "crates/rudy/Cargo.toml"]).current_dir(&sources);
        command::output(describe.env("SOURCE_DATE_EPOCH", facts::time()?))?;
        let file = sources.join("crates/rudy/rudy_bin.cdx.json");
        let text = std::fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
        // The identifiers have the paths of the crates.
        let text = text.replace(&format!("file://{}", sources.display()), "file:///rudy");
        tree::write(&facts::folder().join(format!("rudy-{}-{processor}.cdx.json", facts::VERSION)), text)?;
    }
    Ok(())
}

/// Writes the committed sources into a folder, because the tool writes a file beside each manifest.
fn export(folder: &std::path::Path) -> Outcome {
    tree::remove(folder)?;
    let archive = folder.join("sources.tar");
    tree::write(&archive, "")?;
    let mut git = Command::new("git");
    command::run(git.current_dir(workspace::root()).args(["archive", "--output"]).arg(&archive).arg("HEAD"))?;
    command::run(
        Command::new("tar").arg("--directory").arg(folder).arg("--extract").arg("--file").arg(&archive),
    )
}
