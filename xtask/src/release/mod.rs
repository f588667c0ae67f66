//! Makes everything that a release has, in `target/release-files`: the same commit gives the same bytes.

mod archive;
mod binaries;
mod chart;
mod facts;
mod image;

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
];

/// Returns the names of the parts.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    PARTS.iter().map(|part| part.name)
}

/// Runs these parts, or all. Stops at the first failure.
pub(crate) fn run(parts: &[String]) -> Outcome {
    let mut run = Run::new(false);
    run.all(PARTS.iter().filter(|part| parts.is_empty() || parts.iter().any(|name| name == part.name)))
}
