//! Makes everything that a release has, in `target/release-files`: the same commit gives the same bytes.

mod binaries;
mod debian;
mod facts;
mod rpm;
mod tree;

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
