//! The Helm chart.

use std::fs;

use super::{facts, tar};
use crate::steps::Run;
use crate::{Outcome, workspace};

/// Packs the chart as `helm package` does, which would write the current time.
pub(super) fn run(_: &mut Run) -> Outcome {
    let name = facts::folder().join(format!("rudy-{}-chart", facts::VERSION));
    let (tar, chart) = (name.with_added_extension("tar"), name.with_added_extension("tgz"));
    tar::begin(&tar)?;
    tar::pack(&tar, &workspace::root().join("packaging/helm"), "0", "u=rwX,go=rX", &["rudy"])?;
    fs::rename(tar::compress(&tar)?, &chart).map_err(|error| format!("{}: {error}", chart.display()))
}
