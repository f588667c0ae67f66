//! Experiments as they are written down: plans, records of runs, and reports with verdicts and charts.
//!
//! A [`plan`] defines the variants, the workloads and the comparisons. A folder of results has [records](record), a line after each run,
//! so that an interruption loses nothing. `rudy-lab` runs experiments.

pub mod experiment;
mod list;
mod metric;
pub mod plan;
pub mod programs;
pub mod record;
mod report;

pub use list::{list, show};
pub use report::{
    DiffFormat, DiffOptions, Format, Gate, ReportOptions, after_run, chart::charts, diff, judge, report,
};
