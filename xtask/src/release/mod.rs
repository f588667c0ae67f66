//! Makes everything that a release has, in `target/release-files`: the same commit gives the same bytes.

mod archives;
mod binaries;
mod chart;
mod checksums;
mod crates;
mod debian;
mod facts;
mod image;
mod notes;
mod recipes;
mod rpm;
mod sbom;
mod tar;
pub(crate) mod tree;

pub(crate) use facts::folder;

use crate::Outcome;
use crate::steps::{Run, Step};

/// In this order: a part uses the files of those before it.
const PARTS: &[Step] = &[
    Step {
        name: "binaries",
        budget_s: 1500,
        run: binaries::run,
        remedy: "`cargo xtask release binaries` runs only this part",
    },
    Step {
        name: "debian",
        budget_s: 180,
        run: debian::run,
        remedy: "`cargo xtask release debian` runs only this part; `lintian-explain-tags TAG` explains what lintian reports",
    },
    Step {
        name: "rpm",
        budget_s: 180,
        run: rpm::run,
        remedy: "`cargo xtask release rpm` runs only this part",
    },
    Step {
        name: "image",
        budget_s: 120,
        run: image::run,
        remedy: "`cargo xtask release image` runs only this part, with the programs of an earlier run",
    },
    Step {
        name: "chart",
        budget_s: 5,
        run: chart::run,
        remedy: "`cargo xtask release chart` runs only this part",
    },
    Step {
        name: "archives",
        budget_s: 60,
        run: archives::run,
        remedy: "`cargo xtask release archives` runs only this part",
    },
    Step {
        name: "recipes",
        budget_s: 5,
        run: recipes::run,
        remedy: "`cargo xtask release archives recipes` runs only these parts",
    },
    Step {
        name: "crates",
        budget_s: 60,
        run: crates::run,
        remedy: "`cargo xtask release crates` runs only this part",
    },
    Step {
        name: "sbom",
        budget_s: 400,
        run: sbom::run,
        remedy: "`cargo xtask release sbom` runs only this part",
    },
    Step { name: "notes", budget_s: 5, run: notes::run, remedy: "add the section to CHANGELOG.md" },
    // The last one: of all files.
    Step {
        name: "checksums",
        budget_s: 30,
        run: checksums::run,
        remedy: "`RUDY_MINISIGN_KEY=FILE cargo xtask release checksums` runs only this part",
    },
];

/// Returns the names of the parts.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    PARTS.iter().map(|part| part.name)
}

/// Runs these parts, or all. Stops at the first failure.
pub(crate) fn run(parts: &[String]) -> Outcome {
    if parts.is_empty() {
        // The files of an earlier version would be signed with those of this one.
        tree::remove(&folder())?;
    }
    let mut run = Run::new(false);
    run.all(PARTS.iter().filter(|part| parts.is_empty() || parts.iter().any(|name| name == part.name)))
}
