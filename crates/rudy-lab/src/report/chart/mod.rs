//! The pictures of a report.

use super::read::Experiment;

/// A picture, and the numbers that it is made of.
#[derive(Debug, Clone)]
pub(crate) struct Chart {
    /// The name of its file, of `a-z`, `0-9` and `-`; unique in its experiment.
    pub(crate) id: String,
    /// What stands above it.
    pub(crate) title: String,
    /// What one sees in it, in a sentence or two.
    pub(crate) caption: String,
    /// A whole SVG document, which stands alone as well as in a page.
    pub(crate) svg: String,
    /// Its data.
    pub(crate) csv: String,
}

/// All charts that the records of an experiment have something for, in the order in which they are shown.
pub(crate) fn charts(_experiment: &Experiment) -> Vec<Chart> {
    Vec::new()
}
