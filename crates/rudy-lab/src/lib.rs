//! Experiments: compares servers under the same load, in rounds, and computes whether one is better.
//!
//! A [`plan`] defines the subjects, the loads and the comparisons. [`run()`] starts each subject again for
//! each load and round, in an order that changes. It writes a folder of [records](record), a line after each
//! run, so that an interruption loses nothing.

mod experiment;
mod list;
mod load;
mod machine;
mod messages;
mod place;
pub mod plan;
pub mod record;
mod report;
mod run;
mod sample;
mod subject;

pub use list::list;
pub use messages::{Messages, messages};
pub use report::{Format, ReportOptions, report};
pub use run::{Options, run};
